"""Figures of a whole file, by hand."""

import pytest

from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.data.traces_file import TraceRecord, parse_row, trace_row
from indigo_cli.engine.order_stats import OrderStats


def record() -> TraceRecord:
    trace = GenerationTrace((Insertion(7, 0, 0, -1.0, 0.0), Insertion(6, 0, 1, -2.0, -1.0)), end_log_prob=-2.0)
    return parse_row(trace_row(0, 1, Hypothesis(trace, -2.0, True), text="red cat", tokens=["red", "cat"]), "t:2")


def test_orders() -> None:
    stats = OrderStats()
    for order in [(0, 1, 2), (2, 1, 0), (1, 0), (0,), ()]:
        stats.add_order(order)
    rows = dict(stats.rows())
    assert rows["sequences"] == "5"
    assert rows["tokens"] == "9"
    assert rows["mean length"] == "1.80"
    assert rows["strictly left to right"] == "33.3 %"  # of the three that have a direction
    assert rows["strictly right to left"] == "66.7 %"
    assert rows["Kendall tau to left to right"] == "-0.333"
    assert rows["mean run of rightward neighbours"] == "1.29"  # 9 tokens in 1 + 3 + 2 + 1 runs
    assert "finished" not in rows
    assert "generated first" not in rows


def test_traces() -> None:
    stats = OrderStats()
    stats.add_trace(record())
    rows = dict(stats.rows())
    assert rows["finished"] == "100.0 %"
    assert rows["generated first"] == "cat 100.0 %"
    assert rows["log p per token"] == "-3.000 nats"
    assert rows["of it the words"] == "-1.500 nats"
    assert rows["of it the slots"] == "-0.500 nats"
    assert "mean rounds" not in rows, "a serial system has as many rounds as tokens"


@pytest.mark.parametrize("orders", [[], [()]])
def test_nothing_to_count(orders: list[tuple[int, ...]]) -> None:
    stats = OrderStats()
    for order in orders:
        stats.add_order(order)
    assert dict(stats.rows())["tokens"] == "0"
