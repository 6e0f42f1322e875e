"""What `indigo show` says about traces and orders files, each read in one pass."""

import io
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from indigo_cli.core.console import stdout_console
from indigo_cli.core.format import check_header
from indigo_cli.data import orders_file, traces_file
from indigo_cli.data.corpus import MANIFEST, Corpus
from indigo_cli.data.files import STANDARD_STREAM, atomic_write_text, read_jsonl, refuse_existing
from indigo_cli.data.orders_file import OrdersRow
from indigo_cli.data.traces_file import TraceRecord
from indigo_cli.engine.display import growth, growth_of_order, printable, relations
from indigo_cli.engine.order_stats import OrderStats
from indigo_cli.engine.side_by_side import Column, SideBySide, column_names, statistics
from indigo_cli.errors import DataError, UsageError

PLAIN_WIDTH = 120
"""Cells of a line where there is no terminal to ask."""
HIDDEN = ("format", "version", "corpus")
"""Header fields that say nothing to a reader."""
DIGEST_DIGITS = 12
"""Enough to see whether two digests are the same."""

Rows = Iterator[tuple[int, dict[str, Any]]]


@dataclass(frozen=True)
class Sentence:
    """One hypothesis, or one order of a target.

    Args:
        title: Which it is.
        tokens: In surface order; None if nobody knows them.
        order: Surface index of each word.
        given: Words that stood before the first step; the order starts with them.
        growth: How it grew, for the terminal.
    """

    title: str
    tokens: Sequence[str] | None
    order: Sequence[int]
    given: int
    growth: RenderableType


@dataclass(frozen=True)
class View:
    """What a file says: figures of all its lines, and the first; or the one line asked for, without figures.

    Args:
        name: Short, and not that of another file beside it.
        title: What was counted, and where.
        facts: What the file says about itself.
        stats: Of the whole file; empty where one line was asked for.
        sentence: None only for a file without lines.
    """

    name: str
    title: str
    facts: Mapping[str, str]
    stats: OrderStats
    sentence: Sentence | None


def read_views(
    paths: Sequence[Path | str], *, line: int | None = None, rank: int = 1, corpus: Path | None = None
) -> list[View]:
    """Read files.

    Args:
        paths: Traces and orders files; one may be `-`, standard input.
        line: Only this line; None reads whole files.
        rank: Which hypothesis of a line (traces), or which of its orders.
        corpus: Where the words of orders files are; None looks beside each.

    Raises:
        DataError: neither kind of file, or a damaged one.
        UsageError: no such line or rank; standard input twice.
    """
    if [str(path) for path in paths].count(STANDARD_STREAM) > 1:
        raise UsageError("standard input (-) can stand for one file only", fix="write the other one to a file")
    names = column_names(paths)
    return [
        _read_view(path, name, line=line, rank=rank, corpus=corpus) for path, name in zip(paths, names, strict=True)
    ]


def _read_view(path: Path | str, name: str, *, line: int | None, rank: int, corpus: Path | None) -> View:
    rows = read_jsonl(path)
    number, header = next(rows, (1, {}))
    kinds = {
        traces_file.FORMAT: (traces_file.VERSION, "hypotheses", _read_traces),
        orders_file.FORMAT: (orders_file.VERSION, "orders", _read_orders),
    }
    kind = str(header.get("format"))
    if kind not in kinds:
        raise DataError(
            "this is neither a traces file nor an orders file",
            where=f"{path}:{number}",
            fix="show what `indigo decode --format jsonl` or `indigo reorder` wrote",
        )
    version, what, reader = kinds[kind]
    check_header(header, where=f"{path}:{number}", format=kind, version=version)
    stats, sentence = reader(path, header, rows, line=line, rank=rank, corpus=corpus)
    if line is not None and sentence is None:
        raise UsageError(
            f"there is no line {line} with rank {rank}", where=str(path), fix="lines count from 0, ranks from 1"
        )
    facts = {
        key: _shorten(str(value))
        for key, value in header.items()
        if key not in HIDDEN and isinstance(value, str | int) and value != ""
    }
    return View(name, f"{what} of rank {rank} in {path}", facts, stats, sentence)


def _shorten(value: str) -> str:
    return f"{value[:DIGEST_DIGITS]}…" if re.fullmatch("[0-9a-f]{40,}", value) else value


def _read_traces(
    path: Path | str, header: Mapping[str, Any], rows: Rows, *, line: int | None, rank: int, corpus: Path | None
) -> tuple[OrderStats, Sentence | None]:
    stats, chosen = OrderStats(), None
    for number, fields in rows:
        record = traces_file.parse_row(fields, f"{path}:{number}")
        if record.rank != rank:
            continue
        if line is None:
            stats.add_trace(record)
            chosen = chosen or record
        elif record.id == line:
            chosen = record
            break
    return stats, None if chosen is None else _hypothesis(chosen)


