"""The words of every hypothesis and where they stand: for rules and choices that look at the surface string.

Shape letters: S sentences, B hypotheses a sentence, L words placed, A = L + 1 anchors or slots, C candidates. An anchor
names a slot by its left neighbour in generation order (0 = `<s>`); a slot number counts the words to its left.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from indigo_cli.core.vocab import EOD, PAD

BASE = 0x5851F42D4C957F2D
FACTORS = (-0x61C8864680B583EB, 0x2545F4914F6CDD1D)
"""Odd numbers with well mixed bits; what is computed with them wraps around at 64 bits."""


@dataclass(frozen=True)
class Canvas:
    """A hypothesis that ended keeps its words and gets PAD at its right end, so that all stay equally long.

    Args:
        words: (S, B, L) int64 vocabulary ids in generation order.
        rank: (S, B, L) int64 surface index of each.
    """

    words: Tensor
    rank: Tensor

    @classmethod
    def start(cls, sentences: int, device: torch.device) -> "Canvas":
        """One empty canvas a sentence."""
        empty = torch.zeros(sentences, 1, 0, dtype=torch.int64, device=device)
        return cls(empty, empty)

    def keep(self, index: Tensor) -> "Canvas":
        """Go on with these sentences only."""
        return Canvas(self.words[index], self.rank[index])

    def advance(self, parent_SB: Tensor, word_SB: Tensor, anchor_SB: Tensor) -> "Canvas":
        """Insert a word at an anchor of each parent; `<eod>` and what is carried along insert nothing."""
        placed = word_SB > EOD
        words, rank = of_parents(self.words, parent_SB), of_parents(self.rank, parent_SB)
        slot = of_parents(self.slot_of_anchor, parent_SB).gather(2, anchor_SB[..., None])
        slot = torch.where(placed[..., None], slot, words.shape[2])
        rank = torch.cat((rank + (rank >= slot), slot), dim=2)
        return Canvas(torch.cat((words, torch.where(placed, word_SB, PAD)[..., None]), dim=2), rank)

    @cached_property
    def surface(self) -> Tensor:
        """(S, B, L) words from left to right."""
        return torch.zeros_like(self.words).scatter_(2, self.rank, self.words)

    @cached_property
    def slot_of_anchor(self) -> Tensor:
        """(S, B, A) the number of each slot."""
        return torch.cat((self.rank.new_zeros(*self.rank.shape[:2], 1), self.rank + 1), dim=2)

    @cached_property
    def _powers(self) -> Tensor:
        powers = torch.full((self.words.shape[2] + 1,), BASE, device=self.words.device).cumprod(0)
        return torch.cat((powers.new_ones(1), powers[:-1]))

    @cached_property
    def _prefixes(self) -> Tensor:
        """(S, B, A) key of the words left of each slot: the sum of scrambled words times a power for their index."""
        terms = scrambled(self.surface) * self._powers[:-1]
        return torch.cat((terms.new_zeros(*terms.shape[:2], 1), terms.cumsum(2)), dim=2)

    def inserted_keys(self, parent_SC: Tensor, word_SC: Tensor) -> Tensor:
        """Return (S, C, A): a 64-bit key of the surface string after each candidate has gone to each anchor.

        Two strings have one key with a chance of about 2^-64 only. Found from sums over the words to the left, so that
        no string is ever built. `<eod>` leaves the string as it is.
        """
        slot = of_parents(self.slot_of_anchor, parent_SC)
        prefixes = of_parents(self._prefixes, parent_SC)
        left = prefixes.gather(2, slot)
        keys = left + self._powers[slot] * scrambled(word_SC)[..., None] + BASE * (prefixes[..., -1:] - left)
        return torch.where((word_SC == EOD)[..., None], prefixes[..., -1:], keys)


def of_parents(tensor_SBn: Tensor, parent_SC: Tensor) -> Tensor:
    """Return (S, C, n): the rows of the given hypotheses."""
    return tensor_SBn.gather(1, parent_SC[..., None].expand(-1, -1, tensor_SBn.shape[2]))


def scrambled(number: Tensor) -> Tensor:
    """Return int64 numbers with their bits mixed, one to one; 0 stays 0."""
    for factor in FACTORS:
        number = number * factor
        number = number ^ (number >> 32 & 0xFFFFFFFF)  # a shift of int64 drags the sign along
    return number
