"""Orders of all targets of a split, packed: those of a file, and those that a search found and that are used again."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from indigo_cli.engine.distributed import Processes
from indigo_cli.engine.order_choice import Candidates

Items = NDArray[np.int64]
PREFIX = "search."


class OrderTable:
    """Orders and their log-probabilities, up to K of each target.

    Args:
        orders: (K, sum of T) of any integer type, one target after another.
        scores: (N, K) float32, -inf where there is no order.
        lengths: (N,) words of each target.
    """

    def __init__(self, orders: NDArray[Any], scores: NDArray[np.float32], lengths: Items) -> None:
        self.orders, self.scores = orders, scores
        self._lengths, self._starts = lengths, np.cumsum(lengths) - lengths

    def get(self, items: Items) -> Candidates:
        """Return the candidates of some targets; where there is none, the words in their place."""
        width = int(self._lengths[items].max(initial=0))
        real, places = self._places(items, width)
        orders = np.tile(np.arange(width, dtype=np.int64), (len(items), len(self.orders), 1))
        orders.transpose(1, 0, 2)[:, real] = self.orders[:, places]
        return Candidates(torch.from_numpy(orders), torch.from_numpy(self.scores[items]))

    def put(self, items: Items, candidates: Candidates) -> None:
        """Replace the candidates of some targets; there may be fewer than K."""
        orders, count = candidates.orders.cpu().numpy(), candidates.score.shape[1]
        real, places = self._places(items, orders.shape[2])
        by_rank = orders.transpose(1, 0, 2)
        self.orders[:count, places] = by_rank[:, real]
        self.orders[count:, places] = by_rank[0, real]
        self.scores[items, :count] = candidates.score.cpu().numpy()
        self.scores[items, count:] = -np.inf

    def _places(self, items: Items, width: int) -> tuple[NDArray[np.bool_], Items]:
        """Return (S, width) which words are real, and where in the table these stand."""
        step = np.arange(width)
        real = step < self._lengths[items, None]
        return real, (self._starts[items, None] + step)[real]


class OrderCache:
    """What was found for targets at earlier visits; part of the training state.

    Args:
        lengths: (N,) words of each target.
        num_orders: Most orders that are kept of one.
        refresh: A target is searched again so many epochs after it was searched.
    """

    def __init__(self, lengths: Items, *, num_orders: int, refresh: int) -> None:
        narrow = int(lengths.max(initial=0)) <= np.iinfo(np.int16).max
        orders = np.zeros((num_orders, int(lengths.sum())), dtype=np.int16 if narrow else np.int32)
        self._table = OrderTable(orders, np.full((len(lengths), num_orders), -np.inf, dtype=np.float32), lengths)
        self._searched = np.full(len(lengths), -1, dtype=np.int32)
        self._refresh = refresh
        self._new: list[tuple[int, Items, Candidates]] = []

    def due(self, items: Items, epoch: int) -> NDArray[np.bool_]:
        """Tell which targets are to be searched."""
        searched = self._searched[items]
        due: NDArray[np.bool_] = (searched < 0) | (epoch - searched >= self._refresh)
        return due

    def get(self, items: Items) -> Candidates:
        """Return what is kept of some targets."""
        return self._table.get(items)

    def add(self, items: Items, epoch: int, candidates: Candidates) -> None:
        """Take what was found; it counts from `settle` on, and nobody waits for the device before."""
        self._new.append((epoch, items, candidates))

    def settle(self, processes: Processes) -> None:
        """Keep what all processes found since the last call; every process must call."""
        own = [(epoch, items, found.to(torch.device("cpu"))) for epoch, items, found in self._new]
        self._new = []
        # An update may reach into the next epoch and see an example twice: the later visit counts, whoever made it.
        for epoch, items, found in sorted(processes.lists(own), key=lambda visit: visit[0]):
            self._table.put(items, found)
            self._searched[items] = epoch

    def state(self) -> dict[str, Tensor]:
        """Return what a checkpoint keeps of it; nothing before the first search."""
        if (self._searched < 0).all():
            return {}
        arrays = {"orders": self._table.orders, "scores": self._table.scores, "searched": self._searched}
        return {PREFIX + name: torch.from_numpy(array) for name, array in arrays.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from the state of a checkpoint."""
        if PREFIX + "searched" in state:
            self._table.orders[:] = state[PREFIX + "orders"].numpy()
            self._table.scores[:] = state[PREFIX + "scores"].numpy()
            self._searched[:] = state[PREFIX + "searched"].numpy()