def _hypothesis(record: TraceRecord) -> Sentence:
    title = f"line {record.id}, rank {record.rank}"
    return Sentence(title, record.tokens, record.order, record.given, growth(record))


def _read_orders(
    path: Path | str, header: Mapping[str, Any], rows: Rows, *, line: int | None, rank: int, corpus: Path | None
) -> tuple[OrderStats, Sentence | None]:
    words = _Words(path, header, corpus)
    stats, chosen = OrderStats(), None
    for number, fields in rows:
        row = orders_file.parse_row(fields, f"{path}:{number}")
        if line is None:
            stats.add_target(row, words.of(row), rank=rank)
        fits = rank <= len(row.orders) if row.rank is None else rank == row.rank
        if fits and line in (None, row.id):
            chosen = chosen or row
            if line is not None:
                break
    return stats, None if chosen is None else _target(chosen, rank, words)


def _target(row: OrdersRow, rank: int, words: "_Words") -> Sentence:
    place = rank - 1 if row.rank is None else 0
    order = row.orders[place]
    tokens = words.of(row)
    title = f"line {row.id}, " + (f"order {rank} of {len(row.orders)}" if row.rank is None else f"rank {rank}")
    if row.log_probs is not None:
        title += f", log p {row.log_probs[place]:.3f}"
    return Sentence(title, tokens, order, 0, growth_of_order(tokens, order, title=title))


def present(views: Sequence[View], *, line: int | None = None) -> list[RenderableType]:
    """Return what to print.

    Of one file: its figures, and how its first line grew, with the relations between the words. Of several: their
    figures as columns of one table, or with `line` how that line grew in each.
    """
    columns = [Column(view.name, view.title, view.facts, view.stats.rows()) for view in views]
    if len(views) > 1:
        return [statistics(columns)] if line is None else [SideBySide([_named(view) for view in views])]
    sentence = views[0].sentence
    shown = [] if line is not None else [statistics(columns), Text("")]
    if sentence is not None:
        shown += [sentence.growth, Text(""), relations(sentence.tokens, sentence.order)]
    return shown


def _named(view: View) -> RenderableType:
    assert view.sentence is not None, "a line that is not there has been refused"
    return Group(Text(printable(view.name), "bold"), view.sentence.growth)


class _Words:
    """Words of the targets of an orders file, where its corpus can be found."""

    def __init__(self, path: Path | str, header: Mapping[str, Any], folder: Path | None) -> None:
        self._corpus: Corpus | None = None
        if folder is None and not (Path(path).parent / MANIFEST).is_file():
            return
        corpus = Corpus.open(folder or Path(path).parent)
        split = str(header.get("split", ""))
        if header.get("corpus", corpus.digest) == corpus.digest and split in corpus.splits:
            self._corpus = corpus
            self._target = corpus.split(split).target
            self._item_of = {target_id: item for item, target_id in enumerate(corpus.split(split).lines.tolist())}
        elif folder is not None:
            what = "these orders were made for another corpus or split"
            raise DataError(what, where=str(folder), fix="give the corpus that they were made for, or no --corpus")

    def of(self, row: OrdersRow) -> Sequence[str] | None:
        """Return the tokens of a target in surface order; None if they are not known."""
        if self._corpus is None or row.rank is not None:  # the corpus has targets, not hypotheses
            return None
        item = self._item_of.get(row.id)
        if item is None or self._target.lengths[item] != len(row.orders[0]):
            return None
        return self._corpus.codecs.target.vocabulary.decode(self._target[item].tolist())


def print_to_terminal(shown: Sequence[RenderableType], *, width: int | None = None) -> None:
    """Print on standard output, in colour on a terminal; a reader that leaves early raises BrokenPipeError.

    Args:
        width: Cells of a line where there is no terminal; None takes $COLUMNS, else `PLAIN_WIDTH`.
    """
    console = stdout_console()
    if not console.is_terminal and (width is not None or "COLUMNS" not in os.environ):
        console.width = width or PLAIN_WIDTH
    with console.capture() as capture:  # Rich itself would end the process with status 1 on a closed pipe
        console.print(*shown, sep="\n")
    text = "\n".join(line.rstrip() for line in capture.get().split("\n"))
    sys.stdout.write(text)
    sys.stdout.flush()


def write_html(shown: Sequence[RenderableType], path: Path | str, *, overwrite: bool = False) -> None:
    """Write the same as a page of its own."""
    refuse_existing(path, overwrite)
    console = Console(
        record=True,
        width=PLAIN_WIDTH,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        no_color=False,
        markup=False,
        highlight=False,
        emoji=False,
    )
    console.print(*shown, sep="\n")
    atomic_write_text(path, console.export_html(), overwrite=overwrite)
