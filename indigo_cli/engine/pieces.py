"""What the word types of a corpus consist of, worked out once for each; texts of any length are then array look-ups."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indigo_cli.core.bpe import BPE
from indigo_cli.core.vocab import Vocabulary
from indigo_cli.engine.token_blocks import Counts, Numbers

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """Pieces of every word as numbers: of `names` at first, of a vocabulary after `ids`.

    Args:
        numbers: Of all words, one after another.
        starts: (types,) int64; the pieces of word i begin at `numbers[starts[i]]`,
        sizes: (types,) int64; and are so many.
        names: Piece of each number.
    """

    numbers: NDArray[np.uint32]
    starts: Ints
    sizes: Ints
    names: list[str]

    @classmethod
    def of_words(cls, words: Sequence[str], bpe: BPE | None) -> "Pieces":
        """Split every word; None leaves words whole."""
        known: defaultdict[str, int] = defaultdict(count().__next__)
        numbers, lengths = array("I"), array("q")
        for word in words:
            pieces = (word,) if bpe is None else bpe.split(word)
            numbers.extend(map(known.__getitem__, pieces))
            lengths.append(len(pieces))
        sizes = np.frombuffer(lengths, np.int64)
        return cls(np.frombuffer(numbers, np.uint32), np.cumsum(sizes) - sizes, sizes, list(known))

    def count(self, counts: Counts) -> Counter[str]:
        """Return how often each piece occurs where the words occur so often, (types,); not those that never do."""
        totals = np.zeros(len(self.names), np.int64)
        np.add.at(totals, self.numbers, np.repeat(counts, self.sizes))
        return Counter({name: total for name, total in zip(self.names, totals.tolist(), strict=True) if total})

    def ids(self, vocabulary: Vocabulary) -> "Pieces":
        """Return the same with the ids of a vocabulary for numbers."""
        return replace(self, numbers=np.array(vocabulary.encode(self.names), np.uint32)[self.numbers])

    def encode(self, words: Numbers, lengths: Numbers) -> tuple[NDArray[np.uint32], Ints]:
        """Return the pieces of lines of words.

        Args:
            words: Word types of all lines, (words,).
            lengths: Words of each line, (lines,).
        Returns: numbers of all lines, (pieces,), and how many each line has, (lines,).
        """
        sizes = self.sizes[words]
        ends: Any = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(ends[-1]) + np.repeat(self.starts[words] - ends[:-1], sizes)
        lines = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return self.numbers[places], np.diff(ends[lines])
