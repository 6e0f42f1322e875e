"""What `indigo score` reads: pairs of a split, pairs of text files, or the hypotheses of a traces file; in blocks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import NamedTuple

import numpy as np

from indigo_cli.core.format import parse_object
from indigo_cli.core.order import Order
from indigo_cli.core.text import Codecs
from indigo_cli.core.vocab import UNK
from indigo_cli.data import traces_file
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import STANDARD_STREAM, parse_jsonl, read_header, read_lines
from indigo_cli.data.traces_file import TraceRecord
from indigo_cli.engine.lines import EncodedLine, encode_item, encode_line
from indigo_cli.errors import DataError, UsageError

LONGEST_TARGET = 5000
"""Tokens. Memory grows with the square of the length, and a line that is cut would be another target."""


@dataclass(frozen=True)
class Item:
    """One target to score.

    Args:
        line: 0-based line of its source.
        source: What the encoder reads, and how it came about.
        target: Vocabulary ids in surface order.
        order: The only order; None where orders come from elsewhere.
        rank: Of a hypothesis.
        given: So many words of the order stood before anything was predicted.
        ended: Whether `<eod>` is part of it.
        rounds: Of a hypothesis: the round of each word, in the order of generation.
        open_gaps: See `GenerationTrace`.
        wish: How long the target was to be, see `TraceRecord`; None = as long as it is.
    """

    line: int
    source: EncodedLine
    target: Sequence[int]
    order: Order | None = None
    rank: int | None = None
    given: int = 0
    ended: bool = True
    rounds: tuple[int, ...] = ()
    open_gaps: tuple[int, ...] | None = None
    wish: int | None = None


class TextPair(NamedTuple):
    """A line of text and its source.

    Args:
        line: 0-based.
    """

    line: int
    source: str
    target: str


class SplitSources:
    """Sources of a split by raw line number, in any order."""

    def __init__(self, corpus: Corpus, name: str, *, max_length: int) -> None:
        self._split, self._max_length = corpus.split(name), max_length

    def __call__(self, line: int, where: str) -> EncodedLine:
        """Return a source; `where` asks for it."""
        i = int(np.searchsorted(self._split.lines, line))
        if i == len(self._split) or self._split.lines[i] != line:
            what = f"line {line} (from 0) is not a kept pair of split {self._split.name!r}"
            raise DataError(what, where=where, fix="name the split that was decoded, or its text with --input")
        return self.at(i)

    def at(self, i: int) -> EncodedLine:
        """Return the source of item i."""
        return encode_item(self._split, i, max_length=self._max_length)


class TextSources:
    """Sources of a text file, asked for in the order of its lines: nothing but the last one is in memory."""

    def __init__(self, codecs: Codecs, path: str, *, max_length: int) -> None:
        self._lines = enumerate(read_lines(path))
        self._path, self._codecs, self._max_length = path, codecs, max_length
        self._last: EncodedLine | None = None

    def __call__(self, line: int, where: str) -> EncodedLine:
        """Return the source of a line; `where` asks for it."""
        if self._last is not None and line < self._last.number:
            raise DataError(f"id {line} comes behind id {self._last.number}", where=where, fix="sort the file by id")
        if self._last is None or line > self._last.number:
            number, text = next(((number, text) for number, text in self._lines if number == line), (line, None))
            if text is None:
                raise DataError(f"{self._path} has no line {line} (from 0)", where=where, fix="give the text decoded")
            self._last = encode_line(self._codecs, number, text, max_length=self._max_length)
        return self._last


def split_items(corpus: Corpus, name: str, *, max_length: int, within: slice = slice(None)) -> Iterator[Item]:
    """Yield the pairs of a split, or those within a range of it."""
    sources, split = SplitSources(corpus, name, max_length=max_length), corpus.split(name)
    for i in range(*within.indices(len(split))):
        line = int(split.lines[i])
        yield _checked(Item(line, sources.at(i), split.target[i].tolist()), f"line {line} (from 0) of split {name}")


def text_items(
    codecs: Codecs,
    sources: Iterable[str] | None,
    targets: Iterable[str],
    *,
    max_length: int,
    names: tuple[str, str] = ("the sources", "the targets"),
) -> Iterator[Item]:
    """Yield pairs of raw lines.

    Args:
        codecs: Text to ids.
        sources: None where they are made from the targets.
        targets: As many.
        max_length: Of sources, which are cut.
        names: Of both sides, for messages.

    Raises:
        DataError: one has more lines than the other; found at the end of the shorter one.
    """
    for pair in text_pairs(sources, targets, names=names):
        yield text_item(codecs, pair, max_length=max_length, name=names[1])


def text_pairs(sources: Iterable[str] | None, targets: Iterable[str], *, names: tuple[str, str]) -> Iterator[TextPair]:
    """Yield pairs of raw lines, not yet encoded; see `text_items`."""
    source, target = names
    pairs = ((line, line) for line in targets) if sources is None else zip_longest(sources, targets)
    for number, (source_line, target_line) in enumerate(pairs):
        if source_line is None or target_line is None:
            short, long = (source, target) if source_line is None else (target, source)
            raise DataError(
                f"the files do not belong together: {short} has {number} lines, {long} has more",
                where=f"{short}:{number + 1}",
                fix="line N of one must belong to line N of the other",
            )
        yield TextPair(number, source_line, target_line)


def text_item(codecs: Codecs, pair: TextPair, *, max_length: int, name: str) -> Item:
    """Return a pair as ids; `name` of the targets is for messages. See `text_items`."""
    encoded = encode_line(codecs, pair.line, pair.source, max_length=max_length)
    return _checked(Item(pair.line, encoded, codecs.target.encode(pair.target)), f"{name}:{pair.line + 1}")


def trace_items(
    records: Iterable[TraceRecord], sources: SplitSources | TextSources, *, vocabulary_size: int
) -> Iterator[Item]:
    """Yield the hypotheses of a traces file as they stand, with the sources that their ids name."""
    for record in records:
        words = record.trace().tokens()  # refuses a record without ids
        if not all(UNK <= word < vocabulary_size for word in words):
            what = "ids are not all words of the vocabulary"
            raise DataError(what, where=f"{record.where}, ids", fix="write it with `indigo decode`")
        yield _checked(
            Item(
                record.id,
                sources(record.id, record.where),
                words,
                order=record.order,
                rank=record.rank,
                given=record.given,
                ended=record.finished,
                rounds=record.rounds,
                open_gaps=record.open_gaps,
                wish=record.wish,
            ),
            record.where,
        )


def _checked(item: Item, where: str) -> Item:
    if len(item.target) > LONGEST_TARGET:
        raise DataError(
            f"the target has {len(item.target):,} tokens, and at most {LONGEST_TARGET:,} can be scored",
            where=where,
            fix="shorten the line, or make it empty",
        )
    return item


def open_targets(
    path: str, vocabulary_digest: str, length_unit: str | None = None
) -> tuple[Iterator[str], Iterator[TraceRecord] | None]:
    """Return the lines of a target file, and the hypotheses in them if its header line says that they are traces.

    Args:
        path: The file.
        vocabulary_digest: Of the run's targets.
        length_unit: In which the run is told lengths; None if it is told none.

    Raises:
        DataError: traces of another vocabulary, with wishes in another unit, or of a newer version.
    """
    lines = read_lines(path)
    head = list(islice(lines, 1))
    lines = chain(head, lines)
    if not are_traces(head):
        return lines, None
    rows = parse_jsonl(lines, path)
    header = read_header(rows, path=path, format=traces_file.FORMAT, version=traces_file.VERSION)
    if header.get("vocabulary") != vocabulary_digest:
        raise DataError(
            "these traces have another vocabulary than the run: ids mean other words",
            where=f"{path}:1",
            fix="score the text itself: `indigo decode` without --format jsonl",
        )
    unit = header.get("length_unit")
    if length_unit is not None and unit is not None and unit != length_unit:
        raise DataError(
            f"these traces have wishes in another unit ({unit}) than the run ({length_unit})",
            where=f"{path}:1",
            fix="score the text itself: `indigo decode` without --format jsonl",
        )
    return lines, (traces_file.parse_row(fields, f"{path}:{number}") for number, fields in rows)


def are_traces(head: Sequence[str]) -> bool:
    """Tell by the first line of a file, if it has one, whether it holds traces."""
    return any((parse_object(line) or {}).get("format") == traces_file.FORMAT for line in head)


def check_options(*, source: str, target: str, split: str) -> None:
    """Refuse options that do not say what to score.

    Raises:
        UsageError: with the option to add or to leave out.
    """
    if source and split:
        raise UsageError("--split and --input both name the sources", where="--split", fix="give one of the two")
    if source and not target:
        raise UsageError("--input needs the targets that belong to it", where="--input", fix="add --target FILE")
    if source == target == STANDARD_STREAM:
        what = "sources and targets cannot both come from standard input"
        raise UsageError(what, where="--input", fix="write one of them to a file")


def check_targets(*, source: str, split: str, source_is_bag: bool, traces: bool) -> None:
    """Refuse targets whose sources are not named, or are not theirs; see `check_options`."""
    if traces and not source and not split:
        fix = "--input FILE or --split NAME: what they were decoded from"
        raise UsageError("the sources of these traces are not named", where="--target", fix=fix)
    if not traces and split:
        fix = "leave one of them out, or give --input"
        raise UsageError(f"split {split} has targets of its own", where="--target", fix=fix)
    if not source and not split and not source_is_bag:
        raise UsageError("--target needs the sources that belong to it", where="--target", fix="add --input FILE")
