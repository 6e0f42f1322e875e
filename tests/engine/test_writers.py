"""Lines of each format, as whoever writes them gets them."""

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest

from indigo_cli.core.format import Format
from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.core.vocab import NUM_SPECIALS, Vocabulary
from indigo_cli.data.traces_file import parse_row
from indigo_cli.engine.nbest import NOTHING, Output
from indigo_cli.engine.writers import WRITERS, traces_row, tsv_line

VOCABULARY = Vocabulary(("ant", "bee"), (2, 1))
TRACE = GenerationTrace(
    (Insertion(NUM_SPECIALS + 1, 0, 0, -0.5, 0.0), Insertion(NUM_SPECIALS, 0, 1, -0.25, -0.125)), end_log_prob=-1.0
)
OUTPUT = Output(Hypothesis(TRACE, score=-0.625, finished=True, merged_log_prob=-1.75), "ant\tbee")
RUN: Any = SimpleNamespace(
    header=lambda: {"run": "x"}, codecs=SimpleNamespace(target=SimpleNamespace(vocabulary=VOCABULARY))
)


def written(form: Format, num_lines: int = 0) -> str:
    """Lines 1 and 2, each with a list of two."""
    stream = io.StringIO()
    writer = WRITERS[form](stream, RUN)
    for number in (1, 2):
        writer.write(number, [OUTPUT, NOTHING])
    writer.end(num_lines)
    return stream.getvalue()


def test_text_has_the_best_of_each_line_and_blank_lines_for_those_that_are_missing() -> None:
    assert written(Format.text) == "\nant\tbee\nant\tbee\n"
    assert written(Format.text, num_lines=5) == "\nant\tbee\nant\tbee\n\n\n"


def test_tsv_has_a_row_a_hypothesis_and_no_tab_in_its_text() -> None:
    assert tsv_line(3, 2, OUTPUT) == "3\t2\t-0.625\tant bee"
    assert written(Format.tsv) == "".join(f"{line}\t1\t-0.625\tant bee\n{line}\t2\t0\t\n" for line in (1, 2))


def test_traces_can_be_read_back() -> None:
    header, *rows = map(json.loads, written(Format.jsonl).splitlines())
    assert (header["run"], header["format"]) == ("x", "indigo-traces")
    records = [parse_row(row, "x") for row in rows]
    assert [(record.id, record.rank) for record in records] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert rows[0] == json.loads(json.dumps(traces_row(1, 1, OUTPUT, VOCABULARY)))
    assert records[0].trace() == TRACE
    assert (records[0].tokens, records[0].order) == (("ant", "bee"), (1, 0))


@pytest.mark.parametrize("form", list(Format))
def test_nothing_is_written_before_the_first_line_but_a_header(form: Format) -> None:
    stream = io.StringIO()
    WRITERS[form](stream, RUN).end(0)
    assert stream.getvalue().count("\n") == (form is Format.jsonl)
