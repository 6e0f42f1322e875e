"""Repetition, 0 to 1, less is better: the share of n-grams of a line that stood in it before, n from 1 to 4.

Of a line with N n-grams, D of them different, N - D are repeats, and its share is (N - D) / N; a line too short for an
n-gram repeats none. The share of a corpus is the mean over its lines, and the figure the mean over the four n; the
shares for each n are its parts. References are not looked at: text by people repeats words, too, so a figure says
something only beside that of the references or of another system.

Source: Lin, Ma, Su & Sun 2018 (arXiv 1802.01812), Figure 4, which gives a bar for each n.
"""

from collections.abc import Mapping, Sequence

from indigo_cli import __version__
from indigo_cli.metrics.metric import USUAL, Metric, MetricOptions, Part, mean_of
from indigo_cli.metrics.tokenize import EvaluationTokenizer, load_tokenizer

LONGEST = 4


def repeated_share(tokens: Sequence[str], n: int) -> float:
    """Return the share of n-grams that stood before; 0 where there is no n-gram."""
    ngrams = [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]
    return (len(ngrams) - len(set(ngrams))) / len(ngrams) if ngrams else 0.0


class Repetition:
    """On evaluation tokens as they are written: `The` and `the` are two words."""

    title = "repetition"
    decimals = 4
    higher_is_better = False
    needs_reference = False

    def __init__(self, tokenizer: EvaluationTokenizer) -> None:
        self._tokenizer = tokenizer

    @property
    def parts(self) -> Mapping[str, Part]:
        """Return the share for each n."""
        return {
            f"{n}-grams": Part(f"{n}-grams", mean_of(n - 1), self.decimals, higher_is_better=False)
            for n in range(1, LONGEST + 1)
        }

    def stats(self, hypothesis: str, references: Sequence[str], wish: int | None = None) -> Sequence[float]:
        """Return (share of repeated 1-grams, ..., share of repeated 4-grams, 1)."""
        tokens = self._tokenizer(hypothesis)
        return (*(repeated_share(tokens, n) for n in range(1, LONGEST + 1)), 1.0)

    def score(self, total: Sequence[float]) -> float:
        """Return the mean over the lines and the four n."""
        *shares, lines = total
        return sum(shares) / LONGEST / lines

    def signature(self, *, num_references: int, resamples: int, seed: int) -> str:
        """Return the settings in sacreBLEU's form."""
        return (
            f"nrefs:{num_references}|bs:{resamples}|seed:{seed}|case:mixed|tok:{self._tokenizer.signature}"
            f"|n:1-{LONGEST}|version:indigo-{__version__}"
        )


def build(*, tokenize: str, options: MetricOptions = USUAL) -> Metric:
    """Return the share of repeats on the tokens of one of sacreBLEU's tokenisers."""
    return Repetition(load_tokenizer(tokenize))
