"""Our Insertion Transformer, greedy rounds: states kept (fractional positions), or made anew (absolute)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import insertion_workload
from ours import build, ids

from indigo_cli.data.collate import collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.parallel import search_rounds
from indigo_cli.decoding.places import Sentence

NEVER_CLOSE = 1e4
"""Nats: a slot is closed where there is no room alone."""


def tasks() -> dict[str, Callable[[], None]]:
    """Return every task for each kind of positions."""

    def decode(system: Any, task: str) -> None:
        calls, _ = insertion_workload.of(task)
        length = 2**calls - 1
        for rows in insertion_workload.source_batches(task):
            sentences = [Sentence(line, min_length=length, max_length=length) for line in range(len(rows))]
            source = collate_source([ids(row) for row in rows])
            found = search_rounds(system, source, DecodeConfig(close_penalty=NEVER_CLOSE), sentences, width=1, seed=1)
            assert all(max(hypotheses[0].trace.rounds()) + 1 == calls for hypotheses in found)
            assert all(len(hypotheses[0].trace) == length for hypotheses in found)

    return {
        f"{kind} {task}": partial(decode, build("insertion", positions=kind, slot_choice="none").eval(), task)
        for kind in insertion_workload.KINDS
        for task in insertion_workload.TASKS
    }
