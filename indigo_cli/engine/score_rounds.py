"""What `indigo score` does for systems that fill many slots at once: whose traces it takes, and what canvases cost."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from indigo_cli.core.vocab import PAD
from indigo_cli.data.collate import collate_source, pad_rows
from indigo_cli.data.traces_file import AGAIN, TraceRecord
from indigo_cli.decoding.parallel import replay_rounds
from indigo_cli.decoding.places import GivenWords
from indigo_cli.decoding.replay import rounds_of
from indigo_cli.engine.loaded_run import LoadedRun
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.targets import Item
from indigo_cli.errors import DataError, UsageError


def in_rounds(run: LoadedRun) -> bool:
    """Tell whether a run fills many slots at once, and closes each, as its recipe stands.

    Raises:
        UsageError: it is to fill one at a time, and has not learnt which.
    """
    if not run.in_rounds or run.system.ends_at_once:
        return False
    serial = bool(run.recipe.decode.serial)
    if serial and not run.system.chooses_slots:
        what = "this model has not learnt which slot to fill"
        raise UsageError(what, where="decode.serial", fix="leave it out: slots are scored as rounds fill them")
    return not serial


def made_alike(records: Iterable[TraceRecord], *, rounds: bool) -> Iterator[TraceRecord]:
    """Yield hypotheses of a system that can fill many slots at once, or one at a time.

    Raises:
        DataError: one was made the other way, and would be scored as another history than its own.
    """
    for record in records:
        at_once = bool(record.close_log_probs)
        serial = record.end_log_prob is not None or any(record.slot_log_probs)
        if rounds and (serial or (not at_once and len(record.order) > record.given)):
            what, fix = "was made one slot at a time", "score it with --set decode.serial=true"
        elif not rounds and (at_once or (record.finished and record.end_log_prob is None)):
            what, fix = "was made in rounds", "score it with --set decode.serial=false"
        else:
            if rounds:
                _check_rounds(record)
            yield record
            continue
        raise _fault(record, what, fix)


def _check_rounds(record: TraceRecord) -> None:
    """Refuse a hypothesis whose rounds cannot have been as they are said."""
    open_gaps = record.open_gaps if record.given else (0,)
    if open_gaps is None:
        raise _fault(record, "grew on a canvas, and does not say which gaps of it were open (open_gaps)", AGAIN)
    try:
        rounds_of(range(len(record.order)), record.order, record.rounds, open_gaps)
    except ValueError as error:
        raise _fault(record, f"cannot have grown like this: {error}", AGAIN) from error


def _fault(record: TraceRecord, what: str, fix: str) -> DataError:
    return DataError(f"hypothesis {record.rank} of line {record.id} (from 0) {what}", where=record.where, fix=fix)


def in_whole_rounds(items: Iterable[Item]) -> Iterator[Item]:
    """Yield hypotheses made in rounds: every slot of an unfinished one, too, was closed, by force if need be.

    What stands for a line without a source has no words, and no slots that anybody closed.
    """
    for item in items:
        yield replace(item, ended=item.ended or len(item.target) > 0)


def replayed(
    system: Any, items: Sequence[Item], wishes: Sequence[int], device: torch.device, runtime: Runtime
) -> Iterator[NDArray[np.float64]]:
    """Yield (3, 1) sums of hypotheses that grew in rounds from given words; `made_alike` has let them pass."""
    canvases, decisions = [], []
    for item in items:
        assert item.order is not None and item.open_gaps is not None
        given = tuple(item.target[i] for i in sorted(item.order[: item.given]))
        canvases.append(GivenWords(given, tuple(gap in item.open_gaps for gap in range(item.given + 1))))
        decisions.append(rounds_of(item.target, item.order, item.rounds, item.open_gaps))
    source = collate_source([item.source.ids for item in items], wishes).to(device)
    if system.budget is not None:
        target = torch.from_numpy(pad_rows([item.target for item in items], value=PAD)).to(device)
        source = replace(source, wish=system.budget.wish(source, target))
    with runtime.autocast(device):
        traces = replay_rounds(system, source, canvases, decisions)
    for trace in traces:
        words = sum(insertion.word_log_prob for insertion in trace.insertions)
        yield np.array([[words], [0.0], [sum(trace.close_log_probs)]])
