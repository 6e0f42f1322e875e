"""What the orders of a whole file look like, gathered in one pass and in memory that does not grow with the file.

Words that stood before the first step (`given`) are no steps: every figure speaks of the generated words, at the places
where they stand in the finished sentence.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from indigo_cli.core.order import kendall_tau, order_to_slots, rightward_runs
from indigo_cli.core.trace import log_sum
from indigo_cli.data.orders_file import OrdersRow
from indigo_cli.data.traces_file import TraceRecord

TAU_BINS = 21
"""Bars of the histogram of tau: centred on -1, -0.9, ... 1."""
PLACE_BINS = 10
"""Bars of the histogram of the first word's place, from the left end (0) to the right end (1)."""
GRID = 20
"""Rows (time) and columns (place) of the growth map."""
NUM_FIRST_WORDS = 5

Array = NDArray[np.float64]


@dataclass
class OrderStats:
    """Sums over the orders and traces seen so far.

    A sequence of one generated word has no direction: it counts in `count` and `tokens`, and not in `longer`.
    """

    count: int = 0
    tokens: int = 0
    """Generated words, in all."""
    given: int = 0
    """Words that stood before the first step, in all."""
    longer: int = 0
    """Sequences of two generated words or more."""
    left_to_right: int = 0
    """Of the longer ones, those generated strictly from left to right."""
    right_to_left: int = 0
    tau: float = 0.0
    """Sum of Kendall's tau to left to right over the longer ones."""
    tau_histogram: list[int] = field(default_factory=lambda: [0] * TAU_BINS)
    pairs: int = 0
    """Pairs of steps that follow each other."""
    neighbours: int = 0
    """Of these pairs, those whose second word is the right neighbour of the first in the finished sentence."""
    entered_right: int = 0
    """Of these pairs, those whose second word entered the slot directly right of the first: words that came between
    them later do not matter. Left to right inside several passes over the sentence (odd, common first) has nearly
    all; `neighbours` has none where the passes interlock."""
    runs: int = 0
    """Maximal runs of steps in which each word is the right neighbour, in the finished sentence, of the one before."""
    first_place: float = 0.0
    """Sum over the sentences of two words or more: where the first generated word stands, 0 left end, 1 right end."""
    first_places: list[int] = field(default_factory=lambda: [0] * PLACE_BINS)
    first_words: Counter[str] = field(default_factory=Counter)
    growth: Array = field(default_factory=lambda: np.zeros((GRID, GRID)))
    """Sum of `growth_map` over the sequences."""
    scored: int = 0
    """Sequences with a log-probability."""
    scored_tokens: int = 0
    log_prob: float = 0.0
    likely: int = 0
    """Of the scored ones, those with p > 0.5."""
    split_tokens: int = 0
    """Generated words of the sequences whose log-probability is known in its parts."""
    word_log_prob: float = 0.0
    slot_log_prob: float = 0.0
    summed_tokens: int = 0
    """Words of the targets of which several orders have log-probabilities."""
    summed_log_prob: float = 0.0
    """Sum over these targets of the log of the added probabilities of their orders, nats: each a lower bound on the
    log-probability of the target, and the further above the best order, the less the model cares which it takes."""
    traces: int = 0
    finished: int = 0
    rounds: int = 0

    def add_order(
        self,
        order: Sequence[int],
        tokens: Sequence[str] | None = None,
        *,
        given: int = 0,
        log_prob: float | None = None,
    ) -> None:
        """Count one order.

        Args:
            order: Surface index of each word, the given ones first.
            tokens: In surface order, where they are known.
            given: Words that stood before the first step.
            log_prob: Of the sequence in this order, nats, where a model gave one.
        """
        generated = order[given:]
        self.count += 1
        self.tokens += len(generated)
        self.given += given
        if len(generated) > 1:
            self._add_direction(generated)
            self._add_steps(order, given)
        self.runs += rightward_runs(generated)
        if generated and len(order) > 1:
            place = generated[0] / (len(order) - 1)
            self.first_place += place
            self.first_places[min(int(place * PLACE_BINS), PLACE_BINS - 1)] += 1
        if generated and tokens is not None:
            self.first_words[tokens[generated[0]]] += 1
        if generated:
            self.growth += growth_map(order, given)
        if log_prob is not None:
            self.scored += 1
            self.scored_tokens += len(generated)
            self.log_prob += log_prob
            self.likely += log_prob > math.log(0.5)

    def _add_direction(self, generated: Sequence[int]) -> None:
        tau = kendall_tau(generated)
        self.longer += 1
        self.left_to_right += all(a < b for a, b in pairwise(generated))
        self.right_to_left += all(a > b for a, b in pairwise(generated))
        self.tau += tau
        self.tau_histogram[math.floor((tau + 1) / 2 * (TAU_BINS - 1) + 0.5)] += 1

    def _add_steps(self, order: Sequence[int], given: int) -> None:
        self.pairs += len(order) - given - 1
        self.neighbours += sum(after == before + 1 for before, after in pairwise(order[given:]))
        self.entered_right += sum(after == before + 1 for before, after in pairwise(order_to_slots(order)[given:]))

    def add_target(self, row: OrdersRow, tokens: Sequence[str] | None = None, *, rank: int = 1) -> None:
        """Count one order of a row of an orders file.

        Args:
            tokens: In surface order, where they are known.
            rank: The order to count; a row that has fewer is left out. Where the rows are hypotheses of several ranks,
                only those of this rank are counted, each with its first order.
        """
        place = rank - 1 if row.rank is None else 0
        if place >= len(row.orders) or row.rank not in (None, rank):
            return
        self.add_order(row.orders[place], tokens, log_prob=None if row.log_probs is None else row.log_probs[place])
        if row.parts is not None:
            self._add_parts(len(row.orders[place]), row.parts.words[place], row.parts.slots[place])
        if row.log_probs is not None and len(row.orders) > 1:
            different = dict(zip(row.orders, row.log_probs, strict=True))
            self.summed_tokens += len(row.orders[0])
            self.summed_log_prob += log_sum(different.values()) if row.bound is None else row.bound

    def add_trace(self, record: TraceRecord) -> None:
        """Count one hypothesis."""
        self.add_order(record.order, record.tokens, given=record.given, log_prob=record.log_prob)
        self.traces += 1
        self.finished += record.finished
        self.rounds += len({number for number in record.rounds if number >= 0})
        num_tokens = len(record.order) - record.given
        self._add_parts(num_tokens, math.fsum(record.word_log_probs), math.fsum(record.slot_log_probs))

    def _add_parts(self, num_tokens: int, words: float, slots: float) -> None:
        self.split_tokens += num_tokens
        self.word_log_prob += words
        self.slot_log_prob += slots

    @property
    def placed(self) -> int:
        """How many sequences have a first word with a place: those of a sentence of two words or more."""
        return sum(self.first_places)

    def mean_growth(self) -> Array:
        """Return the mean growth map, (GRID, GRID): 1 everywhere for random orders, nothing for no sequence."""
        return self.growth / max(float(self.growth.sum()) / GRID**2, 1e-300)

    def rows(self) -> dict[str, str]:
        """Return the figures to show by name, always the same names; one that means nothing here is empty."""
        common = self.first_words.most_common(NUM_FIRST_WORDS)
        return {
            "sequences": f"{self.count:,}",
            "tokens": f"{self.tokens:,}",
            "given words": f"{self.given:,}" if self.given else "",
            "mean length": _mean(self.tokens, self.count, ".2f"),
            "strictly left to right": _share(self.left_to_right, self.longer),
            "strictly right to left": _share(self.right_to_left, self.longer),
            "Kendall tau to left to right": _mean(self.tau, self.longer, "+.3f"),
            "mean run of rightward neighbours": _mean(self.tokens, self.runs, ".2f"),
            "steps to the right neighbour": _share(self.neighbours, self.pairs),
            "steps to the slot on the right": _share(self.entered_right, self.pairs),
            "first word at (0 left, 1 right)": _mean(self.first_place, self.placed, ".3f"),
            "generated first": ", ".join(f"{word} {_share(n, self.count)}" for word, n in common),
            "finished": _share(self.finished, self.traces),
            "mean rounds": _mean(self.rounds, self.traces, ".2f") if self.rounds != self.tokens else "",
            "log p per token": _mean(self.log_prob, self.scored_tokens, ".3f", " nats"),
            "of it the words": _mean(self.word_log_prob, self.split_tokens, ".3f", " nats"),
            "of it the slots": _mean(self.slot_log_prob, self.split_tokens, ".3f", " nats"),
            "of all orders together": _mean(self.summed_log_prob, self.summed_tokens, ".3f", " nats"),
            "sequences with p > 0.5": _share(self.likely, self.scored),
        }


def growth_map(order: Sequence[int], given: int = 0) -> Array:
    """Return when which part of a sentence was generated, as a density over time (rows) and place (columns).

    A step of n lasts one n-th of the time, a word of T takes one T-th of the width; both are cut into `GRID` equal
    parts, so that sentences of any length can be added.

    Args:
        order: Surface index of each word, the given ones first; one generated word at least.

    Returns: (GRID, GRID), mean 1. Without given words each row and each column has mean 1 too.
    """
    steps, places = len(order) - given, len(order)
    density = _parts(steps).T @ _parts(places)[np.asarray(order[given:])]
    return np.asarray(density * places)


@lru_cache(maxsize=64)
def _parts(count: int) -> Array:
    """Return which share of each of `GRID` equal parts belongs to each of `count` equal intervals, (count, GRID)."""
    left = np.arange(count)[:, None] / count
    part = np.arange(GRID)[None, :] / GRID
    overlap = np.minimum(left + 1 / count, part + 1 / GRID) - np.maximum(left, part)
    shares: Array = np.maximum(overlap, 0.0) * GRID
    return shares


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def _mean(total: float, count: int, form: str, unit: str = "") -> str:
    return f"{total / count:{form}}{unit}" if count else ""
