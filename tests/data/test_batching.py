"""Batches: every item once, within the budget, the same for a seed whoever else runs."""

from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from indigo_cli.data.batching import (
    FEWEST_NODES,
    PAIRS_PER_TOKEN,
    batch_stream,
    cut_for_trees,
    epoch_batches,
    orders_of_tree,
    token_batches,
)

Lengths = NDArray[np.int64]
lengths = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 400)), min_size=1, max_size=60)


def arrays(pairs: list[tuple[int, int]]) -> tuple[Lengths, Lengths]:
    target, source = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return target, source


def some(count: int = 50, *, longest: int = 30, seed: int = 0) -> tuple[Lengths, Lengths]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, longest, count), rng.integers(0, longest, count)


def lists(batches: list[NDArray[np.int64]]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@given(lengths, st.integers(1, 200), st.integers(0, 99))
def test_every_item_once_and_within_the_budget(pairs: list[tuple[int, int]], budget: int, seed: int) -> None:
    target, source = arrays(pairs)
    batches = epoch_batches(target, source, batch_tokens=budget, seed=seed, epoch=3)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(pairs)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * target[batch].max() <= budget


def test_a_long_item_is_a_batch_alone() -> None:
    target = np.array([3, 50, 3, 4], dtype=np.int64)
    batches = epoch_batches(target, target, batch_tokens=20, seed=0, epoch=0)
    assert sorted(lists(batches), key=len)[0] == [1]
    assert len(batches) == 2


def test_a_batch_is_filled_before_the_next_begins() -> None:
    """Equal lengths leave no choice of how many."""
    target = np.full(23, 5, dtype=np.int64)
    batches = epoch_batches(target, target, batch_tokens=25, seed=0, epoch=0)
    assert sorted(len(batch) for batch in batches) == [3, 5, 5, 5, 5]


def test_quadratic_memory_is_bounded() -> None:
    longest = 4 * PAIRS_PER_TOKEN
    target = np.full(20, longest, dtype=np.int64)
    for batch in epoch_batches(target, target, batch_tokens=10 * longest, seed=0, epoch=0):
        assert len(batch) * longest**2 <= PAIRS_PER_TOKEN * 10 * longest


def test_long_sources_make_smaller_batches() -> None:
    target = np.full(100, 2, dtype=np.int64)
    short, long = (epoch_batches(target, target * k, batch_tokens=100, seed=0, epoch=0) for k in (1, 50))
    assert max(map(len, long)) < max(map(len, short)) == 50


def test_little_padding() -> None:
    target, source = some(2000)
    batches = epoch_batches(target, source, batch_tokens=300, seed=0, epoch=0)
    padded = sum(len(batch) * target[batch].max() for batch in batches)
    assert target.sum() > 0.95 * padded


def test_a_function_of_seed_and_epoch() -> None:
    target, source = some(500, longest=10)
    first = lists(epoch_batches(target, source, batch_tokens=60, seed=1, epoch=2))
    assert first == lists(epoch_batches(target, source, batch_tokens=60, seed=1, epoch=2))
    for seed, epoch in ((1, 3), (2, 2), (2, 1)):
        other = lists(epoch_batches(target, source, batch_tokens=60, seed=seed, epoch=epoch))
        assert other != first
        assert sorted(map(sorted, other)) != sorted(map(sorted, first)), "items of like length must mix anew"


def test_the_generator_decides() -> None:
    target, source = some()
    one, two = (lists(token_batches(target, source, batch_tokens=60, rng=np.random.default_rng(4))) for _ in range(2))
    assert one == two


Place = tuple[int, int, list[int]]


def stream(count: int, *, epoch: int = 0, skip: int = 0) -> list[Place]:
    target, source = some()
    found = batch_stream(target, source, batch_tokens=60, seed=7, epoch=epoch, skip=skip)
    return [(at, position, items.tolist()) for at, position, items in islice(found, count)]


def test_epochs_follow_one_another() -> None:
    target, source = some()
    epochs = [epoch_batches(target, source, batch_tokens=60, seed=7, epoch=epoch) for epoch in range(3)]
    wanted = [(e, i, items.tolist()) for e, batches in enumerate(epochs) for i, items in enumerate(batches)]
    assert stream(len(wanted)) == wanted


@pytest.mark.parametrize("done", [0, 1, 5, 17, 18, 19, 40])
def test_skipping_is_going_on(done: int) -> None:
    """A run that did `done` micro-batches and goes on behind the last of them sees what it would have seen."""
    whole = stream(60)
    epoch, position = whole[done - 1][:2] if done else (0, -1)
    assert stream(60 - done, epoch=epoch, skip=position + 1) == whole[done:]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=60), st.integers(2, 8), st.integers(1, 3 * FEWEST_NODES))
def test_trees_are_cut_within_the_budget_and_no_sooner(lengths: list[int], num_orders: int, budget: int) -> None:
    target = np.array(lengths)
    parts = cut_for_trees(target, num_orders=num_orders, batch_tokens=budget)
    assert [i for part in parts for i in range(len(lengths))[part]] == list(range(len(lengths)))
    allowed = max(budget, FEWEST_NODES)

    def fits(part: Lengths) -> bool:
        nodes = num_orders * int(part.max())
        return len(part) * nodes <= allowed and len(part) * (nodes + 2) ** 2 <= PAIRS_PER_TOKEN * allowed

    assert all(part.stop - part.start == 1 or fits(target[part]) for part in parts)
    for part, following in pairwise(parts):
        assert not fits(target[part.start : following.start + 1])


def test_one_order_is_never_cut() -> None:
    """Its batch is as the stream has cut it: a run on one order stays what it was."""
    assert cut_for_trees(np.full(9, 10_000), num_orders=1, batch_tokens=10) == [slice(0, 9)]


@given(st.integers(0, 5000), st.integers(1, 200), st.integers(1, 3 * FEWEST_NODES))
def test_of_a_long_target_a_tree_takes_some_orders(length: int, num_orders: int, budget: int) -> None:
    """As many as `cut_for_trees` would let stand side by side with another target, one at least."""
    pairs = PAIRS_PER_TOKEN * max(budget, FEWEST_NODES)
    count = orders_of_tree(length, num_orders=num_orders, batch_tokens=budget)
    assert 1 <= count <= num_orders
    assert count == 1 or (count * length + 2) ** 2 <= pairs
    assert count == num_orders or ((count + 1) * length + 2) ** 2 > pairs
