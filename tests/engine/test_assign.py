"""Orders of a whole corpus: the rules on real splits, ranks from the training targets, parses, files."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from indigo_cli.core.order import check_order
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.orders_file import OrdersRow, write_orders
from indigo_cli.engine import assign as module
from indigo_cli.engine.assign import OrderConfig, assign, order_context, orders_for_split
from indigo_cli.engine.prepare import prepare
from indigo_cli.errors import DataError, UsageError
from indigo_cli.orders import ORDERS
from indigo_cli.recipe import load_recipe
from tests.fake_spacy import install_fake_spacy

TRAIN = ["the cat saw the dog", "", "the cat", "a dog saw the bird", "the the the"]
VALID = ["the bird saw a cat", "dog"]
MakeCorpus = Callable[..., Corpus]


@pytest.fixture
def make_corpus(tmp_path: Path) -> MakeCorpus:
    """Preprocess lines of text as a word ordering corpus."""

    def make(*, train: list[str] = TRAIN, valid: list[str] = VALID, preprocess: str = 'vocabulary = "word"') -> Corpus:
        for name, lines in (("train", train), ("valid", valid)):
            (tmp_path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        (tmp_path / "recipe.toml").write_text(
            'name = "tiny"\n[data]\ntask = "word_ordering"\nsource_lang = "en"\ntarget_lang = "en"\n'
            '[data.splits]\ntrain = { target = ["train"] }\nvalid = { target = ["valid"] }\n'
            f'[preprocess]\ntokenizer = "none"\n{preprocess}\n',
            encoding="utf-8",
        )
        prepare(load_recipe(tmp_path / "recipe.toml"), tmp_path / "corpus", overwrite=True)
        return Corpus.open(tmp_path / "corpus")

    return make


def orders_of(corpus: Corpus, split: str, config: OrderConfig, **draw: int) -> dict[int, tuple[int, ...]]:
    """Orders by raw line."""
    flat, offsets = orders_for_split(corpus, split, config, **draw)
    lines = corpus.split(split).lines.tolist()
    return {line: tuple(flat[offsets[i] : offsets[i + 1]].tolist()) for i, line in enumerate(lines)}


def parse_of(path: Path, *sentences: tuple[int, list[tuple[str, int]]]) -> str:
    """Write a CoNLL-U file of (line, [(word, head)]) and return its path."""
    rows = []
    for line, words in sentences:
        rows.append(f"# line = {line}")
        rows += ["\t".join([str(i), w, *"____", str(h), *"___"]) for i, (w, h) in enumerate(words, start=1)]
        rows.append("")
    path.write_text("\n".join(rows), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", [name for name, rule in ORDERS.items() if rule.needs != "parses"])
@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_every_target_gets_a_permutation_whatever_the_block(
    make_corpus: MakeCorpus, monkeypatch: pytest.MonkeyPatch, name: str, block: int
) -> None:
    corpus = make_corpus()
    whole = orders_of(corpus, "train", OrderConfig(name=name), seed=5, epoch=1)
    assert 1 not in whole, "the empty line was dropped from training"
    for line, order in whole.items():
        check_order(order, len(TRAIN[line].split()))
    monkeypatch.setattr(module, "BLOCK_TOKENS", block)
    assert orders_of(corpus, "train", OrderConfig(name=name), seed=5, epoch=1) == whole


def test_ranks_come_from_the_training_targets(make_corpus: MakeCorpus) -> None:
    """The word of rank 1 is `the`; in the valid split alone every word is equally rare."""
    config = OrderConfig(name="cf", cutoff=1)
    assert orders_of(make_corpus(), "valid", config) == {0: (0, 1, 2, 3, 4), 1: (0,)}
    assert orders_of(make_corpus(), "train", config)[0] == (0, 3, 1, 2, 4)
    assert orders_of(make_corpus(), "train", OrderConfig(name="rf", cutoff=1))[0] == (1, 2, 4, 0, 3)


def test_the_cutoff_balances_by_default(make_corpus: MakeCorpus) -> None:
    """`the` stands 7 of 15 times: 7 against 8 is the best any cutoff can do."""
    corpus = make_corpus()
    assert order_context(corpus, OrderConfig(name="cf")).cutoff == 1


def test_rnd_changes_with_seed_and_epoch_only(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(train=["a b c d e f g h"] * 8)
    config = OrderConfig(name="rnd")
    first = orders_of(corpus, "train", config, seed=1, epoch=0)
    assert first == orders_of(corpus, "train", config, seed=1, epoch=0)
    assert len(set(first.values())) > 6, "copies of a sentence have orders of their own"
    assert first != orders_of(corpus, "train", config, seed=1, epoch=1)
    assert first != orders_of(corpus, "train", config, seed=2, epoch=0)


def test_syn_from_a_parse(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    saw = [("the", 2), ("cat", 3), ("saw", 0), ("the", 5), ("dog", 3)]
    file = parse_of(
        tmp_path / "t.conllu",
        (0, saw),
        (2, [("the", 2), ("cat", 0)]),
        (3, [("a", 2), ("dog", 3), ("saw", 0), ("the", 5), ("bird", 3)]),
        (4, [("the", 0), ("the", 0), ("the", 0)]),
    )
    orders = orders_of(make_corpus(), "train", OrderConfig(name="syn", parse={"train": file}))
    assert orders == {0: (2, 1, 4, 0, 3), 2: (1, 0), 3: (2, 1, 4, 0, 3), 4: (0, 1, 2)}


def test_syn_is_the_same_in_blocks_of_any_size(
    make_corpus: MakeCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = make_corpus()
    file = parse_of(tmp_path / "t.conllu", *((n, [(w, 0) for w in TRAIN[n].split()]) for n in (0, 2, 3, 4)))
    found = []
    for block in (1, 6, 1 << 20):
        monkeypatch.setattr(module, "PARSED_BLOCK_TOKENS", block)
        found.append(orders_of(corpus, "train", OrderConfig(name="syn", parse={"train": file})))
    assert found[0] == found[1] == found[2] == {n: tuple(range(len(TRAIN[n].split()))) for n in (0, 2, 3, 4)}


def test_syn_keeps_pieces_together_and_survives_unknown_words(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    """Characters as pieces: the merges never join anything, and valid has letters that training never saw."""
    corpus = make_corpus(train=["ab ba"], valid=["ab zy ba"], preprocess='vocabulary = "bpe"\nmerges = 0')
    file = parse_of(tmp_path / "v.conllu", (0, [("ab", 2), ("zy", 3), ("ba", 0)]))
    (order,) = orders_of(corpus, "valid", OrderConfig(name="syn", parse={"valid": file})).values()
    assert order == (4, 5, 2, 3, 0, 1)


def test_syn_faults(make_corpus: MakeCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = make_corpus()
    install_fake_spacy(tmp_path, monkeypatch)
    with pytest.raises(UsageError, match="no spaCy model 'none'") as caught:
        orders_for_split(corpus, "valid", OrderConfig(name="syn", parser="none"))
    assert caught.value.where == "order.parser"
    assert "--set order.parse.SPLIT=FILE" in caught.value.fix  # `train` takes it as well
    other = parse_of(tmp_path / "o.conllu", (0, [("quite", 0), ("another", 1)]), (1, [("dog", 0)]))
    with pytest.raises(DataError, match="do not spell") as refused:
        orders_for_split(corpus, "valid", OrderConfig(name="syn", parse={"valid": other}))
    assert refused.value.where == f"{other}:2"
    short = parse_of(tmp_path / "s.conllu", (1, [("dog", 0)]))
    with pytest.raises(DataError, match="no parse for line 0"):
        orders_for_split(corpus, "valid", OrderConfig(name="syn", parse={"valid": short}))


def test_a_parse_without_structure_is_named(
    make_corpus: MakeCorpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flat = [(word, 0) for word in VALID[0].split()]
    file = parse_of(tmp_path / "v.conllu", (0, flat), (1, [("dog", 0)]))
    orders_for_split(make_corpus(), "valid", OrderConfig(name="syn", parse={"valid": file}))
    assert "every word is a root" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["odd", "cf", "rnd"])
def test_a_written_file_gives_the_same_orders(make_corpus: MakeCorpus, name: str) -> None:
    corpus = make_corpus()
    written = assign(corpus, OrderConfig(name=name), seed=3)
    assert [(Path(path).name, count) for path, count in written] == [
        (f"train.{name}.orders.jsonl", 4),
        (f"valid.{name}.orders.jsonl", 2),
    ]
    for split, (path, _) in zip(("train", "valid"), written, strict=True):
        from_file = orders_for_split(corpus, split, OrderConfig(name="file", file=path))
        computed = orders_for_split(corpus, split, OrderConfig(name=name), seed=3)
        assert np.array_equal(from_file[0], computed[0])
        assert np.array_equal(from_file[1], computed[1])
    with pytest.raises(UsageError, match="exists"):
        assign(corpus, OrderConfig(name=name))


def test_a_file_of_another_split_is_refused(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = make_corpus()
    (path, _), _ = assign(corpus, OrderConfig(name="l2r"))
    with pytest.raises(DataError, match="split 'train', not 'valid'"):
        orders_for_split(corpus, "valid", OrderConfig(name="file", file=path))
    own = tmp_path / "own.jsonl"
    write_orders(own, {}, [OrdersRow(0, ((4, 3, 2, 1, 0),)), OrdersRow(1, ((0,),))])
    assert orders_of(corpus, "valid", OrderConfig(name="file", file=str(own))) == {0: (4, 3, 2, 1, 0), 1: (0,)}


def test_wrong_configurations(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus()
    for config, message in [
        (OrderConfig(name="file"), "none is named"),
        (OrderConfig(name="sideways"), "unknown order 'sideways'"),
    ]:
        with pytest.raises(UsageError, match=message):
            orders_for_split(corpus, "train", config)
    with pytest.raises(UsageError, match="2 splits"):
        assign(corpus, OrderConfig(), output="x.jsonl")


def test_orders_of_many_targets_take_no_time() -> None:
    """29,000 targets of about 14 tokens in one call: numpy work only, far below a second."""
    from time import process_time

    from indigo_cli.orders import OrderContext, Targets

    lengths = np.random.default_rng(0).integers(4, 25, 29_000)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    targets = Targets(np.arange(29_000), np.full(int(offsets[-1]), 9, dtype=np.int64), offsets)
    context = OrderContext(rank_of=np.arange(1, 11), cutoff=4)
    started = process_time()
    for rule in (rule for rule in ORDERS.values() if rule.needs != "parses"):
        rule.orders(targets, context)
    assert process_time() - started < 3.0, "seven orders"
