"""Every command and every line of Python in README and docs is run, in order; trainings stop early."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from indigo_cli.core.settings import read_value
from indigo_cli.engine.search_config import PRESETS, SearchConfig
from tests.conftest import Indigo
from tests.smoke import write_smoke

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = [
    README,
    *(
        ROOT / "docs" / f"{name}.md"
        for name in ("preprocess", "orders", "training", "search", "decoding", "evaluation", "python")
    ),
]
"""In the order of reading: a page uses files that the ones before it made."""
SMALL = ("model_dim=32", "ff_dim=64", "encoder_layers=1", "decoder_layers=1")
"""Of models, before what a line itself sets."""
SHORT = ["--set", "train.max_steps=2", "--set", "decode.max_length=8"]
"""Behind it."""
LINES = 60
"""Of the training text."""


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return language and content of the fenced blocks of a page."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def commands(block: str) -> list[str]:
    """Return the lines of a block that call indigo, without comments."""
    lines = (line.split("  #")[0].strip() for line in block.splitlines())
    return [line for line in lines if re.search(r"\bindigo(_cli)? ", line)]


def shortened(words: list[str]) -> list[str]:
    """Return a command that trains as one that takes a second, any other as it is."""
    place = words.index("indigo_cli") + 1 if "indigo_cli" in words else 0  # behind torchrun and its options
    if words[place] != "train":
        return words
    small = [word for setting in SMALL for word in ("--set", f"model.{setting}")]
    return [*words[: place + 1], *small, *words[place + 1 :], *SHORT]


def run(line: str, indigo: Indigo) -> str:
    """Run one line as a shell would and return the name of the command."""
    stdin, _, call = line.rpartition("| ")
    program, *words = shlex.split(call)
    words = shortened(words)
    if program == "torchrun":
        torchrun = [sys.executable, "-m", "torch.distributed.run", *words]
        done = subprocess.run(torchrun, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        return program
    assert program == "indigo"
    text = " ".join(shlex.split(stdin)[1:]) + "\n" if stdin else ""
    ended = indigo(*words, stdin=text.encode() if text else None)
    assert ended.status == 0, f"{line}\n{ended.err}"
    return words[0]


@pytest.mark.slow
def test_all_pages_run_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indigo: Indigo) -> None:
    write_smoke(tmp_path / "toy")
    monkeypatch.chdir(tmp_path)
    for split in ("train", "valid", "test"):
        for side, lang in (("src", "en"), ("tgt", "de")):
            lines = (tmp_path / f"toy/data/smoke/{split}.{side}").read_text().splitlines(keepends=True)
            (tmp_path / f"{split}.{lang}").write_text("".join(lines[:LINES]))
    shown: set[str] = set()
    names: dict[str, object] = {}
    for page in PAGES:
        for language, block in blocks(page):
            if language == "toml":
                (tmp_path / "my.toml").write_text(block)
            elif language == "python":
                exec(compile(block, page.name, "exec"), names)
            elif language == "sh":
                shown |= {run(line, indigo) for line in commands(block)}
    assert shown >= {
        "preprocess",
        "reorder",
        "train",
        "search-orders",
        "decode",
        "score",
        "evaluate",
        "show",
        "average",
        "torchrun",
    }
    assert (tmp_path / "l2r.de").read_text().count("\n") == (tmp_path / "test.en").read_text().count("\n")
    for picture in ("beams", "by_length", "orders", "sentence", "health"):
        assert (tmp_path / f"{picture}.png").read_bytes().startswith(b"\x89PNG")


def test_every_page_is_tested_and_linked() -> None:
    assert {*(ROOT / "docs").glob("*.md")} == {*PAGES[1:]}
    readme = README.read_text("utf-8")
    assert all(f"docs/{page.name}" in readme for page in PAGES[1:])


def rows_below(heading: str) -> list[list[str]]:
    """Return the cells of the table of docs/training.md whose first line is `heading`."""
    _, _, rest = (ROOT / "docs" / "training.md").read_text("utf-8").partition(f"\n{heading}\n")
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in rest.split("\n\n")[0].splitlines()[1:]]


def test_every_key_of_search_is_described_with_its_default() -> None:
    described = [
        (key.strip("`"), read_value(default.strip("`"))) for key, default, _ in rows_below("| key | default | |")
    ]
    defaults = {key.name: key.default for key in fields(SearchConfig)}
    assert (dict(described), len(described)) == (defaults, len(defaults))


def test_presets_of_search_are_described_as_they_are() -> None:
    steps = {"half of `max_steps`": 0.5, "a quarter of `max_steps`": 0.25, "6,000": 6000}
    learnt = {"the best one": "best", "the average of all": "average"}
    described = {}
    for name, first, found, taught, competes in rows_below(
        "| `search.preset` | first updates | orders found | what is learnt | left to right competes |"
    ):
        length, order = first.split(", ")
        described[name.split("`")[1]] = {
            "bootstrap_order": order.strip("`"),
            "bootstrap_steps": steps[length],
            "beam_size": int(found),
            "train_on": learnt[taught],
            "reference": "l2r" if competes == "yes" else "none",
        }
    assert described == PRESETS


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    shell = "\n".join(block for language, block in blocks(README) if language == "sh")
    targets = re.findall(r"^make ([\w-]+)", shell, flags=re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
