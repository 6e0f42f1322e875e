"""The raw references of a split of a corpus: untouched text, read from where it was when the corpus was made."""

from collections.abc import Sequence
from pathlib import Path

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
    try:
        files = [
            [(str(entry["path"]), str(entry["sha256"])) for entry in entries]
            for entries in (inputs["target"], *inputs["references"])
        ]
    except (KeyError, TypeError) as error:
        fix = "make the corpus again with `indigo preprocess --overwrite`"
        raise DataError("the manifest does not name the references", where=str(corpus.folder), fix=fix) from error
    references = [_read(entries) for entries in files]
    if not references[0]:
        what = f"split {split!r} has no line to score"
        raise DataError(what, where=str(corpus.folder), fix="choose another --split")
    return references


def _read(files: Sequence[tuple[str, str]]) -> list[str]:
    """Return the lines of files, each with its sha256, that are one reference together."""
    lines: list[str] = []
    for path, sha256 in files:
        fix = "put it back, or make the corpus again with `indigo preprocess`"
        if not Path(path).is_file():
            raise DataError("the raw reference of the corpus is not there any more", where=path, fix=fix)
        if sha256_file(path) != sha256:
            raise DataError("the raw reference has changed since the corpus was made", where=path, fix=fix)
        lines += read_lines(path)
    return lines
