"""Dependency trees from CoNLL-U files, aligned with the tokens of a target by their characters.

The first sentence block belongs to raw line 0 of the split, each further one to the line after its predecessor's. A
comment `# line = N` (from 0) above a block gives its line instead: use it where lines are empty, or where a line holds
several sentences, whose trees then follow each other.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from indigo_cli.data.files import read_lines
from indigo_cli.errors import DataError

NUM_COLUMNS = 10
LINE_COMMENT = re.compile(r"#\s*line\s*=(.*)")
ENOUGH_ALIKE = 0.75
"""Share of characters that tokens and tree must have in common; normalisation alone stays far above it."""


@dataclass(frozen=True)
class Tree:
    """The trees of one raw line.

    Args:
        heads: Head of each word, 0-based; a word that is its own head is a root.
        surfaces: (text, first word, last word) in reading order: a word, or a contraction that stands for several.
        where: `file:line` of its first word.
    """

    heads: tuple[int, ...]
    surfaces: tuple[tuple[str, int, int], ...]
    where: str

    def followed_by(self, other: "Tree") -> "Tree":
        """Return both as the trees of one line."""
        shift = len(self.heads)
        heads = self.heads + tuple(head + shift for head in other.heads)
        surfaces = self.surfaces + tuple((text, first + shift, last + shift) for text, first, last in other.surfaces)
        return Tree(heads, surfaces, self.where)


def read_conllu(path: Path | str) -> dict[int, Tree]:
    """Return the trees of each raw line.

    Raises:
        DataError: with file and line, for anything that is not CoNLL-U.
    """
    trees: dict[int, Tree] = {}
    line_number = -1
    for wanted, tree in _blocks(path):
        line_number = line_number + 1 if wanted is None else wanted
        trees[line_number] = trees[line_number].followed_by(tree) if line_number in trees else tree
    return trees


def _blocks(path: Path | str) -> Iterator[tuple[int | None, Tree]]:
    """Yield the line that each block names, and its tree."""
    wanted: int | None = None
    rows: list[tuple[int, str]] = []
    number = 0
    for number, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            if rows:
                yield wanted, _tree(path, rows)
                wanted, rows = None, []
        elif not text.startswith("#"):
            rows.append((number, text))
        elif match := LINE_COMMENT.fullmatch(text.rstrip()):
            wanted = _whole_number(match[1], f"{path}:{number}", "`# line =` needs the number of a raw line, from 0")
    if rows:
        yield wanted, _tree(path, rows)


def _tree(path: Path | str, rows: Sequence[tuple[int, str]]) -> Tree:
    """Parse the word lines of one block."""
    heads: list[int] = []
    surfaces: list[tuple[str, int, int]] = []
    covered = 0  # words up to this number belong to a contraction
    for number, text in rows:
        where = f"{path}:{number}"
        columns = text.split("\t")
        if len(columns) != NUM_COLUMNS:
            raise DataError(
                f"a CoNLL-U word has {NUM_COLUMNS} columns between tabs, this line has {len(columns)}", where=where
            )
        name, form, head = columns[0], columns[1], columns[6]
        if re.fullmatch(r"\d+\.\d+", name):
            continue  # an empty node stands for nothing in the text
        if match := re.fullmatch(r"(\d+)-(\d+)", name):
            first, last = int(match[1]), int(match[2])
            if first != len(heads) + 1 or last < first or first <= covered:
                raise DataError(f"the contraction {name} does not fit between words {len(heads)} and on", where=where)
            surfaces.append((form, first - 1, last - 1))
            covered = last
            continue
        word = _whole_number(name, where, "the ID column holds a number, a range or an empty node")
        if word != len(heads) + 1:
            raise DataError(f"word {len(heads) + 1} is due here, the ID column says {word}", where=where)
        parent = _whole_number(head, where, "the HEAD column holds the number of a word, or 0 for a root")
        heads.append(parent - 1 if parent else word - 1)
        if word > covered:
            surfaces.append((form, word - 1, word - 1))
    where = f"{path}:{rows[0][0]}"
    if covered > len(heads):
        raise DataError(f"a contraction reaches to word {covered}, but there are {len(heads)} words", where=where)
    for word, parent in enumerate(heads, start=1):
        if parent >= len(heads):
            raise DataError(f"word {word} has head {parent + 1}, but there are {len(heads)} words", where=where)
    return Tree(tuple(heads), tuple(surfaces), where)


def _whole_number(text: str, where: str, rule: str) -> int:
    if not re.fullmatch(r"\s*[0-9]{1,9}\s*", text):
        raise DataError(f"{text.strip()!r} is no number here: {rule}", where=where)
    return int(text)


def align(
    tokens: Sequence[str | None], tree: Tree, *, normalise: Callable[[str], str] = lambda text: text
) -> tuple[tuple[int, int], ...]:
    """Return the (first, last) word that each token covers.

    Args:
        tokens: Text of each token in surface order; None where the text is unknown (`<unk>`).
        tree: The trees of the same line.
        normalise: Brings the words of the tree into the spelling of the tokens.

    Raises:
        DataError: the texts differ too much to be the same sentence.
    """
    if not tokens:
        return ()
    words = [(normalise(text), first, last) for text, first, last in tree.surfaces]
    theirs = "".join(text for text, _, _ in words)
    owner = [(first, last) for text, first, last in words for _ in text]
    if not owner:
        raise DataError("the parse holds no words", where=tree.where)
    ours = "".join("\0" if token is None else token for token in tokens)  # no text holds U+0000 after tokenisation
    places: list[int | None] = list(range(len(ours))) if ours == theirs else _matches(ours, theirs, tree.where)
    spans: list[tuple[int, int]] = []
    start = 0
    for token in tokens:
        stop = start + (1 if token is None else len(token))
        found = [place for place in places[start:stop] if place is not None] or _gap(places, start, stop, len(theirs))
        spans.append((owner[min(found)][0], owner[max(found)][1]))
        start = stop
    return tuple(spans)


def _matches(ours: str, theirs: str, where: str) -> list[int | None]:
    """Return the place in `theirs` of each character of ours, None where it has none."""
    places: list[int | None] = [None] * len(ours)
    for block in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        places[block.a : block.a + block.size] = range(block.b, block.b + block.size)
    known = [place for place, character in zip(places, ours, strict=True) if character != "\0"]
    alike = sum(place is not None for place in known)
    if not theirs or alike < ENOUGH_ALIKE * len(known):
        raise DataError(
            f"the parsed words do not spell the target: {_clip(theirs)!r} against {_clip(ours)!r}",
            where=where,
            fix="one sentence block a raw line, or `# line = N` (from 0) above each block",
        )
    return places


def _gap(places: Sequence[int | None], start: int, stop: int, end: int) -> list[int]:
    """Return the characters that a token without a match stands for: those between its neighbours, or the left one."""
    left = next((place for place in reversed(places[:start]) if place is not None), -1)
    right = next((place for place in places[stop:] if place is not None), end)
    if right - left > 1:
        return [left + 1, right - 1]
    return [left] if left >= 0 else [min(right, end - 1)]


def _clip(text: str, limit: int = 60) -> str:
    text = text.replace("\0", "<unk>")
    return text if len(text) <= limit else text[: limit - 3] + "..."
