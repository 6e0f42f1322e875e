"""Preprocessing that cannot be done: said with file and line, and nothing half-made is left or replaced."""

import gzip
import os
import subprocess
from pathlib import Path

import pytest

from indigo_cli.data.corpus import Corpus
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.prepare_settings import DataConfig, PreprocessConfig, SplitConfig, resolve_settings
from indigo_cli.errors import DataError, IndigoError, UsageError
from tests.workshop import PLAIN, Recipe, Workshop, content_of, tokens


@pytest.mark.parametrize(
    ("source", "target", "parts"),
    [
        ("a\nb\nc\n", "x\ny\n", ["/s has 3 lines", "/t has 2 lines"]),
        ("a\n", "x\ny\n", ["/s has 1 lines", "/t has 2 lines"]),
        (b"a\nred \xff cat\n", "x\ny\n", ["0xFF"]),
        ("\n", "x\n", ["no training pair is left: 1 empty source"]),
        ("", "", ["no training pair is left: no lines"]),
    ],
)
def test_bad_input_is_refused_and_nothing_left(
    workshop: Workshop, source: str | bytes, target: str, parts: list[str]
) -> None:
    with pytest.raises(DataError) as caught:
        workshop.make(source, target, **PLAIN)
    assert all(part in caught.value.what for part in parts)
    assert caught.value.exit_code == 2 and caught.value.fix and workshop.leftovers() == set()


def test_a_bad_byte_is_named_with_file_and_line(workshop: Workshop) -> None:
    with pytest.raises(DataError) as caught:
        workshop.make("a\nb\n", b"a\nred \xff cat\n", **PLAIN)
    assert caught.value.where == f"{workshop.folder / 't'}:2"


def test_truncated_and_missing_files(workshop: Workshop) -> None:
    recipe = workshop.recipe("red cat\n" * 1000, "chat\n" * 1000, **PLAIN)
    cut = workshop.write("cut.gz", gzip.compress(b"red cat\n" * 1000)[:-10])
    for path, message in ((cut, "truncated"), (str(workshop.folder / "none"), "no such file")):
        splits = {**recipe.data.splits, "valid": SplitConfig([path], recipe.data.splits["valid"].target)}
        with pytest.raises(IndigoError, match=message) as caught:
            prepare(Recipe("tiny", DataConfig(splits=splits), recipe.preprocess), workshop.folder / "corpus")
        assert path in caught.value.where and workshop.leftovers() == {"cut.gz"}


def test_a_pipe_is_refused_and_nobody_waits_for_it(workshop: Workshop) -> None:
    recipe = workshop.recipe("a\n", "b\n", **PLAIN)
    (workshop.folder / "t").unlink()
    os.mkfifo(workshop.folder / "t")
    with pytest.raises(UsageError, match="pipe") as caught:
        prepare(recipe, workshop.folder / "corpus")
    assert caught.value.where.endswith("/t") and caught.value.fix and workshop.leftovers() == set()


def test_references_belong_to_their_split(workshop: Workshop) -> None:
    recipe = workshop.recipe("a\nb\n", "x\ny\n", **PLAIN)
    files = recipe.data.splits["valid"]
    for content, whole in (("r\ns\n", True), ("r\n", False)):
        split = SplitConfig(files.source, files.target, [[workshop.write("r", content)]])
        wanted = Recipe("tiny", DataConfig(splits={**recipe.data.splits, "valid": split}), recipe.preprocess)
        if whole:
            corpus = Corpus.open(prepare(wanted, workshop.folder / "corpus").folder)
            assert corpus.manifest["splits"]["valid"]["inputs"]["references"][0][0]["lines"] == 2
            assert set(corpus.codecs.target.vocabulary.tokens) == set("abxy")
        else:
            with pytest.raises(DataError, match="/r has 1 lines"):
                prepare(wanted, workshop.folder / "other")


@pytest.mark.parametrize("stage", ["tokenise train", "learn the vocabulary", "encode valid"])
def test_an_interrupted_run_leaves_nothing(workshop: Workshop, stage: str) -> None:
    def interrupt(now: str, lines: int) -> None:
        if now == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(workshop.recipe("a\n", "x\n", **PLAIN), workshop.folder / "corpus", progress=interrupt)
    assert workshop.leftovers() == set()


