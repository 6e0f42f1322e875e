"""Orders files: a JSON header line, then the orders of one target a line. Users may write their own."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indigo_cli.core.format import shorten
from indigo_cli.core.order import Order, check_order
from indigo_cli.data.files import is_finite, open_output, read_header, read_jsonl
from indigo_cli.errors import DataError

FORMAT = "indigo-orders"
VERSION = 1
DIGITS = 6
"""Significant digits of a log-probability."""
ROW = 'a row is {"id": 0, "orders": [[2, 0, 1]]}, with the indices of the target\'s tokens from 0'
NUMBERS = "leave it out where no model gave it, or write the file again with `indigo score`"


@dataclass(frozen=True)
class Parts:
    """Sums of log-probabilities over the steps of each order, nats.

    Args:
        words, slots: Of the insertions.
        ends: Of `<eod>`; None where it was not asked for: an unfinished hypothesis.
    """

    words: tuple[float, ...]
    slots: tuple[float, ...]
    ends: tuple[float | None, ...]


@dataclass(frozen=True)
class OrdersRow:
    """The orders of one target, best first.

    Args:
        id: 0-based raw line of the split.
        orders: One or more orders of the same length.
        log_probs: Of each order, nats; None where no model gave them.
        where: `file:line`, for messages.
        parts: What each of `log_probs` is the sum of; only from `indigo score`.
        bound: Logarithm of the added probabilities of all orders of the row, which differ: a lower bound on
            log p(target | source), nats; only from `indigo score`.
        rank: Of the hypothesis of a traces file that was scored; such rows may share their id.
    """

    id: int
    orders: tuple[Order, ...]
    log_probs: tuple[float, ...] | None = None
    where: str = ""
    parts: Parts | None = None
    bound: float | None = None
    rank: int | None = None


@dataclass(frozen=True)
class OrdersFile:
    """The orders of every kept target of a split, in the order of the split.

    Args:
        header: As it stands in the file.
        orders: (K, sum of T) int32, best first; no order twice. Where a target has fewer, its first one again.
        counts: (N,) how many orders each target has.
        scores: (K, N) float64 log-probabilities, nats; NaN where there is no order, or no number for it.
    """

    header: Mapping[str, Any]
    orders: NDArray[np.int32]
    counts: NDArray[np.int64]
    scores: NDArray[np.float64]

    @property
    def flat(self) -> NDArray[np.int32]:
        """(sum of T,) first orders."""
        first: NDArray[np.int32] = self.orders[0]
        return first

    @property
    def log_probs(self) -> NDArray[np.float64] | None:
        """(N,) log-probabilities of the first orders; None unless every row has them."""
        return None if np.isnan(self.scores[0]).any() else self.scores[0]


def write_orders(
    path: Path | str, header: Mapping[str, object], rows: Iterable[OrdersRow], *, overwrite: bool = False
) -> None:
    """Write a complete file or none.

    Args:
        path: `-` is standard output; compressed by suffix.
        header: At least order, split and corpus; format and version are added.
        rows: In the order of the split.
        overwrite: Replace a file that stands.
    """
    with open_output(path, overwrite=overwrite) as stream:
        stream.write(json.dumps({"format": FORMAT, "version": VERSION, **header}, ensure_ascii=False) + "\n")
        for row in rows:
            stream.write(dump_object(row_fields(row)))


def row_fields(row: OrdersRow) -> dict[str, object]:
    """Return what a line says of a row; `parse_row` reads it."""
    fields: dict[str, object] = {"id": row.id}
    if row.rank is not None:
        fields["rank"] = row.rank
    fields["orders"] = row.orders
    if row.log_probs is not None:
        fields["log_probs"] = [shorten_number(p) for p in row.log_probs]
    if row.parts is not None:
        fields["word_log_probs"] = [shorten_number(p) for p in row.parts.words]
        fields["slot_log_probs"] = [shorten_number(p) for p in row.parts.slots]
        fields["end_log_probs"] = [None if p is None else shorten_number(p) for p in row.parts.ends]
    if row.bound is not None:
        fields["bound"] = shorten_number(row.bound)
    return fields


def dump_object(fields: Mapping[str, object]) -> str:
    """Return a line of JSON."""
    return json.dumps(fields, separators=(",", ":"), allow_nan=False) + "\n"


def shorten_number(log_prob: float) -> float:
    """Round a log-probability to the digits that a file holds; -0.0 becomes 0.0."""
    return float(f"{log_prob:.{DIGITS}g}") + 0.0


def read_order_rows(path: Path | str) -> tuple[dict[str, Any], Iterator[OrdersRow]]:
    """Return the header and an iterator over the rows; every order is checked to be a permutation.

    Raises:
        DataError: with file and line.
    """
    lines = read_jsonl(path)
    header = read_header(lines, path=path, format=FORMAT, version=VERSION)
    return header, (parse_row(fields, f"{path}:{number}") for number, fields in lines)


def parse_row(fields: Mapping[str, Any], where: str) -> OrdersRow:
    """Check one object and return it as a row."""
    target_id, orders = fields.get("id"), fields.get("orders")
    if type(target_id) is not int or target_id < 0:
        raise DataError(f"id must be a raw line number from 0, not {shorten(target_id)}", where=where, fix=ROW)
    if not isinstance(orders, list) or not orders or not all(isinstance(order, list) for order in orders):
        raise DataError("orders must be a list of one or more lists", where=f"{where}, id {target_id}", fix=ROW)
    for order in orders:
        try:
            check_order(order, len(orders[0]))
        except ValueError as error:
            raise DataError(
                str(error), where=f"{where}, id {target_id}", fix="an order lists every token index of the target once"
            ) from error
    read = _Numbers(fields, len(orders), f"{where}, id {target_id}")
    return OrdersRow(
        target_id,
        tuple(tuple(order) for order in orders),
        log_probs=read.of_orders("log_probs"),
        where=where,
        parts=read.parts(),
        bound=read.one("bound"),
        rank=read.rank(),
    )


class _Numbers:
    """Typed access to what a row may say beside its orders, with messages that name file, line and field."""

    def __init__(self, fields: Mapping[str, Any], count: int, where: str) -> None:
        self._fields, self._count, self._where = fields, count, where

    def of_orders(self, name: str) -> tuple[float, ...] | None:
        """Return one number an order; None if the row says nothing."""
        values = self._list(name)
        return None if values is None else tuple(self._finite(name, value) for value in values)

    def parts(self) -> Parts | None:
        """Return the parts if all of them are there."""
        words, slots, ends = self.of_orders("word_log_probs"), self.of_orders("slot_log_probs"), self._ends()
        return None if words is None or slots is None or ends is None else Parts(words, slots, ends)

    def one(self, name: str) -> float | None:
        """Return one number; None if the row says nothing."""
        value = self._fields.get(name)
        return None if value is None else self._finite(name, value)

    def rank(self) -> int | None:
        """Return the rank; None if the row says nothing."""
        value = self._fields.get("rank")
        if value is not None and (type(value) is not int or value < 1):
            raise DataError(f"rank must be a number from 1, not {shorten(value)}", where=self._where, fix=NUMBERS)
        return value

    def _ends(self) -> tuple[float | None, ...] | None:
        values = self._list("end_log_probs")
        if values is None:
            return None
        return tuple(None if value is None else self._finite("end_log_probs", value) for value in values)

    def _list(self, name: str) -> list[Any] | None:
        values = self._fields.get(name)
        if values is None:
            return None
        if not isinstance(values, list) or len(values) != self._count:
            what = f"{name} must be a list with one number for each of the {self._count} orders"
            raise DataError(what, where=self._where, fix=NUMBERS)
        return values

    def _finite(self, name: str, value: Any) -> float:
        if not is_finite(value):
            what = f"{name} holds {shorten(value)}, not a finite number"
            raise DataError(what, where=self._where, fix=NUMBERS)
        return float(value)


def read_orders(
    path: Path | str,
    *,
    ids: Sequence[int] | NDArray[np.int64],
    lengths: Sequence[int] | NDArray[np.int64],
    split: str = "",
    corpus: str = "",
    first_only: bool = False,
) -> OrdersFile:
    """Read the orders of every kept target; rows may stand in any order.

    Args:
        path: The file.
        ids: (N,) raw line of each kept target.
        lengths: (N,) its tokens.
        split: What the header must say, if it says anything.
        corpus: Digest that the header must say, if it says anything.
        first_only: Leave out all but the first one.

    Raises:
        DataError: another split or corpus, a row that is no permutation of its target, a row too many or too few.
    """
    header, rows = read_order_rows(path)
    check_origin(header, path, split=split, corpus=corpus)
    item_of = {target_id: item for item, target_id in enumerate(np.asarray(ids).tolist())}
    sizes = np.asarray(lengths, dtype=np.int64)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    orders = [np.empty(int(offsets[-1]), dtype=np.int32)]  # by rank
    scores = [np.full(len(sizes), np.nan)]
    counts = np.zeros(len(sizes), dtype=np.int64)
    seen = np.zeros(len(sizes), dtype=bool)
    for row in rows:
        item = item_of.get(row.id)
        where = f"{row.where}, id {row.id}"
        check_of_target(row)
        if item is None:
            raise DataError(
                f"line {row.id} (from 0) is not a kept target of split {split!r}",
                where=where,
                fix="leave out the rows of pairs that `indigo preprocess` dropped",
            )
        if seen[item]:
            raise DataError(f"id {row.id} stands twice in the file", where=where, fix="one row holds all its orders")
        if len(row.orders[0]) != sizes[item]:
            raise DataError(
                f"order has {len(row.orders[0])} steps but the target has {sizes[item]} tokens",
                where=where,
                fix="make the orders from this corpus, e.g. with `indigo reorder`",
            )
        seen[item] = True
        numbers = row.log_probs or (np.nan,) * len(row.orders)
        different: dict[Order, float] = {}
        for order, log_prob in zip(row.orders[: 1 if first_only else None], numbers, strict=False):
            different.setdefault(order, log_prob)
        counts[item] = len(different)
        while len(orders) < len(different):
            orders.append(np.empty_like(orders[0]))
            scores.append(np.full(len(sizes), np.nan))
        for rank, (order, log_prob) in enumerate(different.items()):
            orders[rank][offsets[item] : offsets[item + 1]] = order
            scores[rank][item] = log_prob
    if not seen.all():
        missing = int(np.asarray(ids)[np.argmin(seen)])
        raise DataError(
            f"{int((~seen).sum())} of {len(seen)} targets have no order, the first is id {missing}",
            where=str(path),
            fix="every kept target of the split needs one row",
        )
    for rank in range(1, len(orders)):
        np.copyto(orders[rank], orders[0], where=np.repeat(counts <= rank, sizes))
    return OrdersFile(header, np.stack(orders), counts, np.stack(scores))


def check_of_target(row: OrdersRow) -> None:
    """Refuse the row of a scored hypothesis: it is no order of the split's target."""
    if row.rank is not None:
        raise DataError(
            "this is the order of a hypothesis (it has a rank), not of a target",
            where=f"{row.where}, id {row.id}",
            fix="score the targets of the split themselves: `indigo score RUN --split NAME`",
        )


def check_origin(header: Mapping[str, Any], path: Path | str, *, split: str, corpus: str) -> None:
    """Refuse a file whose header names another split or corpus."""
    if split and header.get("split", split) != split:
        what = f"these are orders of split {header['split']!r}, not {split!r}"
        raise DataError(what, where=f"{path}:1", fix="take the orders that belong to it")
    if corpus and header.get("corpus", corpus) != corpus:
        raise DataError(
            "these orders were made for another corpus (the digests differ)",
            where=f"{path}:1",
            fix="run `indigo reorder` on this corpus",
        )
