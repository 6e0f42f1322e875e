"""What a search for orders came to, so that one sees whether the orders say anything (SAO.md 5.4).

A model under which any order is as good as another, or which has learnt to write the easy words first, finds orders
that cost no less than left to right, or that all begin with the same word.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table

from indigo_cli.core.order import Order, order_to_slots
from indigo_cli.data.files import STANDARD_STREAM
from indigo_cli.engine.line_scores import buckets
from indigo_cli.engine.order_searcher import Found
from indigo_cli.engine.order_stats import NUM_FIRST_WORDS, OrderStats
from indigo_cli.engine.side_by_side import Column, statistics

FIGURES = (
    "strictly left to right",
    "strictly right to left",
    "Kendall tau to left to right",
    "mean run of rightward neighbours",
    "generated first",
    "sequences with p > 0.5",
)
"""Those of `OrderStats` that are shown."""
COUNTED_ORDERS = 1 << 18
"""So many best orders, the first ones, are looked at to see how many differ: memory has an end."""
MANY_FIRST, FEW_WORDS = 0.15, 0.3
"""Red flags: a share of the first words; a share of the words in -log p."""
WIDTH = 100
"""Cells of a line."""


@dataclass
class Bucket:
    """Sums over the targets of `low` to `high` tokens: log-probabilities of the best order and of left to right."""

    low: int
    high: int
    targets: int = 0
    best: float = 0.0
    l2r: float = 0.0

    @property
    def label(self) -> str:
        """The range as text."""
        return f"{self.low}" if self.low == self.high else f"{self.low}–{self.high}"  # noqa: RUF001


@dataclass
class SearchSummary:
    """Figures of the targets that were added.

    Args:
        lengths: Tokens of all targets, which make the buckets.
        beam_size: Orders asked for.
        output: Where they stand.
        unit: What `seconds` are: of a CPU, or of a device.
    """

    lengths: NDArray[np.int64]
    beam_size: int
    output: str
    unit: str = "CPU second"
    seconds: float = 0.0
    orders: int = 0
    """Found, in all."""
    steps: int = 0
    """Of these orders."""
    nodes: int = 0
    """Of their prefix trees."""
    entropy: float = 0.0
    """Sum over the targets of log (sum of p of all orders) - log p of the best, nats."""
    ends: float = 0.0
    best: OrderStats = field(default_factory=OrderStats)
    l2r_first_words: Counter[str] = field(default_factory=Counter)
    counted: int = 0
    different: set[int] = field(default_factory=set)
    """Hashes of the first `counted` best orders."""

    def __post_init__(self) -> None:
        found = buckets(self.lengths) if len(self.lengths) else []
        self.buckets = [Bucket(low, high) for low, high in found]
        self._highs = [bucket.high for bucket in self.buckets]

    def add(self, found: Found, tokens: Sequence[str]) -> None:
        """Count a target.

        Args:
            tokens: Its words, in surface order.
        """
        row = found.row
        assert row.log_probs is not None and row.bound is not None and row.parts is not None
        self.best.add_target(row, tokens)
        self.orders += len(row.orders)
        self.steps += len(row.orders) * len(tokens)
        self.nodes += count_nodes(row.orders, tokens)
        self.entropy += row.bound - row.log_probs[0]
        self.ends += row.parts.ends[0] or 0.0
        if tokens:
            self.l2r_first_words[tokens[0]] += 1
        if self.counted < COUNTED_ORDERS:
            self.counted += 1
            self.different.add(hash(row.orders[0]))
        bucket = self.buckets[int(np.searchsorted(self._highs, len(tokens)))]
        bucket.targets += 1
        bucket.best += row.log_probs[0]
        bucket.l2r += found.l2r

    @property
    def targets(self) -> int:
        """How many were added."""
        return self.best.count

    @property
    def total(self) -> Bucket:
        """All buckets together."""
        low, high = (self.buckets[0].low, self.buckets[-1].high) if self.buckets else (0, 0)
        sums = ((bucket.targets, bucket.best, bucket.l2r) for bucket in self.buckets)
        targets, best, l2r = (sum(column) for column in zip((0, 0.0, 0.0), *sums, strict=True))
        return Bucket(low, high, int(targets), best, l2r)

    def figures(self) -> dict[str, str]:
        """Return figures of all targets by name."""
        named, cost = self.best.rows(), 0.0 - self.total.best
        firsts = self.l2r_first_words.most_common(NUM_FIRST_WORDS)
        split = [
            f"{name} {_percent(0.0 - part, cost)}"
            for name, part in (
                ("words", self.best.word_log_prob),
                ("slots", self.best.slot_log_prob),
                ("<eod>", self.ends),
            )
        ]
        return {
            **{name: named[name] for name in FIGURES},
            "first from left to right": ", ".join(f"{word} {_percent(n, self.targets)}" for word, n in firsts),
            "different orders": _percent(len(self.different), self.counted),
            "-log p of the best": ", ".join(split) if cost else "",
            "orders a target": f"{self.orders / self.targets:.2f}" if self.targets else "",
            "order entropy": f"{self.entropy / self.targets:.3f} nats" if self.targets else "",
            "u: nodes a step of all orders": f"{self.nodes / self.steps:.3f}" if self.steps else "",
        }

    def text(self) -> str:
        """Return all of it for people."""
        rate = f", {self.targets / self.seconds:,.1f} targets a {self.unit}" if self.seconds else ""
        head = f"searched {self.targets:,} target{'s' * (self.targets != 1)}, {self.best.tokens:,} tokens{rate}"
        head += f"\nwritten to {'standard output' if self.output == STANDARD_STREAM else self.output}"
        if not self.targets:
            return head
        title = f"Best orders of {self.beam_size}"
        figures = statistics([Column("", title, {}, self.figures())])
        return "\n".join((head, "", _render(self.table()), _render(figures)))

    def table(self) -> Table:
        """Return what the best order costs beside left to right, by length."""
        title = "-log p of a target with <eod>, nats, without dropout"
        table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", expand=False)
        for name in ("tokens", "targets", "best found", "left to right", "gain", ""):
            table.add_column(name, justify="right", no_wrap=True)
        for bucket in self.buckets:
            if bucket.targets:
                table.add_row(bucket.label, *_cells(bucket), end_section=bucket is self.buckets[-1])
        if len(self.buckets) > 1:
            table.add_row("all", *_cells(self.total))
        return table

    def warnings(self) -> list[str]:
        """Return one line for each red flag."""
        total, flags = self.total, []
        if total.best < total.l2r:
            gap = (total.l2r - total.best) / total.targets
            flags.append(
                f"the best orders found cost {gap:.2f} nats a target more than left to right: train with "
                'search.reference = "l2r", or bootstrap longer'
            )
        if total.best and self.best.word_log_prob / total.best < FEW_WORDS:
            share = _percent(self.best.word_log_prob, total.best)
            flags.append(
                f"words are {share} of -log p, the rest is where they go: text in which the easy words come first "
                "(search.slot_weight = 3 ranks the places higher)"
            )
        for word, count in self.best.first_words.most_common(1):
            usual = self.l2r_first_words[word]
            if count > MANY_FIRST * self.targets >= usual and count > 1:
                flags.append(
                    f"{_percent(count, self.targets)} of the orders begin with {word!r}, "
                    f"as {_percent(usual, self.targets)} of the targets do"
                )
        return flags


def count_nodes(orders: Sequence[Order], tokens: Sequence[str]) -> int:
    """Return the nodes of the prefix tree of some orders: different histories of (word, slot)."""
    nodes: set[tuple[object, str, int]] = set()
    for order in orders:
        history: object = None
        for index, slot in zip(order, order_to_slots(order), strict=True):
            node = (history, tokens[index], slot)
            history = hash(node)
            nodes.add(node)
    return len(nodes)


def _cells(bucket: Bucket) -> list[str]:
    best, l2r = (0.0 - sums for sums in (bucket.best, bucket.l2r))
    means = [cost / bucket.targets for cost in (best, l2r, l2r - best)]
    return [f"{bucket.targets:,}", *(f"{mean:.3f}" for mean in means), _percent(l2r - best, l2r)]


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def _render(shown: RenderableType) -> str:
    """Return the text of a table: what goes to stderr with the other lines of a report."""
    console = Console(width=WIDTH, markup=False, highlight=False, emoji=False, no_color=True)
    with console.capture() as capture:
        console.print(shown)
    return "\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n"))
