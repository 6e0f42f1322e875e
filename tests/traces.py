"""Traces files for tests of what reads them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from indigo_cli.data.files import open_output
from indigo_cli.data.traces_file import dump_header, dump_row


def write_traces(path: Path, header: Mapping[str, object], rows: Iterable[Mapping[str, object]]) -> None:
    """Write a traces file of rows from `trace_row`; compressed by suffix."""
    with open_output(path) as stream:
        for line in (dump_header(header), *map(dump_row, rows)):
            stream.write(f"{line}\n")
