"""What a run folder holds besides checkpoints."""

from pathlib import Path

import pytest

from indigo_cli.core.text import Codecs, SideCodec
from indigo_cli.core.vocab import Vocabulary
from indigo_cli.data.files import sha256_file
from indigo_cli.engine.run_folder import ASSETS, FACTS_FILE, RECIPE_FILE, RunFolder, vocabulary_digests
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
    hashes = {path.name: sha256_file(path) for path in (run.path / ASSETS).iterdir()}
    assert run.facts == {"format": "indigo-run", "version": 1, **facts, "assets": hashes}
    assert (run.path / RECIPE_FILE).read_text("utf-8") == "name = 'x'\n"
    assert vocabulary_digests(run.codecs()) == vocabulary_digests(codecs)
    assert run.codecs().encode_source("red cat") == codecs.encode_source("red cat")


def test_changed_assets_are_refused(tmp_path: Path) -> None:
    """The vocabularies are the same, but text is read in another way."""
    codecs = codecs_of(A, B)
    checkpoint = {"vocabularies": vocabulary_digests(codecs)}
    run = RunFolder.create(tmp_path / "run", recipe_text="", codecs=codecs, facts={})
    run.check_checkpoint(checkpoint, run.codecs())
    path = run.path / ASSETS / "codecs.json"
    changed = path.read_bytes().replace(b'"lowercase": false', b'"lowercase": true')
    path.write_bytes(changed)
    with pytest.raises(DataError, match="changed after the run wrote it") as caught:
        run.check_checkpoint(checkpoint, run.codecs())
    assert caught.value.where == str(path) and run.codecs().source.lowercase
    RunFolder(run.path, {"format": "indigo-run", "version": 1}).check_checkpoint(checkpoint, run.codecs())


def test_a_fact_that_is_missing_is_named(tmp_path: Path) -> None:
    run = RunFolder(tmp_path, {"corpus": "here", "corpus_digest": 3})
    assert run.text_fact("corpus") == "here"
    for key in ("corpus_digest", "task"):
        with pytest.raises(UsageError, match=f"does not say its {key}"):
            run.text_fact(key)


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
