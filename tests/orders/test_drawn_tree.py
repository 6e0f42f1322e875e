"""Drawn trees: the frequencies of PAPERS B1, and a function of seed, epoch, id and span alone."""

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.order import check_order
from indigo_cli.orders import ORDERS, Example, OrderContext, Targets
from indigo_cli.orders.drawn_tree import near_middle, rule


def chances(length: int, temperature: float) -> list[float]:
    """The formula as it is printed."""
    weights = [math.exp(-abs((length - 1) / 2 - i) / temperature) for i in range(length)]
    return [weight / sum(weights) for weight in weights]


def draw(ids: np.ndarray, length: int, *, temperature: float = 1.0, seed: int = 1, epoch: int = 0) -> list[list[int]]:
    """Orders of targets of one length."""
    offsets = np.arange(len(ids) + 1, dtype=np.int64) * length
    targets = Targets(ids.astype(np.int64), np.zeros(len(ids) * length, dtype=np.int64), offsets)
    context = OrderContext(seed=seed, epoch=epoch)
    rows: list[list[int]] = rule(temperature).orders(targets, context).reshape(len(ids), length).tolist()
    return rows


@pytest.mark.parametrize("temperature", [0.05, 0.5, 1.0, 3.0, 1e6])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 59, 60])
def test_equal_steps_of_chance_give_the_weights(length: int, temperature: float) -> None:
    """Chances on a fine grid: each token gets its share of it, but for the two ends of its part."""
    grid = 20_000
    drawn = near_middle(np.full(grid, length), (np.arange(grid) + 0.5) / grid, temperature)
    counts = np.bincount(drawn, minlength=length)
    assert len(counts) == length
    np.testing.assert_allclose(counts / grid, chances(length, temperature), atol=2.5 / grid)


def test_the_ends_of_the_chances() -> None:
    lengths = np.arange(1, 300)
    for chance in (0.0, 1.0 - 2.0**-53):
        drawn = near_middle(lengths, np.full(len(lengths), chance), 1.0)
        assert ((drawn >= 0) & (drawn < lengths)).all()


def trees(start: int, stop: int, temperature: float) -> Iterator[tuple[float, tuple[tuple[int, int], ...]]]:
    """Yield the chance of every tree of a span and its (depth, token) pairs, by recursion."""
    if start == stop:
        yield 1.0, ()
        return
    for i, chance in enumerate(chances(stop - start, temperature), start=start):
        for p, left in trees(start, i, temperature):
            for q, right in trees(i + 1, stop, temperature):
                yield chance * p * q, ((0, i), *((depth + 1, j) for depth, j in (*left, *right)))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_each_tree_has_its_chance(temperature: float) -> None:
    """14 trees of 4 tokens, 30,000 ids: chi-square with 13 degrees of freedom stays below its 99.99 % point."""
    expected: Counter[tuple[int, ...]] = Counter()
    for chance, tree in trees(0, 4, temperature):
        expected[tuple(i for _, i in sorted(tree))] += chance  # type: ignore[assignment]
    counts = Counter(tuple(order) for order in draw(np.arange(30_000), 4, temperature=temperature))
    assert set(counts) <= set(expected) and sum(expected.values()) == pytest.approx(1.0)
    statistic = sum((counts[order] - 30_000 * p) ** 2 / (30_000 * p) for order, p in expected.items())
    assert statistic < 42.0


def test_a_low_temperature_draws_the_middles() -> None:
    """With one token in the middle of every span there is one tree left: the balanced one."""
    assert (
        draw(np.arange(20), 15, temperature=0.01)
        == [list(ORDERS["blt"].order(Example(0, [0] * 15), OrderContext()))] * 20
    )


def test_neighbouring_ids_epochs_and_seeds_are_independent() -> None:
    """The joint draw of two roots of 3 tokens has the product of their chances (8 degrees of freedom, 99.99 %)."""
    ids, p = np.arange(9000), chances(3, 1.0)
    first = [order[0] for order in draw(ids, 3)]
    for others in (draw(ids + 1, 3), draw(ids, 3, epoch=1), draw(ids, 3, seed=2)):
        pairs = Counter(zip(first, (order[0] for order in others), strict=True))
        assert (
            sum((pairs[i, j] / 9000 - p[i] * p[j]) ** 2 * 9000 / (p[i] * p[j]) for i in range(3) for j in range(3)) < 32
        )


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=6, unique=True), st.lists(st.integers(0, 20)), st.data())
def test_a_tree_does_not_depend_on_its_block(ids: list[int], lengths: list[int], data: st.DataObject) -> None:
    lengths = [*lengths, *[3] * len(ids)][: len(ids)]
    tree, context = rule(1.0), OrderContext(seed=7, epoch=3)
    alone = [tree.order(Example(i, [5] * length), context) for i, length in zip(ids, lengths, strict=True)]
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    block = Targets(np.array(ids), np.zeros(offsets[-1], dtype=np.int64), offsets)
    flat = tree.orders(block, context).tolist()
    for order, length, start in zip(alone, lengths, offsets.tolist(), strict=False):
        check_order(order, length)
        assert flat[start : start + length] == list(order)


def test_each_epoch_has_its_own_trees() -> None:
    assert rule(1.0).redrawn
    assert len({str(draw(np.arange(5), 9, epoch=epoch)) for epoch in range(4)}) == 4
