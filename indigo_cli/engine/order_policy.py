"""In which orders micro-batches are trained on: given ones, several of a file, or searched ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from indigo_cli.data.batch import Batch, MicroBatch
from indigo_cli.engine.distributed import Processes
from indigo_cli.engine.order_choice import chances, num_kept, plan_of
from indigo_cli.engine.order_planner import OrderPlanner, Searching
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.order_table import OrderCache, OrderTable
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.models.protocol import Planner

Items = NDArray[np.int64]


@dataclass(frozen=True)
class TrainPart:
    """One forward and backward.

    Args:
        batch: On the host.
        planner: Finds its orders; None = they are those of its plan.
        num_searched: Sentences that the planner searches.
    """

    batch: Batch
    planner: Planner | None = None
    num_searched: int = 0


class OrderPolicy(Protocol):
    """Decides in which orders micro-batches are trained on."""

    tallied: bool
    """Whether the log says how much was searched, and how much orders have in common."""

    def parts(self, step: int, micro_batch: MicroBatch) -> Sequence[TrainPart]:
        """Return the parts of a micro-batch of an update, one or more."""
        ...

    def settle(self, processes: Processes) -> None:
        """Share out what was found in an update; every process calls it behind its last part."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Return what a checkpoint keeps."""
        ...

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from the state of a checkpoint."""
        ...


class GivenOrders:
    """Every micro-batch as it stands in the stream."""

    tallied = False

    def parts(self, step: int, micro_batch: MicroBatch) -> Sequence[TrainPart]:
        """See `OrderPolicy`."""
        return [TrainPart(micro_batch.load())]

    def settle(self, processes: Processes) -> None:
        """See `OrderPolicy`."""

    def state(self) -> dict[str, Tensor]:
        """See `OrderPolicy`."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `OrderPolicy`."""


class SeveralOrders(GivenOrders):
    """Several orders of each target, as a file has them: one drawn at each visit, or all as a tree.

    Args:
        split: Whose first orders are those of the file.
        table: All of them.
        config: Its `train_on` is `sample` or `average`.
        seed: Of the draws.
    """

    tallied = True

    def __init__(self, split: OrderedSplit, table: OrderTable, config: SearchConfig, *, seed: int) -> None:
        self._split, self._table, self._config, self._seed = split, table, config, seed
        self._num_orders = len(table.orders) if config.train_on == "average" else 1

    def parts(self, step: int, micro_batch: MicroBatch) -> Sequence[TrainPart]:
        """See `OrderPolicy`."""
        return [self._part(items, micro_batch.epoch) for items in self._split.parts(micro_batch, self._num_orders)]

    def _part(self, items: Items, epoch: int) -> TrainPart:
        batch = self._split.batch(items, epoch)
        chance = chances(self._seed, epoch, self._split.lines(items).tolist())
        return TrainPart(replace(batch, plan=plan_of(self._table.get(items), self._config, chance)))


class SearchedOrders:
    """Orders that the model finds itself, after some updates in a predefined order.

    The stream of micro-batches is the same in both phases.

    Args:
        bootstrap: The training split in the order of the first updates.
        split: The same in the order of the reference, or in any where there is none.
        searching: How to search.
        bootstrap_updates: How many updates do not search.
    """

    tallied = True

    def __init__(
        self, bootstrap: OrderedSplit, split: OrderedSplit, searching: Searching, *, bootstrap_updates: int
    ) -> None:
        config = searching.config
        self._bootstrap, self._split, self._searching = bootstrap, split, searching
        self._bootstrap_updates = bootstrap_updates
        self._num_orders = config.beam_size if config.train_on == "average" else 1
        self._cache: OrderCache | None = None
        if config.refresh > 1:
            self._cache = OrderCache(split.lengths, num_orders=num_kept(config), refresh=config.refresh)

    def parts(self, step: int, micro_batch: MicroBatch) -> Sequence[TrainPart]:
        """See `OrderPolicy`."""
        if step <= self._bootstrap_updates:
            return [TrainPart(self._bootstrap.batch(micro_batch.items, micro_batch.epoch))]
        return [self._part(items, micro_batch.epoch) for items in self._split.parts(micro_batch, self._num_orders)]

    def _part(self, items: Items, epoch: int) -> TrainPart:
        batch, lines, cache = self._split.batch(items, epoch), self._split.lines(items), self._cache
        if cache is None:
            planner = OrderPlanner(self._searching, epoch, lines, np.ones(len(items), dtype=np.bool_))
            return TrainPart(batch, planner, num_searched=len(items))
        due = cache.due(items, epoch)
        found = partial(cache.add, items[due], epoch)
        kept = None if due.all() else cache.get(items)
        return TrainPart(batch, OrderPlanner(self._searching, epoch, lines, due, kept, found), int(due.sum()))

    def settle(self, processes: Processes) -> None:
        """See `OrderPolicy`."""
        if self._cache is not None:
            self._cache.settle(processes)

    def state(self) -> dict[str, Tensor]:
        """See `OrderPolicy`."""
        return {} if self._cache is None else self._cache.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `OrderPolicy`."""
        if self._cache is not None:
            self._cache.restore(state)
