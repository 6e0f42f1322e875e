"""Dependency trees from CoNLL-U files, aligned with the tokens of a target by their characters.

The first sentence block belongs to raw line 0 of the split, each further one to the line after its predecessor's. A
comment `# line = N` (from 0) above a block gives its line instead: use it where lines are empty, or where a line holds
several sentences, whose trees then follow each other. Lines rise, so that a file of any size is read along.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path

from indigo_cli.data.files import read_lines
from indigo_cli.errors import DataError

NUM_COLUMNS = 10
LINE_COMMENT = re.compile(r"#\s*line\s*=(.*)")
FORM = "one word a line: ID, FORM, then HEAD as column 7 of 10 between tabs; words count from 1 in each block"
ENOUGH_ALIKE = 0.75
"""Share of characters that tokens and tree must have in common; normalisation alone stays far above it."""
UNKNOWN = "\0"
"""A character of a token that nobody knows; no text holds it after tokenisation."""
WINDOW = 1000
"""Characters within which two texts that differ must find together again."""


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


def read_conllu(path: Path | str) -> Iterator[tuple[int, Tree]]:
    """Yield each raw line that has trees, in rising order, with them; one line at a time is in memory.

    Raises:
        DataError: with file and line, for anything that is not CoNLL-U, or blocks that do not come line after line.
    """
    current, tree = -1, None
    for wanted, found in _blocks(path):
        line = current + 1 if wanted is None else wanted
        if tree is not None and line == current:
            tree = tree.followed_by(found)
            continue
        if line < current:
            fix = "sort the blocks by line; the sentences of one line follow each other"
            raise DataError(f"a sentence of line {line} comes after one of line {current}", where=found.where, fix=fix)
        if tree is not None:
            yield current, tree
        current, tree = line, found
    if tree is not None:
        yield current, tree


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
                f"a CoNLL-U word has {NUM_COLUMNS} columns between tabs, this line has {len(columns)}",
                where=where,
                fix=FORM,
            )
        name, form, head = columns[0], columns[1], columns[6]
        if re.fullmatch(r"[0-9]+\.[0-9]+", name):
            continue  # an empty node stands for nothing in the text
        if match := re.fullmatch(r"([0-9]{1,9})-([0-9]{1,9})", name):
            first, last = int(match[1]), int(match[2])
            if first != len(heads) + 1 or last < first or first <= covered:
                raise DataError(
                    f"the contraction {name} does not fit between words {len(heads)} and on", where=where, fix=FORM
                )
            surfaces.append((form, first - 1, last - 1))
            covered = last
            continue
        word = _whole_number(name, where, "the ID column holds a number, a range or an empty node")
        if word != len(heads) + 1:
            raise DataError(f"word {len(heads) + 1} is due here, the ID column says {word}", where=where, fix=FORM)
        parent = _whole_number(head, where, "the HEAD column holds the number of a word, or 0 for a root")
        heads.append(parent - 1 if parent else word - 1)
        if word > covered:
            surfaces.append((form, word - 1, word - 1))
    where = f"{path}:{rows[0][0]}"
    if covered > len(heads):
        raise DataError(
            f"a contraction reaches to word {covered}, but there are {len(heads)} words", where=where, fix=FORM
        )
    for word, parent in enumerate(heads, start=1):
        if parent >= len(heads):
            raise DataError(
                f"word {word} has head {parent + 1}, but there are {len(heads)} words", where=where, fix=FORM
            )
    return Tree(tuple(heads), tuple(surfaces), where)


def _whole_number(text: str, where: str, rule: str) -> int:
    if not re.fullmatch(r"\s*[0-9]{1,9}\s*", text):
        raise DataError(f"{text.strip()!r} is no number here: {rule}", where=where, fix=FORM)
    return int(text)


def align(
    tokens: Sequence[str],
    tree: Tree,
    *,
    normalise: Callable[[str], str] = lambda text: text,
    enough_alike: float = ENOUGH_ALIKE,
) -> tuple[tuple[int, int], ...]:
    """Return the (first, last) word that each token covers: both rise from token to token.

    Args:
        tokens: Text of each token in surface order, without white space; `UNKNOWN` for what nobody knows (`<unk>`).
        tree: The trees of the same line.
        normalise: Brings the words of the tree into the spelling of the tokens.
        enough_alike: Share of the known characters of the tokens that the words must have too.

    Raises:
        DataError: the texts differ too much to be the same sentence.
    """
    if not tokens:
        return ()
    words = [(normalise(text), first, last) for text, first, last in tree.surfaces]
    owner = [word for word, (text, _, _) in enumerate(words) for _ in text]
    if not owner:
        raise DataError("the parse holds no words", where=tree.where, fix=FORM)
    ours, theirs = "".join(tokens), "".join(text for text, _, _ in words)
    places = _places(ours, theirs)
    known = [place for place, character in zip(places, ours, strict=True) if character != UNKNOWN]
    if sum(place is not None for place in known) < enough_alike * len(known):
        raise DataError(
            f"the parsed words do not spell the target: {_clip(theirs)!r} against {_clip(ours)!r}",
            where=tree.where,
            fix="one sentence block a raw line, or `# line = N` (from 0) above each block",
        )
    spans: list[tuple[int, int]] = []
    for first, last in _words_of(tokens, [None if place is None else owner[place] for place in places], len(words)):
        spans.append((words[first][1], words[last][2]))
    return tuple(spans)


def _words_of(tokens: Sequence[str], owner: Sequence[int | None], num_words: int) -> Iterator[tuple[int, int]]:
    """Yield the (first, last) word of each token, given the word of each of their characters, None if unknown.

    Tokens in a row of which nothing is known share the words between their neighbours evenly, in their order; where
    there is none they go with the word to the left, at the start with the first.
    """
    found: list[tuple[int, int] | None] = []
    start = 0
    for token in tokens:
        own = [word for word in owner[start : start + len(token)] if word is not None]
        found.append((min(own), max(own)) if own else None)
        start += len(token)
    left = -1
    for known, group in groupby(enumerate(found), key=lambda entry: entry[1] is not None):
        if known:
            spans = [span for _, span in group if span is not None]
            yield from spans
            left = spans[-1][1]
            continue
        places = [place for place, _ in group]
        after = found[places[-1] + 1] if places[-1] + 1 < len(found) else None
        free = (after[0] if after else num_words) - left - 1
        for i in range(len(places)):
            if free <= 0:
                yield (max(left, 0),) * 2
                continue
            first = i * free // len(places)
            yield left + 1 + first, left + 1 + max(first, (i + 1) * free // len(places) - 1)


def _places(ours: str, theirs: str) -> list[int | None]:
    """Return the place in `theirs` of each character of ours, None where it has none."""
    places: list[int | None] = [None] * len(ours)
    for start, there, length in _same(ours, theirs):
        places[start : start + length] = range(there, there + length)
    return places


def _same(ours: str, theirs: str) -> Iterator[tuple[int, int, int]]:
    """Yield (start, start, length) of runs that both texts have, in rising order.

    Texts that differ here and there cost time that grows with their length, not with its square: what comes next is
    the same, or it is looked for within a window. Of a window's runs those of the first half are taken, so that none
    was cut; where there is none the texts have parted.
    """
    at, there = 0, 0
    while True:
        most = min(len(ours) - at, len(theirs) - there)
        if ours[at : at + most] == theirs[there : there + most]:
            yield at, there, most
            return
        length = next(i for i in range(most) if ours[at + i] != theirs[there + i])
        yield at, there, length
        at, there = at + length, there + length
        mine, other = ours[at : at + WINDOW], theirs[there : there + WINDOW]
        *runs, _ = SequenceMatcher(None, mine, other, autojunk=False).get_matching_blocks()
        whole = at + WINDOW >= len(ours) and there + WINDOW >= len(theirs)
        runs = [run for run in runs if whole or max(run.a, run.b) < WINDOW // 2]
        yield from ((at + run.a, there + run.b, run.size) for run in runs)
        if whole or not runs:
            return
        at, there = at + runs[-1].a + runs[-1].size, there + runs[-1].b + runs[-1].size


def _clip(text: str, limit: int = 60) -> str:
    text = text.replace(UNKNOWN, "<unk>")
    return text if len(text) <= limit else text[: limit - 3] + "..."
