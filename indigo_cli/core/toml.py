"""TOML in and out: `tomllib` reads it, this file adds where each key stands and writes it again."""

import json
import math
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from indigo_cli.errors import RecipeError, UsageError

Key = tuple[str | int, ...]
"""A full key, `("train", "max_steps")`; whole numbers index lists."""
Places = dict[Key, str]
"""Where a key was set: `file:line`, or the `--set` option that set it."""

MAX_DEPTH = 16
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_DELIMITERS = ('"""', "'''", '"', "'")


def read_toml(text: str, *, name: str) -> tuple[dict[str, Any], Places]:
    """Return the content of a TOML document and the `name:line` of each of its keys.

    Raises:
        RecipeError: not TOML; names the line.
    """
    try:
        content = tomllib.loads(text)
        return content, {key: f"{name}:{line}" for key, line in key_lines(text).items()}
    except RecursionError as error:
        raise RecipeError([UsageError("tables or lists are nested too deeply", where=name)]) from error
    except ValueError as error:  # TOMLDecodeError, and Python's own limit on the digits of a number
        what, line = _split_position(str(error), text)
        fix = 'text stands in quotes: key = "text"; a section starts with its name in brackets: [train]'
        raise RecipeError([UsageError(f"not valid TOML: {what}", where=f"{name}:{line}", fix=fix)]) from error


def _split_position(message: str, text: str) -> tuple[str, int]:
    """Split tomllib's message into what is wrong and the line (1 if it does not say)."""
    found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
    if not found:
        return message, 1
    last = text.rstrip("\n").count("\n") + 1
    return message[: found.start()], int(found[1]) if found[1] else last


def read_key(text: str) -> Key | None:
    """Return the parts of a dotted key as TOML spells it (`a."b.c"`), None if it is none."""
    if not text.strip() or "\n" in text:
        return None
    try:
        nested: Any = tomllib.loads(f"{text} = 0")
    except (ValueError, RecursionError):
        return None
    parts: list[str] = []
    while isinstance(nested, dict):
        if len(nested) != 1:
            return None
        (part, nested), *_ = nested.items()
        parts.append(part)
    return tuple(parts) if nested == 0 else None


def key_lines(text: str) -> dict[Key, int]:
    """Return the line (from 1) on which each key of a valid TOML document is first set."""
    return _Locator(text.replace("\r\n", "\n")).run()


class _Locator:
    """Walk over a document that tomllib accepted; so it need not check anything, only find its way."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Key, int] = {}

    def run(self) -> dict[Key, int]:
        section: Key = ()
        arrays: dict[Key, int] = {}
        while self.skip(" \t\n"):
            if self.text[self.at] != "[":
                self.pair(section)
                continue
            brackets = 2 if self.text.startswith("[[", self.at) else 1
            self.at += brackets
            section = self.key("]")
            self.at += brackets
            if brackets == 2:
                arrays[section] = arrays.get(section, -1) + 1
            for end in range(len(section), 0, -1):  # [a.b] after [[a]] means the last element of a
                if section[:end] in arrays:
                    section = (*section[:end], arrays[section[:end]], *section[end:])
            self.mark(section)
        return self.lines

    def mark(self, key: Key) -> None:
        line = self.text.count("\n", 0, self.at) + 1
        for end in range(1, len(key) + 1):
            self.lines.setdefault(key[:end], line)

    def skip(self, blank: str) -> bool:
        """Pass over white space and comments; False at the end of the document."""
        while self.at < len(self.text):
            if self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text[self.at] in blank:
                self.at += 1
            else:
                return True
        return False

    def key(self, end: str) -> Key:
        """Read up to `end`, which is left standing."""
        start = self.at
        while self.text[self.at] != end:
            self.string() if self.text[self.at] in "\"'" else self.step()
        return read_key(self.text[start : self.at]) or ()

    def step(self) -> None:
        self.at += 1

    def string(self) -> None:
        """Pass over a string of any of the four kinds."""
        delimiter = next(d for d in _DELIMITERS if self.text.startswith(d, self.at))
        self.at += len(delimiter)
        while not self.text.startswith(delimiter, self.at):
            self.at += 2 if delimiter[0] == '"' and self.text[self.at] == "\\" else 1
        self.at += len(delimiter)
        if len(delimiter) == 3:  # up to two more quotes belong to the text: """a"""""
            while self.text.startswith(delimiter[0], self.at):
                self.at += 1

    def pair(self, section: Key) -> None:
        start = self.at
        key = (*section, *self.key("="))
        end, self.at = self.at, start
        self.mark(key)
        self.at = end + 1
        self.value(key)

    def value(self, key: Key) -> None:
        self.skip(" \t")
        opening = self.text[self.at]
        if opening in "\"'":
            self.string()
        elif opening in "[{":
            closing = "]" if opening == "[" else "}"
            self.at += 1
            index = 0
            while self.skip(" \t\n,") and self.text[self.at] != closing:
                if opening == "[":
                    self.mark((*key, index))
                    self.value((*key, index))
                    index += 1
                else:
                    self.pair(key)
            self.at += 1
        else:
            while self.at < len(self.text) and self.text[self.at] not in ",]}\n#":
                self.at += 1


def dump_toml(content: Mapping[str, Any]) -> str:
    """Return TOML that reads back equal: values first, then a `[section]` for each table."""
    lines: list[str] = []
    _dump_table(content, (), lines)
    return "\n".join(lines).lstrip("\n") + "\n"


def _dump_table(table: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    values = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if path and (values or not table):
        lines.extend(["", f"[{'.'.join(map(_dump_key, path))}]"])
    lines.extend(f"{_dump_key(key)} = {dump_value(value)}" for key, value in values.items())
    for key, value in table.items():
        if isinstance(value, Mapping):
            _dump_table(value, (*path, key), lines)


def _dump_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else dump_value(key)


def dump_value(value: Any) -> str:
    """Return a value as TOML spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(dump_value, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_dump_key(k)} = {dump_value(v)}" for k, v in value.items()) + " }" if value else "{}"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
