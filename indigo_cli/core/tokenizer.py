"""Raw lines to tokens and back: Moses, white space, or single characters. No token ever contains white space."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

from indigo_cli.errors import UsageError

SPACE_TOKEN = "<space>"
"""Stands for a run of white space among characters; the other tokens have one character, so text cannot spell it."""

_OTHER_WHITE_SPACE = re.compile(r"[^\S\u00a0 ]")  # blank and no-break space stay: Moses has rules of its own for them
_NEEDS_NORMALIZER = re.compile(
    r"[()%:;`'\"\u201e\u201c\u201d\u2013\u2014\u00b4\u2018\u201a\u2019\u2026\u00ab\u00bb\u00ba\u00a0]|  "
)


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


class MosesTokenizer:
    """Unicode NFC, Moses punctuation normalisation and tokenisation with XML escapes; sacremoses has the rules.

    Args:
        lang: Language code, see `moses_language`.

    Departure from the Moses script: a lone `\\r` is white space and not deleted, which would glue two words.
    """

    def __init__(self, lang: str) -> None:
        import sacremoses  # 0.7 s, so only where it is needed

        code = moses_language(lang)
        self._tokenizer: Any = sacremoses.MosesTokenizer(lang=code)
        self._detokenizer: Any = sacremoses.MosesDetokenizer(lang=code)
        # sacremoses builds these sets (100,000 characters) anew for every token that ends in a full stop.
        lower, alpha = frozenset(self._tokenizer.IsLower), frozenset(self._tokenizer.IsAlpha)
        self._tokenizer.islower = lower.issuperset
        self._tokenizer.isanyalpha = lambda text: not alpha.isdisjoint(text)
        rules = sacremoses.MosesPunctNormalizer(lang=code).substitutions
        self._substitutions: list[tuple[re.Pattern[str], str]] = [(re.compile(rule), new) for rule, new in rules]

    def normalize(self, line: str) -> str:
        """Return the line with NFC letters, plain white space and Moses's punctuation."""
        line = _OTHER_WHITE_SPACE.sub(" ", unicodedata.normalize("NFC", line))
        if _NEEDS_NORMALIZER.search(line):  # every rule needs one of these characters
            for pattern, replacement in self._substitutions:
                line = pattern.sub(replacement, line)
        return line.strip()

    def tokenize(self, line: str) -> list[str]:
        """Return the escaped tokens of the normalised line."""
        tokens: list[str] = self._tokenizer.tokenize(self.normalize(line), escape=True)
        return tokens

    def detokenize(self, tokens: Sequence[str]) -> str:
        """Return plain text: escapes undone, blanks only where people write them."""
        text: str = self._detokenizer.detokenize(list(tokens), unescape=True)
        return text


TOKENIZERS: dict[str, Callable[[str], Tokenizer]] = {
    "moses": MosesTokenizer,
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


def moses_language(lang: str) -> str:
    """Return the code that Moses knows: lower case, without region (`EN` and `en-GB` are `en`); empty is `en`."""
    return re.split(r"[-_]", lang.strip().lower(), maxsplit=1)[0] or "en"


def language_warning(name: str, lang: str) -> str:
    """Return one line for the user if Moses has no rules for the language and falls back to English's, else nothing."""
    if name != "moses":
        return ""
    if not lang.strip():
        return "no language code is set: Moses uses English abbreviations and apostrophe rules"
    if moses_language(lang) in _moses_languages():
        return ""
    return (
        f"Moses has no abbreviation list for language {lang!r}: it falls back to English abbreviations "
        "and splits at every apostrophe"
    )


@cache
def _moses_languages() -> frozenset[str]:
    """Codes with an abbreviation list, and those whose script sacremoses handles apart."""
    from sacremoses.corpus import NonbreakingPrefixes

    return frozenset(NonbreakingPrefixes().available_langs.values()) | {"ja", "ko", "cjk"}
