"""The two streaming passes of `prepare`: raw lines to tokens, then, with what was learnt from them, tokens to ids.

Memory holds the word types of the training split, never its text: between the passes the tokens lie in a file, so that
each line is tokenised once, and pieces and ids of each word type are computed once.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indigo_cli.core import bpe as bpe_module
from indigo_cli.core.bpe import BPE
from indigo_cli.core.text import BagTokenizer, Codecs, SideCodec, tokenize_line
from indigo_cli.core.tokenizer import Tokenizer
from indigo_cli.core.vocab import UNK, Vocabulary
from indigo_cli.data.corpus import SIDES
from indigo_cli.data.corpus_writer import ArrayWriter, StoreWriter, id_type
from indigo_cli.data.files import read_lines, sha256_file
from indigo_cli.errors import DataError

if TYPE_CHECKING:
    from indigo_cli.engine.prepare import PreprocessConfig

REASONS = ("empty source", "empty target", "source too long", "target too long")

Progress = Callable[[str, int], None]
"""Called now and then with a stage such as `tokenise train` and the lines done in it."""
_REPORT_EVERY = 2000


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
    tokenizers: Mapping[str, Tokenizer],
    lowercase: bool,
    source_is_bag: bool = False,
    output: Path,
    count: Callable[[dict[str, list[str]]], None],
    progress: Progress,
) -> dict[str, Any]:
    """Write the tokens of a split, one line a side in turn, and check that its files belong together.

    Args:
        paths: The files of each side, in the order in which sides are written.
        source_is_bag: Write the bag of each target as its source, behind it.
        references: Further references; only their lines are counted.
        count: Called with the tokens of each pair.
    Returns: what the manifest says about the files.
    Raises: DataError if the sides or references differ in their number of lines.
    """
    readers = {side: _CountingReader(files) for side, files in paths.items()}
    stage = f"tokenise {summary.name}"
    bag = BagTokenizer(tokenizers["target"], lowercase=lowercase)
    with open(output, "w", encoding="utf-8", newline="\n") as tokens_file:
        for number, lines in enumerate(zip_longest(*readers.values())):
            if None in lines:
                continue  # one side is at its end: go on counting the other for the message
            words = {
                side: tokenize_line(tokenizers[side], line, lowercase=lowercase)
                for side, line in zip(readers, lines, strict=True)
            }
            count(words)
            if source_is_bag:
                words["source"] = bag(lines[0])
            for tokens in words.values():
                tokens_file.write(" ".join(tokens) + "\n")
            if number % _REPORT_EVERY == 0:
                progress(stage, number)
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


def learn_codecs(
    counts: Mapping[str, Counter[str]],
    settings: "PreprocessConfig",
    *,
    languages: Mapping[str, str],
    source_is_bag: bool,
    warnings: list[str],
) -> Codecs:
    """Learn BPE and vocabularies from the word counts of the training split alone; `warnings` gets what fell short."""
    if settings.joint or source_is_bag:
        units = dict.fromkeys(SIDES, _learn_units(counts["source"] + counts["target"], settings, "", warnings))
    else:
        units = {side: _learn_units(counts[side], settings, f" of the {side} side", warnings) for side in SIDES}
    source, target = (
        SideCodec(settings.tokenizer, languages[side], settings.lowercase, *units[side]) for side in SIDES
    )
    return Codecs(source, target, source_is_bag=source_is_bag)


def _learn_units(
    counts: Counter[str], settings: "PreprocessConfig", of_side: str, warnings: list[str]
) -> tuple[BPE | None, Vocabulary]:
    """Return the BPE (None where words are the units) and the vocabulary for these words."""
    bpe, pieces = None, counts
    if settings.vocabulary != "word" and settings.tokenizer != "char":
        merges = settings.merges if settings.vocabulary == "bpe" else 0
        codes = bpe_module.learn(counts, merges)
        learnt = bpe_module.num_merges(codes)
        if learnt < merges:
            warnings.append(f"BPE{of_side}: asked for {merges} merges, learnt {learnt}: no further pair occurs twice")
        elif settings.vocabulary == "bpe" and merges == 0:
            warnings.append(f"BPE{of_side}: without merges every word is split into its characters")
        bpe, pieces = BPE(codes), Counter()
        for word, count in counts.items():
            for piece in bpe.split(word):
                pieces[piece] += count
    return bpe, Vocabulary.from_counts(pieces.items(), max_size=settings.vocabulary_size, min_count=settings.min_count)


def encode_split(
    summary: SplitSummary,
    sides: Sequence[str],
    codecs: Codecs,
    *,
    tokens: Path,
    folder: Path,
    max_length: int | None,
    progress: Progress,
) -> dict[str, Any]:
    """Turn the tokens that `tokenise_split` wrote into the stores of a split.

    Args:
        max_length: Drop pairs that cannot be trained on (see `reason_to_drop`) and count why; None keeps every line.
    Returns: the manifest's entries of the files written.
    """
    codec = {"source": codecs.source, "target": codecs.target}
    ids_of = {side: _WordIds(codec[side]) for side in sides}
    stores = {side: StoreWriter(folder, summary.name, side, id_type(len(codec[side].vocabulary))) for side in SIDES}
    kept_lines = ArrayWriter(folder / f"{summary.name}.lines", "int64")
    stage = f"encode {summary.name}"
    with open(tokens, encoding="utf-8", newline="\n") as tokens_file:
        for number in range(summary.lines):
            ids = {side: ids_of[side](tokens_file.readline()) for side in sides}
            if number % _REPORT_EVERY == 0:
                progress(stage, number)
            if max_length is not None and (reason := reason_to_drop(ids, max_length)):
                summary.dropped[reason] += 1
                continue
            if codecs.source_is_bag:
                ids["source"].sort()
            for side in SIDES:
                stores[side].add(ids[side])
                summary.tokens[side] += len(ids[side])
                summary.unknown[side] += ids[side].count(UNK)
            kept_lines.extend((number,))
            summary.kept += 1
    progress(stage, summary.lines)
    files = {f"{summary.name}.lines": kept_lines.finish()}
    for store in stores.values():
        files.update(store.finish())
    return files


def reason_to_drop(sides: Mapping[str, Sequence[Any]], max_length: int) -> str:
    """Return why a training pair cannot be used, empty if it can; the first of `REASONS` that holds."""
    for side, tokens in sides.items():
        if not tokens:
            return f"empty {side}"
    for side, tokens in sides.items():
        if len(tokens) > max_length:
            return f"{side} too long"
    return ""


class _WordIds:
    """Ids of a line of tokens; each word type is split and looked up once."""

    def __init__(self, codec: SideCodec) -> None:
        self._bpe = codec.bpe
        self._vocabulary = codec.vocabulary
        self._known: dict[str, list[int]] = {}

    def __call__(self, tokens: str) -> list[int]:
        ids: list[int] = []
        for word in tokens.split():
            known = self._known.get(word)
            if known is None:
                pieces = (word,) if self._bpe is None else self._bpe.split(word)
                known = self._known[word] = self._vocabulary.encode(pieces)
            ids.extend(known)
        return ids


class _CountingReader:
    """Lines of several files as one stream; knows how many each file had."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        self.counts = [0] * len(paths)

    def __iter__(self) -> Iterator[str]:
        for index, path in enumerate(self.paths):
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
