"""What `indigo show` says about a traces or orders file, read in one pass."""

import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from indigo_cli.core.console import stdout_console
from indigo_cli.core.format import check_header
from indigo_cli.data import orders_file, traces_file
from indigo_cli.data.corpus import MANIFEST, Corpus
from indigo_cli.data.files import atomic_write_text, read_jsonl, refuse_existing
from indigo_cli.data.orders_file import OrdersRow
from indigo_cli.engine.display import growth, growth_of_order, relations, statistics
from indigo_cli.engine.order_stats import OrderStats
from indigo_cli.errors import DataError, UsageError

PLAIN_WIDTH = 120
"""Cells of a line where there is no terminal to ask."""
HIDDEN = ("format", "version", "corpus")
"""Header fields that say nothing to a reader."""

Rows = Iterator[tuple[int, dict[str, Any]]]


def present(
    path: Path | str, *, line: int | None = None, rank: int = 1, corpus: Path | None = None
) -> list[RenderableType]:
    """Return what to print about a file.

    Args:
        path: Traces or orders file; `-` is standard input.
        line: Show this line alone; None shows figures of the whole file and its first line.
        rank: Which hypothesis of a line (traces), or which of its orders.
        corpus: Where the words of an orders file are; None looks beside it.

    Raises:
        DataError: neither kind of file, or a damaged one.
        UsageError: no such line or rank.
    """
    rows = read_jsonl(path)
    number, header = next(rows, (1, {}))
    kinds = {
        traces_file.FORMAT: (traces_file.VERSION, _present_traces),
        orders_file.FORMAT: (orders_file.VERSION, _present_orders),
    }
    kind = str(header.get("format"))
    if kind not in kinds:
        raise DataError(
            "this is neither a traces file nor an orders file",
            where=f"{path}:{number}",
            fix="show what `indigo decode --format jsonl` or `indigo reorder` wrote",
        )
    version, presenter = kinds[kind]
    check_header(header, where=f"{path}:{number}", format=kind, version=version)
    return presenter(path, header, rows, line=line, rank=rank, corpus=corpus)


def _present_traces(
    path: Path | str, header: Mapping[str, Any], rows: Rows, *, line: int | None, rank: int, corpus: Path | None
) -> list[RenderableType]:
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
    if line is not None and chosen is None:
        raise _not_there(path, line, rank)
    shown = [] if line is not None else [_figures(path, header, stats, f"hypotheses of rank {rank}"), Text("")]
    if chosen is not None:
        shown += [growth(chosen), Text(""), relations(chosen.tokens, chosen.order)]
    return shown


def _present_orders(
    path: Path | str, header: Mapping[str, Any], rows: Rows, *, line: int | None, rank: int, corpus: Path | None
) -> list[RenderableType]:
    words = _Words(path, header, corpus)
    stats, chosen = OrderStats(), None
    for number, fields in rows:
        row = orders_file.parse_row(fields, f"{path}:{number}")
        if line is None:
            order = row.orders[min(rank, len(row.orders)) - 1]
            stats.add_order(order, words.tokens(row.id, len(order)))
            chosen = chosen or row
        elif row.id == line:
            chosen = row
            break
    if line is not None and (chosen is None or rank > len(chosen.orders)):
        raise _not_there(path, line, rank)
    shown = [] if line is not None else [_figures(path, header, stats, "orders"), Text("")]
    if chosen is not None:
        shown += _one_order(chosen, min(rank, len(chosen.orders)), words)
    return shown


def _one_order(row: OrdersRow, rank: int, words: "_Words") -> list[RenderableType]:
    order = row.orders[rank - 1]
    tokens = words.tokens(row.id, len(order))
    title = f"line {row.id}, order {rank} of {len(row.orders)}"
    if row.log_probs is not None:
        title += f", log p {row.log_probs[rank - 1]:.3f}"
    return [growth_of_order(tokens, order, title=title), Text(""), relations(tokens, order)]


def _figures(path: Path | str, header: Mapping[str, Any], stats: OrderStats, what: str) -> RenderableType:
    facts = [f"{key} {value}" for key, value in header.items() if key not in HIDDEN and isinstance(value, str | int)]
    return statistics(stats, title=f"{what} in {path}", facts=", ".join(facts))


def _not_there(path: Path | str, line: int, rank: int) -> UsageError:
    return UsageError(
        f"there is no line {line} with rank {rank}", where=str(path), fix="lines count from 0, ranks from 1"
    )


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
            raise DataError("these orders were made for another corpus or split", where=str(folder))

    def tokens(self, target_id: int, length: int) -> Sequence[str] | None:
        """Return the tokens of a target in surface order; None if they are not known."""
        item = None if self._corpus is None else self._item_of.get(target_id)
        if item is None or self._corpus is None or self._target.lengths[item] != length:
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
