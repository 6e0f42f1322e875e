"""Outputs of systems to be scored: plain text, or the first-ranked text of every line of a traces file."""

from collections.abc import Sequence
from dataclasses import dataclass

from indigo_cli.core.format import check_header, parse_object
from indigo_cli.data.files import read_lines
from indigo_cli.data.traces_file import FORMAT, VERSION, TraceRecord, parse_row
from indigo_cli.engine.wishes import Wishes
from indigo_cli.errors import DataError


@dataclass(frozen=True)
class Output:
    """The output of one system: its text, and what its file says of the languages (empty for plain text).

    `missing` counts lines of which traces say nothing, such as pairs of a split that preprocessing dropped; `wishes`
    are the lengths that decoding was given, None if it was given none.
    """

    lines: list[str]
    language: str = ""
    missing: int = 0
    wishes: Wishes | None = None
    source_language: str = ""


def read_output(path: str, num_lines: int = 0) -> Output:
    """Read text, or the first-ranked text of every line of a traces file (told apart by its header line).

    Args:
        num_lines: Lines to score. Traces that end before get empty lines at their end, as they do for every id left
            out; 0 = as many as they name.
    Raises: DataError for a damaged file, and for traces that name a line behind the last one.
    """
    lines = list(read_lines(path))
    header = parse_object(lines[0]) if lines else None
    if header is None or header.get("format") != FORMAT:
        return Output(lines)
    check_header(header, where=f"{path}:1", format=FORMAT, version=VERSION)
    best = _best_records(path, lines[1:])
    named = max(best, default=-1) + 1
    if 0 < num_lines < named:
        what = f"{path} has {named:,} lines but {num_lines:,} are to be scored"
        raise DataError(what, where=path, fix="give the traces and the references of one split")
    count = num_lines or named
    texts = [best[line].text if line in best else "" for line in range(count)]
    lengths = [best[line].wish if line in best else None for line in range(count)]
    wishes = None if set(lengths) <= {None} else Wishes(lengths, str(header.get("length_unit") or ""))
    languages = (str(header.get(key) or "") for key in ("target_lang", "source_lang"))
    language, source_language = languages
    return Output(texts, language, count - len(best), wishes, source_language=source_language)


def _best_records(path: str, lines: Sequence[str]) -> dict[int, TraceRecord]:
    """Return the hypothesis of rank 1 by id; no id may have two."""
    best: dict[int, TraceRecord] = {}
    for number, line in enumerate(lines, start=2):
        where = f"{path}:{number}"
        fields = parse_object(line)
        if fields is None:
            raise DataError("this line is not a JSON object", where=where, fix="decode again: the file is damaged")
        record = parse_row(fields, where)
        if record.rank != 1:
            continue
        if record.id in best:
            what = f"a second hypothesis of rank 1 for id {record.id}"
            raise DataError(what, where=where, fix="evaluate one traces file at a time")
        best[record.id] = record
    return best
