"""Batches of a split with their orders: every item once an epoch, the right order for each, the same after a resume."""

from collections import Counter
from pathlib import Path

import pytest
import torch

from indigo_cli.data.batch import Batch
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.orders_file import OrdersRow, write_orders
from indigo_cli.engine.assign import OrderConfig
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.prepare import prepare
from indigo_cli.errors import DataError
from tests.tiny import SIZES, Tiny, write_task

Orders = dict[str, tuple[int, ...]]


@pytest.fixture
def corpus(tiny: Tiny) -> Corpus:
    """The toy corpus."""
    return Corpus.open(tiny.corpus)


def source(corpus: Corpus, order: str = "rnd", *, split: str = "train", seed: int = 1) -> OrderedSplit:
    return OrderedSplit(corpus, split, OrderConfig(name=order), seed=seed, batch_tokens=40)


def orders_of(batches: list[Batch]) -> Orders:
    """The order of each example by its name, padding cut off."""
    return {
        name: tuple(batch.plan.orders[i, 0, : int(batch.lengths[i])].tolist())
        for batch in batches
        for i, name in enumerate(batch.ids)
    }


def epochs_of(split: OrderedSplit, count: int) -> list[list[Batch]]:
    found: list[list[Batch]] = [[] for _ in range(count)]
    for micro_batch in split.stream(epoch=0, skip=0, max_epochs=count):
        assert micro_batch.position == len(found[micro_batch.epoch])
        found[micro_batch.epoch].append(micro_batch.load())
    return found


def same(a: Batch, b: Batch) -> bool:
    return a.ids == b.ids and torch.equal(a.target, b.target) and torch.equal(a.plan.orders, b.plan.orders)


def test_an_epoch_has_every_item_once_with_its_own_text(corpus: Corpus, tiny: Tiny) -> None:
    texts = {
        side: (tiny.recipe_path.parent / f"train.{side}").read_text("utf-8").splitlines() for side in ("src", "tgt")
    }
    for batches in epochs_of(source(corpus), 2):
        names = Counter(name for batch in batches for name in batch.ids)
        assert names == {f"train:{line}": 1 for line in range(SIZES["train"])}
        for batch in batches:
            assert batch.num_tokens == int(batch.lengths.sum())
            for i, name in enumerate(batch.ids):
                line = int(name.removeprefix("train:"))
                target = batch.target[i, : int(batch.lengths[i])].tolist()
                assert target == corpus.codecs.target.encode(texts["tgt"][line])
                words = batch.source.values[i][batch.source.mask[i]].tolist()
                assert words[:-1] == corpus.codecs.encode_source(texts["src"][line])


def test_names_are_raw_lines(tmp_path: Path) -> None:
    """A dropped pair leaves a hole, so that a message names the line a user finds in the file."""
    recipe = write_task(tmp_path)
    lines = (tmp_path / "train.src").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "train.src").write_text("".join([lines[0], "\n", *lines[2:]]), "utf-8")
    from indigo_cli.recipe import load_recipe

    prepare(load_recipe(recipe), tmp_path / "corpus")
    names = orders_of(epochs_of(source(Corpus.open(tmp_path / "corpus")), 1)[0])
    assert "train:1" not in names
    assert names.keys() == {f"train:{line}" for line in range(SIZES["train"]) if line != 1}


def test_random_orders_are_redrawn_each_epoch_and_repeatable(corpus: Corpus) -> None:
    first, second, third = [orders_of(batches) for batches in epochs_of(source(corpus), 3)]
    long = [name for name, order in first.items() if len(order) >= 4]
    changed = [name for name in long if first[name] != second[name]]
    assert len(changed) > 0.8 * len(long)
    assert second != third != first
    for orders in (first, second, third):
        assert all(sorted(order) == list(range(len(order))) for order in orders.values())
    assert [orders_of(batches) for batches in epochs_of(source(corpus), 3)] == [first, second, third]
    assert orders_of(epochs_of(source(corpus, seed=2), 1)[0]) != first


