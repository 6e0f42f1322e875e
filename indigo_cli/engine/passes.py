"""The two streaming passes of `prepare`: raw lines to numbered words, then, with what was learnt, words to ids.

Memory holds the word types, never the text: between the passes the words lie in files, so that each line is tokenised
once, and pieces and ids of each word type are computed once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from indigo_cli.core.text import Codecs
from indigo_cli.core.vocab import UNK
from indigo_cli.data.corpus import SIDES
from indigo_cli.data.corpus_writer import ArrayWriter, StoreWriter, id_type
from indigo_cli.data.files import read_lines, sha256_file
from indigo_cli.engine.pieces import Ints, Pieces
from indigo_cli.engine.token_blocks import Reading
from indigo_cli.engine.tokenise_pool import TokenisePool
from indigo_cli.engine.word_types import NumberedText, WordTypes
from indigo_cli.errors import DataError, UsageError

REASONS = ("empty source", "empty target", "source too long", "target too long")

Progress = Callable[[str, int], None]
"""Called now and then with a stage such as `tokenise train` and the lines done in it."""

BLOCK_LINES = 2000
BLOCK_CHARS = 1 << 20
"""A block of lines is full when it has so many lines or, longer ones, so many characters a side."""


@dataclass
class SplitSummary:
    """Counts of one split: `dropped` pairs by reason, `tokens` and `unknown` ones among them by side."""

    name: str
    lines: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    unknown: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))

    def reasons(self) -> str:
        """Return why pairs were dropped, empty if none was."""
        return ", ".join(f"{count} {reason}" for reason, count in self.dropped.items() if count)

    def text(self) -> str:
        """Return one line for people."""
        dropped = f" (dropped: {self.reasons()})" if self.reasons() else ""
        unknown = ", ".join(f"{count} on the {side} side" for side, count in self.unknown.items() if count)
        return (
            f"{self.name}: {self.kept} of {self.lines} lines{dropped}, {self.tokens['source']} source and "
            f"{self.tokens['target']} target tokens" + (f", unknown: {unknown}" if unknown else "")
        )


def tokenise_split(
    summary: SplitSummary,
    paths: Mapping[str, list[str]],
    references: Sequence[list[str]],
    *,
    reading: Reading,
    pool: TokenisePool,
    types: WordTypes,
    output: NumberedText,
    progress: Progress,
) -> dict[str, Any]:
    """Write the numbered words of a split, count them, and check that its files belong together.

    Args:
        paths: The files of each side, in the order of `reading.sides`.
        references: Further references; only their lines are counted.
    Returns: what the manifest says about the files.
    Raises: DataError if the sides or references differ in their number of lines.
    """
    readers = {side: _CountingReader(files) for side, files in paths.items()}
    stage = f"tokenise {summary.name}"
    done = 0
    for block in pool.tokenise(reading, _blocks(list(readers.values()))):
        output.append(types.add(block), block.lengths)
        done += len(block.lengths["target"])
        progress(stage, done)
    more = [_CountingReader(files) for files in references]
    for reference in more:
        for _ in reference:
            pass
    _check_line_counts(summary.name, [*readers.values(), *more])
    summary.lines = readers["target"].lines
    progress(stage, summary.lines)
    return {
        **{side: reader.entries() for side, reader in readers.items()},
        "references": [reference.entries() for reference in more],
    }


def _blocks(readers: Sequence["_CountingReader"]) -> Iterator[list[list[str]]]:
    """Yield the lines of each side in blocks; where one side ends, the others are counted to their ends."""
    block: list[list[str]] = [[] for _ in readers]
    sizes = [0] * len(readers)
    for lines in zip_longest(*readers):
        if None in lines:
            continue
        for side, line in enumerate(lines):
            block[side].append(line)
            sizes[side] += len(line)
        if len(block[0]) >= BLOCK_LINES or max(sizes) >= BLOCK_CHARS:
            yield block
            block = [[] for _ in readers]
            sizes = [0] * len(readers)
    if block[0]:
        yield block


def encode_split(
    summary: SplitSummary,
    codecs: Codecs,
    *,
    text: NumberedText,
    pieces: Mapping[str, Pieces],
    folder: Path,
    max_length: int | None,
    progress: Progress,
) -> dict[str, Any]:
    """Turn the words that `tokenise_split` wrote into the stores of a split.

    Args:
        pieces: Ids of every word type, by side.
        max_length: Drop pairs that cannot be trained on (see `reasons_to_drop`) and count why; None keeps every line.
    Returns: the manifest's entries of the files written.
    """
    codec = {"source": codecs.source, "target": codecs.target}
    stores = {side: StoreWriter(folder, summary.name, side, id_type(len(codec[side].vocabulary))) for side in SIDES}
    kept_lines = ArrayWriter(folder / f"{summary.name}.lines", "int64")
    stage = f"encode {summary.name}"
    done = 0
    for block in text:
        encoded = {side: pieces[side].encode(*words) for side, words in block.items()}
        lengths = {side: sizes for side, (_, sizes) in encoded.items()}
        reasons = reasons_to_drop(lengths, max_length)
        kept = reasons == len(REASONS)
        for number, reason in enumerate(REASONS):
            summary.dropped[reason] += int((reasons == number).sum())
        for side, (ids, sizes) in encoded.items():
            ids = ids[np.repeat(kept, sizes)]
            if codecs.source_is_bag and side == "source":
                ids = ids[np.lexsort((ids, np.repeat(np.arange(kept.sum()), sizes[kept])))]
            stores[side].add(ids, sizes[kept])
            summary.tokens[side] += len(ids)
            summary.unknown[side] += int((ids == UNK).sum())
        kept_lines.extend(done + np.flatnonzero(kept))
        summary.kept += int(kept.sum())
        done += len(kept)
        progress(stage, done)
    progress(stage, summary.lines)
    files = {f"{summary.name}.lines": kept_lines.finish()}
    for store in stores.values():
        files.update(store.finish())
    return files


def reasons_to_drop(lengths: Mapping[str, Ints], max_length: int | None) -> Ints:
    """Return why each pair cannot be trained on, as the first place in `REASONS` that holds; their number if it can.

    Args:
        lengths: Pieces of each side of the pairs, (pairs,); of two sides at fault, the first one is named.
        max_length: Most pieces; None keeps every pair.
    """
    if max_length is None:
        return np.full(len(lengths["target"]), len(REASONS))
    faults = {
        **{f"empty {side}": sizes == 0 for side, sizes in lengths.items()},
        **{f"{side} too long": sizes > max_length for side, sizes in lengths.items()},
    }
    return np.select(list(faults.values()), list(map(REASONS.index, faults)), default=len(REASONS))


class _CountingReader:
    """Lines of several files as one stream; knows how many each file had."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        self.counts = [0] * len(paths)

    def __iter__(self) -> Iterator[str]:
        for index, path in enumerate(self.paths):
            if Path(path).is_fifo():
                fix = "write it to a file first; .gz, .bz2 and .xz are read as they are"
                raise UsageError("a pipe gives its text only once, and its sha256 is needed too", where=path, fix=fix)
            for line in read_lines(path, hint="paths in a recipe are relative to the recipe"):
                self.counts[index] += 1
                yield line

    @property
    def lines(self) -> int:
        """Lines read so far."""
        return sum(self.counts)

    def entries(self) -> list[dict[str, Any]]:
        """Return what the manifest says about the files."""
        return [
            {"path": path, "lines": count, "sha256": sha256_file(path)}
            for path, count in zip(self.paths, self.counts, strict=True)
        ]


def _check_line_counts(split: str, readers: Sequence[_CountingReader]) -> None:
    """Raise DataError if the sides and references of a split do not have the same number of lines."""
    if len({reader.lines for reader in readers}) > 1:
        parts = ", ".join(f"{' + '.join(reader.paths)} has {reader.lines} lines" for reader in readers)
        raise DataError(
            f"the files of split {split!r} do not belong together: {parts}",
            where=f"data.splits.{split}",
            fix="line N of every file must belong to line N of the others",
        )
