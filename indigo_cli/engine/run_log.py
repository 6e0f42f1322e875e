"""`log.jsonl` of a run: rows appended while it trains, read by everybody who wants to know how it went."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from indigo_cli.data.files import atomic_write_bytes
from indigo_cli.engine.disk import RESUME, append, writing

Row = dict[str, Any]


def read_log(path: Path) -> Iterator[tuple[bytes, Row]]:
    """Yield each line without its end, and the row it is; what is not a row is left out, such as a half-written one.

    Raises:
        OSError: the file cannot be read.
    """
    for line in path.read_bytes().split(b"\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and type(row.get("step")) is int:
            yield line, row


class Log:
    """One object a report, written at once.

    Args:
        path: The file; it is made if it is not there.
        last_step: Rows of later steps are cut off first, as a half-written last line is (a resumed run).

    `valid_rows` are the rows of the validations that stood there when it was opened. It closes at the end of a `with`.
    """

    def __init__(self, path: Path, *, last_step: int) -> None:
        self.path = path
        kept = [(line, row) for line, row in read_log(path) if row["step"] <= last_step] if path.exists() else []
        self.valid_rows = [row for _, row in kept if row.get("split") == "valid"]
        with writing(path, then=RESUME):
            atomic_write_bytes(path, b"".join(line + b"\n" for line, _ in kept))
            self._stream = open(path, "ab", buffering=0)

    def write(self, row: Row) -> None:
        """Append a row.

        Raises:
            RunError: there is no room for it; no part of it is left.
        """
        with writing(self.path, then=RESUME):
            append(self._stream, json.dumps(row).encode() + b"\n")

    def sync(self) -> None:
        """Make the rows survive a power cut."""
        with writing(self.path, then=RESUME):
            os.fsync(self._stream.fileno())

    def __enter__(self) -> "Log":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the file, on disk; after an error, that one counts."""
        with self._stream:
            if kind is None:
                self.sync()
