"""Byte pair encoding, subword-nmt's model and file format; joining the pieces is exact for every token.

Source: Sennrich, Haddow & Birch 2016 (ACL); codes files are interchangeable with subword-nmt 0.3.8 (version 0.2).
"""

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from indigo_cli.core.recent import remember
from indigo_cli.errors import DataError

CONTINUES = "@@"
"""Ends every piece but the last of a word."""
HEADER = "#version: 0.2"
END_OF_WORD = "</w>"

_LOOKS_CONTINUED = re.compile(r"@@\\*\Z")
_ESCAPED = re.compile(r"@@\\+\Z")

Pair = tuple[str, str]


def learn(word_counts: Mapping[str, int], merges: int) -> str:
    """Return the text of a codes file: a header line, then one merge a line, at most `merges`.

    The same merges as subword-nmt's, several times as fast: pairs wait in a heap, and a merge only touches the words
    that hold its pair. Fewer are learnt when no pair occurs twice any more. Ties go to the pair that sorts last by
    code points, so the codes depend on the counts alone.

    Args:
        word_counts: Tokens (without white space) and how often each occurred.
    """
    learner = _Learner(word_counts)
    codes = [HEADER]
    while len(codes) <= merges and (pair := learner.pop()) is not None:
        codes.append(f"{pair[0]} {pair[1]}")
        learner.merge(pair)
    return "\n".join(codes) + "\n"


class _Learner:
    """Words as symbols, and how often each pair of neighbours occurs in them."""

    def __init__(self, word_counts: Mapping[str, int]) -> None:
        counted = sorted((word, count) for word, count in word_counts.items() if len(word) > 1)
        self._words = [_characters(word) for word, _ in counted]
        self._counts = [count for _, count in counted]
        self._pair_counts: Counter[Pair] = Counter()
        self._words_with: defaultdict[Pair, set[int]] = defaultdict(set)  # may hold words that lost the pair since
        self._keys: dict[str, tuple[int, ...]] = {}
        for word, symbols in enumerate(self._words):
            for pair in pairwise(symbols):
                self._pair_counts[pair] += self._counts[word]
                self._words_with[pair].add(word)
        self._heap = [self._entry(pair) for pair in self._pair_counts]
        heapq.heapify(self._heap)

    def _entry(self, pair: Pair) -> tuple[int, tuple[int, ...], tuple[int, ...], Pair]:
        """Return what sorts the most frequent pair first, and the last by code points among equals."""
        return -self._pair_counts[pair], self._key(pair[0]), self._key(pair[1]), pair

    def _key(self, symbol: str) -> tuple[int, ...]:
        """Return what sorts symbols the other way round."""
        key = self._keys.get(symbol)
        if key is None:
            key = self._keys[symbol] = (*(-ord(character) for character in symbol), 1)
        return key

    def pop(self) -> Pair | None:
        """Return the best pair; None if no pair occurs twice."""
        while self._heap:
            negative, _, _, pair = heapq.heappop(self._heap)
            count = self._pair_counts[pair]
            if count == -negative:
                return pair if count >= 2 else None
            if 0 < count < -negative:  # fell since; had it risen, a better entry would have come before
                heapq.heappush(self._heap, self._entry(pair))
        return None

    def merge(self, pair: Pair) -> None:
        """Make the pair one symbol in every word."""
        changed: Counter[Pair] = Counter()
        for word in self._words_with.pop(pair, ()):
            old, count = self._words[word], self._counts[word]
            new = self._words[word] = _merge(old, pair)
            if len(new) == len(old):
                continue
            for before in pairwise(old):
                changed[before] -= count
            for after in pairwise(new):
                changed[after] += count
                self._words_with[after].add(word)
        for other, difference in changed.items():
            self._pair_counts[other] += difference
            if difference > 0:
                heapq.heappush(self._heap, self._entry(other))


def num_merges(codes: str) -> int:
    """Return how many merges a codes file holds."""
    return len(_parse(codes, where="BPE codes"))


