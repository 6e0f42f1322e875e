"""Settings as frozen dataclasses: TOML tables checked strictly, every fault with its full key, place and mend.

A section of the recipe is a plain `@dataclass(frozen=True)`; pydantic checks types and ranges. Use the types below for
ranges: `beam_size: Count = 5`.
"""

import datetime
import difflib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from annotated_types import Ge, Gt, Lt

from indigo_cli.core.toml import MAX_DEPTH, Key, Places, dump_value, read_key
from indigo_cli.errors import IndigoError, UsageError

Count = Annotated[int, Ge(1)]
NonNegativeInt = Annotated[int, Ge(0)]
PositiveFloat = Annotated[float, Gt(0)]
NonNegativeFloat = Annotated[float, Ge(0)]
Rate = Annotated[float, Ge(0), Lt(1)]
"""A share of a whole that must leave something: dropout, smoothing."""

T = TypeVar("T")

_WANTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text in quotes",
    "list_type": "a list in brackets",
    "tuple_type": "a list in brackets",
    "dict_type": "a table",
    "dataclass_type": "a table",
}


def parse_section(
    cls: type[T], mapping: Any, *, prefix: Key, places: Places, known_elsewhere: Mapping[str, str] | None = None
) -> tuple[T | None, list[IndigoError]]:
    """Return the section's dataclass, or None and everything that is wrong with the table.

    Args:
        cls: A frozen dataclass; its types are the rules.
        mapping: The table as TOML gave it.
        prefix: Key of the table, `("train",)`.
        places: Where each key was set.
        known_elsewhere: Full keys of other sections by their last part, for keys under the wrong heading.
    """
    from pydantic import ValidationError

    if faults := check_plain(mapping, key=prefix, places=places):
        return None, faults
    hashable: Any = cls  # mypy does not take a type variable's class for one
    try:
        value: T = _adapter(hashable).validate_json(_to_json(mapping))
        return value, []
    except ValidationError as error:
        details = error.errors(include_url=False)
    faults = []
    for detail in details:
        key = (*prefix, *detail["loc"])
        if detail["type"] == "unexpected_keyword_argument":
            faults.append(unknown_key(key, _known_keys(cls, detail["loc"]), places, known_elsewhere or {}))
        elif detail["type"] == "missing":
            faults.append(UsageError(f"{spell(key)} is missing", where=place_of(key, places), fix=f"add {spell(key)}"))
        elif detail["type"] == "value_error":
            match detail["ctx"]["error"].args:  # a section checks itself, and may say how to mend it
                case (str(what), str(fix)):
                    pass
                case _:
                    what, fix = str(detail["ctx"]["error"]), ""
            faults.append(UsageError(f"[{spell(key)}] {what}", where=place_of(key, places), fix=fix))
        else:
            faults.append(_wrong_value(key, _value_at(mapping, detail["loc"]), detail, places))
    return None, faults


def _wrong_value(key: Key, value: Any, detail: Any, places: Places) -> IndigoError:
    wanted = _WANTED.get(detail["type"])
    if detail["type"] == "literal_error":
        wanted = f"one of {detail['ctx']['expected']}".replace("'", '"')
    elif wanted is None:
        wanted = str(detail["msg"]).removeprefix("Input should be ").removeprefix("Value should be ")
    fix = ""
    if detail["type"] == "literal_error" and isinstance(value, str):
        fix = did_you_mean(value, [part for part in detail["ctx"]["expected"].split("'") if part.strip(", or")])
    elif detail["type"] == "string_type":
        fix = f"write {spell(key)} = {dump_value(str(value))}" if isinstance(value, (int, float)) else ""
    shown = dump_value(value)
    return UsageError(
        f"{spell(key)} must be {wanted}, got {shown if len(shown) < 80 else shown[:77] + '...'}",
        where=place_of(key, places),
        fix=fix,
    )


def unknown_key(key: Key, known: Sequence[str], places: Places, known_elsewhere: Mapping[str, str]) -> IndigoError:
    """Return the fault of a key that nobody knows, with the nearest one that is known."""
    name = str(key[-1])
    if name in known_elsewhere:
        fix = f"`{name}` belongs to {known_elsewhere[name]}"
    else:
        section = f"[{spell(key[:-1])}]" if len(key) > 1 else "a recipe"
        fix = did_you_mean(name, known) or f"{section} knows {', '.join(known)}"
    return UsageError(f"unknown key {spell(key)}", where=place_of(key, places), fix=fix)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest known word, nothing if none is near."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else ""


