"""The Moses tokenizer, sacremoses's rules at several times its speed.

sacremoses rewrites each line some thirty times. All but a few of its rules look at one word between white space alone,
so here the tokens of a word are found once and remembered. What a rule may see beyond a word is told apart:

* a final full stop: whether the line goes on, and with a small letter, a digit, or something else;
* an apostrophe at an end of a word, a comma at the start of a line, a control character: the whole line goes to
  sacremoses.

`tests/core/test_moses.py` compares both on nasty text.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any, cast

KNOWN_WORDS = 50_000
"""How many words a tokenizer remembers, then it begins anew: some 15 MB."""
LONGEST_WORD = 100
"""Characters; longer words are not remembered."""

_OTHER_WHITE_SPACE = re.compile(r"[^\S\u00a0 ]")  # blank and no-break space stay: Moses has rules of its own for them
_NEEDED = re.compile(r"\\[()r]|[^\w\s()\[\]\\.,<>*+?!]|\xa0")
"""A character in the pattern of a normalising rule, outside brackets: every text that the rule changes holds it."""
_CONTROL = re.compile(r"[\x00-\x1f]")
_QUOTED = re.compile(r"(?<!\S)'|'(?!\S)")
_DIGITS = frozenset("0123456789")
_ALWAYS_SPLIT = frozenset(",:;?!")
"""A token of their own at the end of a word of letters and digits."""


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
        # sacremoses builds these sets (100,000 characters) anew for every token that ends in a full stop.
        self._lower, alpha = frozenset(self._tokenizer.IsLower), frozenset(self._tokenizer.IsAlpha)
        self._tokenizer.islower = self._lower.issuperset
        self._tokenizer.isanyalpha = lambda text: not alpha.isdisjoint(text)
        self._plain = frozenset(self._tokenizer.IsAlnum) | {"-"}
        numbered = frozenset(self._tokenizer.NUMERIC_ONLY_PREFIXES)  # `No.` is one before a number only
        self._abbreviations = frozenset(self._tokenizer.NONBREAKING_PREFIXES) - numbered
        self._numbered = numbered
        rules = sacremoses.MosesPunctNormalizer(lang=code).substitutions
        self._rules = [(_needed(rule), re.compile(rule), str(new)) for rule, new in rules]
        self._detokenizer = MosesDetokenizer(lang)
        self._known: dict[str, tuple[str, ...]] = {}

    def normalize(self, line: str) -> str:
        """Return the line with NFC letters, plain white space and Moses's punctuation."""
        line = unicodedata.normalize("NFC", line)
        if not line.isprintable():  # a blank is; no other white space is
            line = _OTHER_WHITE_SPACE.sub(" ", line)
        for needed, pattern, replacement in self._rules:
            if needed in line:
                line = pattern.sub(replacement, line)
        return line.strip()

    def tokenize(self, line: str) -> list[str]:
        """Return the escaped tokens of the normalised line."""
        line = self.normalize(line)
        if self._needs_whole(line):
            return self._by_sacremoses(line)
        words = line.split()
        parts = list(map(self._known.get, words))
        if None in parts:
            parts = [self._tokens(words, i) if part is None else part for i, part in enumerate(parts)]
        return list(chain.from_iterable(cast(list[tuple[str, ...]], parts)))

    @staticmethod
    def _needs_whole(line: str) -> bool:
        """Tell whether a rule may look further than these words and full stops, see above."""
        return (
            line.startswith(",")
            or ("'" in line and _QUOTED.search(line) is not None)
            or (not line.isprintable() and _CONTROL.search(line) is not None)
        )

    def _tokens(self, words: Sequence[str], place: int) -> tuple[str, ...]:
        """Return the tokens of a word that is not known, or not without what follows."""
        word = words[place]
        if not word.endswith("."):
            return self._remember(word, self._split(word, " A"))
        after = words[place + 1][0] if place + 1 < len(words) else ""
        # All that the rule of full stops asks of what follows; the first character of a word starts a token.
        context = " a" if after in self._lower else " 5" if after in _DIGITS else " A" if after else " "
        known = self._known.get(word + context)
        return known if known is not None else self._remember(word + context, self._split(word, context))

    def _remember(self, key: str, tokens: tuple[str, ...]) -> tuple[str, ...]:
        if len(key) <= LONGEST_WORD:
            if len(self._known) >= KNOWN_WORDS:
                self._known.clear()
            self._known[key] = tokens
        return tokens

    def _split(self, word: str, context: str) -> tuple[str, ...]:
        """Return the tokens of a word inside a line that goes on with `context`, a blank alone where it ends."""
        stem, last = word[:-1], word[-1]
        if "MULTI" not in word:  # a mark of sacremoses's own
            if self._plain.issuperset(word):
                return (word,)
            if stem and self._plain.issuperset(stem):
                if last in _ALWAYS_SPLIT:
                    return stem, last
                if last == ".":
                    stays = stem in self._abbreviations or context == " a"
                    return (word,) if stays or (context == " 5" and stem in self._numbered) else (stem, last)
        # Words on both sides stand for the rest of the line, so that no rule takes this for its start or end.
        tokens = self._by_sacremoses(f"A {word}{context}")
        return tuple(tokens[1:] if context == " " else tokens[1:-1])

    def _by_sacremoses(self, line: str) -> list[str]:
        tokens: list[str] = self._tokenizer.tokenize(line, escape=True)
        return tokens

    def detokenize(self, tokens: Sequence[str]) -> str:
        """Return plain text: escapes undone, blanks only where people write them."""
        return self._detokenizer.detokenize(tokens)


