"""What a metric is.

A metric turns each line into a vector of statistics that may be added over lines, and such a sum into a score. The
score of a corpus is `score(sum of the lines)`; a resample of the corpus (`significance.py`) or a part of it only adds
other lines up, so no line is ever tokenised twice. Further figures of the same statistics are its `parts`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from indigo_cli.core.units import LengthUnit

Statistics = NDArray[np.float64]  # (lines, numbers of the metric)


@dataclass(frozen=True)
class MetricOptions:
    """Settings of single metrics; the builders of the others take no notice of them.

    Args:
        stemming: ROUGE compares stems (Porter), not words.
        rouge_bytes: ROUGE sees so many bytes of an output, and its figure is the recall; 0 = all, F1.
        length_unit: What `length` counts.
        length_limit: Wanted length of every line; 0 = as each line says.
        wish_origin: Where the wanted lengths come from, for signatures.
    """

    stemming: bool = False
    rouge_bytes: int = 0
    length_unit: LengthUnit = "character"
    length_limit: int = 0
    wish_origin: Literal["traces", "reference"] = "reference"


USUAL = MetricOptions()


@dataclass(frozen=True)
class Part:
    """A further figure of a metric, from the same statistics.

    Args:
        title: How to call it beside the metric's own title.
        score: Summed statistics to the figure, finite as `Metric.score` is.
        decimals, higher_is_better: As in `Metric`.
    """

    title: str
    score: Callable[[Sequence[float]], float]
    decimals: int
    higher_is_better: bool


NO_PARTS: Mapping[str, Part] = MappingProxyType({})


class Scores(Protocol):
    """What a resample needs of a metric or of a part of one."""

    @property
    def score(self) -> Callable[[Sequence[float]], float]:
        """Return what turns summed statistics into the figure."""


class Metric(Protocol):
    """A score over lines of text; the names of the members are the contract that every entry of METRICS keeps."""

    title: str
    """How papers spell it."""
    decimals: int
    """Digits after the point that a table shows."""
    higher_is_better: bool
    needs_reference: bool
    """A line without a word of reference has no score by the definition; such a line counts 0 where it is let pass."""

    @property
    def parts(self) -> Mapping[str, Part]:
        """Return further figures by name; most metrics have none."""

    def stats(self, hypothesis: str, references: Sequence[str], wish: int | None = None) -> Sequence[float]:
        """Return the additive statistics of one line against all its references.

        Args:
            wish: The length that was wanted of this line; None if nobody said. Only `length` looks at it.
        """

    def score(self, total: Sequence[float]) -> float:
        """Return the score of summed statistics; finite for every sum of lines, the empty line included."""

    def signature(self, *, num_references: int, resamples: int, seed: int) -> str:
        """Return what somebody needs to compute the same figure again, as `key:value` pairs joined by `|`."""


def corpus_statistics(
    metric: Metric,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    wishes: Sequence[int | None] | None = None,
) -> Statistics:
    """Return the statistics of every line.

    Args:
        hypotheses: One text a line.
        references: One list *per reference file*, each as long as `hypotheses` (not one list per line).
        wishes: The wanted length of each line; None = nobody said of any.
    """
    for lines in references:
        if len(lines) != len(hypotheses):
            raise ValueError(f"{len(hypotheses)} hypotheses but a reference of {len(lines)} lines")
    wanted = [None] * len(hypotheses) if wishes is None else wishes
    rows = [metric.stats(line, refs, wish) for line, wish, *refs in zip(hypotheses, wanted, *references, strict=True)]
    return np.array(rows, dtype=np.float64)


def corpus_score(metric: Scores, statistics: Statistics) -> float:
    """Return the score of the whole corpus."""
    return metric.score(statistics.sum(axis=0).tolist())


def mean_of(place: int) -> Callable[[Sequence[float]], float]:
    """Return what divides the number at `place` by the last one, the count of lines."""
    return lambda total: float(total[place] / total[-1])
