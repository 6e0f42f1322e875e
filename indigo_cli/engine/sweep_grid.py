"""The grid of `decode --sweep`: `decode.KEY=V1,V2,A..B` options -> every combination as checked settings."""

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from indigo_cli.core.settings import parse_section, read_value, unknown_key
from indigo_cli.core.toml import Places, dump_value, read_key
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.errors import IndigoError, RecipeError, UsageError

EXAMPLE = "e.g. --sweep decode.beam_size=1,2,5..10"
RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})")
MAX_POINTS = 10_000
"""No split is decoded more often than this on purpose."""


@dataclass(frozen=True)
class Axis:
    """One setting that varies.

    Args:
        key: Its name in [decode].
        values: As TOML reads them, in the order given.
        option: As the user wrote it.
    """

    key: str
    values: tuple[Any, ...]
    option: str


@dataclass(frozen=True)
class Point:
    """One combination: the values that vary by their key, and all settings with them."""

    values: dict[str, Any]
    config: DecodeConfig

    def text(self) -> str:
        """Return `beam_size 5, length_penalty 0.6`."""
        return ", ".join(f"{key} {dump_value(value)}" for key, value in self.values.items())


def value_text(value: Any) -> str:
    """Return a value as a table shows it: text without quotes."""
    return value if isinstance(value, str) else dump_value(value)


def parse_axis(option: str) -> Axis:
    """Read one `decode.KEY=V1,V2,A..B`; a range holds both ends.

    Raises:
        UsageError: not of this form, or a setting that cannot vary.
    """
    name, separator, text = option.partition("=")
    key = read_key(name)
    where = f"--sweep {option}"
    if not separator or key is None:
        raise UsageError(f"--sweep needs decode.KEY=VALUES, got {option!r}", fix=EXAMPLE)
    if len(key) != 2 or key[0] != "decode":
        full = f"decode.{key[-1]}"
        fix = f"did you mean `{full}`?" if key[-1] in DecodeConfig.__dataclass_fields__ else EXAMPLE
        raise UsageError(f"{name.strip()} cannot vary here, only settings of [decode] can", where=where, fix=fix)
    if key[1] == "merge_strings":
        raise UsageError(
            "both rankings, of merged strings and of single traces, are scored for every value anyway",
            where=where,
            fix="leave decode.merge_strings out",
        )
    values: list[Any] = []
    for part in text.split(","):
        if not part.strip():
            raise UsageError("an empty value", where=where, fix=EXAMPLE)
        if match := RANGE.fullmatch(part.strip()):
            first, last = int(match[1]), int(match[2])
            if not first <= last < first + MAX_POINTS:
                raise UsageError(f"the range {part.strip()} is empty or too long", where=where, fix=EXAMPLE)
            values += range(first, last + 1)
        else:
            values.append(read_value(part.strip()))
    return Axis(str(key[1]), tuple(values), option)


def make_grid(options: Sequence[str], base: DecodeConfig) -> list[Point]:
    """Return every combination of the values, the last option varying fastest; each combination once.

    Args:
        options: See `parse_axis`.
        base: What holds for all that does not vary.

    Raises:
        UsageError: see `parse_axis`; a setting given twice, or too many combinations.
        RecipeError: all values that the recipe's section does not take.
    """
    axes = [parse_axis(option) for option in options]
    names = [axis.key for axis in axes]
    for axis in axes:
        if names.count(axis.key) > 1:
            where = f"--sweep {axis.option}"
            raise UsageError(f"decode.{axis.key} is given twice", where=where, fix="list all values in one --sweep")
    places: Places = {("decode", axis.key): f"--sweep {axis.option}" for axis in axes}
    known = list(DecodeConfig.__dataclass_fields__)
    unknown = [unknown_key(("decode", name), known, places, {}) for name in names if name not in known]
    if unknown:
        raise RecipeError(unknown)
    count = math.prod(len(axis.values) for axis in axes)
    if count > MAX_POINTS:
        raise UsageError(f"{count:,} combinations are too many", where="--sweep", fix="sweep fewer values")
    found: dict[DecodeConfig, Point] = {}
    faults: dict[str, IndigoError] = {}
    for combination in itertools.product(*(axis.values for axis in axes)):
        values = dict(zip(names, combination, strict=True))
        config, wrong = parse_section(DecodeConfig, {**asdict(base), **values}, prefix=("decode",), places=places)
        faults |= {fault.render(): fault for fault in wrong}
        if config is not None:
            found.setdefault(config, Point({name: getattr(config, name) for name in names}, config))
    if faults:
        raise RecipeError(list(faults.values()))
    return list(found.values())