def _needed(rule: str) -> str:
    """Return a text without which a normalising rule changes nothing, empty if unsure."""
    if rule == " +":
        return "  "
    found = _NEEDED.search(re.sub(r"\[[^]]*\]", "", rule))
    return found[0].removeprefix("\\").replace("r", "\r") if found else ""


class MosesDetokenizer:
    """Moses's detokenizer alone, see `MosesTokenizer`."""

    def __init__(self, lang: str) -> None:
        import sacremoses

        self._detokenizer: Any = sacremoses.MosesDetokenizer(lang=moses_language(lang))

    def detokenize(self, tokens: Sequence[str]) -> str:
        """Return plain text: escapes undone, blanks only where people write them."""
        text: str = self._detokenizer.detokenize(list(tokens), unescape=True)
        return text


def escape(text: str) -> str:
    """Return the text as Moses writes it inside a token; a blank too, since no token holds one."""
    for character, name in _ESCAPES.items():
        text = text.replace(character, name)
    return text


def unescape(token: str) -> str:
    """Undo `escape`."""
    for character, name in reversed(_ESCAPES.items()):
        token = token.replace(name, character)
    return token


_ESCAPES = {
    "&": "&amp;",
    "|": "&#124;",
    "<": "&lt;",
    ">": "&gt;",
    "'": "&apos;",
    '"': "&quot;",
    "[": "&#91;",
    "]": "&#93;",
    " ": "&#32;",
}


def language_code(lang: str) -> str:
    """Return the code in lower case, without region: `EN` and `en-GB` are `en`."""
    return re.split(r"[-_]", lang.strip().lower(), maxsplit=1)[0]


def moses_language(lang: str) -> str:
    """Return the code that Moses knows; empty is `en`."""
    return language_code(lang) or "en"


WITHOUT_BLANKS = frozenset(["zh", "ja", "th", "lo", "km", "my", "bo", "dz", "yue", "wuu"])
"""Languages whose words are not written apart."""


def language_warning(lang: str) -> str:
    """Return one line for the user if Moses does not split the language well, else nothing."""
    code = moses_language(lang)
    if not lang.strip():
        return "no language code is set: Moses uses English abbreviations and apostrophe rules"
    if code in WITHOUT_BLANKS:
        return (
            f'{lang!r} is written without blanks and Moses does not separate its words: use tokenizer = "char", '
            'or segment the text yourself and use tokenizer = "none"'
        )
    if code in _languages() and not lang.strip().startswith(("-", "_")):  # a region alone names no language
        return ""
    return (
        f"Moses has no abbreviation list for language {lang!r}: it falls back to English abbreviations "
        "and splits at every apostrophe"
    )


@cache
def _languages() -> frozenset[str]:
    """Codes with an abbreviation list, and those whose script sacremoses handles apart."""
    from sacremoses.corpus import NonbreakingPrefixes

    return frozenset(NonbreakingPrefixes().available_langs.values()) | {"ja", "ko", "cjk"}
