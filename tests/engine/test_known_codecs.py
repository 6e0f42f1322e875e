"""A corpus that is encoded with the codecs of another corpus or run."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indigo_cli.core.vocab import UNK
from indigo_cli.data.corpus import SIDES, Corpus
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.prepare_settings import LEARNT
from indigo_cli.engine.start import check_corpus
from indigo_cli.errors import DataError, UsageError
from indigo_cli.recipe import load_recipe
from tests.tiny import Tiny
from tests.workshop import Workshop, tokens

FIRST = "The cat sat. The dog and the cat.\na dog sat and sat\n"
SECOND = "a cat and a dog\nThe zebra sat.\n"


@pytest.mark.parametrize(
    "settings",
    [
        {"merges": 20},
        {"merges": 20, "joint": False, "truecase": True},
        {"merges": 20, "vocabulary_threshold": 2},
        {"vocabulary": "word", "lowercase": True},
        {"task": "word_ordering", "merges": 10},
        {"task": "nl2code"},
        {"tokenizer": "char"},
        {"vocabulary": "char"},
    ],
)
def test_it_reads_text_as_the_other_corpus_does(workshop: Workshop, settings: dict[str, object]) -> None:
    first = workshop.make(FIRST, FIRST.upper(), **settings)
    second = workshop.make(SECOND, SECOND.upper(), **settings, codecs=str(first.folder))
    for side in SIDES:
        assert getattr(second.codecs, side).vocabulary.digest == getattr(first.codecs, side).vocabulary.digest
    split = second.split("train")
    for i, (source, target) in enumerate(zip(SECOND.splitlines(), SECOND.upper().splitlines(), strict=True)):
        line = target if first.codecs.source_is_bag else source
        assert split.source[i].tolist() == first.codecs.encode_source(line)
        assert split.target[i].tolist() == first.codecs.target.encode(target)


def test_what_the_other_text_lacks_is_unknown(workshop: Workshop) -> None:
    first = workshop.make(FIRST, FIRST, vocabulary="word")
    second = workshop.make(SECOND, SECOND, vocabulary="word", codecs=str(first.folder))
    assert np.count_nonzero(second.split("train").source[1] == UNK) == 1
    assert tokens(second, "train", "source")[0] == ["a", "cat", "and", "a", "dog"]


def test_pieces_of_known_characters_may_be_unknown(workshop: Workshop) -> None:
    first = workshop.make("the the the cat cat\n", "the the\n", tokenizer="none", merges=9)
    second = workshop.make("th the\n", "the\n", tokenizer="none", codecs=str(first.folder))
    assert first.codecs.source.vocabulary.tokens == ("the", "cat")
    assert tokens(second, "train", "source") == [["<unk>", "<unk>", "the"]]


def _recipe(workshop: Workshop, **settings: Any) -> Any:
    return workshop.recipe(FIRST, SECOND, **settings)


def test_the_manifest_does_not_say_what_was_not_learnt(workshop: Workshop) -> None:
    first = workshop.make(FIRST, SECOND, merges=30)
    second = workshop.make(FIRST, SECOND, merges=30, codecs=str(first.folder))
    assert first.manifest["settings"].keys() - second.manifest["settings"].keys() == set(LEARNT)
    for merges in (30, 8000):
        check_corpus(_recipe(workshop, merges=merges), second)
    with pytest.raises(UsageError, match="max_length: 250 in the corpus, 9 here"):
        check_corpus(_recipe(workshop, merges=30, max_length=9), second)
    with pytest.raises(UsageError, match="merges: 30 in the corpus, 8000 here"):
        check_corpus(_recipe(workshop), first)


@pytest.mark.parametrize("of_run", [False, True])
def test_codecs_that_were_changed_since(tiny: Tiny, tmp_path: Path, of_run: bool) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(tiny.run if of_run else tiny.corpus, folder)
    path = (folder / "assets" if of_run else folder) / "codecs.json"
    path.write_text(path.read_text("utf-8").replace("false", " true", 1), "utf-8")
    with pytest.raises(DataError, match="another sha256"):
        prepare(tiny.recipe(f"preprocess.codecs={folder}"), tmp_path / "corpus")


def test_a_folder_that_moved_does_not_stop_a_resumed_run(tiny: Tiny, tmp_path: Path) -> None:
    run = tmp_path / "run"
    tiny.train(run, "train.max_steps=1", f"preprocess.codecs={tiny.run}")
    assert tiny.train(run, "train.max_steps=2", "preprocess.codecs=moved", resume=True).step == 2


def test_the_same_text_gives_the_same_ids(workshop: Workshop) -> None:
    first = workshop.make(FIRST, SECOND, merges=30)
    again = workshop.make(FIRST, SECOND, merges=0, codecs=str(first.folder))
    assert again.digest == first.digest


def test_of_a_run(tiny: Tiny, tmp_path: Path) -> None:
    """The weights of the run then fit; paths are relative to the recipe, and a folder may move."""
    override = f"preprocess.codecs={tiny.run}"
    prepare(load_recipe(tiny.recipe_path, [override]), tmp_path / "corpus")
    corpus = Corpus.open(tmp_path / "corpus")
    assert corpus.digest == Corpus.open(tiny.corpus).digest
    check_corpus(load_recipe(tiny.recipe_path, ["preprocess.codecs=moved"]), corpus)
    assert load_recipe(tiny.recipe_path, ["preprocess.codecs=x"]).preprocess.codecs == str(
        tiny.recipe_path.parent / "x"
    )
    tiny.train(tmp_path / "more", "train.max_steps=1", init=tiny.run, corpus_folder=tmp_path / "corpus")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"lowercase": True}, "lowercase of the source side: False, not True; lowercase of the target"),
        ({"lang": "de"}, "lang of the source side: 'en', not 'de'"),
        ({"truecase": True}, "truecase: False, not True"),
        ({"task": "word_ordering"}, "data.task"),
    ],
)
def test_codecs_that_read_lines_in_another_way(workshop: Workshop, settings: dict[str, object], named: str) -> None:
    first = workshop.make(FIRST, FIRST, merges=20)
    with pytest.raises(UsageError, match=named) as caught:
        workshop.make(SECOND, SECOND, codecs=str(first.folder), **settings)
    assert caught.value.where == "preprocess.codecs"
    assert not workshop.leftovers() - {"corpus1"}


def test_a_folder_without_codecs(workshop: Workshop, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no codecs") as caught:
        workshop.make(FIRST, FIRST, codecs=str(tmp_path / "nothing"))
    assert caught.value.fix == "name a corpus folder or a run folder"
