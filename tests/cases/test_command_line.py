"""Names, options, readers that leave, and outputs that stand: what holds for every command."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from indigo_cli import cli
from tests.conftest import Indigo
from tests.tiny import SIZES, Tiny, write_task

GROUP: Any = typer.main.get_command(cli.app)
OPTIONS = {
    name: sorted({option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)})
    for name, command in GROUP.commands.items()
}
LONG = [(name, option) for name, options in OPTIONS.items() for option in options if option.startswith("--")]
SETTINGS = ["--set", "train.max_steps=2", "--set", "train.validate_every=2"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_case_77_no_option_is_guessed(indigo: Indigo, name: str) -> None:
    """From all but its last letter, on any command; what was meant is said."""
    for option in (option for command, option in LONG if command == name):
        beginning = option[:-1]
        if beginning not in OPTIONS[name]:
            done = indigo(name, "x", beginning)
            assert done.status == 2 and done.out == ""
            assert f"error: no such option: {beginning}" in done.err and f"at: indigo {name}" in done.err
            assert "hint: " in done.err


ODD = ["my data/train 1.en", "-x.en", "dată a\u0300.ro", "a'b\"c\\d\t#1=%s [x]*?$HOME~,.gz.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD)
def test_case_23_any_name_of_files_and_folders(
    indigo: Indigo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    """Through the whole chain: what one command writes down, another reads back; a dash comes after -- or =."""
    recipe = write_task(tmp_path)
    text = recipe.read_text("utf-8")
    for name in [f"{split}.{side}" for split in SIZES for side in ("src", "tgt")]:
        path = tmp_path / f"in {name}" / odd
        path.parent.mkdir(parents=True)
        shutil.copyfile(tmp_path / name, path)
        text = text.replace(f'"{name}"', json.dumps(str(path), ensure_ascii=False))
    written = tmp_path / "work" / odd
    written.parent.mkdir(parents=True)
    written.write_text(text, "utf-8")
    monkeypatch.chdir(written.parent)

    def run(*line: str | Path, **options: Any) -> str:
        done = indigo(*line, **options)
        assert done.status == 0, (line, done.err)
        return done.out

    name = written.name
    run("preprocess", f"--output=c/{odd}", "--", name)
    run("reorder", "--split", "train", f"--output=o{odd}", "--", f"c/{odd}", "odd")
    run("train", "-o", f"run/{odd}", f"--corpus=c/{odd}", f"--orders=o{odd}", *SETTINGS, "--", name)
    shutil.copytree(f"run/{odd}", Path("-run"), symlinks=True)
    shutil.copyfile(tmp_path / "test.src", "-in")
    shutil.copyfile(tmp_path / "test.tgt", "-ref")
    split = run("decode", "--split", "test", "--", f"run/{odd}")
    assert run("decode", "--input=-in", "--", "-run") == split
    run("decode", "--split=test", f"--output=t{odd}", "--format", "jsonl", "--", "-run")
    assert run("evaluate", "--reference=-ref", "--format", "json", "--no-intervals", "--", f"t{odd}")
    run("score", "--input=-in", "--target=-ref", "-o", f"s{odd}", "--", "-run")
    run("show", "--", f"t{odd}")
    run("search-orders", "--split=valid", f"--output=f{odd}", "--", "-run")
    run("average", "--last", "1", f"--output=run/{odd}/checkpoints/{name}.avg", "--", f"run/{odd}")


def checksums(folder: Path) -> dict[str, str]:
    """Of every file; links by where they lead."""
    return {
        str(path.relative_to(folder)): os.readlink(path)
        if path.is_symlink()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.slow
def test_case_79_no_command_writes_over_what_stands(
    indigo: Indigo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time, with the same settings or others: it says how to replace or go on, and changes no byte."""
    recipe = write_task(tmp_path)
    monkeypatch.chdir(tmp_path)
    test = ["--input", "test.src"]
    lines: list[list[str | Path]] = [
        ["preprocess", recipe, "-o", "c"],
        ["reorder", "c", "odd", "--split", "train"],
        ["train", recipe, "--corpus", "c", "-o", "run", *SETTINGS],
        ["decode", "run", *test, "-o", "out.txt"],
        ["decode", "run", *test, "--format", "jsonl", "-o", "t.jsonl.gz"],
        ["score", "run", *test, "--target", "test.tgt", "-o", "s.jsonl"],
        ["search-orders", "run", "--split", "valid", "-o", "f.jsonl"],
        ["evaluate", "t.jsonl.gz", "--reference", "test.tgt", "--sentence", "lines.tsv"],
        ["show", "t.jsonl.gz", "--html", "page.html"],
        ["average", "run", "--last", "1"],
    ]
    others: dict[str | Path, list[str]] = {
        "preprocess": ["--set", "preprocess.vocabulary=char"],
        "train": ["--set", "model.ff_dim=8"],
        "decode": ["--beam", "1"],
    }
    for line in lines:
        done = indigo(*line)
        assert done.status == 0, (line, done.err)
        before = checksums(tmp_path)
        for more in ([], others.get(line[0], ["--seed", "9"])):
            again = indigo(*line, *more)
            assert again.status == 2 and again.out == "", line
            assert "exists already" in again.err or "--resume" in again.err, again.err
            assert "hint: " in again.err and ("--overwrite" in again.err or "--resume" in again.err)
            assert checksums(tmp_path) == before
    resumed = indigo(*lines[2], "--resume", "--set", "model.ff_dim=8")
    assert resumed.status == 2 and "model.ff_dim: 32 -> 8" in resumed.err


