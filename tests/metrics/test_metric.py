"""Statistics of lines."""

import pytest

from indigo_cli.metrics import METRICS
from indigo_cli.metrics.metric import corpus_score, corpus_statistics


def test_unequal_lengths_are_a_wrong_call() -> None:
    with pytest.raises(ValueError, match="2 hypotheses but a reference of 1 lines"):
        corpus_statistics(METRICS["exact"](tokenize="none"), ["a", "b"], [["a", "b"], ["a"]])


def test_statistics_are_one_row_a_line() -> None:
    metric = METRICS["exact"](tokenize="none")
    statistics = corpus_statistics(metric, ["a", "b", "c"], [["a", "x", "y"], ["z", "b", "y"]])
    assert statistics.tolist() == [[1, 1], [1, 1], [0, 1]]
    assert corpus_score(metric, statistics) == pytest.approx(2 / 3)
