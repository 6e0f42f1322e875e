"""Words that are given in training: which ones is drawn anew for each visit, by seed, epoch and line alone."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from indigo_cli.core.text import SideCodec
from indigo_cli.data.collate import Ids
from indigo_cli.orders import OrderContext
from indigo_cli.orders.random_order import draw, streams

FIRST_NUMBER = 1 << 40
"""Of the numbers drawn for a target: orders use those below."""


class GivenDraw:
    """Puts the given words of each target in front of its order. The pieces of a word are given together.

    Args:
        codec: Of the targets.
        rate: Share of words that is given on average, between 0 and 1. Of one visit it is drawn evenly from 0 to twice
            that, or above one half from as far below 1: so a run learns from little and from much.
        seed: Of the draws.
    """

    def __init__(self, codec: SideCodec, *, rate: float, seed: int) -> None:
        self._goes_on = np.zeros(len(codec.vocabulary), dtype=np.bool_)
        self._goes_on[codec.continuing] = True
        self._low, self._high = max(0.0, 2 * rate - 1), min(1.0, 2 * rate)
        self._seed = seed

    def first(
        self, targets: Sequence[Ids], orders: Sequence[Ids], *, lines: NDArray[np.int64], epoch: int
    ) -> tuple[list[NDArray[np.int64]], list[int]]:
        """Return the orders, the given words first and from left to right, and how many tokens they are.

        Args:
            targets: Ids of each.
            orders: One of each.
            lines: Raw lines, the keys of the draws.
            epoch: Which visit this is.
        """
        found, counts = [], []
        chances = streams(lines, OrderContext(seed=self._seed, epoch=epoch))
        for target, order, stream in zip(targets, orders, chances, strict=True):
            given = self._drawn(np.asarray(target, dtype=np.int64), stream)
            steps = np.asarray(order, dtype=np.int64)
            found.append(np.concatenate((np.flatnonzero(given), steps[~given[steps]])))
            counts.append(int(given.sum()))
        return found, counts

    def _drawn(self, target: NDArray[np.int64], stream: np.uint64) -> NDArray[np.bool_]:
        """Return (T,) bool: which tokens are given."""
        goes_on = self._goes_on[target]
        word = np.cumsum(np.concatenate(([False], ~goes_on[:-1])))[: len(target)]
        number = FIRST_NUMBER + np.concatenate(([0], 1 + word))
        chance = (draw(np.full(len(number), stream), number) >> np.uint64(11)) * 2.0**-53
        drawn: NDArray[np.bool_] = chance[1:] < self._low + chance[0] * (self._high - self._low)
        return drawn
