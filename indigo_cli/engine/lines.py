"""Input of decoding: a file in fixed blocks, a pipe in whatever has arrived, and the ids of a line within bounds."""

import os
import select
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from indigo_cli.core.text import Codecs
from indigo_cli.core.vocab import UNK
from indigo_cli.data.corpus import Split
from indigo_cli.data.files import STANDARD_STREAM, decode_lines, read_lines
from indigo_cli.errors import DataError

if TYPE_CHECKING:
    from indigo_cli.decoding.places import GivenWords

BLOCK_LINES = 2048
"""Most lines of a block; a batch never crosses one, so that results do not depend on how work is shared. It is eight
chunks of the parser, so that `score` sees the trees that `reorder` writes."""
BLOCK_CHARACTERS = 1 << 22
"""A block ends at the line that makes it so long, so that memory is bounded whatever the lines are."""
CHARACTERS_PER_TOKEN = 100
"""No more of a raw line is looked at than so many characters for each token that the model may read."""
NAMED_LINES = 5
"""So many lines are named in a warning; all are counted."""
CHUNK_BYTES = 1 << 16
PATIENCE_SECONDS = 0.01
"""How long to wait for one more line of a pipe before those that have arrived are answered."""


@dataclass(frozen=True)
class EncodedLine:
    """A line as the encoder reads it.

    Args:
        number: 0-based, in the whole input.
        ids: Source ids, no more than the model may read; none for a blank line.
        cut: Whether something of the line was left out.
        unknown: Whether the line says something, but nothing that the model knows.
        canvas: Words that its output must hold; None = any will do.
        wish: How long its output is to be, in the recipe's `length_unit`; None = nobody has said.
    """

    number: int
    ids: Sequence[int]
    cut: bool = False
    unknown: bool = False
    canvas: "GivenWords | None" = None
    wish: int | None = None


def encode_line(codecs: Codecs, number: int, text: str, *, max_length: int) -> EncodedLine:
    """Return the ids of a raw line; time and memory are bounded whatever stands there.

    Args:
        max_length: Most tokens; of a longer line the first ones are taken (of a bag, those with the lowest ids).
    """
    text = text.strip()  # white space around a line is no token of any tokenizer, and would use up characters
    room = max_length * CHARACTERS_PER_TOKEN
    line = encode_ids(number, codecs.encode_source(text[:room]), max_length=max_length)
    return replace(line, cut=line.cut or len(text) > room, unknown=line.unknown or bool(text and not line.ids))


def encode_ids(number: int, ids: Sequence[int], *, max_length: int) -> EncodedLine:
    """Return a line whose ids are known already; see `encode_line`."""
    kept = ids[:max_length]
    unknown = bool(kept) and all(token == UNK for token in kept)
    return EncodedLine(number, kept, cut=len(ids) > max_length, unknown=unknown)


def encode_item(split: Split, item: int, *, max_length: int) -> EncodedLine:
    """Return the source of an item of a split as decoding reads it; see `encode_line`."""
    ids = split.source[item][: max_length + 1].tolist()  # one more tells that something was cut
    return encode_ids(int(split.lines[item]), ids, max_length=max_length)


@dataclass
class LineCount:
    """How many lines something happened to, and which were the first ones: constant memory."""

    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, number: int) -> None:
        """Count a line (0-based)."""
        self.count += 1
        if len(self.first) < NAMED_LINES:
            self.first.append(number)

    def text(self, what: str) -> str:
        """Return `N lines were WHAT: line 1, 2, ...`."""
        named = ", ".join(str(number + 1) for number in self.first)
        more = ", ..." if self.count > len(self.first) else ""
        return f"{f'{self.count:,} lines were' if self.count > 1 else '1 line was'} {what}: line {named}{more}"


def line_blocks(path: Path | str, *, most: int = BLOCK_LINES) -> Iterator[list[str]]:
    """Yield the lines of a file or of standard input (`-`).

    A writer that waits for its answer before it sends the next line gets it: a block of a pipe or terminal ends as soon
    as no other line has arrived.

    Args:
        most: Most lines of a block.
    """
    if str(path) != STANDARD_STREAM or stat.S_ISREG(_stdin_mode()):
        yield from in_blocks(read_lines(path), most=most)
    else:
        arriving = _Arriving(sys.stdin.fileno())
        yield from in_blocks(decode_lines(arriving, STANDARD_STREAM), most=most, waiting=arriving.more)


def in_blocks(
    lines: Iterable[str], *, most: int = BLOCK_LINES, waiting: Callable[[], bool] = lambda: True
) -> Iterator[list[str]]:
    """Cut lines into blocks; those before a line that cannot be read are given before the error is raised.

    Args:
        most: Most lines of a block.
        waiting: Tells whether another line is there already; a block ends where none is.
    """
    block: list[str] = []
    num_characters = 0
    try:
        for line in lines:
            block.append(line)
            num_characters += len(line)
            if len(block) >= most or num_characters >= BLOCK_CHARACTERS or not waiting():
                yield block
                block, num_characters = [], 0
    except DataError:
        if block:
            yield block
        raise
    if block:
        yield block


def _stdin_mode() -> int:
    try:
        return os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # closed, or not a real file, as in tests
        return stat.S_IFREG


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
