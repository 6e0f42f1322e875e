"""Traces files: exactly the contract's fields, and back."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indigo_cli.core.order import order_to_slots
from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.data.traces_file import dump_row, parse_row, read_traces, trace_row
from indigo_cli.errors import DataError
from tests.traces import write_traces

FIELDS = (
    "id rank score log_prob text tokens order slots rounds "
    "word_log_probs slot_log_probs close_log_probs end_log_prob finished"
).split()

log_probs = st.floats(-50, 0, width=32)


@st.composite
def hypotheses(draw: st.DrawFn) -> Hypothesis:
    """Any serial hypothesis, finished or not."""
    order = tuple(draw(st.integers(0, 7).flatmap(lambda length: st.permutations(range(length)))))
    insertions = tuple(
        Insertion(draw(st.integers(3, 99)), slot, step, draw(log_probs), draw(log_probs))
        for step, slot in enumerate(order_to_slots(order))
    )
    trace = GenerationTrace(insertions, (), draw(st.none() | log_probs))
    return Hypothesis(trace, draw(log_probs), draw(st.booleans()), draw(st.none() | log_probs))


EXAMPLE = Hypothesis(
    GenerationTrace((Insertion(7, 0, 0, -0.25, 0.0), Insertion(6, 0, 1, -0.5, -1.0)), end_log_prob=-0.125), -0.9, True
)


def example_row(**changes: Any) -> dict[str, Any]:
    row = trace_row(3, 1, EXAMPLE, text="red cat", tokens=["red", "cat"])
    return {key: value for key, value in {**json.loads(dump_row(row)), **changes}.items() if value != "missing"}


def test_the_fields_of_the_contract() -> None:
    row = example_row()
    assert list(row) == [*FIELDS, "ids"]
    assert row == {
        "id": 3,
        "rank": 1,
        "score": -0.9,
        "log_prob": -1.875,
        "text": "red cat",
        "tokens": ["red", "cat"],
        "order": [1, 0],
        "slots": [0, 0],
        "rounds": [0, 1],
        "word_log_probs": [-0.25, -0.5],
        "slot_log_probs": [0.0, -1.0],
        "close_log_probs": [],
        "end_log_prob": -0.125,
        "finished": True,
        "ids": [6, 7],
    }


def test_merged_given_and_unfinished() -> None:
    trace = GenerationTrace((Insertion(7, 0, -1, 0.0, 0.0), Insertion(6, 0, 0, -0.5, -1.0)))
    row = trace_row(0, 2, Hypothesis(trace, -1.0, False, merged_log_prob=-1.25), text="", tokens=["a", "b"])
    assert row["given"] == 1
    assert row["merged_log_prob"] == -1.25
    assert row["end_log_prob"] is None
    assert row["finished"] is False


@settings(max_examples=30)
@given(st.lists(hypotheses(), max_size=3))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, found: list[Hypothesis]) -> None:
    path = tmp_path_factory.mktemp("traces") / "t.traces.jsonl"
    words = [[f"w{token}\u2028" for token in hypothesis.trace.tokens()] for hypothesis in found]
    rows = [
        trace_row(line, 1, hypothesis, text=" ".join(tokens), tokens=tokens)
        for line, (hypothesis, tokens) in enumerate(zip(found, words, strict=True))
    ]
    write_traces(path, {"target_lang": "de"}, rows)
    header, records = read_traces(path)
    assert header == {"format": "indigo-traces", "version": 1, "target_lang": "de"}
    for hypothesis, tokens, record in zip(found, words, records, strict=True):
        assert record.tokens == tuple(tokens)
        trace, expected = record.trace(), hypothesis.trace
        assert trace.tokens() == expected.tokens()
        assert trace.order() == expected.order()
        assert (trace.end_log_prob is None) == (expected.end_log_prob is None)
        assert (record.merged_log_prob is None) == (hypothesis.merged_log_prob is None)
        assert trace.log_prob == pytest.approx(expected.log_prob, rel=1e-8)
        assert record.log_prob == pytest.approx(trace.log_prob, rel=1e-8)
        assert record.score == pytest.approx(hypothesis.score, rel=1e-8)
        assert record.finished == hypothesis.finished


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": "missing"}, "'tokens' is missing"),
        ({"end_log_prob": "missing"}, "'end_log_prob' is missing"),
        ({"tokens": ["red"]}, "2 steps but the target has 1"),
        ({"tokens": ["red", 1]}, "tokens must be a list of str"),
        ({"order": [0, 0]}, "places token 0 twice"),
        ({"slots": [0, 1]}, "do not describe the same insertions"),
        ({"rounds": [1, 0]}, "rounds must not fall"),
        ({"rounds": [-2, 0]}, "only given words have -1"),
        ({"rounds": [0]}, "as long as tokens"),
        ({"word_log_probs": [0.0]}, "as long as tokens"),
        ({"word_log_probs": [0.0, None]}, "finite numbers"),
        ({"log_prob": float("nan")}, "log_prob must be a finite number"),
        ({"log_prob": -(10**400)}, "log_prob must be a finite number"),
        ({"score": True}, "score must be a finite number"),
        ({"finished": 1}, "finished must be a bool"),
        ({"text": None}, "text must be a str"),
        ({"id": -1}, "0 or more"),
        ({"rank": 0}, "1 or more"),
        ({"ids": [1.0, 2]}, "ids must be a list of int"),
    ],
)
def test_faults_name_place_and_field(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        parse_row(example_row(**changes), "t.jsonl:2")
    assert caught.value.where.startswith("t.jsonl:2")


def test_a_trace_without_ids_can_be_shown_but_not_scored() -> None:
    record = parse_row(example_row(ids="missing"), "t.jsonl:2")
    assert record.tokens == ("red", "cat")
    with pytest.raises(DataError, match="no vocabulary ids"):
        record.trace()


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"format":"indigo-traces","version":2}\n', encoding="utf-8")
    with pytest.raises(DataError, match="newer"):
        read_traces(path)


def test_numbers_that_json_cannot_hold_are_never_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        dump_row({"score": float("-inf")})
