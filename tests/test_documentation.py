"""Every command in the README is run, in order, as a reader would; trainings stop after two updates."""

import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import Indigo
from tests.smoke import write_smoke

README = Path(__file__).resolve().parent.parent / "README.md"


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of the README in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    """Return the lines that call indigo, without comments."""
    lines = [line.split("  #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if "indigo " in line]


@pytest.mark.slow
def test_every_command_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indigo: Indigo) -> None:
    write_smoke(tmp_path / "toy")
    monkeypatch.chdir(tmp_path)
    for split in ("train", "valid", "test"):
        for side, lang in (("src", "en"), ("tgt", "de")):
            (tmp_path / f"{split}.{lang}").write_text((tmp_path / f"toy/data/smoke/{split}.{side}").read_text())
    (recipe,) = blocks("toml")
    (tmp_path / "my.toml").write_text(recipe)

    run = commands()
    shown = {line.split("indigo ")[1].split()[0] for line in run}
    assert shown >= {"preprocess", "reorder", "train", "decode", "evaluate", "show"}
    for line in run:
        stdin, _, call = line.rpartition("| ")
        words = shlex.split(call)
        assert words[0] == "indigo"
        short = ["--set", "train.max_steps=2", "--set", "model.decoder_layers=1"] if words[1] == "train" else []
        text = " ".join(shlex.split(stdin)[1:]) + "\n" if stdin else None
        ended = indigo(*words[1:], *short, stdin=text.encode() if text else None)
        assert ended.status == 0, f"{line}\n{ended.err}"
    assert (tmp_path / "l2r.de").read_text().count("\n") == (tmp_path / "test.en").read_text().count("\n")


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (README.parent / "Makefile").read_text("utf-8")
    targets = re.findall(r"^make (\w+)", "\n".join(blocks("sh")), flags=re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
