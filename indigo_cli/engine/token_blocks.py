"""Blocks of raw lines to numbered words: the part of `preprocess` that any process can do alone.

A block is small and says all about itself, so that the result does not depend on who does it or on what came before.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indigo_cli.core.line_tokenizer import BagTokenizer, LineSettings, LineTokenizer
from indigo_cli.core.truecase import sentence_starts

Numbers = NDArray[np.uint32]
Counts = NDArray[np.int64]

STARTS_SENTENCE = " "
"""Stands before a word type that starts sentences, whose case is yet to be settled; no token holds a blank."""


@dataclass(frozen=True)
class Reading:
    """How the lines of a split are read.

    Args:
        sides: Name and settings of each side, in the order of its lines in a block.
        source_is_bag: Also make the bag of each target, as the source.
        truecase: Tell words that start a sentence from others, see `STARTS_SENTENCE`.
        max_length: Words; pairs with a longer side are not counted, and cut. 0: every pair stays, and none is counted.
    """

    sides: tuple[tuple[str, LineSettings], ...]
    source_is_bag: bool = False
    truecase: bool = False
    max_length: int = 0


@dataclass(frozen=True)
class TokenBlock:
    """The words of a block.

    Args:
        types: Each different word once.
        words: Of each side, all its words as numbers of `types`, (words,).
        lengths: Of each side, words of each line, (lines,).
        counts: Of each side that was read, how often each type occurs in pairs that may train, (types,).
    """

    types: list[str]
    words: dict[str, Numbers]
    lengths: dict[str, Numbers]
    counts: dict[str, Counts]


class BlockTokenizer:
    """Tokenises blocks of lines as a `Reading` says."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._tokenizers = [(side, LineTokenizer(settings)) for side, settings in reading.sides]
        self._bag = BagTokenizer(dict(self._tokenizers)["target"]) if reading.source_is_bag else None

    def __call__(self, block: Sequence[Sequence[str]]) -> TokenBlock:
        """Return the words of a block.

        Args:
            block: The lines of each side, in the order of `Reading.sides`.
        """
        tokens = {
            side: [self._tokens(tokenizer, line) for line in lines]
            for (side, tokenizer), lines in zip(self._tokenizers, block, strict=True)
        }
        read = list(tokens)
        if self._bag is not None:
            targets = block[read.index("target")]
            tokens["source"] = [self._cut(self._bag.tokenize(line)) for line in targets]
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        words = {side: _numbered(lines, numbers) for side, lines in tokens.items()}
        lengths = {side: np.fromiter(map(len, lines), np.uint32, len(lines)) for side, lines in tokens.items()}
        return TokenBlock(list(numbers), words, lengths, self._count(read, words, lengths, len(numbers)))

    def _tokens(self, tokenizer: LineTokenizer, line: str) -> list[str]:
        tokens = self._cut(tokenizer.tokenize(line))
        if self._reading.truecase:
            for place in [*sentence_starts(tokens)]:
                if not tokenizer.is_protected(tokens[place]):
                    tokens[place] = STARTS_SENTENCE + tokens[place]
        return tokens

    def _cut(self, tokens: list[str]) -> list[str]:
        """Drop what only makes a long line longer: a pair with one word too many is left out as it is."""
        longest = self._reading.max_length
        return tokens[: longest + 1] if longest else tokens

    def _count(
        self, read: Sequence[str], words: Mapping[str, Numbers], lengths: Mapping[str, Numbers], num_types: int
    ) -> dict[str, Counts]:
        longest = self._reading.max_length
        if not longest:
            return {}
        kept: Any = np.logical_and.reduce([(lengths[side] > 0) & (lengths[side] <= longest) for side in read])
        return {
            side: np.bincount(words[side][np.repeat(kept, lengths[side])], minlength=num_types).astype(np.int64)
            for side in read
        }


def _numbered(lines: Sequence[Sequence[str]], numbers: Mapping[str, int]) -> Numbers:
    """Return the numbers of the words of all lines; a new word gets the next one."""
    words = [word for line in lines for word in line]
    return np.fromiter(map(numbers.__getitem__, words), np.uint32, len(words))
