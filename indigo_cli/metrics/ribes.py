"""RIBES, 0 to 1: are the words in the right order? NKT * P^alpha * BP^beta, alpha 0.25, beta 0.10, best reference.

Every word of the output is aligned with at most one place of the reference (`align`). NKT is the share of pairs of
aligned words that stand in the reference's order (Kendall's tau moved to 0..1), P the aligned words / words of the
output, BP = min(1, exp(1 - words of the reference / words of the output)). A corpus has the mean over its lines, so the
statistics of a line are its score and a count.

Source: Isozaki, Hirao, Duh, Sudoh, Tsukada 2010 (EMNLP); defaults and details as in the authors' program, RIBES 1.03.1.
The two differ where a word stands more than once: the program asks the context on its left first, the paper (and NLTK)
the one on its right. "she fed the cat because she was fond of small animals" against "she was fond of small animals
because she fed the cat" has 0.309091 by the program, and so here, 0.381818 by the paper.
"""

import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from indigo_cli import __version__
from indigo_cli.metrics.metric import NO_PARTS, USUAL, Metric, MetricOptions
from indigo_cli.metrics.tokenize import EvaluationTokenizer, load_tokenizer

ALPHA = 0.25
BETA = 0.10


def align(hypothesis: Sequence[str], reference: Sequence[str]) -> list[int]:
    """Return the place in the reference of every aligned word, in the order of the hypothesis.

    A word is aligned by the shortest n-gram that ends with it (its left context) or begins with it (its right context)
    and stands exactly once in the hypothesis and exactly once in the reference; of two equally short ones the left
    counts. A word that is unique in both texts needs no context. Two words may get one place: each then has a context
    of its own.
    """
    last = len(hypothesis) - 1
    left = _contexts(hypothesis, reference)
    mirrored = _contexts(hypothesis[::-1], reference[::-1])
    places = []
    for index, before in enumerate(left):
        after = mirrored[last - index]
        if before is not None and (after is None or before[0] <= after[0]):
            places.append(before[1])
        elif after is not None:
            places.append(len(reference) - 1 - after[1])
    return places


def _contexts(hypothesis: Sequence[str], reference: Sequence[str]) -> list[tuple[int, int] | None]:
    """Return for each word how many words of left context decide its place, and that place; None if none does.

    With `context` words before it, a word has one place in the reference if that many agree with the best place and not
    with the second best, and it is itself unique if they agree with no other place of the hypothesis.
    """
    result: list[tuple[int, int] | None] = []
    pairs = zip(_agreements(hypothesis, reference), _agreements(hypothesis, hypothesis), strict=True)
    for index, (there, here) in enumerate(pairs):
        lengths = sorted(there.values(), reverse=True)
        second = lengths[1] if len(lengths) > 1 else 0
        context = max(second, max((length for place, length in here.items() if place != index), default=0))
        result.append((context, max(there, key=there.__getitem__)) if there and context < lengths[0] else None)
    return result


def _agreements(words: Sequence[str], others: Sequence[str]) -> Iterator[Mapping[int, int]]:
    """Yield for each word {place where it stands in `others`: how many words up to there agree, itself included}."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(others):
        places[word].append(place)
    agreeing: dict[int, int] = {}
    for word in words:
        agreeing = {place: agreeing.get(place - 1, 0) + 1 for place in places.get(word, ())}
        yield agreeing


def ordered_share(places: Sequence[int]) -> float:
    """Return the share of pairs that ascend; equal places do not. At least two places."""
    ascending = 0
    seen: list[int] = []
    for place in places:
        ascending += bisect_left(seen, place)
        insort(seen, place)
    return ascending / math.comb(len(places), 2)


def sentence_ribes(hypothesis: Sequence[str], reference: Sequence[str]) -> float:
    """Return the score of one line against one reference, both as tokens; 0 if either is empty.

    A single aligned word has no pairs: it scores 0, or the reference is that one word and NKT is 1.
    """
    if not hypothesis or not reference:
        return 0.0
    places = align(hypothesis, reference)
    if len(places) > 1:
        share = ordered_share(places)
    else:
        share = float(len(places) == len(reference) == 1)
    precision = len(places) / len(hypothesis)
    brevity = min(1.0, math.exp(1.0 - len(reference) / len(hypothesis)))
    return float(share * precision**ALPHA * brevity**BETA)


class Ribes:
    """Mean of the lines' scores on evaluation tokens in lower case, the default of the authors' program."""

    title = "RIBES"
    decimals = 4
    higher_is_better = True
    needs_reference = True
    parts = NO_PARTS

    def __init__(self, tokenizer: EvaluationTokenizer) -> None:
        self._tokenizer = tokenizer

    def stats(self, hypothesis: str, references: Sequence[str], wish: int | None = None) -> Sequence[float]:
        """Return (score against the best reference, 1)."""
        tokens = self._tokens(hypothesis)
        return (max(sentence_ribes(tokens, self._tokens(line)) for line in references), 1.0)

    def score(self, total: Sequence[float]) -> float:
        """Return the mean over the lines."""
        scores, lines = total
        return scores / lines

    def signature(self, *, num_references: int, resamples: int, seed: int) -> str:
        """Return the settings in sacreBLEU's form."""
        return (
            f"nrefs:{num_references}|bs:{resamples}|seed:{seed}|case:lc|tok:{self._tokenizer.signature}"
            f"|alpha:{ALPHA:g}|beta:{BETA:g}|version:indigo-{__version__}"
        )

    def _tokens(self, line: str) -> list[str]:
        return [token.lower() for token in self._tokenizer(line)]


def build(*, tokenize: str, options: MetricOptions = USUAL) -> Metric:
    """Return RIBES on the tokens of one of sacreBLEU's tokenisers."""
    return Ribes(load_tokenizer(tokenize))
