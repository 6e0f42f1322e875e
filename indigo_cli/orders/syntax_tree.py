"""SYN: the dependency tree level by level, from the root, children left to right (Wang et al. 2018).

Trees of one line follow each other from left to right. Pieces of a word stay together, left to right. A token over
several words (a contraction) goes where the first of them goes.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from indigo_cli.errors import DataError
from indigo_cli.orders.rule import Ints, OrderContext, Parse, Targets


def level_order(heads: Sequence[int]) -> list[int]:
    """Return the step at which each word is generated.

    Args:
        heads: Head of each word, 0-based; a word that is its own head is a root.

    Raises:
        ValueError: a head outside the sentence, or words that no root reaches.
    """
    children: list[list[int]] = [[] for _ in heads]
    roots: list[int] = []
    for word, head in enumerate(heads):
        if not 0 <= head < len(heads):
            raise ValueError(f"word {word + 1} has head {head + 1}, but there are {len(heads)} words")
        (roots if head == word else children[head]).append(word)
    steps = [-1] * len(heads)
    step = 0
    for root in roots:
        queue = deque([root])
        while queue:
            word = queue.popleft()
            steps[word] = step
            step += 1
            queue.extend(children[word])
    if step < len(heads):
        raise ValueError(f"word {steps.index(-1) + 1} hangs in a circle: no root reaches it")
    return steps


def token_priorities(parse: Parse) -> list[int]:
    """Return the priority of each token of one target."""
    try:
        steps = level_order(parse.heads)
    except ValueError as error:
        raise DataError(str(error), where=parse.where, fix="correct the HEAD column of this sentence") from error
    if parse.spans is None:
        return steps
    return [min(steps[first : last + 1]) for first, last in parse.spans]


def priority(targets: Targets, context: OrderContext) -> Ints:
    """Level order of each target's tree; an empty target needs none."""
    priorities: list[int] = []
    for target_id, length in zip(targets.ids.tolist(), targets.lengths.tolist(), strict=True):
        if not length:
            continue
        parse = context.parses.get(target_id)
        if parse is None:
            raise DataError(
                f"there is no parse for line {target_id} (counted from 0)",
                where="order.parse",
                fix="give a CoNLL-U file with one sentence for each line, or `# line = N` above each sentence",
            )
        found = token_priorities(parse)
        if len(found) != length:
            raise DataError(
                f"the parse covers {len(found)} tokens but target {target_id} has {length}", where=parse.where
            )
        priorities.extend(found)
    return np.array(priorities, dtype=np.int64)
