"""What the orders that a search finds come to, in figures that show whether they say anything (SAO.md 5.4).

One row of figures serves validations of runs that search (`log.jsonl`, under `SEARCH`) and the summary of
`search-orders`.
"""

import math
from array import array
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from indigo_cli.core.order import Order
from indigo_cli.engine.order_stats import NUM_FIRST_WORDS, OrderStats

SEARCH = "search"
"""Key of these figures in a row of the log."""
LENGTHS: tuple[tuple[int, int | None], ...] = ((0, 5), (6, 10), (11, 20), (21, 30), (31, None))
"""Smallest and largest length of each bucket, in tokens: the same for all validations of all runs."""
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
LIKELY_NATS = math.log(2.0)
"""-log p of p = 0.5."""
COUNTED = 1 << 18
"""So many targets, the first ones, are looked at for quantiles and to see how many orders differ: memory has an end."""
DIGITS = 6
"""Behind the point."""


class FoundTarget(NamedTuple):
    """What a search found for one target, clean: log-probabilities without dropout, with `<eod>`, nats.

    Args:
        tokens: Its words, in surface order.
        order: The best order found; left to right is no candidate unless the search found it itself.
        word, slot, end: Log-probability of the best order in its parts.
        log_sum: Log of the added probabilities of all orders found.
        l2r: Log-probability of left to right.
        num_orders: How many were found.
        num_nodes: Of their prefix tree: different histories of (word, anchor).
    """

    tokens: Sequence[str]
    order: Order
    word: float
    slot: float
    end: float
    log_sum: float
    l2r: float
    num_orders: int
    num_nodes: int


@dataclass
class _Sums:
    """-log p over the targets of a range of lengths."""

    low: int
    high: int | None
    targets: int = 0
    best: float = 0.0
    log_sum: float = 0.0
    l2r: float = 0.0

    def add(self, best: float, log_sum: float, l2r: float) -> None:
        self.targets += 1
        self.best += best
        self.log_sum += log_sum
        self.l2r += l2r

    def means(self) -> dict[str, Any]:
        """Return -log p a target, and by how many per cent the best order is cheaper than left to right."""
        return {
            "targets": self.targets,
            "best": mean(self.best, self.targets),
            "log_sum": mean(self.log_sum, self.targets),
            "l2r": mean(self.l2r, self.targets),
            "gain": mean(100 * (self.l2r - self.best), self.l2r),
        }


@dataclass
class OrderHealth:
    """Figures of the targets that were added.

    Args:
        lengths: Smallest and largest length of each bucket, ascending; every target falls into one. None = no limit.
        frequent: The most frequent types of the vocabulary, see `frequent_types`.
    """

    lengths: Sequence[tuple[int, int | None]] = LENGTHS
    frequent: Container[str] = frozenset()
    best: OrderStats = field(default_factory=OrderStats)
    """Of the best orders."""
    word: float = 0.0
    """Sums of -log p of the best orders, in parts."""
    slot: float = 0.0
    end: float = 0.0
    num_orders: int = 0
    num_steps: int = 0
    """Of all orders."""
    num_nodes: int = 0
    l2r_first_words: Counter[str] = field(default_factory=Counter)
    different: set[int] = field(default_factory=set)
    """Hashes of the best orders of the first `COUNTED` targets."""
    likely: Counter[str] = field(default_factory=Counter)
    """Targets with p > 0.5."""

    def __post_init__(self) -> None:
        self._total = _Sums(0, None)
        self._buckets = [_Sums(low, high) for low, high in self.lengths]
        self._highs = [math.inf if high is None else high for _, high in self.lengths]
        self._costs = {name: array("d") for name in ("best", "log_sum", "l2r")}

    @property
    def targets(self) -> int:
        """How many were added."""
        return self.best.count

    def add(self, found: FoundTarget) -> None:
        """Count a target."""
        costs = {"best": -(found.word + found.slot + found.end), "log_sum": -found.log_sum, "l2r": -found.l2r}
        self.best.add_order(found.order, found.tokens, log_prob=-costs["best"])
        self.word -= found.word
        self.slot -= found.slot
        self.end -= found.end
        self.num_orders += found.num_orders
        self.num_steps += found.num_orders * len(found.tokens)
        self.num_nodes += found.num_nodes
        if found.tokens:
            self.l2r_first_words[found.tokens[0]] += 1
        self.likely.update(name for name, nats in costs.items() if nats < LIKELY_NATS)
        self._total.add(**costs)
        self._buckets[int(np.searchsorted(self._highs, len(found.tokens)))].add(**costs)
        if self.targets <= COUNTED:
            self.different.add(hash(found.order))
            for name, nats in costs.items():
                self._costs[name].append(nats)

    def row(self) -> dict[str, Any]:
        """Return the figures, ready for JSON; without a target those that need one are 0.

        `best`, `log_sum`, `l2r`, `word`, `slot`, `end`: nats a target, of -log p; `gain`: per cent; `likely`: shares
        with p > 0.5; `is_l2r`: share of strictly left to right among best orders of two words or more (`is_r2l`: right
        to left); `run`: words in a run of rightward neighbours; `first_place`: 0 left end, 1 right end; `different`:
        different best orders a target; `orders`: found for a target; `u`: nodes of prefix trees, a step of all orders.
        """
        targets, longer = self.targets, self.best.longer
        total = self._total.means()
        return {
            **total,
            "tokens": self.best.tokens,
            "entropy": mean(self._total.best - self._total.log_sum, targets),
            "word": mean(self.word, targets),
            "slot": mean(self.slot, targets),
            "end": mean(self.end, targets),
            "likely": {name: mean(self.likely[name], targets) for name in self._costs},
            "is_l2r": mean(self.best.left_to_right, longer),
            "is_r2l": mean(self.best.right_to_left, longer),
            "tau": mean(self.best.tau, longer),
            "run": mean(self.best.tokens, self.best.runs),
            "first_place": mean(self.best.first_place, self.best.placed),
            "orders": mean(self.num_orders, targets),
            "different": mean(len(self.different), min(targets, COUNTED)),
            "u": mean(self.num_nodes, self.num_steps),
            "quantiles": {name: _quantiles(costs) for name, costs in self._costs.items()},
            "first_words": [
                {
                    "word": word,
                    "share": mean(count, targets),
                    "l2r": mean(self.l2r_first_words[word], targets),
                    "frequent": word in self.frequent,
                }
                for word, count in self.best.first_words.most_common(NUM_FIRST_WORDS)
            ],
            "first_words_l2r": [
                {"word": word, "share": mean(count, targets)}
                for word, count in self.l2r_first_words.most_common(NUM_FIRST_WORDS)
            ],
            "lengths": [
                {"low": bucket.low, "high": bucket.high, **bucket.means()} for bucket in self._buckets if bucket.targets
            ],
        }


def mean(total: float, count: float) -> float:
    """Return a mean as it is logged; 0 of nothing."""
    return round(total / count, DIGITS) if count else 0.0


def _quantiles(costs: "array[float]") -> list[float]:
    if not costs:
        return [0.0] * len(QUANTILES)
    found: list[float] = np.quantile(np.frombuffer(costs), QUANTILES).tolist()
    return [round(nats, DIGITS) for nats in found]
