"""Traces files: a JSON header line, then how one hypothesis grew, one object a line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from indigo_cli.core.format import shorten
from indigo_cli.core.order import Order, Slots, check_order, order_to_slots
from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.data.files import is_finite, read_header, read_jsonl
from indigo_cli.errors import DataError

FORMAT = "indigo-traces"
VERSION = 1
DIGITS = 9
"""Significant digits of a log-probability: a float32 survives."""
AGAIN = "write the file again, e.g. with `indigo decode --format jsonl`: it may be damaged"


@dataclass(frozen=True)
class TraceRecord:
    """One hypothesis of a traces file; CONTRACT.md says what each field means.

    Args:
        id: 0-based line of the input.
        rank: From 1.
        score: What ranks it.
        log_prob: Sum of all parts, nats.
        text: Detokenised.
        tokens: In surface order, as the vocabulary spells them.
        order: Surface index of each insertion.
        slots: Slot of each insertion.
        rounds: Round of each insertion; -1 for given words, which come first.
        word_log_probs: log p(word) of each insertion, nats.
        slot_log_probs: log p(slot | word) of each insertion, nats.
        close_log_probs: Of the slots closed (parallel systems).
        end_log_prob: Of `<eod>` (serial systems); None if it never came.
        finished: False if the search ran out of steps.
        merged_log_prob: Of all traces of the string; None if strings were not merged.
        ids: Vocabulary ids in surface order; None if the writer left them out.
        open_gaps: See `GenerationTrace`.
        wish: How long the text was to be, in the header's `length_unit`; None if nobody said.
        where: `file:line`, for messages.
    """

    id: int
    rank: int
    score: float
    log_prob: float
    text: str
    tokens: tuple[str, ...]
    order: Order
    slots: Slots
    rounds: tuple[int, ...]
    word_log_probs: tuple[float, ...]
    slot_log_probs: tuple[float, ...]
    close_log_probs: tuple[float, ...]
    end_log_prob: float | None
    finished: bool
    merged_log_prob: float | None = None
    ids: tuple[int, ...] | None = None
    open_gaps: tuple[int, ...] | None = None
    where: str = ""
    wish: int | None = None

    @property
    def given(self) -> int:
        """How many words stood before the first round."""
        return sum(round_number < 0 for round_number in self.rounds)

    def trace(self) -> GenerationTrace:
        """Return the trace with vocabulary ids.

        Raises:
            DataError: the file holds no ids.
        """
        if self.ids is None:
            raise DataError("this trace has no vocabulary ids", where=self.where, fix="write it with `indigo decode`")
        words = [self.ids[index] for index in self.order]
        steps = zip(words, self.slots, self.rounds, self.word_log_probs, self.slot_log_probs, strict=True)
        insertions = tuple(Insertion(*step) for step in steps)
        return GenerationTrace(insertions, self.close_log_probs, self.end_log_prob, self.open_gaps)


def trace_row(
    line: int, rank: int, hypothesis: Hypothesis, *, text: str, tokens: Sequence[str], wish: int | None = None
) -> dict[str, object]:
    """Return the object of one line.

    Args:
        line: 0-based line of the input.
        rank: From 1.
        hypothesis: What the search found.
        text: Its detokenised text.
        tokens: Its tokens in surface order, as the vocabulary spells them.
        wish: How long it was to be.
    """
    trace = hypothesis.trace
    row: dict[str, object] = {
        "id": line,
        "rank": rank,
        "score": _shorten(hypothesis.score),
        "log_prob": _shorten(trace.log_prob),
        "text": text,
        "tokens": list(tokens),
        "order": list(trace.order()),
        "slots": list(trace.slots()),
        "rounds": list(trace.rounds()),
        "word_log_probs": [_shorten(insertion.word_log_prob) for insertion in trace.insertions],
        "slot_log_probs": [_shorten(insertion.slot_log_prob) for insertion in trace.insertions],
        "close_log_probs": [_shorten(p) for p in trace.close_log_probs],
        "end_log_prob": None if trace.end_log_prob is None else _shorten(trace.end_log_prob),
        "finished": hypothesis.finished,
        "ids": trace.tokens(),
    }
    if hypothesis.merged_log_prob is not None:
        row["merged_log_prob"] = _shorten(hypothesis.merged_log_prob)
    if wish is not None:
        row["wish"] = wish
    if trace.given:
        row["given"] = trace.given
        if trace.open_gaps is not None:
            row["open_gaps"] = list(trace.open_gaps)
    return row


def _shorten(value: float) -> float:
    """Round to the digits that a file holds; -0.0 becomes 0.0."""
    return float(f"{value:.{DIGITS}g}") + 0.0


def dump_header(header: Mapping[str, object]) -> str:
    """Return the header line without its end; format and version are added."""
    return json.dumps({"format": FORMAT, "version": VERSION, **header}, ensure_ascii=False)


def dump_row(row: Mapping[str, object]) -> str:
    """Return the line of `trace_row` without its end."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def read_traces(path: Path | str) -> tuple[dict[str, Any], Iterator[TraceRecord]]:
    """Return the header and an iterator over the hypotheses, each checked to be consistent in itself.

    Raises:
        DataError: with file and line.
    """
    lines = read_jsonl(path)
    header = read_header(lines, path=path, format=FORMAT, version=VERSION)
    return header, (parse_row(fields, f"{path}:{number}") for number, fields in lines)


