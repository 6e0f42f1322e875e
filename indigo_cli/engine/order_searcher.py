"""The best orders of known targets under a loaded run, with their clean prices.

The search itself may run under dropout; what it found is then scored again without, all orders of a target as one
prefix tree. Left to right is scored beside them, for comparison.

Shape letters: S sentences, K orders (left to right is the last), T words.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from indigo_cli.core.order import Order
from indigo_cli.data.batch import Batch, Plan, Source
from indigo_cli.data.batching import cut_for_trees, orders_of_tree, token_batches
from indigo_cli.data.collate import collate
from indigo_cli.data.order_tree import count_nodes
from indigo_cli.data.orders_file import OrdersRow
from indigo_cli.decoding.order_search import FoundOrders, SearchOptions, search_orders
from indigo_cli.engine.loaded_run import LoadedRun
from indigo_cli.engine.order_choice import noise_keys
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.score import best_first, not_finite
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.engine.targets import Item
from indigo_cli.engine.whole_words import whole_words
from indigo_cli.errors import UsageError
from indigo_cli.models import MODELS
from indigo_cli.nn.sentence_dropout import SentenceDropout, sentence_keys

HOST_TOKENS = 4096
"""Target tokens times beam of a batch on a CPU. With less its products are small (twice the time at an eighth of it),
with more short targets wait for longer ones (half as much again at eight times as much; d = 256, beam 8)."""
DEVICE_SHARE = 8
"""On an accelerator, so many times `train.batch_tokens`: what a beam of 8 needs in training, too. A search keeps keys
and values, which are less than an eighth of what is kept for a gradient."""


@dataclass(frozen=True)
class Found:
    """What was found for one target.

    Args:
        row: Its orders, with parts and bound.
        l2r: Log-probability of left to right, nats, whether it is among them or not.
        num_nodes: Of their prefix tree.
    """

    row: OrdersRow
    l2r: float
    num_nodes: int

    def ranked(self, *, with_l2r: bool) -> OrdersRow:
        """Return what an orders file says of the target.

        Args:
            with_l2r: Left to right competes: it takes the place of the worst order where it is better.
        """
        row = replace(self.row, parts=None, bound=None)
        l2r = tuple(range(len(row.orders[0])))
        if not with_l2r or l2r in row.orders:
            return row
        assert row.log_probs is not None
        prices = [*zip(row.log_probs, row.orders, strict=True), (self.l2r, l2r)]
        best = sorted(prices, key=lambda price: -price[0])[: len(row.orders)]  # stable: what was found stands first
        return replace(row, orders=tuple(order for _, order in best), log_probs=tuple(price for price, _ in best))


class OrderSearcher:
    """Searches with one loaded run.

    Args:
        run: In evaluation mode.
        config: How to search; `batch_tokens` bounds target tokens times beam of a batch, 0 = what suits the device.
        seed: Of dropout and noise.
        device: Where the weights are.
        runtime: Precision.

    Raises:
        UsageError: a system without a choice of orders.
    """

    def __init__(
        self, run: LoadedRun, config: SearchConfig, *, seed: int, device: torch.device, runtime: Runtime
    ) -> None:
        check_searchable(run)
        self.run, self.config, self.seed = run, config, seed
        self.device, self.runtime = device, runtime
        usual = HOST_TOKENS if device.type == "cpu" else DEVICE_SHARE * run.recipe.train.batch_tokens
        self.batch_tokens: int = config.batch_tokens or usual
        self._tree_tokens = min(self.batch_tokens, run.recipe.train.batch_tokens)
        self._known = run.system.known
        self._words = whole_words(run.codecs.target, device) if config.whole_words else None

    def find(self, block: Sequence[Item], advance: Callable[[int], None] = lambda count: None) -> list[Found]:
        """Return what is found for each item. Batches are of similar length and never cross the block.

        Args:
            advance: Told how many more items are done.
        """
        found: list[Found | None] = [None] * len(block)
        for places in token_batches(
            np.array([len(item.target) for item in block], dtype=np.int64),
            np.array([len(item.source.ids) for item in block], dtype=np.int64),
            batch_tokens=max(1, self.batch_tokens // self.config.beam_size),
            rng=np.random.default_rng(0),
        ):
            items = [block[place] for place in places]
            for place, result in zip(places, self._batch(items), strict=True):
                found[place] = result
            advance(len(items))
        return [result for result in found if result is not None]

    def _batch(self, items: Sequence[Item]) -> Iterator[Found]:
        batch = collate(
            [f"target {item.line}" for item in items],
            [item.source.ids for item in items],
            [item.target for item in items],
            [[range(len(item.target))] for item in items],
        ).to(self.device)
        with torch.inference_mode(), self.runtime.autocast(self.device):
            found = self._search(batch, [item.line for item in items])
            if self.config.dropout:
                orders = torch.cat((found.orders, batch.plan.orders), dim=1)
                sums = self._clean_sums(items, batch, orders)
            else:
                orders, sums = found.orders, torch.stack((found.word, found.slot, found.end))
        # Empty targets have one order, which is both: the reference joins in the first step of a search.
        free = slice(0, max(orders.shape[1] - 1, 1))
        nodes = count_nodes(batch.target, orders[:, free], batch.lengths).tolist()
        alive = found.alive[:, free].cpu().numpy()
        return _results(items, orders.cpu().numpy(), sums.double().cpu().numpy(), alive, nodes)

    def _search(self, batch: Batch, lines: Sequence[int]) -> FoundOrders:
        """Search; without dropout left to right rides along, and what is found has its clean price already.

        It is the search of a first visit in training (epoch 0).
        """
        config, dropout = self.config, None
        if config.dropout:
            dropout = SentenceDropout(sentence_keys(self.seed, 0, lines).to(self.device), config.dropout)
        return search_orders(
            self._known,
            self._known.encode(batch.source, dropout),
            batch.source.mask,
            batch.target,
            batch.lengths,
            SearchOptions(config.beam_size, slot_weight=config.slot_weight, gumbel=config.gumbel),
            dropout=dropout,
            keys=noise_keys(self.seed, 0, lines).to(self.device) if config.gumbel else None,
            reference=None if dropout else batch.plan.orders[:, 0],
            first_piece=None if self._words is None else self._words.first_pieces(batch.target),
            with_end=dropout is None,
        )

    def _clean_sums(self, items: Sequence[Item], batch: Batch, orders_SKT: Tensor) -> Tensor:
        """Return (3, S, K) log-probabilities of words, slots and `<eod>`, without dropout; in trees that fit."""
        lengths = np.array([len(item.target) for item in items], dtype=np.int64)
        cuts = cut_for_trees(lengths, num_orders=orders_SKT.shape[1], batch_tokens=self._tree_tokens)
        return torch.cat([self._sums_of_trees(items[cut], batch, orders_SKT[cut], cut) for cut in cuts], dim=1)

    def _sums_of_trees(self, items: Sequence[Item], batch: Batch, orders_SKT: Tensor, some: slice) -> Tensor:
        """See `_clean_sums`; for some sentences of a batch.

        Where a tree of all orders of one target would be too large, a few orders at a time are one.
        """
        lengths = batch.lengths[some]
        count, length = orders_SKT.shape[1:]
        each = orders_of_tree(length, num_orders=count, batch_tokens=self._tree_tokens)
        sums = []
        for orders in orders_SKT.split(each, dim=1):
            steps = self.run.system.log_probs(
                replace(
                    batch,
                    ids=batch.ids[some],
                    source=Source(batch.source.values[some], batch.source.mask[some]),
                    target=batch.target[some],
                    lengths=lengths,
                    plan=Plan(orders, torch.full(orders.shape[:2], 1.0, device=self.device)),
                    num_tokens=sum(len(item.target) for item in items),
                )
            )
            words, slots = steps.words.double(), steps.slots.double()
            end = words.gather(2, lengths[:, None, None].expand(-1, orders.shape[1], 1))[..., 0]
            sums.append(torch.stack((words.sum(dim=2) - end, slots.sum(dim=2), end)))
        return torch.cat(sums, dim=2)


def _results(
    items: Sequence[Item],
    orders_SKT: NDArray[np.int64],
    sums_3SK: NDArray[np.float64],
    alive_SB: NDArray[np.bool_],
    nodes_S: Sequence[int],
) -> Iterator[Found]:
    """Yield the orders that exist, and the price of left to right, which stands last.

    Raises:
        RunError: the model's numbers have broken.
    """
    sums_S3K = sums_3SK.swapaxes(0, 1)
    for item, orders, sums, alive, nodes in zip(items, orders_SKT, sums_S3K, alive_SB, nodes_S, strict=True):
        places, l2r = np.flatnonzero(alive), float(sums[:, -1].sum())
        if not len(places) or not np.isfinite(l2r):
            raise not_finite(item)
        own: list[Order] = [tuple(orders[k, : len(item.target)].tolist()) for k in places]
        yield Found(best_first(item, own, sums[:, places]), l2r=l2r, num_nodes=nodes)


def check_searchable(run: LoadedRun) -> None:
    """Refuse a run whose orders cannot be searched.

    Raises:
        UsageError: it generates in one order only, or chooses the position first.
    """
    system, where = run.recipe.system, str(run.folder.path)
    if MODELS[system].orders is not None:
        what = f"system {system!r} generates l2r only: there are no orders to search"
        raise UsageError(what, where=where, fix='train a run with model.system = "indigo"')
    if MODELS[system].parallel:
        what = f"system {system!r} inserts many words at once: there is no search for orders of its rounds"
        raise UsageError(what, where=where, fix='train a run with model.system = "indigo"')
    if run.system.greedy_only:
        what = "a model that predicts the position first does not rank orders by words"
        raise UsageError(what, where=where, fix='train a run with model.predict = "word_first"')
