"""BPE dropout in training: the words of a stored item are split anew for each visit, by rules that say when one is not.

A word keeps its usual pieces if they are not all known (`<unk>` tells nothing of its characters), and if the vocabulary
lacks a piece of the new ones. What is drawn depends on seed, epoch, split, line and side alone: not on batches, ranks
or processes, and a resumed run draws the same.
"""

from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import NamedTuple

from indigo_cli.core.bpe import CONTINUES, characters, join
from indigo_cli.core.bpe_dropout import Drops, count_pairs, split_dropped
from indigo_cli.core.text import SideCodec
from indigo_cli.core.vocab import NUM_SPECIALS, UNK
from indigo_cli.data.corpus import Corpus

REMEMBERED_WORDS = 1 << 16


class _Word(NamedTuple):
    """A word that can be split in more than one way.

    Args:
        symbols: Its characters, as merging starts from them.
        num_pairs: How many pairs of them merging looks at if none is dropped.
    """

    symbols: list[str]
    num_pairs: int


class FreshPieces:
    """Splits the words of one side of a split anew.

    Args:
        codec: Of the side; it has a BPE.
        rate: Of dropped merges, see `bpe_dropout`.
        key: Names run, split and side: two sides with different keys draw different splits.
    """

    def __init__(self, codec: SideCodec, *, rate: float, key: str) -> None:
        if codec.bpe is None:
            raise ValueError("words can only be split anew where BPE has split them")
        self._bpe, self._vocabulary = codec.bpe, codec.vocabulary
        self._rate, self._key = rate, key
        tokens = enumerate(self._vocabulary.tokens, start=NUM_SPECIALS)
        self._continuing = {token_id for token_id, token in tokens if token.endswith(CONTINUES)}
        self._word = lru_cache(REMEMBERED_WORDS)(self._read_word)

    def draw(self, ids: Sequence[int], *, line: int, epoch: int) -> list[int]:
        """Return the ids of the same words, split anew for this visit of a line."""
        drops = self._drops(line, epoch)
        drawn: list[int] = []
        for start, stop in self._bounds(ids):
            drawn += self._fresh(tuple(ids[start:stop]), drops)
        return drawn

    def draw_in_order(
        self, ids: Sequence[int], order: Sequence[int], *, line: int, epoch: int
    ) -> tuple[list[int], list[int]]:
        """Return new ids and their order: where the order had the pieces of a word, the new ones come, left to right.

        That is said only of a word whose pieces the order has one directly after another, from left to right; the
        others keep their pieces, and those their places.
        """
        drops = self._drops(line, epoch)
        step_of = [0] * len(order)
        for step, place in enumerate(order):
            step_of[place] = step
        drawn: list[int] = []
        places_at: list[Sequence[int]] = [()] * len(order)  # by step: the new places that are generated in its stead
        for start, stop in self._bounds(ids):
            word, first = tuple(ids[start:stop]), step_of[start]
            together = step_of[start:stop] == list(range(first, first + stop - start))
            fresh = self._fresh(word, drops) if together else word
            if together:
                places_at[first] = range(len(drawn), len(drawn) + len(fresh))
            else:
                for place in range(start, stop):
                    places_at[step_of[place]] = (len(drawn) + place - start,)
            drawn += fresh
        return drawn, [place for places in places_at for place in places]

    def _drops(self, line: int, epoch: int) -> Drops:
        return Drops(self._rate, Random(f"{self._key} {epoch} {line}"))

    def _bounds(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return (start, stop) of each word."""
        stops = [stop for stop, token_id in enumerate(ids, start=1) if token_id not in self._continuing]
        if ids and (not stops or stops[-1] < len(ids)):
            stops.append(len(ids))
        return list(zip([0, *stops], stops, strict=False))

    def _fresh(self, ids: tuple[int, ...], drops: Drops) -> Sequence[int]:
        """Return the ids of one word, split anew; it uses up draws only if there is something to drop."""
        word = self._word(ids)
        if word is None:
            return ids
        if drops.passes >= word.num_pairs:  # nothing is dropped: no need to do all the merges
            drops.passes -= word.num_pairs
            return ids
        fresh = self._vocabulary.encode(self._bpe.spell(split_dropped(word.symbols, self._bpe.ranks, drops)))
        return ids if UNK in fresh else fresh

    def _read_word(self, ids: tuple[int, ...]) -> _Word | None:
        """Return the word of usual pieces; None if there is only one way to split it, or it cannot be read."""
        if UNK in ids:
            return None
        symbols = characters(join(self._vocabulary.decode(ids))[0])
        num_pairs = count_pairs(symbols, self._bpe.ranks)
        return _Word(symbols, num_pairs) if num_pairs else None


def why_no_effect(corpus: Corpus) -> str:
    """Return why the words of a corpus cannot be split anew; empty if they can."""
    codecs = corpus.codecs
    if codecs.source_is_bag:
        return "the source is a bag of the target's pieces"
    if not any(codec.bpe is not None and codec.bpe.ranks for codec in (codecs.source, codecs.target)):
        return "the vocabulary has no BPE merges"
    return ""
