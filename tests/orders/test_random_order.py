"""RND: uniform, and a function of seed, epoch, id and position alone."""

from collections import Counter
from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.orders import ORDERS, Example, OrderContext, Targets
from indigo_cli.orders.random_order import mix

RULE = ORDERS["rnd"]


def draw(ids: np.ndarray, length: int, *, seed: int = 1, epoch: int = 0) -> list[tuple[int, ...]]:
    """Orders of targets of one length."""
    offsets = np.arange(len(ids) + 1, dtype=np.int64) * length
    targets = Targets(ids.astype(np.int64), np.zeros(len(ids) * length, dtype=np.int64), offsets)
    orders = RULE.orders(targets, OrderContext(seed=seed, epoch=epoch)).reshape(len(ids), length)
    return [tuple(order) for order in orders.tolist()]


def chi_square(counts: Counter[tuple[int, ...]], cells: int) -> float:
    """Pearson's statistic against the uniform distribution."""
    expected = counts.total() / cells
    return (sum((n - expected) ** 2 for n in counts.values()) + (cells - len(counts)) * expected**2) / expected


def test_the_generator_is_splitmix64() -> None:
    """First outputs for seed 1234567 as in Vigna's reference program splitmix64.c (published widely as a check)."""
    state = np.array([1234567], dtype=np.uint64)
    outputs = []
    for _ in range(3):
        state = state + np.uint64(0x9E3779B97F4A7C15)
        outputs.append(int(mix(state)[0]))
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_every_order_is_equally_likely_over_ids() -> None:
    """24 orders of 4 tokens, 48,000 ids: chi-square with 23 degrees of freedom stays below its 99.99 % point."""
    counts = Counter(draw(np.arange(48_000), 4))
    assert set(counts) == set(permutations(range(4)))
    assert chi_square(counts, 24) < 58.6


def test_every_order_is_equally_likely_over_epochs_and_seeds() -> None:
    by_epoch = Counter(draw(np.array([7]), 3, epoch=epoch)[0] for epoch in range(1800))
    by_seed = Counter(draw(np.array([7]), 3, seed=seed)[0] for seed in range(1800))
    assert chi_square(by_epoch, 6) < 25.7  # 5 degrees of freedom, 99.99 %
    assert chi_square(by_seed, 6) < 25.7


def test_neighbouring_ids_epochs_and_seeds_are_independent() -> None:
    """The joint draw of two neighbours is uniform over the 36 pairs of orders of 3 tokens (35 degrees of freedom)."""
    ids = np.arange(36_000)
    first = draw(ids, 3)
    for second in (first[1:] + first[:1], draw(ids, 3, epoch=1), draw(ids, 3, seed=2)):
        pairs = Counter(a + b for a, b in zip(first, second, strict=True))
        assert chi_square(pairs, 36) < 77.0


def test_each_token_comes_first_equally_often_in_long_targets() -> None:
    firsts: Counter[tuple[int, ...]] = Counter((order[0],) for order in draw(np.arange(20_000), 50))
    assert chi_square(firsts, 50) < 103.5  # 49 degrees of freedom, 99.99 %


def test_case_113_copies_and_epochs_differ() -> None:
    orders = [draw(np.arange(8), 6, epoch=epoch) for epoch in range(2)]
    assert len({order for epoch in orders for order in epoch}) > 12
    assert orders == [draw(np.arange(8), 6, epoch=epoch) for epoch in range(2)]


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=8, unique=True), st.integers(0, 9), st.data())
def test_case_63_an_order_does_not_depend_on_its_block(ids: list[int], length: int, data: st.DataObject) -> None:
    together = dict(zip(ids, draw(np.array(ids), length, seed=7), strict=True))
    shuffled = data.draw(st.permutations(ids))
    assert together == dict(zip(shuffled, draw(np.array(shuffled), length, seed=7), strict=True))
    context = OrderContext(seed=7)
    assert all(RULE.order(Example(target_id, [5] * length), context) == together[target_id] for target_id in ids)


@given(st.integers(-(2**70), 2**70), st.integers(0, 2**70))
def test_any_whole_number_is_a_seed(seed: int, epoch: int) -> None:
    (order,) = draw(np.array([3]), 5, seed=seed, epoch=epoch)
    assert sorted(order) == list(range(5))
