"""What a metric is, and the bootstrap that every metric gets for free.

A metric turns each line into a vector of statistics that may be added over lines, and such a sum into a score. The
score of a corpus is `score(sum of the lines)`; a bootstrap resample only adds the lines up with other weights, so no
line is ever tokenised twice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Statistics = NDArray[np.float64]  # (lines, numbers of the metric)


class Metric(Protocol):
    """A score over lines of text; the names of the members are the contract that every entry of METRICS keeps."""

    decimals: int
    """Digits after the point that a table shows."""
    higher_is_better: bool

    def stats(self, hypothesis: str, references: Sequence[str]) -> Sequence[float]:
        """Return the additive statistics of one line against all its references."""

    def score(self, total: Sequence[float]) -> float:
        """Return the score of summed statistics; finite for every sum of lines, the empty line included."""

    def signature(self, *, num_references: int, resamples: int, seed: int) -> str:
        """Return what somebody needs to compute the same figure again, as `key:value` pairs joined by `|`."""


@dataclass(frozen=True)
class Bootstrap:
    """Resampling of lines with replacement, the same draws for every metric and system (so systems are paired).

    Args:
        num_lines: Lines of the corpus, at least 1.
        resamples: How many corpora of that size to draw.
        seed: With sacreBLEU's own 12345 the draws are the ones of `sacrebleu --confidence`.
    """

    num_lines: int
    resamples: int = 1000
    seed: int = 12345

    def scores(self, metric: Metric, statistics: Statistics) -> NDArray[np.float64]:
        """Return the score of every resample, (resamples,)."""
        return np.array([metric.score(total.tolist()) for total in self.totals(statistics)], dtype=np.float64)

    def totals(self, statistics: Statistics) -> Iterator[NDArray[np.float64]]:
        """Yield the summed statistics of one resample after another; memory stays that of one draw."""
        random = np.random.default_rng(self.seed)
        for _ in range(self.resamples):
            drawn = random.choice(self.num_lines, size=self.num_lines)
            yield np.bincount(drawn, minlength=self.num_lines) @ statistics


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


def interval(scores: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % percentile interval of bootstrap scores, with the bounds sacreBLEU takes (1/40 from each end)."""
    ordered = np.sort(scores)
    cut = len(ordered) // 40
    return float(ordered[cut]), float(ordered[-1 - cut])


def p_value(difference: float, resampled: NDArray[np.float64]) -> float:
    """Return the two-sided p-value of a paired bootstrap: is the true difference of two systems 0?

    Args:
        difference: Score of the system minus that of the baseline on the whole corpus.
        resampled: The same difference on every resample.

    The resampled differences, moved so that their mean is 0, stand for chance. Two equal systems get 1. sacreBLEU's
    `--paired-bs` centres absolute differences instead, which is one-sided where the sign never changes (about half of
    this value) and calls a system different from itself (1 / (resamples + 1)); hence not copied.
    """
    chance = np.abs(resampled - resampled.mean())
    tolerance = 1e-9  # scores are below 100 in size: rounding never makes two equal differences unequal
    as_large = int(np.count_nonzero(chance >= abs(difference) - tolerance))
    return (as_large + 1) / (len(resampled) + 1)
