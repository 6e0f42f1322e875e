"""Raw lines to tokens and back: Moses, white space, or single characters. No token ever contains white space."""

from collections.abc import Callable, Sequence
from typing import Protocol

from indigo_cli.core import moses
from indigo_cli.core.moses import MosesDetokenizer, MosesTokenizer
from indigo_cli.errors import UsageError

SPACE_TOKEN = "<space>"
"""Stands for a run of white space among characters; the other tokens have one character, so text cannot spell it."""


class Tokenizer(Protocol):
    """Splits a line and puts it together again."""

    def tokenize(self, line: str) -> list[str]:
        """Return the tokens of a line; none if it holds only white space."""
        ...

    def detokenize(self, tokens: Sequence[str]) -> str:
        """Return the text of the tokens."""
        ...


class WhitespaceTokenizer:
    """Splits at Unicode white space and joins with one blank; the text stays as it stands (no NFC, no escapes)."""

    def tokenize(self, line: str) -> list[str]:
        """Return the runs of characters that are not white space."""
        return line.split()

    def detokenize(self, tokens: Sequence[str]) -> str:
        """Join with one blank."""
        return " ".join(tokens)


class TokenizedText:
    """Text that some Moses tokenizer has split already: taken as it stands, and written as people write it.

    Args:
        lang: Language code, see `moses_language`.
    """

    def __init__(self, lang: str) -> None:
        self._detokenizer = MosesDetokenizer(lang)

    def tokenize(self, line: str) -> list[str]:
        """Return the runs of characters that are not white space."""
        return line.split()

    def detokenize(self, tokens: Sequence[str]) -> str:
        """Return plain text: Moses's escapes undone, blanks only where people write them."""
        return self._detokenizer.detokenize(tokens)


class CharacterTokenizer:
    """One token a code point, `SPACE_TOKEN` for each inner run of white space."""

    def tokenize(self, line: str) -> list[str]:
        """Return the code points; white space at both ends is dropped."""
        tokens: list[str] = []
        for word in line.split():
            if tokens:
                tokens.append(SPACE_TOKEN)
            tokens.extend(word)
        return tokens

    def detokenize(self, tokens: Sequence[str]) -> str:
        """Join without blanks, except where a token stands for one."""
        return "".join(" " if token == SPACE_TOKEN else token for token in tokens)


TOKENIZERS: dict[str, Callable[[str], Tokenizer]] = {
    "moses": MosesTokenizer,
    "tokenized": TokenizedText,
    "none": lambda lang: WhitespaceTokenizer(),
    "char": lambda lang: CharacterTokenizer(),
}


def make_tokenizer(name: str, lang: str) -> Tokenizer:
    """Return the tokenizer of a recipe; `lang` matters to Moses only (ask `language_warning` what to tell the user).

    Raises:
        UsageError: no tokenizer has this name.
    """
    if name not in TOKENIZERS:
        raise UsageError(
            f"unknown tokenizer {name!r}", where="preprocess.tokenizer", fix=f"use one of: {', '.join(TOKENIZERS)}"
        )
    return TOKENIZERS[name](lang)


def language_warning(name: str, lang: str) -> str:
    """Return one line for the user if the tokenizer does not know or does not suit the language, else nothing."""
    return moses.language_warning(lang) if name == "moses" else ""
