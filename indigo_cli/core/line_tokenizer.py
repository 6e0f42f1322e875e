"""Raw lines to words and back, with all that a recipe says of a side: protected parts, case, spelling, tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass

from indigo_cli.core.protect import Protector
from indigo_cli.core.recent import remember
from indigo_cli.core.spelling import respell
from indigo_cli.core.tokenizer import make_tokenizer

PROTECTING = ("moses",)
"""Tokenizers that heed `protected`: the others change no character of a word anyway."""


@dataclass(frozen=True)
class LineSettings:
    """How the text of a side is read.

    Args:
        tokenizer: A name in `TOKENIZERS`.
        lang: Language code; it matters to Moses only.
        lowercase: Whether a line is lower-cased before it is tokenised.
        spelling: A name in `SPELLINGS`; empty leaves the spelling alone.
        protected: What stays one token, see `Protector`.
    """

    tokenizer: str
    lang: str = ""
    lowercase: bool = False
    spelling: str = ""
    protected: tuple[str, ...] = ()


class LineTokenizer:
    """Does what `LineSettings` say."""

    def __init__(self, settings: LineSettings) -> None:
        self.settings = settings
        self._tokenizer = make_tokenizer(settings.tokenizer, settings.lang)
        protects = settings.protected and settings.tokenizer in PROTECTING
        self._protector = Protector(settings.protected) if protects else None

    def tokenize(self, line: str) -> list[str]:
        """Return the words of a raw line."""
        if self._protector is None:
            return self._unprotected(line)
        line, mark, taken = self._protector.take_out(line)
        return self._protector.put_back(self._unprotected(line), mark, taken)

    def _unprotected(self, line: str) -> list[str]:
        if self.settings.lowercase:
            line = line.lower()
        return self._tokenizer.tokenize(respell(line, self.settings.spelling))

    def detokenize(self, tokens: Sequence[str]) -> str:
        """Return the plain text of words; protected ones come back character for character."""
        if self._protector is None:
            return self._tokenizer.detokenize(tokens)
        return self._protector.detokenize(tokens, self._tokenizer.detokenize)

    def is_protected(self, token: str) -> bool:
        """Tell whether a word is a protected part."""
        return self._protector is not None and self._protector.text_of(token) is not None


class BagTokenizer:
    """Gives the tokens of a bag of words: each word between white space is tokenised by itself.

    Tokenizers look at neighbours: Moses keeps the full stop of `cats.` inside a line and splits it off at the end, so a
    line tokenised whole would tell something of its order. Here `cats.` gives `cats` and `.` wherever it stands.
    White space, a token for `char`, is no part of a bag.
    """

    def __init__(self, lines: LineTokenizer) -> None:
        self._tokens = remember(lines.tokenize)

    def tokenize(self, line: str) -> list[str]:
        """Return the tokens of a raw line, in the order of its words."""
        return [token for word in line.split() for token in self._tokens(word)]
