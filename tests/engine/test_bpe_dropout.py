"""Training on words split anew: which pieces and orders a visit gets, whatever batch and process it comes in."""

import random
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from indigo_cli.core.bpe import join
from indigo_cli.data.batch import Batch
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.orders_file import OrdersRow, write_orders
from indigo_cli.engine.assign import OrderConfig, order_context
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.prepare import prepare
from indigo_cli.orders import ORDERS
from indigo_cli.orders.rule import Example
from indigo_cli.recipe import load_recipe
from tests import tiny
from tests.runs import same, state_of
from tests.tiny import SIZES, write_task

pytestmark = pytest.mark.slow

PIECES = ("preprocess.vocabulary=bpe", "preprocess.merges=15", "preprocess.max_length=40")
RATE = 0.4
Visit = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy task with words of two letters, whose parts are words of their own: its recipe and corpus."""
    folder = tmp_path_factory.mktemp("pieces")
    rng = random.Random(1)
    with patch.object(tiny, "WORDS", ["".join(rng.choices("ab", k=rng.randint(1, 6))) for _ in range(60)]):
        write_task(folder)
    prepare(load_recipe(folder / "recipe.toml", PIECES), folder / "corpus")
    return folder


@pytest.fixture
def corpus(folder: Path) -> Corpus:
    return Corpus.open(folder / "corpus")


def split_of(
    corpus: Corpus, order: OrderConfig, *, rate: float = RATE, batch_tokens: int = 60, name: str = "train"
) -> OrderedSplit:
    return OrderedSplit(corpus, name, order, seed=1, batch_tokens=batch_tokens, bpe_dropout=rate)


def visits(split: OrderedSplit, epochs: int = 2, skip: int = 0) -> dict[tuple[int, str], Visit]:
    """Source, target and order of each example in each epoch."""
    return {
        (found.epoch, name): rows
        for found in split.stream(epoch=0, skip=skip, max_epochs=epochs)
        for name, rows in rows_of(found.load()).items()
    }


def rows_of(batch: Batch) -> dict[str, Visit]:
    found = {}
    for i, name in enumerate(batch.ids):
        length = int(batch.lengths[i])
        source = batch.source.values[i][batch.source.mask[i]].tolist()[:-1]
        found[name] = (
            tuple(source), tuple(batch.target[i, :length].tolist()), tuple(batch.plan.orders[i, 0, :length].tolist())
        )  # fmt: skip
    return found


def stored(corpus: Corpus, side: str, name: str) -> list[int]:
    split = corpus.split("train")
    item = split.lines.tolist().index(int(name.removeprefix("train:")))
    found: list[int] = getattr(split, side)[item].tolist()
    return found


@pytest.mark.parametrize("order", ["l2r", "r2l", "odd", "blt", "cf", "rf", "rnd"])
def test_the_text_stays_and_a_rule_orders_the_new_pieces(corpus: Corpus, order: str) -> None:
    config = OrderConfig(name=order)
    vocabulary = corpus.codecs.target.vocabulary
    seen = visits(split_of(corpus, config))
    assert len(seen) == 2 * SIZES["train"]
    changed = 0
    for (epoch, name), (source, target, found) in seen.items():
        for side, ids in (("source", source), ("target", target)):
            assert join(vocabulary.decode(ids)) == join(vocabulary.decode(stored(corpus, side, name)))
            changed += list(ids) != stored(corpus, side, name)
        context = order_context(corpus, config, seed=1, epoch=epoch)
        assert found == ORDERS[order].order(Example(int(name.removeprefix("train:")), target), context)
    assert changed > len(seen)  # of two sides
    assert any(seen[0, name][0] != seen[1, name][0] for epoch, name in seen if epoch == 0)


def test_a_visit_is_the_same_in_any_batch_and_after_a_stop(corpus: Corpus) -> None:
    config = OrderConfig(name="rnd")
    whole = visits(split_of(corpus, config))
    assert visits(split_of(corpus, config, batch_tokens=500)) == whole
    rest = visits(split_of(corpus, config), skip=5)
    assert rest == {visit: whole[visit] for visit in rest} and len(rest) < len(whole)


def test_without_dropout_nothing_changes(corpus: Corpus) -> None:
    for (_, name), (source, target, _) in visits(split_of(corpus, OrderConfig(), rate=0)).items():
        assert (list(source), list(target)) == (stored(corpus, "source", name), stored(corpus, "target", name))


def test_new_pieces_take_the_place_of_the_word_in_an_orders_file(corpus: Corpus, tmp_path: Path) -> None:
    """Words from right to left, pieces of a word from left to right; what a file says of words holds for any pieces."""
    split, vocabulary = corpus.split("train"), corpus.codecs.target.vocabulary

    def words_backwards(ids: list[int]) -> tuple[int, ...]:
        starts = [0, *(i for i in range(1, len(ids)) if not vocabulary.token(ids[i - 1]).endswith("@@"))]
        bounds = zip(starts, [*starts[1:], len(ids)], strict=True)
        return tuple(place for start, stop in reversed(list(bounds)) for place in range(start, stop))

    rows = [
        OrdersRow(line, (words_backwards(split.target[i].tolist()),)) for i, line in enumerate(split.lines.tolist())
    ]
    path = tmp_path / "train.mine.orders.jsonl"
    write_orders(path, {"order": "mine", "split": "train", "corpus": corpus.digest}, rows)
    in_file = visits(split_of(corpus, OrderConfig(name="file", file=str(path))))
    by_rule = visits(split_of(corpus, OrderConfig()))
    for visit, (source, target, order) in in_file.items():
        assert (source, target) == by_rule[visit][:2]
        assert order == words_backwards(list(target))


def test_a_resumed_run_is_the_same_bit_for_bit(folder: Path, tmp_path: Path) -> None:
    from indigo_cli.engine.fit import train

    options = (*PIECES, f"train.bpe_dropout={RATE}", "model.dropout=0.3", "train.max_steps=3", "train.validate_every=3")

    def run(name: str, *more: str, resume: bool = False) -> dict[str, torch.Tensor]:
        recipe = load_recipe(folder / "recipe.toml", (*options, *more))
        train(recipe, output=tmp_path / name, corpus_folder=folder / "corpus", resume=resume)
        return state_of(tmp_path / name)

    whole = run("whole")
    run("parts", "train.max_steps=1")
    assert same(run("parts", resume=True), whole)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (("preprocess.vocabulary=word",), "the vocabulary has no BPE merges"),
        (("preprocess.vocabulary=char", "preprocess.max_length=40"), "the vocabulary has no BPE merges"),
        ((*PIECES, "data.task=word_ordering"), "the source is a bag"),
    ],
)
def test_what_it_cannot_do_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: tuple[str, ...], reason: str
) -> None:
    from indigo_cli.engine.fit import train

    recipe = write_task(tmp_path)
    prepare(load_recipe(recipe, settings), tmp_path / "corpus")
    states = []
    for rate in (0, RATE):
        options = (*settings, f"train.bpe_dropout={rate}", "train.max_steps=1", "model.source_positions=auto")
        capsys.readouterr()
        train(load_recipe(recipe, options), output=tmp_path / str(rate), corpus_folder=tmp_path / "corpus")
        assert (f"train.bpe_dropout has no effect: {reason}" in " ".join(capsys.readouterr().err.split())) == bool(rate)
        states.append(state_of(tmp_path / str(rate)))
    assert same(*states)
