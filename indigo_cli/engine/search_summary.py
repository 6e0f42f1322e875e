"""What a search for the orders of known targets came to: figures that show whether the orders say anything."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console, RenderableType

from indigo_cli.data.files import STANDARD_STREAM
from indigo_cli.engine.health_flags import Flag, red_flags
from indigo_cli.engine.health_table import length_table, named_figures
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.engine.side_by_side import Column, statistics

WIDTH = 100
"""Cells of a line."""


@dataclass(frozen=True)
class SearchSummary:
    """What was found.

    Args:
        figures: See `OrderHealth.row`.
        config: What the run learnt first, and what competes in the file; what is said of red flags goes by it.
        output: Where the orders stand.
        unit: What `seconds` are.
        seconds: Of searching; 0 where the orders stood already.
    """

    figures: Mapping[str, Any]
    config: SearchConfig
    output: str
    unit: str = "CPU second"
    seconds: float = 0.0

    def text(self) -> str:
        """Return all of it for people."""
        row = self.figures
        targets, tokens = row["targets"], row["tokens"]
        rate = f", {targets / self.seconds:,.1f} targets a {self.unit}" if self.seconds else ""
        head = f"searched {targets:,} target{'s' * (targets != 1)}, {tokens:,} tokens{rate}"
        head += f"\nwritten to {'standard output' if self.output == STANDARD_STREAM else self.output}"
        if self.config.has_reference:
            head += "; left to right competes there, the figures are those of what was found"
        if not targets:
            return head
        figures = statistics([Column("", "The best orders", {}, named_figures(row))])
        return "\n".join((head, "", _render(length_table(row)), "", _render(figures)))

    def flags(self) -> Iterator[Flag]:
        """Yield what looks wrong."""
        yield from red_flags(self.figures, self.config)


def _render(shown: RenderableType) -> str:
    """Return the text of a table: what goes to stderr with the other lines of a report."""
    console = Console(width=WIDTH, markup=False, highlight=False, emoji=False, no_color=True)
    with console.capture() as capture:
        console.print(shown)
    return "\n".join(line.rstrip() for line in capture.get().strip("\n").split("\n"))
