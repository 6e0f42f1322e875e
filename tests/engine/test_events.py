"""TensorBoard events, read back with TensorBoard."""

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.engine import events as module
from indigo_cli.engine.events import FOLDER, Events, wants_events
from indigo_cli.errors import RunError, UsageError

Scalars = dict[str, list[tuple[int, float]]]


def scalars(run: Path) -> Scalars:
    """What TensorBoard shows: (step, value) by tag."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulator.EventAccumulator(str(run / FOLDER), size_guidance={"scalars": 0}).Reload()
    return {tag: [(e.step, e.value) for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def write(run: Path, rows: list[dict[str, Any]], *, last_step: int) -> None:
    events = Events(run, last_step=last_step)
    for row in rows:
        events.write(row)
    events.close()


def row(step: int, value: float, **more: Any) -> dict[str, Any]:
    return {"step": step, "loss": value, **more}


def test_numbers_of_rows_by_split(tmp_path: Path) -> None:
    rows = [row(1, 0.5, epoch=0), row(1, 0.25, split="valid", bleu=12.5), row(2, 9.0, split="spike", ids=["train:1"])]
    write(tmp_path, rows, last_step=0)
    assert scalars(tmp_path) == {
        "train/loss": [(1, 0.5)],
        "train/epoch": [(1, 0.0)],
        "valid/loss": [(1, 0.25)],
        "valid/bleu": [(1, 12.5)],
        "spike/loss": [(2, 9.0)],
    }


def test_objects_by_their_full_names_and_no_lists(tmp_path: Path) -> None:
    search = {"u": 0.5, "likely": {"best": 0.25}, "quantiles": {"best": [1.0, 2.0]}, "lengths": [{"low": 1}]}
    write(tmp_path, [row(1, 0.5, split="valid", search=search)], last_step=0)
    assert scalars(tmp_path) == {
        "valid/loss": [(1, 0.5)],
        "valid/search/u": [(1, 0.5)],
        "valid/search/likely/best": [(1, 0.25)],
    }


@pytest.mark.parametrize("jump", [0.0, 100.0, -1e6])
def test_a_resumed_run_shows_no_step_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    """What came after the checkpoint does not count, whichever way the clock went in between."""
    write(tmp_path, [row(step, 1.0) for step in (1, 2, 3, 4)], last_step=0)
    now = time.time() + jump
    monkeypatch.setattr(time, "time", lambda: now)
    write(tmp_path, [row(step, 2.0) for step in (3, 4, 5)], last_step=2)
    write(tmp_path, [row(5, 3.0)], last_step=4)
    assert scalars(tmp_path)["train/loss"] == [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0), (5, 3.0)]


def test_a_row_is_on_disk_at_once_and_half_a_record_is_survived(tmp_path: Path) -> None:
    events = Events(tmp_path, last_step=0)
    events.write(row(1, 1.0))
    assert scalars(tmp_path)["train/loss"] == [(1, 1.0)]
    events.close()
    (path,) = (tmp_path / FOLDER).iterdir()
    path.write_bytes(path.read_bytes() + b"\x18\0\0")  # a kill
    write(tmp_path, [row(2, 2.0)], last_step=1)
    assert scalars(tmp_path)["train/loss"] == [(1, 1.0), (2, 2.0)]


def test_a_full_disk_ends_the_run_and_leaves_whole_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = Events(tmp_path, last_step=0)
    events.write(row(1, 1.0))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(module, "append", full)
        with pytest.raises(RunError, match="No space left") as caught:
            events.write(row(2, 2.0))
    assert caught.value.where.endswith(FOLDER)
    events.close()
    assert scalars(tmp_path)["train/loss"] == [(1, 1.0)]


def test_where_tensorboard_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wants_events("on") and wants_events("auto") and not wants_events("off")
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert not wants_events("auto") and not wants_events("off")
    with pytest.raises(UsageError, match="not installed") as caught:
        wants_events("on")
    assert caught.value.where == "train.tensorboard" and "indigo-cli[track]" in caught.value.fix
