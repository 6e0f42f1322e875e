"""Input of decoding, in blocks: a file in fixed blocks, a pipe in whatever has arrived."""

import os
import select
import stat
import sys
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from indigo_cli.data.files import STANDARD_STREAM, decode_lines, read_lines
from indigo_cli.errors import DataError

BLOCK_LINES = 2000
"""Lines of a block; a batch never crosses one, so that results do not depend on how work is shared."""
CHUNK_BYTES = 1 << 16
PATIENCE_SECONDS = 0.01
"""How long to wait for one more line of a pipe before those that have arrived are answered."""


def line_blocks(path: Path | str) -> Iterator[list[str]]:
    """Yield the lines of a file or of standard input (`-`).

    A writer that waits for its answer before it sends the next line gets it: a block of a pipe or terminal ends as soon
    as no other line has arrived.
    """
    if str(path) != STANDARD_STREAM or stat.S_ISREG(_stdin_mode()):
        lines = read_lines(path)
        while block := list(islice(lines, BLOCK_LINES)):
            yield block
    else:
        yield from _arriving_blocks()


def _stdin_mode() -> int:
    try:
        return os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # closed, or not a real file, as in tests
        return stat.S_IFREG


def _arriving_blocks() -> Iterator[list[str]]:
    arriving = _Arriving(sys.stdin.fileno())
    block: list[str] = []
    try:
        for line in decode_lines(arriving, STANDARD_STREAM):
            block.append(line)
            if len(block) == BLOCK_LINES or not arriving.more():
                yield block
                block = []
    except DataError:
        if block:
            yield block
        raise


class _Arriving:
    """Raw lines of a pipe or terminal, and whether there is one more already.

    It reads the descriptor itself: a thread that waits in Python's own stdin makes the interpreter abort when a signal
    ends the program.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._unfinished: list[bytes] = []
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        while self._lines or not self._ended:
            if self._lines:
                yield self._lines.popleft()
            else:
                self._read()

    def more(self) -> bool:
        """Tell whether a whole line has arrived, or arrives soon."""
        while not (self._lines or self._ended) and select.select([self._descriptor], [], [], PATIENCE_SECONDS)[0]:
            self._read()
        return bool(self._lines)

    def _read(self) -> None:
        """Take what there is; wait if there is nothing."""
        data = os.read(self._descriptor, CHUNK_BYTES)
        self._ended = not data
        first, *others = data.split(b"\n")
        self._unfinished.append(first)
        for part in others:
            self._lines.append(b"".join(self._unfinished) + b"\n")
            self._unfinished = [part]
        if self._ended and any(self._unfinished):
            self._lines.append(b"".join(self._unfinished))
