"""What files say of themselves, and the forms in which `decode` writes its results."""

import json
from enum import StrEnum
from typing import Any

from indigo_cli.errors import DataError


class Format(StrEnum):
    """What `decode` writes."""

    text = "text"
    tsv = "tsv"
    jsonl = "jsonl"


def parse_object(line: str) -> dict[str, Any] | None:
    """Return the JSON object that a line is, None if it is anything else."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def check_header(header: dict[str, Any], *, where: str, format: str, version: int) -> None:
    """Check the format's name and version.

    Raises:
        DataError: another format, no version, or a version newer than `version`.
    """
    if header.get("format") != format:
        raise DataError(f"this is not an {format} file (its format is {header.get('format')!r})", where=where)
    found = header.get("version")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise DataError(f"the {format} file has no valid version ({found!r})", where=where)
    if found > version:
        raise DataError(
            f"{format} version {found} is newer than this indigo reads ({version})", where=where, fix="upgrade indigo"
        )
