"""`decode --canvas FILE`: words that must appear, and where others may come between them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from indigo_cli.core.bpe import CONTINUES
from indigo_cli.core.text import SideCodec
from indigo_cli.data.files import read_lines
from indigo_cli.decoding.places import GivenWords
from indigo_cli.engine.lines import EncodedLine
from indigo_cli.errors import DataError

MARK = "[gap]"
_PARTS = re.compile(r"(\\*)\[gap\]")
"""A mark, wherever it stands; one backslash more than it should have stands for less."""


@dataclass(frozen=True)
class CanvasReader:
    """Turns lines of a canvas file into given words.

    Args:
        codec: Of the targets.
        max_length: Most tokens that a line may give.
    """

    codec: SideCodec
    max_length: int

    def __call__(self, line: str, where: str) -> GivenWords:
        """Return what a line gives: `[gap]` where words may come in; without any mark they may everywhere.

        Text between two marks is tokenised by itself. `\\[gap]` is the word `[gap]`; each further backslash is itself.

        Raises:
            DataError: too many tokens.
        """
        pieces: list[str] = []
        marked: set[int] = set()
        for part in _split(line):
            if part is None:
                marked.add(len(pieces))
            else:
                pieces += self.codec.pieces(part)
        if len(pieces) > self.max_length:
            raise DataError(
                f"the canvas has {len(pieces):,} tokens, and preprocess.max_length is {self.max_length:,}",
                where=where,
                fix="give fewer words",
            )
        inside = self.codec.bpe is not None
        between = [True, *(not (inside and piece.endswith(CONTINUES)) for piece in pieces)]
        opened = tuple(gap in marked if marked else may for gap, may in enumerate(between))
        return GivenWords(tuple(self.codec.vocabulary.encode(pieces)), opened, tuple(pieces))


def with_canvases(
    blocks: Iterable[list[EncodedLine]], path: str, read: CanvasReader, *, num_lines: int | None
) -> Iterator[list[EncodedLine]]:
    """Yield the blocks with the canvas of each line: line N of the file belongs to line N of the source.

    Args:
        num_lines: Of the source; None = it ends with the blocks.

    Raises:
        DataError: one has more lines than the other.
    """
    lines = enumerate(read_lines(path))
    count = 0
    for block in blocks:
        found = []
        for line in block:
            text = next((text for number, text in lines if number == line.number), None)
            if text is None:
                raise _unequal(path, f"no line {line.number + 1}, but the source has")
            found.append(replace(line, canvas=read(text, f"{path}:{line.number + 1}")))
            count = line.number + 1
        yield found
    total = count + sum(1 for _ in lines)
    if total != (count if num_lines is None else num_lines):
        raise _unequal(path, f"{total:,} lines, which the source has not")


def _unequal(path: str, what: str) -> DataError:
    return DataError(f"the canvas file has {what}", where=path, fix="line N of it must belong to line N of the source")


def _split(line: str) -> list[str | None]:
    """Return the texts of a line, and None for each mark."""
    parts: list[str | None] = []
    text, at = "", 0
    for found in _PARTS.finditer(line):
        text += line[at : found.start()]
        at = found.end()
        if found[1]:
            text += found[0][1:]
        else:
            parts += [text, None]
            text = ""
    return [part for part in (*parts, text + line[at:]) if part is None or part.strip()]
