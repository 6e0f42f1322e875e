"""Parts of a line that stay one token, character for character, whatever the tokenizer would make of them."""

import re
import sys
import warnings
from collections.abc import Callable, Sequence

from indigo_cli.core.moses import escape, unescape

_ENDS = r"\s<>\"'\u2018-\u201f\u00ab\u00bb"
PATTERNS = {
    # Up to white space, quotes or angle brackets, without the punctuation that ends the clause around it.
    "url": rf"(?:(?:[Hh][Tt][Tt][Pp][Ss]?|[Ff][Tt][Pp])://|\bwww\.)[^{_ENDS}]*[^{_ENDS}.,:;?!)\]}}]",
    "email": r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "markup": r"</?[A-Za-z][\w:.-]*"
    r"(?:\s+[\w:.-]+=(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>]+))*\s*/?>"
    r"|&(?:#\d+|#x[0-9A-Fa-f]+|[A-Za-z][A-Za-z0-9]*);",
    "placeholder": r"\$?\{\{?[\w.:-]*\}?\}|%\(\w+\)[a-zA-Z]|%(?:\d+\$)?[sdif]\b|\b__\w+?__\b",
}
"""Each takes time linear in the line. What a recipe may name instead of a regular expression."""
_PRIVATE = range(0xF0000, 0xFFFFD)  # a plane whose characters mean nothing


def check_pattern(pattern: str) -> str:
    """Return what is wrong with a pattern of a recipe, empty if nothing is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # of what will mean something else in a later Python
            compiled = re.compile(PATTERNS.get(pattern, pattern))
    except (re.error, RecursionError, OverflowError, FutureWarning) as error:
        return f"{pattern!r} is neither one of {', '.join(PATTERNS)} nor a regular expression: {error}"
    if compiled.search("") is not None:
        return f"the regular expression {pattern!r} matches the empty text: every place of a line would be protected"
    if re.fullmatch(r"[A-Za-z_-]+", pattern) and pattern not in PATTERNS:
        names = ", ".join(PATTERNS)
        return f"{pattern!r} is none of {names}; to protect that very word, write [{pattern[0]}]{pattern[1:]}"
    return ""


class Protector:
    """Takes the protected parts out of a line and puts them back as tokens, escaped as Moses does.

    A part may hold blanks (`<a href="x">`); inside its token they are written `&#32;`.

    Args:
        patterns: Names in `PATTERNS` or regular expressions; where two match, the first of the list has it.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [re.compile(PATTERNS.get(pattern, pattern)) for pattern in patterns]

    def take_out(self, line: str) -> tuple[str, str, list[str]]:
        """Return the line with a mark for each part, the mark (a character that the line lacks), and the tokens."""
        spans: list[tuple[int, int]] = []
        for pattern in self._patterns:
            found = [match.span() for match in pattern.finditer(line) if match[0].strip()]
            spans = _merge(spans, found) if spans else found
        if not spans:
            return line, "", []
        mark = _unused(line)
        kept, end = [], 0
        for start, stop in spans:
            kept.append(line[end:start])
            end = stop
        kept.append(line[end:])
        return f" {mark} ".join(kept), mark, [escape(" ".join(line[a:b].split())) for a, b in spans]

    def detokenize(self, tokens: Sequence[str], detokenize: Callable[[Sequence[str]], str]) -> str:
        """Return the text that a detokenizer makes of the tokens; it sees a plain word for each protected one."""
        texts = [self.text_of(token) for token in tokens]
        taken = [text for text in texts if text is not None]
        if not taken:
            return detokenize(tokens)
        mark = _unused(" ".join(tokens))
        text = detokenize([mark if text is not None else token for token, text in zip(tokens, texts, strict=True)])
        first, *rest = text.split(mark)
        return first + "".join(part + after for part, after in zip(taken, rest, strict=True))

    def put_back(self, tokens: Sequence[str], mark: str, taken: Sequence[str]) -> list[str]:
        """Return the tokens with each mark replaced, in order."""
        parts = iter(taken)
        return [next(parts) if token == mark else token for token in tokens]

    def text_of(self, token: str) -> str | None:
        """Return the characters that a protected token stands for; None if it is no such token."""
        text = unescape(token)
        if " " in text or any(pattern.fullmatch(text) for pattern in self._patterns):
            return text
        return None


def _unused(text: str) -> str:
    """Return a character that means nothing and that the text lacks."""
    return next(character for character in map(chr, _PRIVATE) if character not in text)


def _merge(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans in order, those of the second list only where they overlap none of the first."""
    merged: list[tuple[int, int]] = []
    waiting = iter([*first, (sys.maxsize, sys.maxsize)])
    ahead = next(waiting)
    last = 0  # where the spans of the first list that were passed end
    for start, stop in second:
        while ahead[0] < start:
            merged.append(ahead)
            last, ahead = ahead[1], next(waiting)
        if start >= last and stop <= ahead[0]:
            merged.append((start, stop))
    while ahead[0] < sys.maxsize:
        merged.append(ahead)
        ahead = next(waiting)
    return merged