def _parse(codes: str, *, where: str) -> dict[Pair, int]:
    """Return the rank of each pair."""
    lines = codes.removesuffix("\n").split("\n")
    if lines[0] != HEADER:
        raise DataError(
            "this is not a BPE codes file of version 0.2", where=f"{where}:1", fix=f"its first line must be {HEADER!r}"
        )
    ranks: dict[Pair, int] = {}
    for number, line in enumerate(lines[1:], start=2):
        pair = line.split(" ")
        if len(pair) != 2 or not all(pair):
            raise DataError("a merge is two symbols and one blank", where=f"{where}:{number}")
        ranks.setdefault((pair[0], pair[1]), number)
    return ranks


class BPE:
    """Splits words into the pieces that the merges build.

    A continuing piece ends in `@@`. If a word's last piece itself ends in `@@`, or in `@@` and backslashes, it gets
    one more backslash, so that `join` gives back every token, also `foo@@`.

    Args:
        codes: Text of a codes file; the header alone splits words into characters.
        where: Name of the file, for messages.
    """

    def __init__(self, codes: str, *, where: str = "BPE codes") -> None:
        self.codes = codes
        self._ranks = _parse(codes, where=where)
        self._recent = remember(self._split)

    def split(self, word: str) -> tuple[str, ...]:
        """Return the pieces of one word, at least one; n characters take O(n log n)."""
        return self._recent(word)

    def _split(self, word: str) -> tuple[str, ...]:
        symbols = _merge_all(_characters(word), self._ranks)
        last = symbols[-1].removesuffix(END_OF_WORD)
        if _LOOKS_CONTINUED.search(last):
            last += "\\"
        return (*(symbol + CONTINUES for symbol in symbols[:-1]), last)


def _characters(word: str) -> list[str]:
    """Return the symbols that a word starts as; the last one says so."""
    return [*word[:-1], word[-1] + END_OF_WORD]


def _merge(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    """Return the symbols with every occurrence of the pair made one, from the left."""
    merged: list[str] = []
    i = 0
    while i < len(symbols):
        if symbols[i] == pair[0] and i + 1 < len(symbols) and symbols[i + 1] == pair[1]:
            merged.append(pair[0] + pair[1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def _merge_all(symbols: list[str], ranks: Mapping[Pair, int]) -> list[str]:
    """Return the symbols after all merges: of the pairs that stand, always every one of the best rank, from the left.

    A pair waits in a heap under its rank and the place of its left symbol. A merge leaves the new symbol in the left
    place and empties the right one; what waits for a symbol that is gone is passed over.
    """
    symbols = list(symbols)
    left = list(range(-1, len(symbols) - 1))
    right = list(range(1, len(symbols) + 1))
    waiting = [(ranks[pair], place) for place, pair in enumerate(pairwise(symbols)) if pair in ranks]
    heapq.heapify(waiting)
    while waiting:
        rank = waiting[0][0]
        grown: list[int] = []  # pairs that come into being now wait for the next round, even if they rank better
        while waiting and waiting[0][0] == rank:
            _, place = heapq.heappop(waiting)
            after = right[place]
            if after == len(symbols) or ranks.get((symbols[place], symbols[after])) != rank:
                continue
            symbols[place] += symbols[after]
            symbols[after] = ""
            right[place] = right[after]
            if right[place] < len(symbols):
                left[right[place]] = place
            grown.append(place)
        for place in {*grown, *(left[place] for place in grown)}:
            after = right[place] if place >= 0 else len(symbols)
            if after < len(symbols) and (new := ranks.get((symbols[place], symbols[after]))) is not None:
                heapq.heappush(waiting, (new, place))
    return [symbol for symbol in symbols if symbol]


def split_all(bpe: BPE, words: Iterable[str]) -> list[str]:
    """Return the pieces of all words, one after another."""
    return [piece for word in words for piece in bpe.split(word)]


def join(pieces: Sequence[str]) -> list[str]:
    """Return the words of the pieces; a last piece that asks for more (a model may stop there) ends the word."""
    words: list[str] = []
    begun = ""
    for piece in pieces:
        if piece.endswith(CONTINUES):
            begun += piece.removesuffix(CONTINUES)
        else:
            words.append(begun + (piece[:-1] if _ESCAPED.search(piece) else piece))
            begun = ""
    if begun:
        words.append(begun)
    return words
