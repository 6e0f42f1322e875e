"""Length beside the length that was wanted: the share of lines within it, 0 to 1, and how far they are off.

The wanted length of a line is the first of these that there is: `length_limit`, the same for all lines; the wish that
decoding was given, which traces hold; the length of the reference, of several the one that comes nearest (of two, the
shorter). A line is within it if it is not longer. Lengths are of the plain text: characters are code points, words are
runs of what is no white space, tokens those of `evaluate.tokenize`.

The mean squared difference is what Takase & Okazaki 2019 call variance (after Liu, Luo & Zhu 2018).
"""

from collections.abc import Mapping, Sequence

from indigo_cli import __version__
from indigo_cli.core.units import TEXT_LENGTHS
from indigo_cli.metrics.metric import USUAL, Metric, MetricOptions, Part, mean_of
from indigo_cli.metrics.tokenize import EvaluationTokenizer, load_tokenizer

WITHIN, ABSOLUTE, SQUARED, UNUSED = range(4)
"""Places in the statistics; the count of lines follows."""


class Length:
    """See the module; the figure is the share of lines within the wanted length."""

    title = "within length"
    decimals = 4
    higher_is_better = True
    needs_reference = False

    def __init__(self, options: MetricOptions, tokenizer: EvaluationTokenizer) -> None:
        self._options = options
        self._tokens = f"|tok:{tokenizer.signature}" if options.length_unit == "token" else ""
        self._tokenizer = tokenizer

    @property
    def parts(self) -> Mapping[str, Part]:
        """Return the mean absolute and squared difference, in units, and the unused share of the room."""
        return {
            "absolute": Part("mean absolute difference", mean_of(ABSOLUTE), 2, higher_is_better=False),
            "squared": Part("mean squared difference", mean_of(SQUARED), 2, higher_is_better=False),
            "unused": Part("unused room", mean_of(UNUSED), self.decimals, higher_is_better=False),
        }

    def _count(self, line: str) -> int:
        """Return the length of a line."""
        unit = self._options.length_unit
        return len(self._tokenizer(line)) if unit == "token" else TEXT_LENGTHS[unit](line)

    def stats(self, hypothesis: str, references: Sequence[str], wish: int | None = None) -> Sequence[float]:
        """Return (1 if within, absolute difference, its square, share of the room left over, 1)."""
        length = self._count(hypothesis)
        wanted = self._options.length_limit or wish
        if wanted is None:
            wanted = min(map(self._count, references), key=lambda other: (abs(other - length), other))
        difference = length - wanted
        unused = max(0, -difference) / wanted if wanted else 0.0
        return (float(difference <= 0), float(abs(difference)), float(difference**2), unused, 1.0)

    def score(self, total: Sequence[float]) -> float:
        """Return lines within the wanted length / lines."""
        return mean_of(WITHIN)(total)

    def signature(self, *, num_references: int, resamples: int, seed: int) -> str:
        """Return the settings in sacreBLEU's form."""
        wish = self._options.length_limit or self._options.wish_origin
        return (
            f"nrefs:{num_references}|bs:{resamples}|seed:{seed}|unit:{self._options.length_unit}{self._tokens}"
            f"|wish:{wish}|version:indigo-{__version__}"
        )


def build(*, tokenize: str, options: MetricOptions = USUAL) -> Metric:
    """Return the comparison of lengths in `options.length_unit`."""
    return Length(options, load_tokenizer(tokenize))
