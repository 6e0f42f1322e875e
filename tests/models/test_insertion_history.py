"""Histories of a batch against the recursion, and what slots learn against the printed weights."""

import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from indigo_cli.core.vocab import BOS, EOS, PAD
from indigo_cli.data.collate import collate
from indigo_cli.models.insertion_history import Aim, History, aim_of, closed_slots, history_of, shares, word_slots
from indigo_cli.orders import ORDERS, Example, OrderContext
from tests.models.histories import grow


def make_history(orders: list[list[int]]) -> History:
    targets = [[10 + i for i in range(len(order))] for order in orders]
    batch = collate([str(i) for i in range(len(orders))], targets, targets, [[order] for order in orders])
    return history_of(batch.target, batch.plan.orders[:, 0], batch.lengths)


orders_strategy = st.lists(st.integers(0, 9).flatmap(lambda n: st.permutations(range(n))), min_size=1, max_size=5)


@given(orders_strategy)
def test_stages_and_neighbours_are_those_of_the_recursion(orders: list[list[int]]) -> None:
    history = make_history(orders)
    canvas, longest = history.canvas, max(map(len, orders))
    for i, order in enumerate(orders):
        grown, length = grow(order), len(order)
        assert canvas.stage_NR[i].tolist() == grown.stage + [longest + 1] * (longest - length)
        assert history.words_NR[i].tolist() == [BOS, *range(10, 10 + length), EOS] + [PAD] * (longest - length)
        assert canvas.last_N[i] == length + 1
        for _, left, right, word, _ in grown.taken:
            assert (int(canvas.left_NR[i, word + 1]), int(canvas.right_NR[i, word + 1])) == (left, right)


@given(orders_strategy)
def test_any_history_decides_each_of_its_slots_once(orders: list[list[int]]) -> None:
    """T slots take a word and T + 1 are closed, whatever the order."""
    history, rows = make_history(orders), max(map(len, orders)) + 2
    words = sum(map(len, orders))
    taken, word = word_slots(history, words)
    closed, gap = closed_slots(history, words + len(orders))
    wanted_taken, wanted_closed = [], []
    for i, order in enumerate(orders):
        grown, first = grow(order), i * rows
        wanted_taken += [
            (first + left, first + right, first + made, i * (rows - 2) + k)
            for made, left, right, k, _ in sorted(grown.taken, key=lambda slot: slot[3])
        ]
        wanted_closed += [
            (first + left, first + right, first + made, i * (rows - 1) + left)
            for made, left, right in sorted(grown.closed, key=lambda slot: slot[1])
        ]
    for slots, index, wanted in ((taken, word, wanted_taken), (closed, gap, wanted_closed)):
        columns = (slots.left, slots.right, slots.pool, index)
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == wanted


@pytest.mark.parametrize("name", [name for name, rule in ORDERS.items() if rule.needs == ""])
def test_every_order_is_a_history(name: str) -> None:
    order = list(ORDERS[name].order(Example(0, [5] * 11), OrderContext()))
    depth = max(make_history([order]).canvas.stage_NR[0].tolist())
    assert depth == {"l2r": 11, "r2l": 11, "blt": 4, "odd": 7}.get(name, depth)


def weights(aim: Aim, length: int, *, temperature: float = 1.0, order: list[int] | None = None) -> list[float]:
    """Return the shares of the words of one span."""
    step = torch.tensor([order or list(range(length))])
    share: Tensor = shares(aim, torch.tensor([[0]]), torch.tensor([[length + 1]]), step, temperature)
    assert share.shape == (1, 1, length)
    return share[0, 0].tolist()


class TestShares:
    @pytest.mark.parametrize(
        ("length", "temperature", "printed"),
        [
            (3, 1.0, [0.2119, 0.5761, 0.2119]),
            (4, 1.0, [0.1345, 0.3655, 0.3655, 0.1345]),
            (5, 0.5, [0.0140, 0.1035, 0.7649, 0.1035, 0.0140]),
        ],
    )
    def test_vectors_of_the_fact_sheet(self, length: int, temperature: float, printed: list[float]) -> None:
        assert weights("tree", length, temperature=temperature) == pytest.approx(printed, abs=5e-5)

    @pytest.mark.parametrize("temperature", [0.02, 0.5, 1.0, 2.0])
    def test_the_formula_for_spans_of_any_length(self, temperature: float) -> None:
        """Centred on (first + last) / 2, also above 50 words."""
        for length in range(1, 61):
            wanted = [
                math.exp((((length - 1) % 2) / 2 - abs((length - 1) / 2 - i)) / temperature) for i in range(length)
            ]
            got = weights("tree", length, temperature=temperature)
            assert got == pytest.approx([w / sum(wanted) for w in wanted], rel=1e-5)
            assert got == got[::-1]

    def test_a_span_anywhere(self) -> None:
        """Spans of 1, 2 and 0 words, and words outside have nothing."""
        share = shares(
            "tree", torch.tensor([[2, 0, 5]]), torch.tensor([[4, 3, 6]]), torch.tensor([[4, 3, 2, 1, 0]]), 1.0
        )
        assert share[0].tolist() == [[0, 0, 1, 0, 0], [0.5, 0.5, 0, 0, 0], [0] * 5]

    def test_uniform_is_the_limit_of_high_temperatures(self) -> None:
        assert weights("uniform", 7) == pytest.approx([1 / 7] * 7)
        assert weights("tree", 7, temperature=1e6) == pytest.approx([1 / 7] * 7, abs=1e-5)

    def test_first_is_the_word_that_comes_first(self) -> None:
        assert weights("first", 4, order=[3, 1, 0, 2]) == [0, 0, 1, 0]

    @given(st.integers(0, 2**32))
    def test_first_is_what_a_history_inserts(self, seed: int) -> None:
        order = list(range(9))
        random.Random(seed).shuffle(order)
        history = make_history([order])
        left, right = (rows[:, 1:-1] for rows in (history.canvas.left_NR, history.canvas.right_NR))
        assert torch.equal(shares("first", left, right, history.step_NT, 1.0)[0], torch.eye(9))


def test_what_an_order_makes_slots_learn() -> None:
    assert [aim_of(name, 1.0) for name in ("blt", "rnd", "l2r", "file", "cf")] == ["tree", "uniform", *["first"] * 3]
    assert aim_of("blt", 0.0) == "first"
