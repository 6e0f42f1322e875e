"""In which orders `indigo score` scores targets: a rule, draws, or an orders file; block by block."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from indigo_cli.core import console
from indigo_cli.core.order import Order
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.orders_file import OrdersRow, check_of_target, check_origin, read_order_rows
from indigo_cli.engine.assign import OrderConfig, order_context, parses_for_split
from indigo_cli.engine.parses import Parses
from indigo_cli.engine.search_config import SEARCHED
from indigo_cli.engine.targets import Item
from indigo_cli.errors import DataError, UsageError
from indigo_cli.orders import ORDERS, OrderContext, Rule, Targets

MAX_DRAWS = 10_000
"""All orders of a target are in memory at once."""


class Orders(Protocol):
    """Gives every target its orders, one or more, none of them twice."""

    name: str

    def __call__(self, block: Sequence[Item]) -> list[tuple[Order, ...]]:
        """Return the orders of the next block of the stream."""
        ...

    def finish(self) -> None:
        """Check that the stream has not ended too early."""
        ...


class OwnOrders:
    """Each hypothesis in the order it has."""

    name = "traces"

    def __call__(self, block: Sequence[Item]) -> list[tuple[Order, ...]]:
        """See `Orders`."""
        return [(item.order,) for item in block if item.order is not None]

    def finish(self) -> None:
        """See `Orders`."""


class RuleOrders:
    """A predefined order; of a redrawn one, the draws of the first epochs of a training run with this seed.

    Args:
        name: In ORDERS.
        rule: Of that name.
        contexts: What the rule may look at, one a draw.
        parses: For a rule that needs them; lines of the blocks rise.
    """

    def __init__(
        self, name: str, rule: Rule, contexts: Sequence[OrderContext], *, parses: Parses | None = None
    ) -> None:
        self.name, self._rule, self._contexts, self._parses = name, rule, contexts, parses
        self.redrawn = rule.redrawn

    def __call__(self, block: Sequence[Item]) -> list[tuple[Order, ...]]:
        """See `Orders`."""
        offsets = np.cumsum([0, *(len(item.target) for item in block)], dtype=np.int64)
        tokens = np.array([token for item in block for token in item.target], dtype=np.int64)
        targets = Targets(np.array([item.line for item in block], dtype=np.int64), tokens, offsets)
        contexts = self._contexts
        if self._parses is not None:
            found = zip(block, self._parses((item.line, item.target) for item in block), strict=True)
            contexts = [OrderContext(parses={item.line: parse for item, parse in found if parse is not None})]
        draws = [self._rule.orders(targets, context).tolist() for context in contexts]
        spans = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        return [tuple(dict.fromkeys(tuple(draw[start:stop]) for draw in draws)) for start, stop in spans]

    def finish(self) -> None:
        """See `Orders`."""
        if self._parses is not None:
            self._parses.finish()


class GivenOrders:
    """Orders from the caller, those of each target in turn.

    Args:
        orders: One or more orders of each target, by 0-based surface index.
    """

    name = "given"

    def __init__(self, orders: Iterable[Sequence[Sequence[int]]]) -> None:
        self._orders = iter(orders)

    def __call__(self, block: Sequence[Item]) -> list[tuple[Order, ...]]:
        """See `Orders`.

        Raises:
            DataError: a target without orders, or one that is no order of its tokens.
        """
        return [self._of(item) for item in block]

    def finish(self) -> None:
        """See `Orders`."""
        if next(self._orders, None) is not None:
            raise DataError("there are more orders than targets", where="orders", fix="give those of each target")

    def _of(self, item: Item) -> tuple[Order, ...]:
        where, length = f"orders of target {item.line} (from 0)", len(item.target)
        own = tuple(dict.fromkeys(tuple(order) for order in next(self._orders, ())))
        if not own:
            raise DataError(
                "a target needs at least one order", where=where, fix="give a list of orders for each target"
            )
        for order in own:
            if sorted(order) != list(range(length)):
                what = f"{list(order)} is no order of {length} tokens"
                raise DataError(what, where=where, fix=f"every index from 0 to {length - 1} once")
        return own


class FileOrders:
    """The orders of a file, which must stand in the order of the targets: only one row is in memory.

    Args:
        path: The file.
        split, corpus: What its header must say, if it says anything; empty = whatever it likes.
    """

    def __init__(self, path: Path, *, split: str = "", corpus: str = "") -> None:
        header, self._rows = read_order_rows(path)
        check_origin(header, path, split=split, corpus=corpus)
        self.name = str(header.get("order") or "file")
        self._path, self._last = path, -1

    def __call__(self, block: Sequence[Item]) -> list[tuple[Order, ...]]:
        """See `Orders`.

        Raises:
            DataError: a target without a row, a row without a target, or of another length.
        """
        return [self._orders(item) for item in block]

    def finish(self) -> None:
        """See `Orders`."""
        row = self._next()
        if row is not None:
            raise self._no_target(row)

    def _orders(self, item: Item) -> tuple[Order, ...]:
        row = self._next()
        if row is None or row.id > item.line:
            fix = "every target needs one row, in the order of their ids"
            raise DataError(f"target {item.line} (from 0) has no orders", where=str(self._path), fix=fix)
        if row.id < item.line:
            raise self._no_target(row)
        if len(row.orders[0]) != len(item.target):
            raise DataError(
                f"the orders have {len(row.orders[0])} steps but the target has {len(item.target)} tokens",
                where=f"{row.where}, id {row.id}",
                fix="make the orders from these targets and this vocabulary",
            )
        return tuple(dict.fromkeys(row.orders))

    def _next(self) -> OrdersRow | None:
        row = next(self._rows, None)
        if row is not None:
            where = f"{row.where}, id {row.id}"
            check_of_target(row)
            if row.id == self._last:
                raise DataError(
                    f"id {row.id} stands twice in the file", where=where, fix="one row holds all its orders"
                )
            if row.id < self._last:
                raise DataError(f"id {row.id} comes behind id {self._last}", where=where, fix="sort the file by id")
            self._last = row.id
        return row

    @staticmethod
    def _no_target(row: OrdersRow) -> DataError:
        what, fix = f"there is no target {row.id} (from 0)", "leave out the rows of lines that are not scored"
        return DataError(what, where=f"{row.where}, id {row.id}", fix=fix)


def trained_orders(
    config: OrderConfig, *, split: str, open_corpus: Callable[[], Corpus], seed: int, draws: int
) -> RuleOrders:
    """Return the orders that a run was trained on, l2r where it was trained on those of a file or searched them.

    Args:
        config: The order, see `training_orders.own_order`.
        split: Whose targets are scored; empty for raw text.
        open_corpus: For orders that depend on the training text.
        seed: Of redrawn orders.
        draws: Of a redrawn order, 1 to `MAX_DRAWS`; 1 for any other.

    Raises:
        UsageError: something that the order needs is missing, or a number that cannot be drawn.
    """
    if not 1 <= draws <= MAX_DRAWS:
        what = f"{draws:,} orders a target cannot be drawn"
        raise UsageError(what, where="--draws", fix=f"1 or more, {MAX_DRAWS:,} at most")
    name = config.name
    if name not in ORDERS:
        console.note(
            "the run was trained on orders that it searched: scored in l2r; `indigo search-orders` writes the orders "
            "that it finds for targets, for --orders"
            if name == SEARCHED
            else "the run was trained on the orders of a file, which holds no order of these targets: scored in l2r"
        )
        name, config = "l2r", OrderConfig()
    rule = config.rule
    if draws > 1 and not rule.redrawn:
        raise UsageError(f"{draws} draws of {name} would all be the same order", where="--draws", fix="leave it out")
    if rule.needs == "":
        return RuleOrders(name, rule, [OrderContext(seed=seed, epoch=draw) for draw in range(draws)])
    another = "score in another order: --set order.name=l2r, or --orders FILE"
    if rule.needs == "parses" and not split:
        raise UsageError(f"order {name} needs a parse, and raw text has none", where="order.name", fix=another)
    try:
        corpus = open_corpus()
    except UsageError as error:
        what = f"order {name} needs the training text: {error.what}"
        raise UsageError(what, where=error.where, fix=f"give --corpus, or {another}") from error
    if rule.needs == "parses":
        return RuleOrders(name, rule, [], parses=parses_for_split(corpus, split, config))
    return RuleOrders(name, rule, [order_context(corpus, config)])
