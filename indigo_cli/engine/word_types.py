"""The different words of all splits, how often each trains, and the files that hold texts as numbers of them.

This table is the one part of `preprocess` whose memory grows with the text: some 200 bytes a word type.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import numpy as np

from indigo_cli.data.corpus import SIDES
from indigo_cli.engine.token_blocks import Counts, Numbers, TokenBlock


class WordTypes:
    """Numbers words in the order in which they come, and counts them by side."""

    def __init__(self) -> None:
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._counts: dict[str, Counts] = {side: np.zeros(0, np.int64) for side in SIDES}

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def words(self) -> list[str]:
        """Every word, word i has number i."""
        return list(self._numbers)

    def counts(self, side: str) -> Counts:
        """Return how often each word occurs on a side of the training pairs, (types,)."""
        counts = np.zeros(len(self), np.int64)
        known = self._counts[side][: len(self)]
        counts[: len(known)] = known
        return counts

    def add(self, block: TokenBlock) -> dict[str, Numbers]:
        """Count the words of a block; return those of each side as numbers of this table."""
        numbers = np.fromiter(map(self._numbers.__getitem__, block.types), np.uint32, len(block.types))
        for side, counts in block.counts.items():
            if len(self._counts[side]) < len(self):
                grown = np.zeros(len(self) * 3 // 2, np.int64)
                grown[: len(self._counts[side])] = self._counts[side]
                self._counts[side] = grown
            self._counts[side][numbers] += counts
        return {side: numbers[words] for side, words in block.words.items()}


class NumberedText:
    """The words of a split on disk, block by block: one file of numbers and one of lengths for each side.

    Args:
        folder: Where the files lie until `delete`.
        split: Names them.
    """

    def __init__(self, folder: Path, split: str) -> None:
        self._folder = folder
        self._split = split
        self._sides: tuple[str, ...] = ()
        self._blocks: list[tuple[int, dict[str, int]]] = []  # lines, and words of each side

    def append(self, words: Mapping[str, Numbers], lengths: Mapping[str, Numbers]) -> None:
        """Write a block: the words of each side, (words,), and how many there are in each line, (lines,)."""
        self._sides = tuple(words)
        for side in words:
            _append(self._path(side, "words"), words[side])
            _append(self._path(side, "lengths"), lengths[side])
        self._blocks.append((len(lengths[self._sides[0]]), {side: len(words[side]) for side in words}))

    def __iter__(self) -> Iterator[dict[str, tuple[Numbers, Numbers]]]:
        """Yield words and lengths of each side, block by block."""
        places = {(side, kind): 0 for side in self._sides for kind in ("words", "lengths")}

        def read(side: str, kind: str, items: int) -> Numbers:
            found = np.fromfile(self._path(side, kind), np.uint32, items, offset=places[side, kind])
            places[side, kind] += found.nbytes
            return found

        for lines, words in self._blocks:
            yield {side: (read(side, "words", words[side]), read(side, "lengths", lines)) for side in self._sides}

    def delete(self) -> None:
        """Remove the files."""
        for side in self._sides:
            for kind in ("words", "lengths"):
                self._path(side, kind).unlink()

    def _path(self, side: str, kind: str) -> Path:
        return self._folder / f".{self._split}.{side}.{kind}"


def _append(path: Path, values: Numbers) -> None:
    with open(path, "ab") as stream:  # open no longer than needed: nothing to close when a run is broken off
        stream.write(values.tobytes())
