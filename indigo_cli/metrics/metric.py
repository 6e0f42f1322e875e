"""What a metric is.

A metric turns each line into a vector of statistics that may be added over lines, and such a sum into a score. The
score of a corpus is `score(sum of the lines)`; a resample of the corpus (`significance.py`) or a part of it only adds
other lines up, so no line is ever tokenised twice.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Statistics = NDArray[np.float64]  # (lines, numbers of the metric)


class Metric(Protocol):
    """A score over lines of text; the names of the members are the contract that every entry of METRICS keeps."""

    title: str
    """How papers spell it."""
    decimals: int
    """Digits after the point that a table shows."""
    higher_is_better: bool
    needs_reference: bool
    """A line without a word of reference has no score by the definition; such a line counts 0 where it is let pass."""

    def stats(self, hypothesis: str, references: Sequence[str]) -> Sequence[float]:
        """Return the additive statistics of one line against all its references."""

    def score(self, total: Sequence[float]) -> float:
        """Return the score of summed statistics; finite for every sum of lines, the empty line included."""

    def signature(self, *, num_references: int, resamples: int, seed: int) -> str:
        """Return what somebody needs to compute the same figure again, as `key:value` pairs joined by `|`."""


def corpus_statistics(metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
    """Return the statistics of every line.

    Args:
        hypotheses: One text a line.
        references: One list *per reference file*, each as long as `hypotheses` (not one list per line).
    """
    for lines in references:
        if len(lines) != len(hypotheses):
            raise ValueError(f"{len(hypotheses)} hypotheses but a reference of {len(lines)} lines")
    rows = [metric.stats(line, refs) for line, *refs in zip(hypotheses, *references, strict=True)]
    return np.array(rows, dtype=np.float64)


def corpus_score(metric: Metric, statistics: Statistics) -> float:
    """Return the score of the whole corpus."""
    return metric.score(statistics.sum(axis=0).tolist())
