"""What both Insertion Transformers are given. Plain Python: the peer has other libraries."""

import workload

KINDS = ("fractional", "absolute")
"""Ours; fairseq's is the second, with everything made anew in each call."""
CALLS = (3, 4, 5, 6)
"""Calls that insert: 7, 15, 31 and 63 words."""
BATCHES = (1, 32)
TASKS = [f"{calls}-rounds-batch-{batch}" for batch in BATCHES for calls in CALLS]


def of(task: str) -> tuple[int, int]:
    """Return the inserting calls and the batch of a task."""
    calls, _, _, batch = task.split("-")
    return int(calls), int(batch)


def source_batches(task: str) -> list[list[list[int]]]:
    """Return sources of about as many words as are to be written, in batches: one of 32, or 8 of one sentence."""
    calls, batch = of(task)
    count = 8 if batch == 1 else batch
    rows = [source for source, _ in workload.sentence_pairs(4 * count)]
    rows = [(4 * row)[: 2**calls - 1] for row in rows[:count]]
    return [rows[first : first + batch] for first in range(0, count, batch)]


def sentences(task: str) -> int:
    """How many sentences a task decodes."""
    return sum(map(len, source_batches(task)))
