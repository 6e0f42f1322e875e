"""Lists without repeated strings: added probabilities, or the best trace alone."""

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.order import order_to_slots
from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.decoding.config import DecodeConfig, ranking_score
from indigo_cli.engine.nbest import LARGEST, Output, join_searches, rank_strings, wider_beams

SUMMED = DecodeConfig(length_penalty=0.0)


def output(
    text: str,
    tokens: Sequence[int],
    log_prob: float,
    *,
    finished: bool = True,
    order: Sequence[int] | None = None,
    config: DecodeConfig = SUMMED,
) -> Output:
    """A hypothesis whose whole probability lies on its last prediction."""
    order = tuple(range(len(tokens))) if order is None else tuple(order)
    slots = order_to_slots(order)
    insertions = tuple(Insertion(tokens[order[t]], slots[t], t, 0.0, 0.0) for t in range(len(tokens)))
    trace = GenerationTrace(insertions, end_log_prob=log_prob)
    score = ranking_score(log_prob, len(tokens), finished, config)
    return Output(Hypothesis(trace, score=score, finished=finished), text)


def test_two_segmentations_of_one_string_win_together() -> None:
    """`ab c` as `ab c` and as `a@@ b c`: 0.2 + 0.3 > 0.4."""
    two, three = output("ab c", [5, 6], math.log(0.3)), output("ab c", [7, 8, 6], math.log(0.2))
    other = output("d", [9], math.log(0.4))
    first, second = rank_strings([other, two, three], SUMMED)
    assert (first.text, second.text) == ("ab c", "d")
    assert first.hypothesis.trace is two.hypothesis.trace
    assert first.hypothesis.merged_log_prob == pytest.approx(math.log(0.5))
    assert second.hypothesis.merged_log_prob == pytest.approx(math.log(0.4))
    assert first.hypothesis.score == pytest.approx(math.log(0.5))
    assert rank_strings([other, two, three], DecodeConfig())[0].hypothesis.score == pytest.approx(math.log(0.5) / 3)


def test_without_added_probabilities_the_best_trace_stands_as_it_was() -> None:
    config = DecodeConfig(length_penalty=0.0, merge_strings=False)
    two, three = output("ab c", [5, 6], math.log(0.3)), output("ab c", [7, 8, 6], math.log(0.2))
    other = output("d", [9], math.log(0.4))
    assert rank_strings([three, two, other], config) == [other, two]
    by_length = DecodeConfig(length_penalty=1.0, merge_strings=False)  # what ranks decides, not the probability
    short, long = output("x", [5], -2.0, config=by_length), output("x", [6, 7, 8], -2.1, config=by_length)
    assert rank_strings([short, long], by_length) == [long]


def test_the_end_penalty_is_paid_once_a_string() -> None:
    config = DecodeConfig(length_penalty=1.0, eod_penalty=0.7)
    traces = [output("b", [5, 6], math.log(0.3)), output("b", [5, 6], math.log(0.2), order=(1, 0))]
    (merged,) = rank_strings(traces, config)
    assert merged.hypothesis.score == pytest.approx((math.log(0.5) - 0.7) / 3)
    assert merged.hypothesis.merged_log_prob == pytest.approx(math.log(0.5))
    (cut,) = rank_strings([output("b", [5, 6], math.log(0.5), finished=False)], config)
    assert cut.hypothesis.score == pytest.approx(math.log(0.5) / 3)


@pytest.mark.parametrize("merge", [True, False])
def test_what_ran_out_of_steps_comes_last_and_repeats_nothing(merge: bool) -> None:
    config = DecodeConfig(merge_strings=merge)
    cut, other = (output(text, [5, 6], math.log(0.9), finished=False) for text in ("ab c", "other"))
    ended = output("ab c", [5, 6], math.log(0.01))
    ranked = rank_strings([cut, other, ended], config)
    assert [(o.text, o.hypothesis.finished) for o in ranked] == [("ab c", True), ("other", False)]
    assert [o.hypothesis.trace for o in ranked] == [ended.hypothesis.trace, other.hypothesis.trace]
    expected = [math.log(0.01), math.log(0.9)] if merge else [None, None]
    assert [o.hypothesis.merged_log_prob for o in ranked] == pytest.approx(expected)


def test_tiny_probabilities_can_be_added() -> None:
    (merged,) = rank_strings([output("a", [5], -2000.0), output("a", [6], -2000.0)], DecodeConfig())
    assert merged.hypothesis.merged_log_prob == pytest.approx(-2000 + math.log(2))


words = st.sampled_from("a b".split())
traces = st.builds(
    lambda text, log_prob, finished, order: output(
        " ".join(text), ["ab".index(word) + 5 for word in text], log_prob, finished=finished, order=order[: len(text)]
    ),
    st.lists(words, min_size=2, max_size=2),
    st.floats(-9, -0.1),
    st.booleans(),
    st.sampled_from([(0, 1), (1, 0)]),
)


@given(st.lists(traces, max_size=8), st.lists(traces, max_size=8), st.booleans())
def test_lists_of_joined_searches(first: list[Output], second: list[Output], merge: bool) -> None:
    """No trace counts twice, no string stands twice, the best comes first, and nothing that was found is lost."""
    config = DecodeConfig(merge_strings=merge, length_penalty=0.5)
    joined = join_searches(join_searches([], first), second)
    assert join_searches(joined, first) == joined
    keys = [(o.text, o.hypothesis.finished, o.hypothesis.trace.order()) for o in joined]
    assert len(set(keys)) == len(keys)
    assert set(keys) == {(o.text, o.hypothesis.finished, o.hypothesis.trace.order()) for o in [*first, *second]}
    ranked = rank_strings(joined, config)
    assert sorted({o.text for o in ranked}) == sorted(o.text for o in ranked)
    assert {o.text for o in ranked} == {o.text for o in joined}
    places = [(o.hypothesis.finished, o.hypothesis.score) for o in ranked]
    assert places == sorted(places, reverse=True)
    for o in ranked:
        same = [x for x in joined if (x.text, x.hypothesis.finished) == (o.text, o.hypothesis.finished)]
        best = max(x.hypothesis.trace.log_prob for x in same)
        assert o.hypothesis.trace.log_prob == best
        if merge:
            together = math.log(sum(math.exp(x.hypothesis.trace.log_prob) for x in same))
            assert o.hypothesis.merged_log_prob == pytest.approx(together)


def test_beams_get_wider_only_for_lists_and_up_to_a_limit() -> None:
    assert wider_beams(5, 1) == []
    assert wider_beams(6, 4) == [6, 12, 24]
    assert wider_beams(1, 10) == [10, 20, 40]
    assert wider_beams(1, LARGEST) == [LARGEST]
    for beam, n in itertools.product((1, 300, LARGEST, 2 * LARGEST), (2, 400)):
        beams = wider_beams(beam, n)
        assert beams[0] == max(beam, n)
        assert all(width <= LARGEST for width in beams[1:])