def test_case_113_copies_of_one_pair_get_their_own_orders(tmp_path: Path) -> None:
    recipe = write_task(tmp_path)
    for side in ("src", "tgt"):
        (tmp_path / f"train.{side}").write_text(8 * "ant bee cat dog eel fox\n", "utf-8")
    from indigo_cli.recipe import load_recipe

    prepare(load_recipe(recipe), tmp_path / "corpus")
    split = source(Corpus.open(tmp_path / "corpus"))
    log = [orders_of(batches) for batches in epochs_of(split, 2)]
    drawn = [order for orders in log for order in orders.values()]
    assert len(drawn) == 16
    assert len(set(drawn)) >= 13  # of 720: more collisions than that are no accident
    again = source(Corpus.open(tmp_path / "corpus"))
    assert [orders_of(batches) for batches in epochs_of(again, 2)] == log


@pytest.mark.parametrize("order", ["l2r", "r2l"])
def test_a_fixed_rule_is_the_same_each_epoch(corpus: Corpus, order: str) -> None:
    first, second = [orders_of(batches) for batches in epochs_of(source(corpus, order), 2)]
    assert first == second
    for found in first.values():
        assert found == tuple(range(len(found)))[:: 1 if order == "l2r" else -1]


@pytest.mark.parametrize("order", ["l2r", "rnd"])
def test_a_stream_can_start_anywhere(corpus: Corpus, order: str) -> None:
    """What comes after micro-batch n does not depend on having seen the first n."""
    whole = list(source(corpus, order).stream(epoch=0, skip=0, max_epochs=3))
    for start in range(0, len(whole), 3):
        first = whole[start]
        rest = list(source(corpus, order).stream(epoch=first.epoch, skip=first.position, max_epochs=3))
        assert len(rest) == len(whole) - start
        for a, b in zip(whole[start:], rest, strict=True):
            assert (a.epoch, a.position) == (b.epoch, b.position)
            assert same(a.load(), b.load())
    last = whole[-1]
    assert list(source(corpus, order).stream(epoch=last.epoch, skip=last.position + 1, max_epochs=3)) == []


def test_batches_come_in_another_order_each_epoch(corpus: Corpus) -> None:
    first, second = [[batch.ids for batch in batches] for batches in epochs_of(source(corpus), 2)]
    assert first != second


def test_validation_sees_every_item_once_and_always_the_same(corpus: Corpus) -> None:
    batches = [micro_batch.load() for micro_batch in source(corpus, split="valid", seed=1).once()]
    assert Counter(name for batch in batches for name in batch.ids) == {f"valid:{i}": 1 for i in range(SIZES["valid"])}
    again = [micro_batch.load() for micro_batch in source(corpus, split="valid", seed=1).once()]
    assert all(same(a, b) for a, b in zip(batches, again, strict=True))


def test_orders_from_a_file(corpus: Corpus, tmp_path: Path) -> None:
    split = corpus.split("valid")
    rows = [
        OrdersRow(int(line), (tuple(sorted(range(int(length)), key=lambda i: (i % 3, -i))),))
        for line, length in zip(split.lines, split.target.lengths, strict=True)
    ]
    path = tmp_path / "valid.mine.orders.jsonl"
    write_orders(path, {"order": "mine", "split": "valid", "corpus": corpus.digest}, rows)
    config = OrderConfig(name="file", file=str(path))
    found = OrderedSplit(corpus, "valid", config, seed=1, batch_tokens=40)
    assert orders_of([micro_batch.load() for micro_batch in found.once()]) == {
        f"valid:{row.id}": row.orders[0] for row in rows
    }
    with pytest.raises(DataError):  # another split's
        OrderedSplit(corpus, "test", config, seed=1, batch_tokens=40).orders(0)


def test_its_length_is_the_number_of_items(corpus: Corpus) -> None:
    assert len(source(corpus)) == SIZES["train"]
