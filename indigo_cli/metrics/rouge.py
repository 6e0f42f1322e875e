"""ROUGE-1, ROUGE-2 and ROUGE-L of headlines and summaries, 0 to 1: F1, or the recall of outputs cut at a byte limit.

The figures equal those of the package rouge-score (version 0.1.2) on equal tokens: n-grams in common count as often as
both texts have them, ROUGE-L takes the longest common subsequence of the whole line, and a corpus has the mean over its
lines. Of several references the one with the best figure counts, precision and recall being of that one.

With `rouge_bytes` outputs are cut after so many bytes, as the official script does with `-b` for DUC-2004 (75 bytes),
through the middle of a word, but never of a character; references stay whole. Recall is reported then: it cannot be
raised by writing more than the limit.

The official script averages over references unless it is told to take the best (`-f B`), so figures of papers on
DUC-2004, which has four a headline, are not to be compared with these.

Source: Lin 2004 (ROUGE: a package for automatic evaluation of summaries), sections 2 and 3.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from indigo_cli import __version__
from indigo_cli.metrics.metric import USUAL, Metric, MetricOptions, Part, mean_of
from indigo_cli.metrics.stems import load_stemmer
from indigo_cli.metrics.tokenize import EvaluationTokenizer, load_word_tokenizer

PRECISION, RECALL, F1 = range(3)
"""Places in the statistics; the count of lines follows."""
STEMMED_FROM = 4
"""Shorter words keep their endings, as in rouge-score."""

Matches = Callable[[Sequence[str], Sequence[str]], tuple[int, int, int]]
"""Two texts, the reference first, to what they have in common, and how much of it each of them could have."""


def matching_ngrams(reference: Sequence[str], hypothesis: Sequence[str], n: int) -> tuple[int, int, int]:
    """Return how many n-grams the texts share, each as often as both have it, and how many either has."""
    counts = [Counter(zip(*(words[i:] for i in range(n)), strict=False)) for words in (reference, hypothesis)]
    return (counts[0] & counts[1]).total(), counts[0].total(), counts[1].total()


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, in one pass over `second` with a bit a word of `first`.

    A bit that is 0 says that the subsequence gets longer at that word of `first`; one addition carries over all words.
    Source: Hyyrö 2004 (Bit-parallel LCS-length computation revisited).
    """
    places: dict[str, int] = {}
    for place, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << place
    everything = (1 << len(first)) - 1
    unused = everything
    for word in second:
        matched = unused & places.get(word, 0)
        unused = ((unused + matched) | (unused - matched)) & everything
    return len(first) - unused.bit_count()


def _matching_subsequence(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[int, int, int]:
    return longest_common_subsequence(reference, hypothesis), len(reference), len(hypothesis)


def _unigrams(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[int, int, int]:
    return matching_ngrams(reference, hypothesis, 1)


def _bigrams(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[int, int, int]:
    return matching_ngrams(reference, hypothesis, 2)


class Rouge:
    """Mean over the lines of one kind of match; see the module.

    Args:
        title: `ROUGE-1`, `ROUGE-2` or `ROUGE-L`.
        matches: What counts as in common.
        tokenizer: Lower-cased words.
        stem: Word to stem; None leaves words as they are.
        max_bytes: Of an output; 0 = all, and F1 is the figure instead of recall.
    """

    decimals = 4
    higher_is_better = True
    needs_reference = False

    def __init__(
        self,
        title: str,
        matches: Matches,
        tokenizer: EvaluationTokenizer,
        *,
        stem: Callable[[str], str] | None,
        max_bytes: int,
    ) -> None:
        self.title = title
        self._matches, self._tokenizer, self._stem, self._max_bytes = matches, tokenizer, stem, max_bytes
        self._figure = RECALL if max_bytes else F1

    @property
    def parts(self) -> Mapping[str, Part]:
        """Return precision, recall and F1, but for the one that is the figure itself."""
        places = {"precision": PRECISION, "recall": RECALL, "f1": F1}
        return {
            name: Part(name, mean_of(place), self.decimals, higher_is_better=True)
            for name, place in places.items()
            if place != self._figure
        }

    def stats(self, hypothesis: str, references: Sequence[str], wish: int | None = None) -> Sequence[float]:
        """Return (precision, recall, F1, 1) against the best reference, the first of equally good ones."""
        if self._max_bytes:
            hypothesis = hypothesis.encode("utf-8")[: self._max_bytes].decode("utf-8", "ignore")
        words = self._words(hypothesis)
        figures = [_figures(*self._matches(self._words(line), words)) for line in references]
        return (*max(figures, key=lambda values: values[self._figure]), 1.0)

    def score(self, total: Sequence[float]) -> float:
        """Return the mean over the lines."""
        return mean_of(self._figure)(total)

    def signature(self, *, num_references: int, resamples: int, seed: int) -> str:
        """Return the settings in sacreBLEU's form."""
        limit = f"bytes:{self._max_bytes}|figure:recall" if self._max_bytes else "figure:f1"
        return (
            f"nrefs:{num_references}|bs:{resamples}|seed:{seed}|case:lc|tok:{self._tokenizer.signature}"
            f"|stem:{'porter' if self._stem else 'no'}|{limit}|version:indigo-{__version__}"
        )

    def _words(self, line: str) -> list[str]:
        words = self._tokenizer(line)
        return [self._stem(word) if len(word) >= STEMMED_FROM else word for word in words] if self._stem else words


def _figures(common: int, of_reference: int, of_hypothesis: int) -> tuple[float, float, float]:
    """Return precision, recall and F1; 0 where there is nothing to match."""
    precision, recall = common / max(of_hypothesis, 1), common / max(of_reference, 1)
    return precision, recall, 2 * precision * recall / (precision + recall) if common else 0.0


def _build(title: str, matches: Matches, tokenize: str, options: MetricOptions) -> Metric:
    stem = load_stemmer("evaluate.stemming") if options.stemming else None
    return Rouge(title, matches, load_word_tokenizer(tokenize), stem=stem, max_bytes=options.rouge_bytes)


def build_rouge1(*, tokenize: str, options: MetricOptions = USUAL) -> Metric:
    """Return ROUGE-1: words in common."""
    return _build("ROUGE-1", _unigrams, tokenize, options)


def build_rouge2(*, tokenize: str, options: MetricOptions = USUAL) -> Metric:
    """Return ROUGE-2: pairs of neighbouring words in common."""
    return _build("ROUGE-2", _bigrams, tokenize, options)


def build_rouge_l(*, tokenize: str, options: MetricOptions = USUAL) -> Metric:
    """Return ROUGE-L: the longest common subsequence of words."""
    return _build("ROUGE-L", _matching_subsequence, tokenize, options)
