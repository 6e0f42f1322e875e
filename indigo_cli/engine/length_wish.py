"""How long outputs are to be: what `decode --length` and its kin ask of each line, and the ratio of training.

Lengths are in the recipe's `model.length_unit`; `core/units.py` counts them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from indigo_cli.core import console
from indigo_cli.core.chunks import chunked
from indigo_cli.core.format import shorten
from indigo_cli.core.text import Codecs
from indigo_cli.core.units import LengthUnit, UnitTable, unit_table
from indigo_cli.core.vocab import PAD
from indigo_cli.data.collate import pad_rows
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import STANDARD_STREAM, read_lines, sha256_file
from indigo_cli.engine.lines import EncodedLine
from indigo_cli.engine.loaded_run import LoadedRun
from indigo_cli.engine.run_folder import FACTS_FILE, RunFolder
from indigo_cli.errors import DataError, UsageError

RATIO_FACT = "length_ratio"
"""Of `run.json`: the unit, and how many of target there are in training for each of source."""
LARGEST = 1_000_000
"""Of a wish."""
SOURCE = "source"
_BELONG = "line N of it must say the length that line N of the source is to get"


@dataclass(frozen=True)
class LengthOption:
    """What the command line asks; exactly one of these.

    Args:
        fixed: One length for all lines.
        file: Text file with a length for each line.
        ratio: Times the length of the source; 1 for `--length source`.
    """

    fixed: int | None = None
    file: str = ""
    ratio: float | None = None


def length_option(length: str = "", file: str = "", ratio: float | None = None) -> LengthOption | None:
    """Return what `--length`, `--length-file` and `--length-ratio` ask, None if nothing.

    Raises:
        UsageError: several of them, or a length that there is not.
    """
    given = [
        name
        for name, is_given in (
            ("--length", bool(length)),
            ("--length-file", bool(file)),
            ("--length-ratio", ratio is not None),
        )
        if is_given
    ]
    if len(given) > 1:
        what = f"{' and '.join(given)} say how long outputs are to be"
        raise UsageError(what, where=given[-1], fix="give one of them")
    if length == SOURCE:
        return LengthOption(ratio=1.0)
    if length:
        return LengthOption(fixed=_wish(length, where="--length", fix="a whole number from 1, or source"))
    if ratio is not None and not 0 < ratio <= LARGEST:
        raise UsageError(f"no length is {ratio} times another one", where="--length-ratio", fix="a number above 0")
    if file == STANDARD_STREAM:
        raise UsageError("lengths are not read from standard input", where="--length-file", fix="name a file")
    return LengthOption(file=file, ratio=ratio) if given else None


def _wish(text: str, *, where: str, fix: str, kind: type[UsageError] | type[DataError] = UsageError) -> int:
    """Return a length that is written out."""
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(LARGEST)) and 1 <= int(text) <= LARGEST):
        raise kind(f"a length cannot be {shorten(text)}", where=where, fix=fix)
    return int(text)


class Wisher:
    """Says how long the output of each line is to be.

    Args:
        codecs: Sources are measured by theirs.
        unit: Of the lengths.
        option: What was asked.
    """

    def __init__(self, codecs: Codecs, unit: LengthUnit, option: LengthOption) -> None:
        self.unit, self.option = unit, option
        self._lengths = _read_wishes(option.file) if option.file else []
        self._source = SourceLengths(codecs, unit) if option.ratio is not None else None

    def __call__(self, line: EncodedLine) -> int:
        """Return the length wished for a line.

        Raises:
            DataError: the file of lengths does not go so far.
        """
        if self.option.fixed is not None:
            return self.option.fixed
        if self._source is not None and self.option.ratio is not None:
            return min(max(round(self.option.ratio * self._source(line.ids)), 1), LARGEST)
        if line.number >= len(self._lengths):
            what = f"the file of lengths has no line {line.number + 1}, but the source has"
            raise DataError(what, where=self.option.file, fix=_BELONG)
        return self._lengths[line.number]

    def add(self, block: Sequence[EncodedLine]) -> list[EncodedLine]:
        """Return lines with their wishes; those that have one keep it."""
        return [line if line.wish is not None else replace(line, wish=self(line)) for line in block]

    def check_count(self, num_lines: int) -> None:
        """Refuse a file with more lengths than the source has lines.

        Raises:
            DataError: it has.
        """
        if len(self._lengths) > num_lines:
            what = f"the file of lengths has {len(self._lengths):,} lines, the source has {num_lines:,}"
            raise DataError(what, where=self.option.file, fix=_BELONG)

    def facts(self) -> dict[str, Any]:
        """Return what outputs depend on, by the name that a user knows."""
        if self.option.file:
            return {"--length-file": sha256_file(self.option.file)}
        return {"--length": self.option.fixed, "--length-ratio": self.option.ratio}


def with_wishes(
    blocks: Iterable[list[EncodedLine]], wisher: Wisher, *, num_lines: int | None
) -> Iterator[list[EncodedLine]]:
    """Yield the blocks with the wish of each line.

    Args:
        num_lines: Of the source; None = it ends with the blocks.

    Raises:
        DataError: a file of lengths has more or fewer lines than the source.
    """
    count = 0
    for block in blocks:
        yield wisher.add(block)
        count = block[-1].number + 1
    wisher.check_count(count if num_lines is None else num_lines)


def make_wisher(run: LoadedRun, option: LengthOption | None) -> Wisher | None:
    """Return what says the wishes of lines; None where the run takes none.

    Args:
        run: Or an ensemble, of which some take wishes.
        option: None = the ratio that the run was trained on. Under a hard limit any system can have wishes.

    Raises:
        UsageError: wishes that nobody would heed, or in another unit than the run learnt, or none where the run does
            not say its ratio.
    """
    unit = run.length_unit
    if unit is not None:
        _check_unit(run, unit)
        return Wisher(run.codecs, unit, option or LengthOption(ratio=_trained_ratio(run, unit)))
    if option is None:
        return None
    if run.limit_unit is None:
        raise UsageError(
            f"this run has not learnt to follow a length ({run.folder.path})",
            where="--length",
            fix='keep to it by --hard-length, or train one that learns it: model.positions = "ldpe" of a transformer, '
            "model.length_control of others",
        )
    return Wisher(run.codecs, run.limit_unit, option)


def note_ratio(wisher: Wisher | None, option: LengthOption | None) -> None:
    """Say that the training ratio is taken where no length was asked for."""
    if wisher is not None and option is None:
        console.note(
            f"no length is asked for (--length): each output is to have {wisher.option.ratio:.4g} times the "
            f"{wisher.unit}s of its source, the ratio of training"
        )


def _check_unit(run: LoadedRun, unit: LengthUnit) -> None:
    """Refuse a unit that was set after training: the weights would load, and mean something else."""
    for one in (run, *run.others):
        fact = one.folder.facts.get(RATIO_FACT)
        if isinstance(fact, dict) and fact.get("unit", unit) != unit:
            what = f"the run learnt lengths in the unit {fact['unit']!r}, not {unit!r}"
            raise UsageError(what, where="model.length_unit", fix="leave it out of --set")


def _trained_ratio(run: LoadedRun, unit: LengthUnit) -> float:
    """Return the ratio that the first run of an ensemble which has one stored."""
    for one in (run, *run.others):
        fact = one.folder.facts.get(RATIO_FACT)
        if isinstance(fact, dict) and fact.get("unit") == unit and isinstance(fact.get("ratio"), float):
            return float(fact["ratio"])
    raise UsageError(
        f"the run does not say how long its targets were ({RATIO_FACT})",
        where=str(run.folder.path / FACTS_FILE),
        fix="say how long outputs are to be: --length, --length-file or --length-ratio",
    )


def _read_wishes(path: str) -> list[int]:
    fix = "write one whole number from 1 on each line"
    return [
        _wish(text, where=f"{path}:{number}", fix=fix, kind=DataError)
        for number, text in enumerate(read_lines(path), start=1)
    ]


class SourceLengths:
    """The lengths of sources by their ids, in the unit of the targets.

    Args:
        codecs: A bag is measured by the target's table, as a text in any order.
        unit: Of the lengths.
    """

    def __init__(self, codecs: Codecs, unit: LengthUnit) -> None:
        self._bag = codecs.source_is_bag
        self._table: UnitTable = unit_table(codecs.target if self._bag else codecs.source, unit)

    def __call__(self, ids: Sequence[int]) -> int:
        """Return the length of one source."""
        return self._table.total_weight(ids) if self._bag else self._table.count(ids)


def length_fact(corpus: Corpus, unit: LengthUnit | None, run: Path, *, resume: bool) -> dict[str, Any]:
    """Return what a run remembers of the lengths it is trained on; nothing where it counts none.

    The whole of train is read for it, so a run that is resumed takes what it knows.
    """
    if unit is None:
        return {}
    if resume and (run / FACTS_FILE).exists():
        remembered = RunFolder.open(run).facts.get(RATIO_FACT)
        if isinstance(remembered, dict) and remembered.get("unit") == unit:
            return {RATIO_FACT: remembered}
    return {RATIO_FACT: {"unit": unit, "ratio": training_ratio(corpus, unit)}}


def training_ratio(corpus: Corpus, unit: LengthUnit) -> float:
    """Return how many units of target the training pairs have for each unit of source, all of them together."""
    from indigo_cli.nn.units import UnitCounter

    split, codecs = corpus.split("train"), corpus.codecs
    counter = UnitCounter(unit_table(codecs.target, unit))
    source_counter = counter if codecs.source_is_bag else UnitCounter(unit_table(codecs.source, unit))
    totals = np.zeros(2, dtype=np.int64)
    for items in chunked(range(len(split)), 1024):
        rows = [[side[i] for i in items] for side in (split.target, split.source)]
        target, source = (_tensor(side) for side in rows)
        totals[0] += int(counter.lengths(target).sum())
        totals[1] += int((source_counter.bag_lengths if codecs.source_is_bag else source_counter.lengths)(source).sum())
    return float(totals[0] / totals[1]) if totals.all() else 1.0


def _tensor(rows: Sequence[Any]) -> Any:
    import torch

    return torch.from_numpy(pad_rows(rows, value=PAD))
