"""Damaged files on the command line: exit 2 and three lines, whichever command reads them; no code of theirs runs."""

import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Indigo
from tests.fuzz.mutate import Trap, foreign_files
from tests.fuzz.readers import CONLLU, copy_release

TRAINING = "train recipe.toml --corpus corpus -o new --set train.max_steps=1"
READ_BY = {
    "recipe.toml": "preprocess recipe.toml -o new",
    "corpus/manifest.json": "reorder corpus l2r --split test -o new",
    "corpus/codecs.json": "reorder corpus l2r --split test -o new",
    "corpus/vocabulary.json": "reorder corpus l2r --split test -o new",
    "corpus/bpe.codes": "reorder corpus l2r --split test -o new",
    "corpus/test.target.ids": "reorder corpus l2r --split test -o new",
    "corpus/test.target.offsets": "reorder corpus l2r --split test -o new",
    "corpus/test.lines": "decode run --corpus corpus --split test",
    "train.odd.orders.jsonl": f"{TRAINING} --orders train.odd.orders.jsonl",
    "valid.cf.orders.jsonl.gz": "score run --corpus corpus --orders valid.cf.orders.jsonl.gz",
    "test.traces.jsonl": "show test.traces.jsonl",
    "parse.conllu": "reorder corpus syn --split test --parse parse.conllu -o new",
    "run/run.json": "decode run --input test.src",
    "run/recipe.toml": "decode run --input test.src",
    "run/assets/codecs.json": "decode run --input test.src",
    "run/assets/vocabulary.json": "decode run --input test.src",
    "run/checkpoints/step-00000800/checkpoint.json": "decode run --checkpoint step-00000800 --input test.src",
    "run/checkpoints/step-00000800/model.safetensors": "decode run --checkpoint step-00000800 --input test.src",
    "run/checkpoints/step-00000400/checkpoint.json": "average run --last 2",
    "run/checkpoints/step-00000400/model.safetensors": f"{TRAINING} --init run/checkpoints/step-00000400",
}
QUICK = ("recipe.toml", "corpus/manifest.json", "corpus/test.target.ids", "test.traces.jsonl")
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "not text": lambda content: b"\xff\xfe" * 50,
    "nothing but NUL": lambda content: b"\0" * len(content),
    "nested": lambda content: b"[" * 100_000,
    "pickle": lambda content: pickle.dumps(Trap()),
    "numpy": lambda content: foreign_files()[1],
    "zip": lambda content: foreign_files()[2],
    "claims": lambda content: foreign_files()[-1],
}


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy_release(tmp_path, "corpus", "run", *(name for name in READ_BY if "/" not in name and "parse" not in name))
    copy_release(tmp_path, "test.src", *(f"{split}.{side}" for split in ("train", "valid") for side in ("src", "tgt")))
    copy_release(tmp_path, "test.tgt")
    (tmp_path / "parse.conllu").write_text(CONLLU, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "file", [file if file in QUICK else pytest.param(file, marks=pytest.mark.slow) for file in READ_BY]
)
def test_damaged_files_end_with_three_lines(release: Path, indigo: Indigo, file: str) -> None:
    content = (release / file).read_bytes()
    for name, damage in DAMAGES.items():
        if file in ("parse.conllu", "recipe.toml") and name == "half":
            continue  # half of such a file may be one, that says less
        (release / file).write_bytes(damage(content))
        done = indigo(*READ_BY[file].split(), "--seed", "1")
        assert done.status == 2, (name, done.err)
        told = [line for line in done.err.split("\n") if not line.startswith(("note: ", "warning: "))]
        assert re.match(r"error: .+\nat: .+\nhint: .+\n", "\n".join(told)), (name, done.err)
        assert "Traceback" not in done.err and not done.out
        assert not (release / "trapped").exists()
        shutil.rmtree(release / "new", ignore_errors=True)  # train makes its folder before it reads orders
