"""What a run folder holds besides checkpoints, and the log that can be cut back."""

import json
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.core.text import Codecs, SideCodec
from indigo_cli.core.vocab import Vocabulary
from indigo_cli.engine.run_folder import FACTS_FILE, RECIPE_FILE, Log, RunFolder, vocabulary_digests
from indigo_cli.errors import CheckpointError, DataError, IndigoError, UsageError


def codecs_of(source: list[str], target: list[str]) -> Codecs:
    def side(words: list[str]) -> SideCodec:
        return SideCodec("none", "en", False, None, Vocabulary(tuple(words), (1,) * len(words)))

    return Codecs(side(source), side(target))


A, B = ["red", "cat", "dog"], ["cat", "red", "dog"]


def test_what_is_created_is_opened(tmp_path: Path) -> None:
    codecs = codecs_of(A, B)
    facts = {"corpus": "somewhere/ärger", "corpus_digest": "abc", "task": "translation"}
    RunFolder.create(tmp_path / "run", recipe_text="name = 'x'\n", codecs=codecs, facts=facts)
    run = RunFolder.open(tmp_path / "run")
    assert run.facts == {"format": "indigo-run", "version": 1, **facts}
    assert (run.path / RECIPE_FILE).read_text("utf-8") == "name = 'x'\n"
    assert vocabulary_digests(run.codecs()) == vocabulary_digests(codecs)
    assert run.codecs().encode_source("red cat") == codecs.encode_source("red cat")


def test_case_43_the_same_words_in_another_order_are_another_vocabulary(tmp_path: Path) -> None:
    run = RunFolder(tmp_path, {})
    facts = {"vocabularies": vocabulary_digests(codecs_of(A, A))}
    run.check_checkpoint(facts, codecs_of(A, A))
    for other in (codecs_of(B, B), codecs_of(A, B), codecs_of(B, A)):
        with pytest.raises(CheckpointError, match="vocabulary does not belong to this checkpoint"):
            run.check_checkpoint(facts, other)
    with pytest.raises(CheckpointError):
        run.check_checkpoint({}, codecs_of(A, A))


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (None, UsageError, "not a run folder"),
        (b"", UsageError, "cannot be read"),
        (b'{"format": "indigo-run", "ver', UsageError, "cannot be read"),
        (b"\xff\xfe", UsageError, "cannot be read"),
        (b'{"format": "indigo-run", "version": 2}', DataError, "newer"),
        (b'{"format": "indigo-corpus", "version": 1}', DataError, "not an indigo-run"),
        (b"[]", UsageError, "cannot be read"),
    ],
)
def test_other_folders_are_refused(
    tmp_path: Path, content: bytes | None, kind: type[IndigoError], message: str
) -> None:
    if content is not None:
        (tmp_path / FACTS_FILE).write_bytes(content)
    with pytest.raises(kind, match=message) as caught:
        RunFolder.open(tmp_path)
    assert caught.value.exit_code == 2
    assert str(tmp_path) in caught.value.where


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_the_log_is_cut_back_to_a_step_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = Log(path, last_step=0)
    for step in range(1, 7):
        log.write({"step": step, "loss": 1 / step})
        log.write({"step": step, "split": "valid"})
    log.close()
    again = Log(path, last_step=4)
    again.write({"step": 5, "loss": 0.5})
    again.close()
    rows = rows_of(path)
    assert rows[-1] == {"step": 5, "loss": 0.5}
    assert rows[0:-1:2] == [{"step": step, "loss": 1 / step} for step in range(1, 5)]
    assert rows[1:-1:2] == [{"step": step, "split": "valid"} for step in range(1, 5)]


def test_a_row_is_on_disk_before_the_next_one(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl", last_step=0)
    log.write({"step": 1})
    assert rows_of(tmp_path / "log.jsonl") == [{"step": 1}]
    log.close()


@pytest.mark.parametrize("rest", [b'{"step": 3, "lo', b'{"step": 3, "x": "\xc3', b"\x00\x00\x00"])
def test_a_half_written_last_row_is_dropped(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n' + rest)
    log = Log(path, last_step=5)
    log.write({"step": 6})
    log.close()
    assert [row["step"] for row in rows_of(path)] == [1, 2, 6]


def test_a_fresh_run_starts_an_empty_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n', "utf-8")
    Log(path, last_step=0).close()
    assert path.read_bytes() == b""
