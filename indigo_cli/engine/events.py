"""TensorBoard events: the numbers of `log.jsonl`, for people who look at curves while a run goes on.

A row is on disk when `write` returns: there is no thread as in torch's SummaryWriter, which may lose two minutes at a
kill and tells of a full disk by a traceback from outside.
"""

import io
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from indigo_cli.engine.disk import RESUME, append, writing
from indigo_cli.errors import UsageError

FOLDER, PREFIX = "tensorboard", "events.out.tfevents."


def wants_events(choice: str) -> bool:
    """Tell whether events are to be written.

    Args:
        choice: `train.tensorboard`: `on`, `off`, or `auto` = where TensorBoard is installed.

    Raises:
        UsageError: they are asked for, but cannot be written.
    """
    installed = find_spec("tensorboard") is not None
    if choice == "on" and not installed:
        what = "TensorBoard events need tensorboard, which is not installed"
        raise UsageError(what, where="train.tensorboard", fix="pip install 'indigo-cli[track]'")
    return installed and choice != "off"


class Events:
    """One more events file in a run folder.

    Args:
        run: Run folder.
        last_step: What earlier parts of the run wrote about later steps does not count any more.
    """

    def __init__(self, run: Path, *, last_step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary, self._record_writer = Event, Summary, RecordWriter
        self.folder = run / FOLDER
        with writing(self.folder, then=RESUME):
            self.folder.mkdir(exist_ok=True)
            before = [_number(path) for path in self.folder.glob(f"{PREFIX}*")]
            # Files are read in the order of their names, so this one comes last even if the clock was set back.
            number = max([int(time.time()), *(n + 1 for n in before)])
            self._stream = open(self.folder / f"{PREFIX}{number:010d}.indigo", "xb", buffering=0)
        self._put(file_version="brain.Event:2")
        if before:
            self._put(step=last_step + 1, session_log=SessionLog(status=SessionLog.START))

    def write(self, row: dict[str, Any]) -> None:
        """Write the numbers of a row of the log, as `train/loss`, `valid/loss`, `valid/search/likely/best`."""
        numbers = _numbers(row.get("split", "train"), {key: value for key, value in row.items() if key != "step"})
        values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in numbers]
        self._put(step=row["step"], summary=self._summary(value=values))

    def _put(self, **content: Any) -> None:
        record = io.BytesIO()
        self._record_writer(record).write(self._event(wall_time=time.time(), **content).SerializeToString())
        with writing(self.folder, then=RESUME):
            append(self._stream, record.getvalue())

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def _numbers(prefix: str, row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numbers of nested objects with their full names; lists are left out."""
    for key, value in row.items():
        if isinstance(value, int | float):
            yield f"{prefix}/{key}", value
        elif isinstance(value, Mapping):
            yield from _numbers(f"{prefix}/{key}", value)


def _number(path: Path) -> int:
    digits = path.name.removeprefix(PREFIX).partition(".")[0]
    return int(digits) if digits.isdecimal() else 0
