"""CF: all common words from left to right, then the rest (Ford et al. 2018).

Two blocks by a cutoff rank as in InDIGO, not a full sort by frequency.
"""

import numpy as np
from numpy.typing import NDArray

from indigo_cli.orders.rule import Ints, OrderContext, Targets


def is_common(targets: Targets, context: OrderContext) -> NDArray[np.bool_]:
    """True where a token's frequency rank reaches the cutoff."""
    return context.rank_of[targets.tokens] <= context.cutoff


def priority(targets: Targets, context: OrderContext) -> Ints:
    """Rare words wait."""
    return (~is_common(targets, context)).astype(np.int64)


def frequency_ranks(counts: Ints, *, rarest: int) -> Ints:
    """Rank vocabulary ids by falling count from 1, ties by id.

    Args:
        counts: How often each id occurs in the training targets.
        rarest: The id that always comes last: `<unk>` stands for rare words however often it is seen.
    """
    counts = counts.astype(np.int64, copy=True)
    counts[rarest] = -1
    ranks = np.empty(len(counts), dtype=np.int64)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(1, len(counts) + 1)
    return ranks


def balancing_cutoff(counts: Ints, ranks: Ints) -> int:
    """Return the cutoff rank that makes common and rare tokens most nearly equally many (the smaller one if two do)."""
    by_rank = np.zeros(len(counts), dtype=np.int64)
    by_rank[ranks - 1] = counts
    common = np.cumsum(by_rank)
    return int(np.argmin(np.abs(2 * common - common[-1]))) + 1 if len(common) else 1
