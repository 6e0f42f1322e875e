"""Truecasing: a word that starts a sentence is written as it usually is elsewhere, and output starts with a capital.

Source: Moses's `train-truecaser.perl`, `truecase.perl` and `detruecase.perl` (Koehn et al. 2007). Departures: a colon
ends no sentence (what follows keeps its case both ways), ties go to the spelling that sorts last (small letters), and
no word but the first of a sentence is ever changed.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from indigo_cli.core.format import check_header
from indigo_cli.errors import DataError

FORMAT = "indigo-truecase"
VERSION = 1
SENTENCE_ENDS = frozenset(".?!")
OPENINGS = frozenset(["(", "[", '"', "'", "&apos;", "&quot;", "&#91;", "&#93;"])
"""A sentence may start behind these (and, Moses says, behind a closing bracket)."""

Keep = Callable[[str], object]
"""Tells whether a token keeps its case (a protected one)."""


def sentence_starts(tokens: Sequence[str]) -> Iterator[int]:
    """Yield the places of the words that start a sentence; a line starts one, and so does what ends one before."""
    starts = True
    for place, token in enumerate(tokens):
        if token in SENTENCE_ENDS:
            starts = True
        elif starts and token not in OPENINGS:
            yield place
            starts = False


@dataclass(frozen=True)
class Truecaser:
    """The usual case of words.

    Args:
        usual: From a word in small letters to its usual spelling.
    """

    usual: dict[str, str]

    @classmethod
    def from_counts(cls, counts: Iterable[tuple[str, int]]) -> "Truecaser":
        """Learn from how often each word occurred, sentence starts left out."""
        best: dict[str, tuple[int, str]] = {}
        for word, count in counts:
            small = word.lower()
            if count and small != word.upper():  # digits and signs have no case
                best[small] = max(best.get(small, (0, "")), (count, word))
        return cls({small: word for small, (_, word) in sorted(best.items())})

    def word(self, word: str) -> str:
        """Return a word that starts a sentence in its usual case, as it stands if it was never met elsewhere."""
        return self.usual.get(word.lower(), word)

    def truecase(self, tokens: Sequence[str], *, keep: Keep = lambda token: False) -> list[str]:
        """Return the tokens with each word that starts a sentence in its usual case."""
        changed = list(tokens)
        for place in sentence_starts(tokens):
            if not keep(tokens[place]):
                changed[place] = self.word(tokens[place])
        return changed

    def to_json(self) -> str:
        """Return the content of a truecase file."""
        header = json.dumps({"format": FORMAT, "version": VERSION})
        return f'{{"header": {header},\n"usual": {json.dumps(list(self.usual.values()), indent=0)}}}\n'

    @classmethod
    def from_json(cls, text: str, *, where: str) -> "Truecaser":
        """Read a truecase file.

        Raises:
            DataError: not such a file, or of a newer version.
        """
        try:
            content: Any = json.loads(text)
            check_header(content["header"], where=where, format=FORMAT, version=VERSION)
            return cls({str(word).lower(): str(word) for word in content["usual"]})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            fix = "restore the file that `indigo preprocess` wrote, or run preprocess again"
            raise DataError("this is not a truecase file of indigo", where=where, fix=fix) from error


def recase(tokens: Sequence[str], *, keep: Keep = lambda token: False) -> list[str]:
    """Return the tokens with a capital at the start of each sentence."""
    changed = list(tokens)
    for place in sentence_starts(tokens):
        if not keep(tokens[place]):
            changed[place] = tokens[place][:1].title() + tokens[place][1:]  # Georgian sentences begin small
    return changed
