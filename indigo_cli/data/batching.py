"""Cut a corpus into batches of similar length under a token budget, the same for a seed whatever else runs."""

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from math import isqrt

import numpy as np
from numpy.typing import NDArray

PAIRS_PER_TOKEN = 256
"""Relation matrices are quadratic: a batch may hold `PAIRS_PER_TOKEN * batch_tokens` pairs of target positions."""
FEWEST_NODES = 4096
"""Trees are not cut below so many nodes: they fit into any memory, and small products are slow."""
SOURCE_SLACK = 4
"""A source token costs one over this of a target token where sources are so much longer that memory would run out."""

Lengths = NDArray[np.int64]


def token_batches(
    target: Lengths, source: Lengths, *, batch_tokens: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return batches of item indices in random order; every item is in exactly one batch.

    Items are sorted by target length (or a quarter of the source's where that is longer), then source length, with
    random ties, and cut greedily while `count * longest` stays within the budget; an item over it is a batch alone.

    Args:
        target: (N,) target lengths in tokens.
        source: (N,) source lengths in tokens.
        batch_tokens: Target tokens of a batch, padding counted.
        rng: Decides ties and the order of the batches.
    """
    jitter = rng.random(len(target))
    length = np.maximum.reduce([target, -(-source // SOURCE_SLACK), np.ones_like(target)])
    order = np.lexsort((jitter, np.floor(source + 2 * jitter), length))
    lengths = length[order]

    def cost(first: int, last: int) -> int:
        count, longest = last - first + 1, int(lengths[last])
        return count * longest * max(PAIRS_PER_TOKEN, longest)

    budget = batch_tokens * PAIRS_PER_TOKEN
    batches = []
    first = 0
    while first < len(order):
        end = first + bisect_right(range(first, len(order)), budget, key=partial(cost, first))
        end = max(end, first + 1)
        batches.append(order[first:end])
        first = end
    return [batches[i] for i in rng.permutation(len(batches))]


def cut_for_trees(lengths: Lengths, *, num_orders: int, batch_tokens: int, ends: int = 2) -> list[slice]:
    """Return the parts that a batch is cut into where each of its targets becomes a tree of several orders.

    Padding counts, and no two orders are taken to have a node in common: that is known after the search only. A target
    over the budget is a part alone. One order is never cut: its batch is within the budget.

    Args:
        lengths: (S,) target lengths of the batch.
        num_orders: Of each target.
        batch_tokens: Tokens times orders of a part, not counted below `FEWEST_NODES`; see also `PAIRS_PER_TOKEN`.
        ends: Rows of a tree beside its words.
    """
    if num_orders == 1:
        return [slice(0, len(lengths))]
    budget = max(batch_tokens, FEWEST_NODES)
    parts, first, longest = [], 0, 0
    for place, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        count, nodes = place + 1 - first, num_orders * longest
        fits = count * nodes <= budget and count * (nodes + ends) ** 2 <= PAIRS_PER_TOKEN * budget
        if not fits and place > first:
            parts.append(slice(first, place))
            first, longest = place, length
    return [*parts, slice(first, len(lengths))]


def orders_of_tree(length: int, *, num_orders: int, batch_tokens: int, ends: int = 2) -> int:
    """Return how many orders of one target fit into a tree; one at least. See `cut_for_trees`."""
    most = isqrt(PAIRS_PER_TOKEN * max(batch_tokens, FEWEST_NODES)) - ends
    return max(1, min(num_orders, most // max(length, 1)))


def epoch_batches(
    target: Lengths, source: Lengths, *, batch_tokens: int, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    """Return the batches of one epoch; a function of its arguments only, so that a resumed run sees the same ones."""
    rng = np.random.Generator(np.random.Philox(key=np.array([seed, epoch], dtype=np.uint64)))
    return token_batches(target, source, batch_tokens=batch_tokens, rng=rng)


def batch_stream(
    target: Lengths,
    source: Lengths,
    *,
    batch_tokens: int,
    seed: int,
    epoch: int = 0,
    skip: int = 0,
) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """Yield (epoch, position in the epoch, item indices) for ever, from micro-batch `skip` of `epoch` on.

    There must be something to draw from.
    """
    while True:
        batches = epoch_batches(target, source, batch_tokens=batch_tokens, seed=seed, epoch=epoch)
        for position in range(skip, len(batches)):
            yield epoch, position, batches[position]
        epoch, skip = epoch + 1, 0
