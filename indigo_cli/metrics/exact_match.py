"""Exact match, 0 to 1: the share of lines that equal one of their references, code point by code point."""

from collections.abc import Sequence

from indigo_cli import __version__
from indigo_cli.metrics.metric import NO_PARTS, USUAL, Metric, MetricOptions


class ExactMatch:
    """Compares the text itself: two spaces inside a string literal count, nothing is stripped, split or normalised.

    Where one of several references is empty, the line has fewer references: no output is not a right one.
    """

    title = "exact match"
    decimals = 4
    higher_is_better = True
    needs_reference = False
    parts = NO_PARTS

    def stats(self, hypothesis: str, references: Sequence[str], wish: int | None = None) -> Sequence[float]:
        """Return (1 if the line is right, 1)."""
        written = [reference for reference in references if reference] or references
        return (float(hypothesis in written), 1.0)

    def score(self, total: Sequence[float]) -> float:
        """Return right lines / lines."""
        right, lines = total
        return right / lines

    def signature(self, *, num_references: int, resamples: int, seed: int) -> str:
        """Return the settings in sacreBLEU's form."""
        return f"nrefs:{num_references}|bs:{resamples}|seed:{seed}|case:mixed|space:yes|version:indigo-{__version__}"


def build(*, tokenize: str, options: MetricOptions = USUAL) -> Metric:
    """Return exact match; it never splits a line, so `tokenize` changes nothing."""
    return ExactMatch()
