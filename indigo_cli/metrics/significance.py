"""Is the difference of two systems more than chance? Paired tests on the statistics of the lines, for every metric.

Both tests hold every metric's score of a corpus against the scores of corpora that chance could have made: the
bootstrap draws lines with replacement (Koehn 2004, EMNLP), approximate randomisation swaps the two outputs of a line
with probability 1/2 (Riezler & Maxwell 2005). The first also gives the intervals of single scores.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from indigo_cli.metrics.metric import Scores, Statistics

TOLERANCE = 1e-9
"""Scores are below 100 in size: rounding never makes two equal differences unequal."""
CHUNK = 4_000_000
"""Swaps drawn at a time: 32 MB as float64."""


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

    def scores(self, metric: Scores, statistics: Statistics) -> NDArray[np.float64]:
        """Return the score of every resample, (resamples,)."""
        return self.scores_of([(metric, statistics)])[0]

    def scores_of(self, systems: Sequence[tuple[Scores, Statistics]]) -> list[NDArray[np.float64]]:
        """Return the same for many metrics and systems at the price of one drawing."""
        found: list[list[float]] = [[] for _ in systems]
        for counts in self.counts():
            for (metric, statistics), scores in zip(systems, found, strict=True):
                scores.append(metric.score((counts @ statistics).tolist()))
        return [np.array(scores, dtype=np.float64) for scores in found]

    def counts(self) -> Iterator[NDArray[np.int64]]:
        """Yield how often each line stands in a resample, one resample after another: memory stays that of one."""
        random = np.random.default_rng(self.seed)
        for _ in range(self.resamples):
            drawn = random.choice(self.num_lines, size=self.num_lines)
            yield np.bincount(drawn, minlength=self.num_lines)


def interval(scores: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % percentile interval of bootstrap scores, with the bounds sacreBLEU takes (1/40 from each end)."""
    ordered = np.sort(scores)
    cut = len(ordered) // 40
    return float(ordered[cut]), float(ordered[-1 - cut])


def bootstrap_p_value(difference: float, resampled: NDArray[np.float64]) -> float:
    """Return the two-sided p-value of a paired bootstrap: is the true difference of two systems 0?

    Args:
        difference: Score of the system minus that of the baseline on the whole corpus.
        resampled: The same difference on every resample.

    The resampled differences, moved so that their mean is 0, stand for chance. Two equal systems get 1. sacreBLEU's
    `--paired-bs` centres absolute differences instead, which is one-sided where the sign never changes (about half of
    this value) and calls a system different from itself (1 / (resamples + 1)); hence not copied.
    """
    return _share_as_large(difference, resampled - resampled.mean())


@dataclass(frozen=True)
class Randomisation:
    """Approximate randomisation: were the outputs of each line dealt to the two systems by a coin?

    Args:
        num_lines: Lines of the corpus, at least 1.
        trials: How many times to deal the whole corpus.
        seed: Of the coin, the same throws for every metric and system.
    """

    num_lines: int
    trials: int = 10_000
    seed: int = 12345

    def differences(self, metric: Scores, system: Statistics, baseline: Statistics) -> NDArray[np.float64]:
        """Return score of one pile minus score of the other for every trial, (trials,)."""
        together = system.sum(axis=0) + baseline.sum(axis=0)
        found = []
        for swaps in self.swaps():
            piles = system.sum(axis=0) + swaps.astype(np.float64) @ (baseline - system)
            found += [metric.score(pile.tolist()) - metric.score((together - pile).tolist()) for pile in piles]
        return np.array(found, dtype=np.float64)

    def swaps(self) -> Iterator[NDArray[np.bool_]]:
        """Yield the throws in chunks, (trials of the chunk, lines)."""
        random = np.random.default_rng(self.seed)
        at_once = max(1, CHUNK // self.num_lines)
        for start in range(0, self.trials, at_once):
            yield random.integers(2, size=(min(at_once, self.trials - start), self.num_lines), dtype=np.bool_)


def randomisation_p_value(difference: float, shuffled: NDArray[np.float64]) -> float:
    """Return the two-sided p-value of approximate randomisation.

    Args:
        difference: Score of the system minus that of the baseline.
        shuffled: What `Randomisation.differences` returned.

    Counts trials whose difference is at least as large, as Riezler & Maxwell do. sacreBLEU's `--paired-ar` counts
    larger ones only, so a system differs from itself there (1 / (trials + 1)); here it has 1.
    """
    return _share_as_large(difference, shuffled)


def _share_as_large(difference: float, chance: NDArray[np.float64]) -> float:
    """Return (1 + how many are at least as far from 0) / (1 + all): the corpus itself is one of chance's."""
    as_large = int(np.count_nonzero(np.abs(chance) >= abs(difference) - TOLERANCE))
    return (as_large + 1) / (len(chance) + 1)
