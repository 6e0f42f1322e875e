"""What files say of themselves, and the forms in which `decode` writes its results."""

import hashlib
import json
from enum import StrEnum
from typing import Any

from indigo_cli.errors import DataError


class Format(StrEnum):
    """What `decode` writes."""

    text = "text"
    tsv = "tsv"
    jsonl = "jsonl"


def read_object(content: bytes | str) -> dict[str, Any]:
    """Return the JSON object that a file of ours, or a line of it, is.

    Raises:
        ValueError: bytes that are not UTF-8, no JSON, or JSON of another kind; in words that need no context.
    """
    try:
        value = json.loads(content.decode("utf-8") if isinstance(content, bytes) else content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object is needed, not a {type(value).__name__}")
    return value


def parse_object(line: str) -> dict[str, Any] | None:
    """Return the JSON object that a line is, None if it is anything else."""
    try:
        return read_object(line)
    except ValueError:
        return None


def check_header(header: dict[str, Any], *, where: str, format: str, version: int, fix: str = "") -> None:
    """Check the format's name and version.

    Args:
        fix: How to mend a file that is no such file.
    Raises:
        DataError: another format, no version, or a version newer than `version`.
    """
    found = header.get("format")
    if found != format:
        raise DataError(f"this is not an {format} file (its format is {shorten(found)})", where=where, fix=fix)
    found = header.get("version")
    if type(found) is not int or found < 1:
        raise DataError(f"the {format} file has no valid version ({shorten(found)})", where=where, fix=fix)
    if found > version:
        raise DataError(
            f"{format} version {shorten(found)} is newer than this indigo reads ({version})",
            where=where,
            fix="upgrade indigo",
        )


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content with the digest of all that it says, for files that nobody edits."""
    return {**content, "digest": _digest(content)}


def check_seal(content: dict[str, Any], *, required: bool) -> None:
    """Check the digest of `sealed`.

    Args:
        required: Whether there must be one; files of versions that wrote none have none.
    Raises:
        ValueError: something was changed since.
    """
    rest = {key: value for key, value in content.items() if key != "digest"}
    try:
        sound = content["digest"] == _digest(rest) if "digest" in content else not required
    except RecursionError:
        sound = False
    if not sound:
        raise ValueError("it was changed after it was written: its digest differs")


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def shorten(value: Any) -> str:
    """Return a value read from JSON for a message: its beginning if it is long."""
    try:
        return f"{value!r:.40}"
    except RecursionError:
        return f"a {type(value).__name__}"
