"""Codes and vocabularies of a corpus: learnt from training text alone, and every word comes back."""

from collections import Counter

import numpy as np
import pytest

from indigo_cli.core.vocab import NUM_SPECIALS, UNK
from indigo_cli.data.corpus import Corpus
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.prepare_settings import DataConfig, SplitConfig
from tests.workshop import PLAIN, Recipe, Workshop


def test_codes_and_vocabulary_come_from_training_alone(workshop: Workshop) -> None:
    recipe = workshop.recipe("low lower\n" * 5, "low slow\n" * 5, tokenizer="none", merges=20)
    unseen = workshop.write("v", "qqqq qqqq low\n")
    splits = {**recipe.data.splits, "valid": SplitConfig([unseen], [unseen])}
    summary = prepare(Recipe("tiny", DataConfig(splits=splits), recipe.preprocess), workshop.folder / "corpus")
    corpus = Corpus.open(summary.folder)
    assert not any("q" in token for token in corpus.codecs.target.vocabulary.tokens)
    assert corpus.split("valid").target[0].tolist()[:4] == [UNK] * 4
    assert summary.splits[1].unknown == {"source": 8, "target": 8}
    assert "unknown: 8 on the source side" in summary.text()


def test_joint_and_separate(workshop: Workshop) -> None:
    text = ("red cat\n" * 3, "chat rouge\n" * 3)
    joint = workshop.make(*text, tokenizer="none", merges=9)
    apart = workshop.make(*text, tokenizer="none", merges=9, joint=False)
    assert joint.codecs.joint and (joint.folder / "bpe.codes").exists()
    assert not apart.codecs.joint and (apart.folder / "source.bpe.codes").exists()
    assert any("d" in token for token in joint.codecs.target.vocabulary.tokens)
    assert not any("d" in token for token in apart.codecs.target.vocabulary.tokens)
    for corpus in (joint, apart):
        store = corpus.split("train").source
        assert corpus.codecs.source.text_of_ids(store[0].tolist()) == "red cat"


def test_vocabulary_counts_are_those_of_the_stored_pieces(workshop: Workshop) -> None:
    corpus = workshop.make("red cat reads\n" * 3 + "a\n", "a cat\n" * 4, tokenizer="none", merges=5)
    ids = Counter[int]()
    for side in ("source", "target"):
        ids.update(getattr(corpus.split("train"), side).ids.tolist())
    vocabulary = corpus.codecs.target.vocabulary
    assert [ids[NUM_SPECIALS + i] for i in range(len(vocabulary.tokens))] == list(vocabulary.counts)


def test_limits_of_the_vocabulary(workshop: Workshop) -> None:
    corpus = workshop.make("a a a\n", "b b c\n", **PLAIN, min_count=2)
    assert corpus.codecs.target.vocabulary.tokens == ("a", "b")
    assert workshop.make("a a a\n", "b b c\n", **PLAIN, vocabulary_size=1).codecs.target.vocabulary.tokens == ("a",)
    assert corpus.split("train").target[0].tolist()[2] == UNK


def test_literal_specials_and_separators_are_ordinary_text(workshop: Workshop) -> None:
    text = "a <unk> b <s> c </s> d\nfoo@@ bar\na @@ b\n"
    corpus = workshop.make(text, text, tokenizer="none", merges=60)
    store = corpus.split("train").target
    for i, line in enumerate(text.splitlines()):
        ids = store[i].tolist()
        assert min(ids) >= NUM_SPECIALS
        assert corpus.codecs.target.text_of_ids(ids) == line


@pytest.mark.slow
def test_more_than_65536_words_do_not_wrap(workshop: Workshop) -> None:
    line = " ".join(f"w{i}" for i in range(70_000))
    corpus = workshop.make(line + "\n", line + "\n", **PLAIN, max_length=100_000)
    ids = corpus.split("train").target[0]
    assert corpus.split("train").target.ids.dtype == np.uint32
    assert len(set(ids.tolist())) == 70_000
    assert corpus.codecs.target.text_of_ids(ids.tolist()) == line


@pytest.mark.parametrize(
    ("text", "learnt", "warning"),
    [("a b c\n", 0, "asked for 5 merges, learnt 0"), ("ab\n", 1, "asked for 5 merges, learnt 1")],
)
def test_fewer_merges_than_asked_for_is_said(workshop: Workshop, text: str, learnt: int, warning: str) -> None:
    summary = prepare(workshop.recipe(text, text, tokenizer="none", merges=5), workshop.folder / "corpus")
    assert any(warning in line for line in summary.warnings)
    assert len((summary.folder / "bpe.codes").read_text("utf-8").splitlines()) == 1 + learnt
