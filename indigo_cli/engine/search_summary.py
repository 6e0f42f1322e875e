"""What a search for the orders of a split came to: figures that show whether the orders say anything."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table

from indigo_cli.data.files import STANDARD_STREAM
from indigo_cli.engine.health_flags import Flag, red_flags
from indigo_cli.engine.order_health import FoundTarget, OrderHealth
from indigo_cli.engine.order_searcher import Found
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.engine.side_by_side import Column, statistics

STATISTICS = ("Kendall tau to left to right", "strictly left to right", "mean run of rightward neighbours")
"""Figures of `OrderStats` that are shown."""
WIDTH = 100
"""Cells of a line."""


@dataclass
class SearchSummary:
    """Figures of the targets that were added.

    Args:
        health: Where they are counted.
        learnt: How the run came by its orders; what is said of red flags goes by it.
        output: Where the orders stand.
        unit: What `seconds` are.
        seconds: Of searching.
    """

    health: OrderHealth
    learnt: SearchConfig
    output: str
    unit: str = "CPU second"
    seconds: float = 0.0

    def add(self, found: Found, tokens: Sequence[str]) -> None:
        """Count a target; `tokens` are its words, in surface order."""
        row = found.row
        assert row.parts is not None and row.bound is not None
        self.health.add(
            FoundTarget(
                tokens=tokens,
                order=row.orders[0],
                word=row.parts.words[0],
                slot=row.parts.slots[0],
                end=row.parts.ends[0] or 0.0,
                log_sum=row.bound,
                l2r=found.l2r,
                num_orders=len(row.orders),
                num_nodes=found.num_nodes,
            )
        )

    def text(self) -> str:
        """Return all of it for people."""
        row = self.health.row()
        targets, tokens = row["targets"], row["tokens"]
        rate = f", {targets / self.seconds:,.1f} targets a {self.unit}" if self.seconds else ""
        head = f"searched {targets:,} target{'s' * (targets != 1)}, {tokens:,} tokens{rate}"
        head += f"\nwritten to {'standard output' if self.output == STANDARD_STREAM else self.output}"
        if not targets:
            return head
        figures = statistics([Column("", "The best orders", {}, self._figures(row))])
        return "\n".join((head, "", _render(_by_length(row)), "", _render(figures)))

    def _figures(self, row: Mapping[str, Any]) -> dict[str, str]:
        """Return figures of all targets by name."""
        named = self.health.best.rows()
        parts = (("words", "word"), ("slots", "slot"), ("<eod>", "end"))
        likely = row["likely"]
        return {
            **{name: named[name] for name in STATISTICS},
            "different orders": _percent(row["different"]),
            "generated first": _shares(row["first_words"]),
            "first from left to right": _shares(row["first_words_l2r"]),
            "of -log p": ", ".join(f"{name} {_percent(row[key] / row['best'])}" for name, key in parts)
            if row["best"]
            else "",
            "targets with p > 0.5": f"{_percent(likely['best'])}, left to right {_percent(likely['l2r'])}",
            "orders found a target": f"{row['orders']:.2f}",
            "order entropy": f"{row['entropy']:.3f} nats",
            "u, nodes of trees a step": f"{row['u']:.3f}",
        }

    def flags(self) -> Iterator[Flag]:
        """Yield what looks wrong."""
        yield from red_flags(self.health.row(), self.learnt)


def _by_length(row: Mapping[str, Any]) -> Table:
    """Return what the best order costs beside left to right, by length."""
    title = "-log p of a target with <eod>, nats, without dropout"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", expand=False)
    for name in ("tokens", "targets", "best found", "left to right", "gain", ""):
        table.add_column(name, justify="right", no_wrap=True)
    buckets = row["lengths"]
    for bucket in buckets:
        table.add_row(_label(bucket["low"], bucket["high"]), *_cells(bucket), end_section=bucket is buckets[-1])
    if len(buckets) > 1:
        table.add_row("all", *_cells(row))
    return table


def _label(low: int, high: int | None) -> str:
    if high is None:
        return f"{low}+"
    return f"{low}" if low == high else f"{low}–{high}"  # noqa: RUF001


def _cells(means: Mapping[str, Any]) -> list[str]:
    costs = (means["best"], means["l2r"], means["l2r"] - means["best"])
    return [f"{means['targets']:,}", *(f"{nats:.3f}" for nats in costs), f"{means['gain']:.1f} %"]


def _shares(words: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{entry['word']} {_percent(entry['share'])}" for entry in words)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _render(shown: RenderableType) -> str:
    """Return the text of a table: what goes to stderr with the other lines of a report."""
    console = Console(width=WIDTH, markup=False, highlight=False, emoji=False, no_color=True)
    with console.capture() as capture:
        console.print(shown)
    return "\n".join(line.rstrip() for line in capture.get().strip("\n").split("\n"))
