"""The raw references of a split of a corpus: untouched text, read from where it was when the corpus was made."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import read_lines, sha256_file
from indigo_cli.errors import DataError


def read_references(corpus: Corpus, split: str) -> list[list[str]]:
    """Return one list of raw lines for each reference, the target side first; all lines, also of dropped pairs.

    Raises:
        UsageError: there is no such split.
        DataError: a file that has gone or changed since, or that holds no line.
    """
    corpus.split(split)
    inputs = corpus.manifest["splits"][split]["inputs"]
    references = [_read(entries) for entries in (inputs["target"], *inputs["references"])]
    if not references[0]:
        what = f"split {split!r} has no line to score"
        raise DataError(what, where=str(corpus.folder), fix="choose another --split")
    return references


def _read(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of files that are one reference together."""
    lines: list[str] = []
    for entry in entries:
        path = str(entry["path"])
        fix = "put it back, or make the corpus again with `indigo preprocess`"
        if not Path(path).is_file():
            raise DataError("the raw reference of the corpus is not there any more", where=path, fix=fix)
        if sha256_file(path) != entry["sha256"]:
            raise DataError("the raw reference has changed since the corpus was made", where=path, fix=fix)
        lines += read_lines(path)
    return lines