@pytest.mark.slow
def test_case_21_a_reader_may_leave_before_the_first_line(tiny: Tiny) -> None:
    """No traceback and no usage text; `decode` and `evaluate` have tests of their own."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "indigo_cli", "reorder", str(tiny.corpus), "rnd", "--split", "train", "-o", "-"]
    try:
        done = subprocess.run([*command, "--quiet"], stdout=writer, stderr=subprocess.PIPE, check=False, timeout=300)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) in ((0, b""), (141, b""))


LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
CHAIN = """
import sys
from pathlib import Path
from indigo_cli import cli
cli._use_utf8()  # as the program begins: it starts Python again where names would be ASCII
folder, run = Path(sys.argv[1]), sys.argv[2]
folder.mkdir()
text = folder / "dat\\u0103.ro"
text.write_bytes("\\u0219i \\u021bara l\\u00e6rk bee\\nb\\u0103t ant\\n".encode())
recipe = folder / "r.toml"
side = '{ source = ["dat\\u0103.ro"], target = ["dat\\u0103.ro"] }'
head = '[data]\\nsource_lang = "ro"\\ntarget_lang = "ro"\\n[preprocess]\\nmerges = 3\\n[data.splits]\\n'
recipe.write_bytes((head + "train = " + side + "\\nvalid = " + side + "\\n").encode())
here = str(folder)
for line in (
    ["preprocess", str(recipe), "-o", here + "/c"],
    ["reorder", here + "/c", "rnd"],
    ["decode", run, "--input", str(text), "-o", here + "/out"],
    ["decode", run],
    ["score", run, "--input", str(text), "--target", str(text)],
    ["evaluate", str(text), "--reference", str(text), "--format", "json"],
    ["show", here + "/c/train.rnd.orders.jsonl", "--id", "0"],
):
    assert cli.main([*line, "--quiet"]) == 0, line
"""


@pytest.mark.slow
def test_case_09_no_command_asks_the_locale(tiny: Tiny, tmp_path: Path, repository: Path) -> None:
    """Files, standard input and standard output of each: the same bytes under a locale that knows ASCII alone."""
    results = []
    usual = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "PYTHON"))}
    for name, locale in (("one", LOCALE), ("two", {"LC_ALL": "C.UTF-8"})):
        folder = tmp_path / name / "work"
        folder.parent.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", CHAIN, "work", str(tiny.run)],
            input="lærk bee\n".encode(),
            capture_output=True,
            cwd=folder.parent,
            env={**usual, **locale, "PYTHONPATH": str(repository)},
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr.decode()
        files = {
            path.relative_to(folder): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name not in ("manifest.json", "recipe.toml")
        }
        results.append((done.stdout, done.stderr, files))
    assert results[0] == results[1]
    assert "bee" in results[0][0].decode() and len(results[0][2]) > 10