def spell(key: Key) -> str:
    """Return a key as a user writes it: `data.splits.train.source[0]`."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            bare = part if read_key(part) == (part,) else dump_value(part)
            text += f".{bare}" if text else bare
    return text


def place_of(key: Key, places: Places) -> str:
    """Return where the key, or the nearest table around it, was set; the recipe itself at worst."""
    for end in range(len(key), -1, -1):
        if key[:end] in places:
            return places[key[:end]]
    return spell(key)


def check_plain(value: Any, *, key: Key, places: Places) -> list[IndigoError]:
    """Return what no setting can be: numbers beyond 64 bits, text that no file can hold, deep nesting."""
    what = ""
    if isinstance(value, Mapping | list):
        if len(key) > MAX_DEPTH:
            what = "is nested too deeply"
        else:
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            return [fault for k, v in items for fault in check_plain(v, key=(*key, k), places=places)]
    elif isinstance(value, int) and value.bit_length() > 63:
        what = "is a number beyond 64 bits"
    elif isinstance(value, str) and not _is_text(value):
        what = "is not valid UTF-8"
    elif isinstance(value, str) and "\0" in value:
        what = "contains a NUL character"
    if not what:
        return []
    return [UsageError(f"{spell(key)} {what}", where=place_of(key, places))]


def apply_overrides(mapping: Mapping[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], Places]:
    """Return the tables with each `section.key=VALUE` set, and the places of the keys that were.

    VALUE is read as TOML (`3`, `true`, `["bleu"]`); anything else is text, so `order.name=rnd` needs no quotes.

    Raises:
        UsageError: not of this form, or a part of the key is not a table.
    """
    result = _copy(mapping)
    places: Places = {}
    for override in overrides:
        name, separator, value = override.partition("=")
        key = read_key(name)
        where = f"--set {override}"
        if not _is_text(override):
            raise UsageError("the value of --set is not valid UTF-8", where=ascii(where))
        if not separator or key is None:
            raise UsageError(f"--set needs KEY=VALUE, got {override!r}", fix="e.g. --set decode.beam_size=8")
        table = result
        for end, part in enumerate(key[:-1], start=1):
            inner = table.setdefault(part, {})
            if not isinstance(inner, dict):
                what = f"{spell(key)} cannot be set: {spell(key[:end])} is not a table"
                raise UsageError(what, where=where)
            table = inner
        table[key[-1]] = read_value(value)
        places = {old: place for old, place in places.items() if old[: len(key)] != key}
        places[key] = where
    return result, places


def read_value(text: str) -> Any:
    """Return the value of an override: TOML where it is, else the text itself."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    value = parsed.get("value")
    if len(parsed) != 1 or isinstance(value, datetime.date | datetime.time):  # no setting is a date
        return text
    return value


def _copy(value: Any) -> Any:
    return {k: _copy(v) for k, v in value.items()} if isinstance(value, Mapping) else value


def _is_text(value: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in value)


def _to_json(mapping: Any) -> str:
    import json

    return json.dumps(mapping, default=lambda _: None)  # TOML's dates; no setting is one


def _value_at(mapping: Any, loc: Sequence[str | int]) -> Any:
    for part in loc:
        mapping = mapping[part]
    return mapping


@cache
def _adapter(cls: Any) -> Any:
    """Return pydantic's checker; JSON mode takes tables for dataclasses and lists for tuples though it is strict."""
    from pydantic import TypeAdapter

    _forbid_extra(cls)
    return TypeAdapter(cls)


def _forbid_extra(cls: Any) -> None:
    """Give the dataclass, and those inside it, pydantic's strict rules: its documented way for plain dataclasses."""
    from pydantic import ConfigDict

    inner: Iterable[Any] = get_args(cls)
    if is_dataclass(cls):
        section: Any = cls
        section.__pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
        inner = get_type_hints(cls).values()
    for hint in inner:
        _forbid_extra(hint)


def _known_keys(cls: Any, loc: Sequence[str | int]) -> list[str]:
    """Return the keys of the dataclass that holds the last part of `loc`."""
    for part in loc[:-1]:
        if is_dataclass(cls):
            cls = get_type_hints(cls)[str(part)]
        elif arguments := get_args(cls):
            cls = arguments[-1]
    return [field.name for field in fields(cls)] if is_dataclass(cls) else []