def parse_row(fields: Mapping[str, Any], where: str) -> TraceRecord:
    """Check one object and return it as a record."""
    read = _Fields(fields, where)
    tokens = read.items("tokens", str)
    count = len(tokens)
    order = read.items("order", int)
    try:
        check_order(order, count)
    except ValueError as error:
        raise DataError(str(error), where=f"{where}, order", fix=AGAIN) from error
    slots = read.items("slots", int, count)
    if slots != order_to_slots(order):
        raise DataError("slots and order do not describe the same insertions", where=f"{where}, slots", fix=AGAIN)
    rounds = read.items("rounds", int, count)
    if any(a > b for a, b in pairwise(rounds)) or (rounds and rounds[0] < -1):
        raise DataError("rounds must not fall, and only given words have -1", where=f"{where}, rounds", fix=AGAIN)
    given = rounds.count(-1)
    if "given" in fields and read.whole("given", 0) != given:
        raise DataError(f"given must be {given}, as rounds say", where=f"{where}, given", fix=AGAIN)
    open_gaps = read.items("open_gaps", int) if fields.get("open_gaps") is not None else None
    if open_gaps is not None and (not given or any(a >= b for a, b in pairwise((-1, *open_gaps, given + 1)))):
        what = f"open_gaps must rise from 0 to at most {given}, the number of given words, of which there must be some"
        raise DataError(what, where=f"{where}, open_gaps", fix=AGAIN)
    return TraceRecord(
        id=read.whole("id", 0),
        rank=read.whole("rank", 1),
        score=read.number("score"),
        log_prob=read.number("log_prob"),
        text=read.one("text", str),
        tokens=tokens,
        order=order,
        slots=slots,
        rounds=rounds,
        word_log_probs=read.numbers("word_log_probs", count),
        slot_log_probs=read.numbers("slot_log_probs", count),
        close_log_probs=read.numbers("close_log_probs"),
        end_log_prob=read.number_or_none("end_log_prob"),
        finished=read.one("finished", bool),
        merged_log_prob=read.number_or_none("merged_log_prob") if "merged_log_prob" in fields else None,
        ids=read.items("ids", int, count) if fields.get("ids") is not None else None,
        open_gaps=open_gaps,
        where=where,
        wish=read.whole("wish", 0) if fields.get("wish") is not None else None,
    )


class _Fields:
    """Typed access to one JSON object, with messages that name file, line and field."""

    def __init__(self, fields: Mapping[str, Any], where: str) -> None:
        self._fields = fields
        self._where = where

    def _get(self, name: str) -> Any:
        if name not in self._fields:
            raise DataError(f"the field {name!r} is missing", where=self._where, fix=AGAIN)
        return self._fields[name]

    def _wrong(self, name: str, wanted: str) -> DataError:
        return DataError(f"{name} must be {wanted}", where=f"{self._where}, {name}", fix=AGAIN)

    def one(self, name: str, kind: type[Any]) -> Any:
        """Return a value of exactly this type."""
        value = self._get(name)
        if type(value) is not kind:
            raise self._wrong(name, f"a {kind.__name__}, not {shorten(value)}")
        return value

    def whole(self, name: str, least: int) -> int:
        """Return a whole number that is not below `least`."""
        value: int = self.one(name, int)
        if value < least:
            raise self._wrong(name, f"{least} or more, not {value}")
        return value

    def number(self, name: str) -> float:
        """Return a finite number."""
        value = self._get(name)
        if not is_finite(value):
            raise self._wrong(name, f"a finite number, not {shorten(value)}")
        return float(value)

    def number_or_none(self, name: str) -> float | None:
        """Return a finite number, or None for null."""
        return None if self._get(name) is None else self.number(name)

    def numbers(self, name: str, count: int | None = None) -> tuple[float, ...]:
        """Return a list of finite numbers."""
        values = self._list(name, count)
        if not all(is_finite(value) for value in values):
            raise self._wrong(name, "a list of finite numbers")
        return tuple(float(value) for value in values)

    def items(self, name: str, kind: type[Any], count: int | None = None) -> tuple[Any, ...]:
        """Return a list whose items are exactly of this type."""
        values = self._list(name, count)
        if not all(type(value) is kind for value in values):
            raise self._wrong(name, f"a list of {kind.__name__}")
        return tuple(values)

    def _list(self, name: str, count: int | None) -> list[Any]:
        values = self._get(name)
        if not isinstance(values, list):
            raise self._wrong(name, "a list")
        if count is not None and len(values) != count:
            raise self._wrong(name, f"as long as tokens ({count}), it has {len(values)} items")
        return values
