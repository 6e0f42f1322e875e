"""Batches of a split with the orders of an epoch: a fixed rule, a file, or redrawn."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from indigo_cli.data.batch import Batch, MicroBatch
from indigo_cli.data.batching import batch_stream, cut_for_trees, epoch_batches
from indigo_cli.data.collate import Ids, collate
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.fresh_pieces import FreshPieces, why_no_effect
from indigo_cli.engine.assign import FlatOrders, OrderConfig, order_context, orders_for_split
from indigo_cli.engine.given_words import GivenDraw
from indigo_cli.orders import ORDERS, OrderContext, Targets

_Rows = tuple[Sequence[Ids], Sequence[Ids], Sequence[Ids]]
"""Sources, targets and orders of a batch."""


class OrderedSplit:
    """A split and the orders of its targets.

    Args:
        corpus: Where it stands.
        name: Of the split.
        order: How its targets are ordered.
        seed: Of redrawn orders and of the batches.
        batch_tokens: See `TrainConfig`.
        bpe_dropout: See `TrainConfig`; for training only. Without effect where `why_no_effect` says so.
        given_rate: See `TrainConfig`; for training only.
    """

    def __init__(
        self,
        corpus: Corpus,
        name: str,
        order: OrderConfig,
        *,
        seed: int,
        batch_tokens: int,
        bpe_dropout: float = 0.0,
        given_rate: float = 0.0,
    ) -> None:
        self.name = name
        self.order = order
        self.redrawn = order.name in ORDERS and order.rule.redrawn
        self._corpus, self._split = corpus, corpus.split(name)
        self._seed, self._batch_tokens = seed, batch_tokens
        self._lengths = np.asarray(self._split.target.lengths), np.asarray(self._split.source.lengths)
        self._epoch = -1
        self._orders: FlatOrders | None = None
        self._fresh: dict[str, FreshPieces] = {}  # by side
        if bpe_dropout and not why_no_effect(corpus):
            for side, codec in (("source", corpus.codecs.source), ("target", corpus.codecs.target)):
                self._fresh[side] = FreshPieces(codec, rate=bpe_dropout, key=f"{seed} {name} {side}")
        self._given = GivenDraw(corpus.codecs.target, rate=given_rate, seed=seed) if given_rate else None
        self._context: tuple[int, OrderContext] | None = None

    def __len__(self) -> int:
        return len(self._split.lines)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(N,) tokens of each target, as they are stored."""
        return self._lengths[0]

    def lines(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the raw lines of some items."""
        lines: NDArray[np.int64] = np.asarray(self._split.lines[items], dtype=np.int64)
        return lines

    def parts(self, micro_batch: MicroBatch, num_orders: int) -> list[NDArray[np.int64]]:
        """Return the items of a micro-batch in parts that fit the budget with so many orders of each target."""
        items = micro_batch.items
        cuts = cut_for_trees(self.lengths[items], num_orders=num_orders, batch_tokens=self._batch_tokens)
        return [items[cut] for cut in cuts]

    def orders(self, epoch: int) -> FlatOrders:
        """Return the orders of an epoch, computing them only when they change."""
        epoch = epoch if self.redrawn else 0
        if self._orders is None or epoch != self._epoch:
            self._orders = orders_for_split(self._corpus, self.name, self.order, seed=self._seed, epoch=epoch)
            self._epoch = epoch
        return self._orders

    def batch(self, items: NDArray[np.int64], epoch: int) -> Batch:
        """Collate some items with the orders of an epoch."""
        sources, targets, orders = self._dropped(items, epoch) if self._fresh else self._stored(items, epoch)
        names = [f"{self.name}:{line}" for line in self._split.lines[items].tolist()]
        counts: list[int] = []
        if self._given is not None:
            orders, counts = self._given.first(targets, orders, lines=self.lines(items), epoch=epoch)
        return collate(names, sources, targets, [[order] for order in orders], given=counts)

    def _stored(self, items: NDArray[np.int64], epoch: int) -> _Rows:
        """Return sources, targets and orders as preprocessing made them."""
        flat, offsets = self.orders(epoch)
        return (
            [self._split.source[i] for i in items],
            [self._split.target[i] for i in items],
            [flat[offsets[i] : offsets[i + 1]].astype(np.int64) for i in items],
        )

    def _dropped(self, items: NDArray[np.int64], epoch: int) -> _Rows:
        """Return sources, targets and orders with the words split anew for this epoch."""
        source, target = self._fresh["source"], self._fresh["target"]
        lines = self._split.lines[items].tolist()
        rows = list(zip(items, lines, strict=True))
        sources = [source.draw(self._split.source[i].tolist(), line=line, epoch=epoch) for i, line in rows]
        if self.order.name in ORDERS and self.order.rule.needs != "parses":
            targets = [target.draw(self._split.target[i].tolist(), line=line, epoch=epoch) for i, line in rows]
            return sources, targets, self._rule_orders(lines, targets, epoch)
        flat, offsets = self.orders(epoch)
        drawn = [
            target.draw_in_order(
                self._split.target[i].tolist(), flat[offsets[i] : offsets[i + 1]].tolist(), line=line, epoch=epoch
            )
            for i, line in rows
        ]
        return sources, [ids for ids, _ in drawn], [order for _, order in drawn]

    def _rule_orders(self, lines: list[int], targets: list[list[int]], epoch: int) -> list[Ids]:
        """Return a predefined order of targets that do not stand in the split."""
        if self._context is None or (self._context[0] != epoch and self.redrawn):
            self._context = epoch, order_context(self._corpus, self.order, seed=self._seed, epoch=epoch)
        offsets = np.cumsum([0, *map(len, targets)], dtype=np.int64)
        tokens = np.array([token for target in targets for token in target], dtype=np.int64)
        block = Targets(np.array(lines, dtype=np.int64), tokens, offsets)
        flat = self.order.rule.orders(block, self._context[1])
        return list(np.split(flat.astype(np.int64), offsets[1:-1]))

    def stream(self, *, epoch: int, skip: int, max_epochs: int = 0) -> Iterator[MicroBatch]:
        """Yield micro-batches from number `skip` of an epoch on; without end if `max_epochs` is 0."""
        target, source = self._lengths
        for at, position, items in batch_stream(
            target, source, batch_tokens=self._batch_tokens, seed=self._seed, epoch=epoch, skip=skip
        ):
            if max_epochs and at >= max_epochs:
                return
            yield MicroBatch(at, position, partial(self.batch, items, at), items)

    def once(self) -> Iterator[MicroBatch]:
        """Yield every item once, in batches that are always the same."""
        return self.drawn(0)

    def drawn(self, count: int) -> Iterator[MicroBatch]:
        """Yield some items once, drawn by the seed, all if `count` is 0; the batches are always the same."""
        chosen = np.arange(len(self))
        if 0 < count < len(self):
            chosen = np.sort(np.random.default_rng(self._seed).permutation(len(self))[:count])
        target, source = (lengths[chosen] for lengths in self._lengths)
        batches = epoch_batches(target, source, batch_tokens=self._batch_tokens, seed=0, epoch=0)
        for position, items in enumerate(batches):
            yield MicroBatch(0, position, partial(self.batch, chosen[items], 0), chosen[items])
