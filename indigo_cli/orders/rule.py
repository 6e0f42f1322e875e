"""What an order rule is: a priority for every token of many targets at once.

Every predefined order is one stable sort of a target's tokens: lower priority first, ties from left to right. So a rule
is a few lines of numpy that see a block of targets, and a million targets need no Python loop.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from indigo_cli.core.order import Order

Ints = NDArray[np.int64]

PRIORITY_BITS = 40
"""A priority lies in 0 .. 2^40 - 1, so that it fits into one sort key with the number of its target."""
MAX_TARGETS = 1 << (62 - PRIORITY_BITS)
"""Most targets of one block."""


@dataclass(frozen=True)
class Targets:
    """A block of targets, one after another in flat arrays.

    Args:
        ids: (N,) int64 raw line number of each target.
        tokens: (sum of T,) int64 vocabulary ids.
        offsets: (N + 1,) int64: target n owns tokens[offsets[n] : offsets[n + 1]].
    """

    ids: Ints
    tokens: Ints
    offsets: Ints

    @cached_property
    def lengths(self) -> Ints:
        """(N,) tokens of each target."""
        return np.diff(self.offsets)

    @cached_property
    def owner(self) -> Ints:
        """(sum of T,) number of the target that each token belongs to."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def position(self) -> Ints:
        """(sum of T,) surface index of each token in its own target."""
        return np.arange(len(self.tokens)) - np.repeat(self.offsets[:-1], self.lengths)


@dataclass(frozen=True)
class Parse:
    """A dependency tree over words, and the words that each token of the target covers.

    Args:
        heads: Head of each word, 0-based; a word that is its own head is a root.
        spans: (first, last) word of each token, both included; None if tokens are words.
        where: `file:line` of the tree, for messages.
    """

    heads: tuple[int, ...]
    spans: tuple[tuple[int, int], ...] | None = None
    where: str = ""


@dataclass(frozen=True)
class Example:
    """One target, for callers that have no block."""

    id: int
    tokens: Sequence[int]


@dataclass(frozen=True)
class OrderContext:
    """What a rule may look at beside the target.

    Args:
        rank_of: Frequency rank of each vocabulary id in the training targets, from 1 (cf, rf).
        cutoff: Last rank that counts as common (cf, rf).
        parses: Tree of each target by its id (syn).
        seed: Of the run (rnd).
        epoch: From 0 (rnd).
    """

    rank_of: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    cutoff: int = 0
    parses: Mapping[int, Parse] = field(default_factory=dict)
    seed: int = 0
    epoch: int = 0


@dataclass(frozen=True)
class Rule:
    """One predefined order.

    Args:
        priority: (block, context) -> (sum of T,) int64 priorities in 0 .. 2^40 - 1; ties go from left to right.
        summary: What it does, for help and tables.
        needs: What the context must hold.
        redrawn: True if the order of a target differs from epoch to epoch.
    """

    priority: Callable[[Targets, OrderContext], Ints]
    summary: str
    needs: Literal["", "ranks", "parses"] = ""
    redrawn: bool = False

    def orders(self, targets: Targets, context: OrderContext) -> NDArray[np.int32]:
        """Return the orders of a block as flat int32, cut by the same offsets as the tokens."""
        if len(targets.lengths) > MAX_TARGETS:
            raise ValueError(f"a block holds at most {MAX_TARGETS} targets, got {len(targets.lengths)}")
        key = (targets.owner << PRIORITY_BITS) | self.priority(targets, context)
        # The sort keeps each target in its own place of the flat array, so only the start has to be taken off.
        flat = np.argsort(key, kind="stable") - np.repeat(targets.offsets[:-1], targets.lengths)
        return flat.astype(np.int32)

    def order(self, example: Example, context: OrderContext) -> Order:
        """Return the order of one target: the same as in any block that holds it."""
        tokens = np.asarray(example.tokens, dtype=np.int64)
        offsets = np.array([0, len(tokens)], dtype=np.int64)
        block = Targets(np.array([example.id], dtype=np.int64), tokens, offsets)
        return tuple(self.orders(block, context).tolist())