def test_an_existing_corpus_is_replaced_only_when_told_and_when_the_new_one_stands(workshop: Workshop) -> None:
    corpus = workshop.make("a\n", "x\n", **PLAIN)
    before = content_of(corpus.folder)
    other = workshop.recipe("b\n", "y\n", **PLAIN)
    with pytest.raises(UsageError, match="exists already") as caught:
        prepare(other, corpus.folder)
    assert "--overwrite" in caught.value.fix
    with pytest.raises(DataError):
        prepare(workshop.recipe("b\n", "y\ny\n", **PLAIN), corpus.folder, overwrite=True)
    assert content_of(corpus.folder) == before
    prepare(workshop.recipe("b\n", "y\n", **PLAIN), corpus.folder, overwrite=True)
    assert tokens(Corpus.open(corpus.folder), "train", "source") == [["b"]]
    assert workshop.leftovers() == {"corpus1"}


def test_a_link_to_a_corpus_keeps_pointing(workshop: Workshop) -> None:
    corpus = workshop.make("a\n", "x\n", **PLAIN)
    link = workshop.folder / "link"
    link.symlink_to(corpus.folder.name)
    prepare(workshop.recipe("b\n", "y\n", **PLAIN), link, overwrite=True)
    assert tokens(Corpus.open(corpus.folder), "train", "source") == [["b"]]
    assert link.is_symlink() and workshop.leftovers() == {"corpus1", "link"}


def test_a_folder_that_is_no_corpus_is_never_replaced(workshop: Workshop) -> None:
    recipe = workshop.recipe("a\n", "x\n", **PLAIN)
    (workshop.folder / "home").mkdir()
    (workshop.folder / "home" / "thesis.txt").touch()
    with pytest.raises(UsageError, match="not a corpus"):
        prepare(recipe, workshop.folder / "home", overwrite=True)
    (workshop.folder / "empty").mkdir()
    assert len(Corpus.open(prepare(recipe, workshop.folder / "empty").folder).split("train")) == 1


def test_leftovers_of_a_killed_run_go(workshop: Workshop) -> None:
    """Those of processes that are gone: a half-made corpus goes, a replaced one gets its name back if none stands."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    recipe = workshop.recipe("a b\n", "c d\n", **PLAIN)
    folder = workshop.folder / "corpus"
    old, partial = (workshop.folder / f".corpus.{dead.pid}.{kind}" for kind in ("old", "partial"))
    alive = workshop.folder / f".corpus.{os.getppid()}.partial"
    alive.mkdir()
    partial.mkdir()
    prepare(recipe, old)
    before = content_of(old)
    with pytest.raises(UsageError, match="exists already"):
        prepare(recipe, folder)
    assert content_of(folder) == before and workshop.leftovers() == {"corpus", alive.name}
    old.mkdir()
    prepare(recipe, folder, overwrite=True)
    assert workshop.leftovers() == {"corpus", alive.name}


def test_the_working_directory_may_become_the_corpus(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = workshop.recipe("a b\n", "c d\n", **PLAIN)
    here = workshop.folder / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    prepare(recipe, Path("."))
    assert len(Corpus.open(here).split("train")) == 1
    monkeypatch.chdir(here)
    with pytest.raises(UsageError, match="exists already"):
        prepare(recipe, Path("."))


@pytest.mark.parametrize("task", ["captioning", "translatoin", ""])
def test_tasks_that_are_not_there(workshop: Workshop, task: str) -> None:
    with pytest.raises(UsageError) as caught:
        prepare(workshop.recipe("a\n", "b\n", task=task), workshop.folder / "corpus")
    assert caught.value.where == "data.task" and "translation" in caught.value.fix
    assert workshop.leftovers() == set()


@pytest.mark.parametrize(
    ("splits", "where"),
    [
        ({}, "data.splits"),
        ({"train": SplitConfig(["s"], ["t"])}, "data.splits"),
        ({"train": SplitConfig([], ["t"]), "valid": SplitConfig(["s"], ["t"])}, "data.splits.train.source"),
        ({"train": SplitConfig(["s"], ["t"]), "valid": SplitConfig(["s"])}, "data.splits.valid.target"),
    ],
)
def test_splits_that_cannot_be_used(splits: dict[str, SplitConfig], where: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_settings(DataConfig(splits=splits), PreprocessConfig())
    assert caught.value.where == where and caught.value.fix
