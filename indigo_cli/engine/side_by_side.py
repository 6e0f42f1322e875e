"""Several things beside each other on a terminal: figures of files as columns, sentences as they grew."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from indigo_cli.engine.display import printable

GAP = 4
"""Cells between things that stand beside each other."""
MAX_NATURAL_CELLS = 10_000
"""Wider than any terminal: what a thing takes when nothing holds it back."""
ENDING = re.compile(r"(?<=.)(\.(traces|orders))?\.jsonl(\.gz|\.bz2|\.xz)?$")


@dataclass(frozen=True)
class SideBySide:
    """Things beside each other where the width allows that none is cut or folded, else one above the other."""

    parts: Sequence[RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Measure the parts and lay them out."""
        widths = [_natural_width(console, options, part) for part in self.parts]
        if sum(widths) + GAP * (len(widths) - 1) > options.max_width:
            for number, part in enumerate(self.parts):
                if number:
                    yield Text("")
                yield part
            return
        grid = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
        for width in widths:
            grid.add_column(width=width)
        grid.add_row(*self.parts)
        yield grid


def _natural_width(console: Console, options: ConsoleOptions, part: RenderableType) -> int:
    """Return the cells that a part takes where it may take all it wants."""
    lines = console.render_lines(part, options.update(width=MAX_NATURAL_CELLS), pad=False)
    texts = ("".join(segment.text for segment in line if not segment.control).rstrip() for line in lines)
    return max((Text(text).cell_len for text in texts), default=0)


@dataclass(frozen=True)
class Column:
    """The figures of one file.

    Args:
        name: Short, for the head of the column.
        title: What was counted, and where.
        facts: What the file says about itself.
        figures: Values by name; an empty one has no meaning in this file.
    """

    name: str
    title: str
    facts: Mapping[str, str]
    figures: Mapping[str, str]


def statistics(columns: Sequence[Column]) -> RenderableType:
    """Return the figures of one file under its title, or those of several as columns of one table."""
    names = [name for name in columns[0].figures if any(column.figures[name] for column in columns)]
    if len(columns) == 1:
        (column,) = columns
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        for name in names:
            table.add_row(Text(name), Text(printable(column.figures[name])))
        facts = ", ".join(f"{key} {value}" for key, value in column.facts.items())
        head = [Text(printable(column.title), "bold"), *([Text(printable(facts), "dim")] if facts else [])]
        return Group(*head, Padding(table, (0, 0, 0, 1)))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("", style="dim", no_wrap=True)
    for column in columns:
        table.add_column(Text(printable(column.name)), overflow="fold")
    for key in dict.fromkeys(key for column in columns for key in column.facts):
        table.add_row(Text(printable(key)), *(Text(printable(column.facts.get(key, ""))) for column in columns))
    table.add_section()
    for name in names:
        table.add_row(Text(name), *(Text(printable(column.figures[name])) for column in columns))
    return Group(*(Text(printable(column.title), "bold") for column in columns), Text(""), table)


def column_names(paths: Sequence[Path | str]) -> list[str]:
    """Return a name for each path: its last part without what every such file ends in, where that tells them apart."""
    for names in ([ENDING.sub("", Path(path).name) for path in paths], [Path(path).name for path in paths]):
        if all(names) and len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]
