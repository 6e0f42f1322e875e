"""Which length was wanted of each line of each system, and in which unit: for the metrics that compare with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from indigo_cli.core.units import LengthUnit
from indigo_cli.errors import UsageError
from indigo_cli.metrics.metric import MetricOptions

UnitSetting = Literal["auto", "character", "word", "token", "byte"]
Lengths = Sequence[int | None]
PIECES = "lengths were wanted in pieces of the vocabulary, and are compared in tokens of evaluate.tokenize"
LIMIT_KEY, UNIT_KEY = "evaluate.length_limit", "evaluate.length_unit"


@dataclass(frozen=True)
class Wishes:
    """What one output says of the lengths it was to have.

    Args:
        lengths: Of each line; None where nothing was wanted.
        unit: In which they are; empty if not told.
    """

    lengths: Lengths
    unit: str = ""


@dataclass(frozen=True)
class Wanted:
    """What the outputs are held against.

    Args:
        options: Settings of the metrics, completed.
        lengths: By system, for those that have any.
        warnings: What was decided for the user.
    """

    options: MetricOptions
    lengths: Mapping[str, Lengths]
    warnings: tuple[str, ...] = ()


def find_wanted(
    options: MetricOptions, unit: UnitSetting, systems: Sequence[str], wishes: Mapping[str, Wishes]
) -> Wanted:
    """Return the wanted lengths: one limit for all, else what outputs say, else none, which leaves the reference.

    A system that says nothing is held against what the others were to do, where these agree: so the output of a system
    that cannot be told a length stands beside one that can.

    Args:
        unit: Of the recipe; `auto` = that of the wishes, else characters.
    Raises: UsageError for wishes in several units, or in another one than asked for.
    """
    told = {name: wish.unit for name, wish in wishes.items() if wish.unit}
    if options.length_limit:
        chosen = unit if unit != "auto" else _one_unit(told) if len({*told.values()}) == 1 else "character"
        return Wanted(_with(options, chosen, "reference"), {})
    if unit != "auto":
        for name, other in told.items():
            if other != unit:
                what = f"{name} was decoded to lengths in the unit {other!r}, and {UNIT_KEY} is {unit!r}"
                fix = f"leave {UNIT_KEY} out, or --set {LIMIT_KEY}=N compares all with one length"
                raise UsageError(what, where=UNIT_KEY, fix=fix)
    chosen = unit if unit != "auto" else _one_unit(told)
    if not wishes:
        return Wanted(_with(options, chosen, "reference"), {})
    lengths, warnings = _shared(systems, wishes)
    if chosen == "token":
        warnings = (PIECES, *warnings)
    return Wanted(_with(options, chosen, "traces"), lengths, warnings)


def _with(options: MetricOptions, unit: str, origin: Literal["traces", "reference"]) -> MetricOptions:
    return MetricOptions(**{**vars(options), "length_unit": cast(LengthUnit, unit), "wish_origin": origin})


def _one_unit(told: Mapping[str, str]) -> str:
    """Return the unit that all wishes have; characters if none says."""
    units = set(told.values())
    if len(units) > 1:
        named = ", ".join(f"{name}: {unit}" for name, unit in told.items())
        fix = f"score them one by one, or --set {LIMIT_KEY}=N and {UNIT_KEY}=UNIT"
        raise UsageError(f"the wanted lengths are in different units ({named})", where=UNIT_KEY, fix=fix)
    return units.pop() if units else "character"


def _shared(systems: Sequence[str], wishes: Mapping[str, Wishes]) -> tuple[dict[str, Lengths], tuple[str, ...]]:
    """Return the lengths of each system, and a warning where one has to do with those of others or with none."""
    lengths = {name: wish.lengths for name, wish in wishes.items()}
    without = [name for name in systems if name not in wishes]
    if not without:
        return lengths, ()
    first, *others = (list(wish.lengths) for wish in wishes.values())
    if all(other == first for other in others):
        warning = f"{', '.join(without)}: no wanted lengths, compared with those of {', '.join(wishes)}"
        return {**lengths, **dict.fromkeys(without, first)}, (warning,)
    fix = f"--set {LIMIT_KEY}=N compares all with one length"
    return lengths, (f"{', '.join(without)}: no wanted lengths, compared with the references'; {fix}",)
