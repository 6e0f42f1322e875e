"""Figures of a whole file: by hand, and against definitions spelt out over pairs of words."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.data.orders_file import OrdersRow, Parts
from indigo_cli.data.traces_file import TraceRecord, parse_row, trace_row
from indigo_cli.engine.order_stats import GRID, PLACE_BINS, OrderStats, growth_map

Order = Sequence[int]


def gathered(orders: Sequence[Order], *, given: int = 0) -> OrderStats:
    stats = OrderStats()
    for order in orders:
        stats.add_order(order, given=given)
    return stats


def record(*, rounds: tuple[int, int, int] = (0, 1, 2)) -> TraceRecord:
    """Dog, cat, red: slots 0, 0, 0."""
    steps = [(8, rounds[0], -0.1, 0.0), (7, rounds[1], -1.0, 0.0), (6, rounds[2], -2.0, -1.0)]
    if rounds[0] < 0:
        steps[0] = (8, -1, 0.0, 0.0)
    insertions = tuple(Insertion(token, 0, number, word, slot) for token, number, word, slot in steps)
    hypothesis = Hypothesis(GenerationTrace(insertions, end_log_prob=-2.0), -2.0, True)
    return parse_row(trace_row(0, 1, hypothesis, text="red cat dog", tokens=["red", "cat", "dog"]), "t:2")


def test_orders_by_hand() -> None:
    rows = gathered([(0, 1, 2), (2, 1, 0), (1, 0), (0,), ()]).rows()
    assert rows["sequences"] == "5"
    assert rows["tokens"] == "9"
    assert rows["mean length"] == "1.80"
    assert rows["strictly left to right"] == "33.3 %"  # of the three that have a direction
    assert rows["strictly right to left"] == "66.7 %"
    assert rows["Kendall tau to left to right"] == "-0.333"
    assert rows["mean run of rightward neighbours"] == "1.29"  # 9 tokens in 1 + 3 + 2 + 1 runs
    assert rows["steps to the right neighbour"] == "40.0 %"  # 2 of 2 + 2 + 1
    assert rows["first word at (0 left, 1 right)"] == "0.667"  # 0, 1, 1
    assert rows["finished"] == rows["generated first"] == rows["log p per token"] == ""


@pytest.mark.parametrize(
    ("order", "neighbours", "entered_right", "runs"),
    [
        ((0, 1, 2, 3), 3, 3, 1),
        ((3, 2, 1, 0), 0, 0, 4),
        ((0, 2, 4, 1, 3), 0, 2, 5),  # 2 and 4 enter right of the word before, and are parted from it later
        ((2, 3, 0, 1), 2, 2, 2),  # two chunks, swapped
        ((1, 2, 0), 1, 1, 2),
        ((0, 3, 1, 2), 1, 2, 3),
    ],
)
def test_steps_to_the_right_by_hand(order: Order, neighbours: int, entered_right: int, runs: int) -> None:
    stats = gathered([order])
    assert (stats.pairs, stats.neighbours, stats.entered_right, stats.runs) == (
        len(order) - 1,
        neighbours,
        entered_right,
        runs,
    )


def brute_tau(order: Order) -> float:
    """Agreeing minus disagreeing pairs, over all pairs."""
    pairs = list(itertools.combinations(order, 2))
    return sum(1 if a < b else -1 for a, b in pairs) / len(pairs)


def brute_runs(order: Order) -> list[list[int]]:
    runs: list[list[int]] = []
    for index in order:
        if runs and runs[-1][-1] + 1 == index:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


def brute_entered_right(order: Order) -> int:
    """Write the canvas after each step and look which word stands left of the newest."""
    return sum(
        step > 0 and sorted(order[: step + 1])[: sorted(order[: step + 1]).index(index)][-1:] == [order[step - 1]]
        for step, index in enumerate(order)
    )


permutations = st.integers(0, 12).flatmap(lambda length: st.permutations(range(length)))


@given(st.lists(permutations, max_size=6))
def test_sums_agree_with_the_definitions(orders: list[list[int]]) -> None:
    stats = gathered(orders)
    longer = [order for order in orders if len(order) > 1]
    assert stats.longer == len(longer)
    assert stats.tau == pytest.approx(sum(brute_tau(order) for order in longer))
    assert stats.left_to_right == sum(order == sorted(order) for order in longer)
    assert stats.right_to_left == sum(order == sorted(order, reverse=True) for order in longer)
    assert stats.runs == sum(len(brute_runs(order)) for order in orders)
    assert stats.neighbours == sum(len(run) - 1 for order in orders for run in brute_runs(order))
    assert stats.entered_right == sum(brute_entered_right(order) for order in orders)
    assert stats.first_place == pytest.approx(sum(order[0] / (len(order) - 1) for order in longer))
    assert sum(stats.first_places) == sum(stats.tau_histogram) == len(longer)
    for order in longer:
        (filled,) = np.flatnonzero(gathered([order]).tau_histogram)
        assert abs(brute_tau(order) - (filled / 10 - 1)) <= 0.05 + 1e-9


def test_ends_of_the_histograms() -> None:
    stats = gathered([(0, 1, 2), (2, 1, 0)])
    assert [stats.tau_histogram[0], stats.tau_histogram[-1]] == [1, 1]
    assert [stats.first_places[0], stats.first_places[-1]] == [1, 1]
    assert len(stats.first_places) == PLACE_BINS


@given(permutations.filter(len), st.data())
def test_given_words_are_no_steps(order: list[int], data: st.DataObject) -> None:
    """Tau, direction and chunks of the generated words; places are those of the whole sentence."""
    given = data.draw(st.integers(0, len(order)))
    stats, generated = gathered([order], given=given), order[given:]
    assert (stats.tokens, stats.given) == (len(generated), given)
    assert stats.runs == len(brute_runs(generated))
    if len(generated) > 1:
        assert stats.tau == pytest.approx(brute_tau(generated))
    if generated and len(order) > 1:
        assert stats.first_place == generated[0] / (len(order) - 1)
    if generated:
        assert growth_map(order, given).mean() == pytest.approx(1)


@settings(max_examples=30)
@given(permutations.filter(len))
def test_growth_map_is_the_average_over_points(order: list[int]) -> None:
    """Each point (time, place) counts T where the word of that time stands at that place."""
    fine, length = 5, len(order)
    points = GRID * fine * length  # so many that no point lies on a border of anything
    centres = (np.arange(points) + 0.5) / points
    step, place = np.floor(centres * length).astype(int), np.floor(centres * length).astype(int)
    hit = np.asarray(order)[step][:, None] == place[None, :]
    slow = length * hit.reshape(GRID, fine * length, GRID, fine * length).mean(axis=(1, 3))
    fast = growth_map(order)
    assert np.allclose(fast, slow)
    assert np.allclose(fast.sum(axis=0), GRID) and np.allclose(fast.sum(axis=1), GRID)


def test_mean_growth_of_all_orders_of_a_length_is_flat() -> None:
    assert np.allclose(gathered(list(itertools.permutations(range(4)))).mean_growth(), 1)
    assert not gathered([()]).mean_growth().any()


def test_traces() -> None:
    stats = OrderStats()
    stats.add_trace(record())
    rows = stats.rows()
    assert rows["finished"] == "100.0 %"
    assert rows["generated first"] == "dog 100.0 %"
    assert rows["log p per token"] == "-2.033 nats"
    assert rows["of it the words"] == "-1.033 nats"
    assert rows["of it the slots"] == "-0.333 nats"
    assert rows["sequences with p > 0.5"] == "0.0 %"
    assert rows["mean rounds"] == "", "a serial system has as many rounds as tokens"


def test_a_trace_with_given_words_starts_behind_them() -> None:
    stats = OrderStats()
    stats.add_trace(record(rounds=(-1, 0, 0)))
    rows = stats.rows()
    assert rows["generated first"] == "cat 100.0 %"
    assert (rows["given words"], rows["tokens"], rows["mean rounds"]) == ("1", "2", "1.00")


def test_orders_of_a_target_by_rank_and_together() -> None:
    log_probs = (math.log(0.6), math.log(0.3), math.log(0.6))
    row = OrdersRow(0, ((0, 1), (1, 0), (0, 1)), log_probs)
    first, second, fourth = OrderStats(), OrderStats(), OrderStats()
    first.add_target(row, ["a", "b"])
    second.add_target(row, rank=2)
    fourth.add_target(row, rank=4)
    assert (first.tau, second.tau, fourth.count) == (1, -1, 0)
    assert first.log_prob == pytest.approx(math.log(0.6))
    assert second.log_prob == pytest.approx(math.log(0.3))
    assert (first.likely, second.likely) == (1, 0)
    assert first.rows()["of all orders together"] == "-0.053 nats", "0.9 of two tokens: the same order counts once"
    assert first.rows()["of it the words"] == ""
    known = OrderStats()
    known.add_target(replace(row, bound=-1.0))
    assert known.summed_log_prob == -1.0


def test_scored_hypotheses_of_an_orders_file() -> None:
    parts = Parts((-1.0,), (-0.5,), (-0.25,))
    stats = OrderStats()
    for rank in (1, 2):
        stats.add_target(OrdersRow(0, ((1, 0),), (-1.75,), parts=parts, bound=-1.75, rank=rank), rank=2)
    assert stats.count == 1
    rows = stats.rows()
    assert (rows["log p per token"], rows["of it the words"], rows["of it the slots"]) == (
        "-0.875 nats",
        "-0.500 nats",
        "-0.250 nats",
    )
    assert rows["of all orders together"] == "", "one order alone"


@pytest.mark.parametrize("orders", [[], [()]])
def test_nothing_to_count(orders: list[tuple[int, ...]]) -> None:
    assert gathered(orders).rows()["tokens"] == "0"
