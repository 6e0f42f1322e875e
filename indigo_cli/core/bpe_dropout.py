"""BPE dropout: a word is split by merges some of which are left out, another way each time.

Source: Provilkov, Emelianenko & Voita 2020 (ACL), algorithm 1, in the form of subword-nmt 0.3.8: in each round every
pair of neighbours that is a merge is dropped with probability `rate`, independently and for this round alone; of the
pairs that are left, the best merge is made at all its places, from the left; without a pair left the word is done.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random

Pair = tuple[str, str]

NO_MERGE = 1 << 62
"""Worse than any rank."""


class Drops:
    """Decides about one pair after another, with the draws of a generator.

    What is drawn is how many pairs in a row pass before the next one is dropped (a geometric distribution): the same as
    a draw for each pair, and much cheaper at small rates.

    Args:
        rate: Share of the pairs that is dropped, 0 to 1.
        rng: Where the draws come from.
    """

    def __init__(self, rate: float, rng: Random) -> None:
        if not 0 <= rate <= 1:
            raise ValueError(f"a rate lies in 0 to 1, got {rate}")
        self._log_pass = math.log1p(-rate) if rate < 1 else -math.inf
        self._random = rng.random
        self.passes = self._draw()  # how many pairs pass before the next one is dropped, a whole number or infinity

    def pass_one(self) -> bool:
        """Tell whether the next pair passes."""
        if self.passes:
            self.passes -= 1
            return True
        self.passes = self._draw()
        return False

    def _draw(self) -> float:
        if self._log_pass == 0:
            return math.inf
        return math.log(1 - self._random()) // self._log_pass


def split_dropped(symbols: Sequence[str], ranks: Mapping[Pair, int], drops: Drops) -> list[str]:
    """Return the symbols that a word is split into; without drops those of `BPE.split`, at rate 1 the given ones.

    Args:
        symbols: Of the word, each a character, the last one with its mark of the end.
        ranks: Of each merge, the best one lowest.
        drops: Is used up by as many pairs as are looked at.
    """
    symbols = list(symbols)
    waiting = [ranks.get(pair, NO_MERGE) for pair in pairwise(symbols)]
    while num_pairs := len(waiting) - waiting.count(NO_MERGE):
        if drops.passes >= num_pairs:
            drops.passes -= num_pairs
            left = waiting
        else:
            left = [rank if rank == NO_MERGE or drops.pass_one() else NO_MERGE for rank in waiting]
        best = min(left)
        if best == NO_MERGE:
            break
        place = left.index(best)
        places = [place]
        for _ in range(left.count(best) - 1):
            place = left.index(best, place + 1)
            if place > places[-1] + 1:  # else its left symbol goes into the place before, as in `aaa`
                places.append(place)
        for place in reversed(places):
            symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
            del waiting[place]
            if place:
                waiting[place - 1] = ranks.get((symbols[place - 1], symbols[place]), NO_MERGE)
            if place < len(waiting):
                waiting[place] = ranks.get((symbols[place], symbols[place + 1]), NO_MERGE)
    return symbols


def count_pairs(symbols: Sequence[str], ranks: Mapping[Pair, int]) -> int:
    """Return how many pairs `split_dropped` looks at if none is dropped."""
    drops = Drops(0.5, Random(0))
    drops.passes = start = 1 << 50
    split_dropped(symbols, ranks, drops)
    return int(start - drops.passes)
