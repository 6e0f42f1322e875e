"""A binary tree whose roots are drawn near the middle, level by level: the roll-in of the balanced-tree loss.

The root of a span of L tokens is the one at i with the chance exp(-|c - i| / tau) / Z, where c = (L - 1) / 2 is its
centre (Stern et al. 2019, PAPERS.md B1; Zhang, Zhang & Dolan 2023, B2); tau to infinity draws each alike, tau to 0 the
middle. Its two sides are spans again. A draw is keyed by seed, epoch, target id and span, so that a tree depends on
nothing else (see `random_order`), and it inverts the distribution in closed form, which no length makes dear.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indigo_cli.orders.random_order import draw, streams
from indigo_cli.orders.rule import Ints, OrderContext, Rule, Targets


def rule(temperature: float) -> Rule:
    """Return the order of trees with tau > 0: level by level from the root, a level from left to right."""
    summary = "a binary tree drawn near the middles, level by level, redrawn each epoch"
    return Rule(partial(priority, temperature=temperature), summary, redrawn=True)


def priority(targets: Targets, context: OrderContext, *, temperature: float) -> Ints:
    """Return the depth of each token in the tree of its target."""
    depth = np.zeros(len(targets.tokens), dtype=np.int64)
    stream = streams(targets.ids, context)
    owner = np.flatnonzero(targets.lengths)
    start, stop = np.zeros_like(owner), targets.lengths[owner]
    level = 0
    while len(owner):
        # The spans of a target differ in (start, stop), so each has a number of its own.
        bits = draw(stream[owner], start * (targets.lengths[owner] + 1) + stop)
        root = start + near_middle(stop - start, (bits >> np.uint64(11)) * 2.0**-53, temperature)
        depth[targets.offsets[owner] + root] = level
        owner, start, stop = (np.concatenate(pair) for pair in ((owner, owner), (start, root + 1), (root, stop)))
        real = start < stop
        owner, start, stop = owner[real], start[real], stop[real]
        level += 1
    return depth


def near_middle(lengths: Ints, chance: NDArray[np.floating[Any]], temperature: float) -> Ints:
    """Return which token of each span is drawn.

    Args:
        lengths: L >= 1 of each span.
        chance: Uniform in [0, 1).
        temperature: tau > 0.
    """
    half, odd = lengths // 2, lengths % 2
    # Weights of one side, the nearest token first: q^(1/2) or q, then falling by q = exp(-1 / tau).
    falls = np.expm1(-half / temperature)  # q^half - 1
    side = np.exp(-(1 + odd) / (2 * temperature)) * falls / np.expm1(-1 / temperature)
    rest = chance * (2 * side + odd) - odd  # below 0: the middle one; else twice a chance on both sides
    with np.errstate(divide="ignore", invalid="ignore"):  # no sides in spans of one token
        share = np.clip(rest / side, 0.0, 2.0)
    right = share >= 1.0
    away = np.floor(-temperature * np.log1p((share - right) * falls))
    away = np.minimum(np.nan_to_num(away), half - 1).astype(np.int64)
    root = np.where(right, half + odd + away, half - 1 - away)
    return np.where(rest < 0, half, root)
