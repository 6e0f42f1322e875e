"""Input of decoding, in blocks: a file in fixed blocks, a pipe in whatever has arrived."""

import queue
import stat
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from indigo_cli.data.files import STANDARD_STREAM, read_lines

BLOCK_LINES = 2000
"""Lines of a block; a batch never crosses one, so that results do not depend on how work is shared."""
PATIENCE_SECONDS = 0.01
"""How long to wait for one more line of a pipe before those that have arrived are answered."""


def line_blocks(path: Path | str) -> Iterator[list[str]]:
    """Yield the lines of a file or of standard input (`-`).

    A writer that waits for its answer before it sends the next line gets it: a pipe or terminal is read by a thread,
    and a block ends as soon as nothing more has arrived.
    """
    if str(path) != STANDARD_STREAM or stat.S_ISREG(_stdin_mode()):
        lines = read_lines(path)
        while block := list(islice(lines, BLOCK_LINES)):
            yield block
    else:
        yield from _arriving_blocks()


def _stdin_mode() -> int:
    import os

    try:
        return os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):  # not a real file, as in tests
        return stat.S_IFREG


def _arriving_blocks() -> Iterator[list[str]]:
    arrived: queue.Queue[str | BaseException | None] = queue.Queue(maxsize=2 * BLOCK_LINES)

    def read() -> None:
        try:
            for line in read_lines(STANDARD_STREAM):
                arrived.put(line)
            arrived.put(None)
        except BaseException as error:  # told to the one who waits
            arrived.put(error)

    threading.Thread(target=read, daemon=True, name="indigo-stdin").start()
    while True:
        block: list[str] = []
        ended: BaseException | None = None
        more = True
        while len(block) < BLOCK_LINES:
            try:
                item = arrived.get(timeout=PATIENCE_SECONDS if block else None)
            except queue.Empty:
                break
            if not isinstance(item, str):
                more, ended = False, item
                break
            block.append(item)
        if block:
            yield block
        if ended is not None:
            raise ended
        if not more:
            return
