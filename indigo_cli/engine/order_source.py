"""Batches of a split with the orders of an epoch: a fixed rule, a file, or redrawn."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from indigo_cli.data.batch import Batch
from indigo_cli.data.batching import batch_stream, epoch_batches
from indigo_cli.data.collate import collate
from indigo_cli.data.corpus import Corpus
from indigo_cli.engine.assign import FlatOrders, OrderConfig, orders_for_split
from indigo_cli.orders import ORDERS


class OrderedSplit:
    """A split and the orders of its targets.

    Args:
        corpus: Where it stands.
        name: Of the split.
        order: How its targets are ordered.
        seed: Of redrawn orders and of the batches.
        batch_tokens: See `TrainConfig`.
    """

    def __init__(self, corpus: Corpus, name: str, order: OrderConfig, *, seed: int, batch_tokens: int) -> None:
        self.name = name
        self.order = order
        self.redrawn = order.name in ORDERS and ORDERS[order.name].redrawn
        self._corpus, self._split = corpus, corpus.split(name)
        self._seed, self._batch_tokens = seed, batch_tokens
        self._lengths = np.asarray(self._split.target.lengths), np.asarray(self._split.source.lengths)
        self._epoch = -1
        self._orders: FlatOrders | None = None

    def __len__(self) -> int:
        return len(self._split.lines)

    def orders(self, epoch: int) -> FlatOrders:
        """Return the orders of an epoch, computing them only when they change."""
        epoch = epoch if self.redrawn else 0
        if self._orders is None or epoch != self._epoch:
            self._orders = orders_for_split(self._corpus, self.name, self.order, seed=self._seed, epoch=epoch)
            self._epoch = epoch
        return self._orders

    def batch(self, items: NDArray[np.int64], epoch: int) -> Batch:
        """Collate some items with the orders of an epoch."""
        flat, offsets = self.orders(epoch)
        return collate(
            [f"{self.name}:{line}" for line in self._split.lines[items].tolist()],
            [self._split.source[i] for i in items],
            [self._split.target[i] for i in items],
            [[flat[offsets[i] : offsets[i + 1]].astype(np.int64)] for i in items],
        )

    def stream(self, *, epoch: int, skip: int, max_epochs: int = 0) -> Iterator[tuple[int, int, Batch]]:
        """Yield (epoch, position, batch) from micro-batch `skip` of an epoch on; without end if `max_epochs` is 0."""
        target, source = self._lengths
        for at, position, items in batch_stream(
            target, source, batch_tokens=self._batch_tokens, seed=self._seed, epoch=epoch, skip=skip
        ):
            if max_epochs and at >= max_epochs:
                return
            yield at, position, self.batch(items, at)

    def once(self) -> Iterator[Batch]:
        """Yield every item once, in batches that are always the same."""
        target, source = self._lengths
        for items in epoch_batches(target, source, batch_tokens=self._batch_tokens, seed=0, epoch=0):
            yield self.batch(items, 0)
