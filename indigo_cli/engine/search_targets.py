"""What `search-orders` searches: the targets of a split, or lines of text; in blocks that are always the same.

Any block can be asked for, so that finished ones are passed over. Of text only lines before a block are read again, and
nothing but the block is in memory.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Protocol

from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import STANDARD_STREAM, read_lines, sha256_file
from indigo_cli.engine.line_scores import buckets
from indigo_cli.engine.loaded_run import LoadedRun
from indigo_cli.engine.order_health import LENGTHS
from indigo_cli.engine.search_config import SEARCHED
from indigo_cli.engine.targets import Item, TextPair, are_traces, split_items, text_item, text_pairs
from indigo_cli.errors import UsageError

Buckets = Sequence[tuple[int, int | None]]


class SearchTargets(Protocol):
    """Targets by their number, from 0."""

    total: int
    """How many there are."""
    header: Mapping[str, Any]
    """Where they come from; if that differs, finished blocks are of other targets."""
    lengths: Buckets
    """Buckets of lengths for the report, in tokens."""
    output: str
    """Where orders go unless the user says; `-` is standard output."""

    def ids(self, within: range) -> list[int]:
        """Return the raw lines of some of them."""
        ...

    def items(self, within: range) -> Iterator[Item]:
        """Yield some of them."""
        ...


class SplitTargets:
    """The kept targets of a split; see `SearchTargets`.

    Args:
        corpus: Its corpus.
        name: Of the split.
        max_length: Of sources.
    """

    def __init__(self, corpus: Corpus, name: str, *, max_length: int) -> None:
        self._corpus, self._split, self._max_length = corpus, corpus.split(name), max_length
        self.total = len(self._split)
        self.header: Mapping[str, Any] = {"split": name, "corpus": corpus.digest}
        self.lengths: Buckets = buckets(self._split.target.lengths) if self.total else LENGTHS
        self.output = str(corpus.folder / f"{name}.{SEARCHED}.orders.jsonl")

    def ids(self, within: range) -> list[int]:
        """See `SearchTargets`."""
        lines: list[int] = self._split.lines[within.start : within.stop].tolist()
        return lines

    def items(self, within: range) -> Iterator[Item]:
        """See `SearchTargets`."""
        some = slice(within.start, within.stop)
        return split_items(self._corpus, self._split.name, max_length=self._max_length, within=some)


class TextTargets:
    """The lines of text files; see `SearchTargets`.

    Args:
        run: Whose codecs read them.
        source: File of the sources; empty where they are made from the targets.
        target: File of the targets. Both are read more than once, see `rereadable`.
        names: Of both, for messages.

    Raises:
        UsageError: traces in the place of text.
        DataError: files that do not belong together, or cannot be read.
    """

    def __init__(self, run: LoadedRun, source: str, target: str, *, names: tuple[str, str]) -> None:
        if are_traces(list(islice(read_lines(target), 1))):
            fix = "give their text: `indigo decode` without --format jsonl"
            raise UsageError("traces have orders of their own", where=names[1], fix=fix)
        self._run, self._source, self._target, self._names = run, source, target, names
        self.total = sum(1 for _ in self._read())
        files = (("source", source), ("target", target))
        self.header: Mapping[str, Any] = {f"{side}_sha256": sha256_file(file) for side, file in files if file}
        self.lengths: Buckets = LENGTHS
        self.output = STANDARD_STREAM
        self._next, self._pairs = 0, self._read()

    def _read(self) -> Iterator[TextPair]:
        sources = read_lines(self._source) if self._source else None
        return text_pairs(sources, read_lines(self._target), names=self._names)

    def ids(self, within: range) -> list[int]:
        """See `SearchTargets`."""
        return list(within)

    def items(self, within: range) -> Iterator[Item]:
        """See `SearchTargets`."""
        if within.start < self._next:
            self._next, self._pairs = 0, self._read()
        pairs = list(islice(self._pairs, within.start - self._next, within.stop - self._next))
        self._next = within.stop
        max_length = self._run.recipe.preprocess.max_length
        return (text_item(self._run.codecs, pair, max_length=max_length, name=self._names[1]) for pair in pairs)


@contextmanager
def rereadable(path: str) -> Iterator[str]:
    """Give a file that can be read again and again: the same one, or a copy of what standard input or a pipe says."""
    if not path or os.path.isfile(path) or (path != STANDARD_STREAM and not os.path.exists(path)):
        yield path
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="\n", prefix="indigo-lines-") as copy:
        copy.writelines(f"{line}\n" for line in read_lines(path))
        copy.flush()
        yield copy.name
