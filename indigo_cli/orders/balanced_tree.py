"""BLT: a balanced binary tree level by level, from the middle (Stern et al. 2019).

Rule of InDIGO's first author (PAPERS.md part A3): a queue of spans, first the whole target; of a span of L > 2 tokens
the one at L // 2 is generated and the spans left and right of it join the queue; a span of 1 or 2 is generated left to
right.
"""

from collections import deque
from functools import lru_cache

import numpy as np

from indigo_cli.orders.rule import Ints, OrderContext, Targets


@lru_cache(maxsize=4096)
def ranks(length: int) -> Ints:
    """Return the step at which each of `length` tokens is generated. The array is shared: do not write to it."""
    steps = np.zeros(length, dtype=np.int64)
    spans = deque([(0, length)])
    step = 0
    while spans:
        start, stop = spans.popleft()
        if stop - start > 2:
            middle = start + (stop - start) // 2
            steps[middle] = step
            step += 1
            spans.extend([(start, middle), (middle + 1, stop)])
        else:
            steps[start:stop] = np.arange(step, step + stop - start)
            step += stop - start
    return steps


def priority(targets: Targets, context: OrderContext) -> Ints:
    """Depend on the length alone, so each length is worked out once."""
    if not len(targets.lengths):
        return np.zeros(0, dtype=np.int64)
    return np.concatenate([ranks(length) for length in targets.lengths.tolist()])
