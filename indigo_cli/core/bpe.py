"""Byte pair encoding, subword-nmt's model and file format; joining the pieces is exact for every token.

Source: Sennrich, Haddow & Birch 2016 (ACL); codes files are interchangeable with subword-nmt 0.3.8 (version 0.2).
"""

import heapq
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from indigo_cli.core.bpe_learner import END_OF_WORD, learn_pairs
from indigo_cli.core.rare_pieces import origins, split_rare
from indigo_cli.core.recent import remember
from indigo_cli.errors import DataError

CONTINUES = "@@"
"""Ends every piece but the last of a word."""
HEADER = "#version: 0.2"

_LOOKS_CONTINUED = re.compile(r"@@\\*\Z")
_ESCAPED = re.compile(r"@@\\+\Z")

Pair = tuple[str, str]


def learn(word_counts: Mapping[str, int], merges: int) -> str:
    """Return the text of a codes file: a header line, then one merge a line, at most `merges`.

    The same merges as subword-nmt's; see `bpe_learner`. Fewer are learnt when no pair occurs twice any more. Ties go to
    the pair that sorts last by code points, so the codes depend on the counts alone.

    Args:
        word_counts: Tokens (without white space) and how often each occurred.
    """
    pairs = learn_pairs(word_counts, merges)
    return "\n".join([HEADER, *(f"{first} {second}" for first, second in pairs)]) + "\n"


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
            fix = "restore the file that `indigo preprocess` or subword-nmt wrote"
            raise DataError("a merge is two symbols and one blank", where=f"{where}:{number}", fix=fix)
        ranks.setdefault((pair[0], pair[1]), number)
    return ranks


class BPE:
    """Splits words into the pieces that the merges build.

    A continuing piece ends in `@@`. If a word's last piece itself ends in `@@`, or in `@@` and backslashes, it gets
    one more backslash, so that `join` gives back every token, also `foo@@`.

    Args:
        codes: Text of a codes file; the header alone splits words into characters.
        where: Name of the file, for messages.
        pieces: What a side shows often enough: other pieces are split further, see `split_rare`. None lets all stay.
    """

    def __init__(self, codes: str, *, where: str = "BPE codes", pieces: Collection[str] | None = None) -> None:
        self.codes = codes
        self.pieces = None if pieces is None else frozenset(pieces)
        self.ranks = _parse(codes, where=where)  # of each merge, the first one lowest
        # A second symbol that is the mark itself was spelt so in the text: split off, it would be an empty piece.
        self._origin = {} if pieces is None else origins(pair for pair in self.ranks if pair[1] != END_OF_WORD)
        self._recent = remember(self._split)

    def split(self, word: str) -> tuple[str, ...]:
        """Return the pieces of one word, at least one; n characters take O(n log n)."""
        return self._recent(word)

    def _split(self, word: str) -> tuple[str, ...]:
        return self.spell(_merge_all(characters(word), self.ranks))

    def spell(self, symbols: Sequence[str]) -> tuple[str, ...]:
        """Return the pieces that the symbols of one word are written as."""
        if self.pieces is not None:
            symbols = split_rare(symbols, self._origin, self._stays)
        return (*(symbol + CONTINUES for symbol in symbols[:-1]), _last_piece(symbols[-1]))

    def _stays(self, symbol: str) -> bool:
        """Tell whether a side shows the symbol often enough."""
        piece = _last_piece(symbol) if symbol.endswith(END_OF_WORD) else symbol + CONTINUES
        return self.pieces is None or piece in self.pieces


def _last_piece(symbol: str) -> str:
    """Return the piece that ends a word."""
    last = symbol.removesuffix(END_OF_WORD)
    return last + "\\" if _LOOKS_CONTINUED.search(last) else last


def characters(word: str) -> list[str]:
    """Return the symbols that a word starts as; the last one says so."""
    return [*word[:-1], word[-1] + END_OF_WORD]


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
