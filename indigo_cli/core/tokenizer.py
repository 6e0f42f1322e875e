"""Raw lines to tokens and back: Moses, white space, or single characters. No token ever contains white space."""

import re
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


class ExactTokenizer:
    """Splits at white space and loses none of it: what is not one blank between two words is a token of its own.

    Such a token is MARK and a code for each character, so that two blanks are `▁__` and an indented tab is `▁9.`. A
    word that itself begins with MARK gets another one. Every line that holds a word comes back character for character.
    """

    MARK = "\u2581"
    _RUNS = re.compile(r"\s+")
    _BLANKS = re.compile(f"{MARK}((?:_|[0-9a-f]{{1,4}}\\.)+)")
    _BLANK = re.compile(r"_|[0-9a-f]+\.")

    def tokenize(self, line: str) -> list[str]:
        """Return words and runs of white space, in the order of the line; nothing if it holds only white space."""
        if not line.strip():
            return []
        tokens: list[str] = []
        done = 0
        for run in self._RUNS.finditer(line):
            if run.start() > done:
                tokens.append(self._word(line[done : run.start()]))
            if run[0] != " " or not run.start() or run.end() == len(line):
                tokens.append(self.MARK + "".join("_" if blank == " " else f"{ord(blank):x}." for blank in run[0]))
            done = run.end()
        if done < len(line):
            tokens.append(self._word(line[done:]))
        return tokens

    def detokenize(self, tokens: Sequence[str]) -> str:
        """Join words with one blank, or with the runs of white space that stand between them."""
        text: list[str] = []
        after_word = False
        for token in tokens:
            blanks = self._text_of_blanks(token)
            if blanks:
                text.append(blanks)
            else:
                text.append(" " * after_word + (token[1:] if token.startswith(2 * self.MARK) else token))
            after_word = not blanks
        return "".join(text)

    def _word(self, word: str) -> str:
        return self.MARK + word if word.startswith(self.MARK) else word

    def _text_of_blanks(self, token: str) -> str:
        found = self._BLANKS.fullmatch(token)
        if not found:
            return ""
        text = "".join(" " if code == "_" else chr(int(code[:-1], 16)) for code in self._BLANK.findall(found[1]))
        return text if text.isspace() and "\n" not in text else ""


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
    "exact": lambda lang: ExactTokenizer(),
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
