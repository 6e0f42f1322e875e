"""Traces replay to their text and add up."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.order import order_to_slots
from indigo_cli.core.trace import GenerationTrace, Insertion, log_sum


@given(st.lists(st.integers(3, 9), max_size=20), st.data())
def test_replaying_gives_the_target(target: list[int], data: st.DataObject) -> None:
    order = tuple(data.draw(st.permutations(range(len(target)))))
    steps = enumerate(zip(order, order_to_slots(order), strict=True))
    trace = GenerationTrace(tuple(Insertion(target[index], slot, step, 0.0, 0.0) for step, (index, slot) in steps))
    assert trace.tokens() == target
    assert trace.order() == order
    assert trace.rounds() == tuple(range(len(target)))


def test_a_round_of_several_insertions_counts_its_own() -> None:
    """ "a b" stands, then one round puts x, y, z around it: slots from left to right, those of the round included."""
    given_words = (Insertion(10, 0, -1, 0.0, 0.0), Insertion(11, 1, -1, 0.0, 0.0))
    in_one_round = (Insertion(20, 0, 0, -1.0, 0.0), Insertion(21, 2, 0, -1.0, 0.0), Insertion(22, 4, 0, -1.0, 0.0))
    trace = GenerationTrace(given_words + in_one_round, close_log_probs=(-0.5, -0.25))
    assert trace.tokens() == [20, 10, 21, 11, 22]
    assert trace.given == 2
    assert trace.log_prob == -3.75


def test_log_prob_is_the_sum_of_all_parts() -> None:
    trace = GenerationTrace((Insertion(5, 0, 0, -1.0, -0.5), Insertion(6, 0, 1, -2.0, -0.25)), end_log_prob=-4.0)
    assert trace.log_prob == -7.75
    assert GenerationTrace(trace.insertions).log_prob == -3.75
    assert GenerationTrace((), end_log_prob=-0.5).log_prob == -0.5


def test_a_slot_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="slot 1"):
        GenerationTrace((Insertion(5, 1, 0, 0.0, 0.0),)).tokens()


@given(st.lists(st.floats(-30, 0), min_size=1, max_size=6))
def test_log_sum_is_the_log_of_added_probabilities(log_probs: list[float]) -> None:
    assert log_sum(log_probs) == pytest.approx(math.log(sum(map(math.exp, log_probs))), abs=1e-9)
    lowered = [log_prob - 2000 for log_prob in log_probs]  # far below what exp can tell from 0
    assert log_sum(lowered) == pytest.approx(log_sum(log_probs) - 2000, abs=1e-9)
