"""Markdown and LaTeX: read back cell by cell, and no name can break out of its cell."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.engine.score_markup import escape_latex, escape_markdown, latex, markdown
from tests.engine.test_score_tables import make_lengths, make_report

HOSTILE = ("a_b|c*d`<e>", "50% & $x$ #1 {y} ~z^ \\w", '[opt] "q" --flag')


def _markdown_rows(text: str) -> list[list[str]]:
    """Return the cells of the first pipe table, as GitHub splits it."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_markdown_has_a_row_a_system() -> None:
    header, rule, *rows = _markdown_rows(markdown(make_report()))
    assert header == ["system", "BLEU", "TER ↓"]
    assert [cell[-1] for cell in rule] == ["-", ":", ":"]
    assert rows == [
        ["a.de (baseline)", "30.12", "50.00"],
        ["b.de", r"**31.50** \*", "**49.50**"],
        ["c.de", r"29.00 \*\*", r"51.00 \*"],
    ]


def test_markdown_tells_marks_and_signatures() -> None:
    text = markdown(make_report())
    assert r"\* p \< 0.05, \*\* p \< 0.01: differs from a.de (paired bootstrap, 1,000 resamples, seed 12345)" in text
    assert "- `bleu: of:bleu`\n- `ter: of:ter`" in text
    assert "p \\<" not in markdown(make_report(baseline=False))


def test_intervals_on_demand() -> None:
    assert r"**31.50** \* \[30.50, 32.50\]" in markdown(make_report(), intervals=True)
    assert r"\textbf{31.50}\textsuperscript{*} {\scriptsize [30.50, 32.50]}" in latex(make_report(), intervals=True)


def test_latex_has_a_row_a_system() -> None:
    lines = latex(make_report()).splitlines()
    assert lines[:10] == [
        r"% \usepackage{booktabs}",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"system & BLEU & TER $\downarrow$ \\",
        r"\midrule",
        r"a.de (baseline) & 30.12 & 50.00 \\",
        r"b.de & \textbf{31.50}\rlap{\textsuperscript{*}} & \textbf{49.50} \\",
        r"c.de & 29.00\rlap{\textsuperscript{**}} & 51.00\rlap{\textsuperscript{*}} \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    assert lines[10].startswith("% * p < 0.05, ** p < 0.01: differs from a.de")
    assert lines[11:] == ["% bleu: of:bleu", "% ter: of:ter"]


def test_lengths_are_a_second_table() -> None:
    text = markdown(make_report(), [make_lengths()])
    assert "| 1–9    |  1200 | 10.00 | 20.00 |\n| 10     |   300 | 40.00 |  0.00 |" in text  # noqa: RUF001
    lines = latex(make_report(), [make_lengths()]).splitlines()
    assert r"1--9 & 1200 & 10.00 & 20.00 \\" in lines
    assert lines.count(r"\end{tabular}") == 2


def test_no_name_breaks_a_markdown_table() -> None:
    rows = _markdown_rows(markdown(make_report(HOSTILE)))
    assert {len(row) for row in rows} == {3}
    assert [re.sub(r"\\(.)", r"\1", row[0]) for row in rows[2:]] == [f"{HOSTILE[0]} (baseline)", *HOSTILE[1:]]


def _compiles(text: str) -> bool:
    """Tell whether text is plain words, known commands and matching braces, as pdfTeX would read a cell."""
    text = re.sub(r"\\[&%$#_{}]|\\text(backslash|asciitilde|asciicircum|less|greater|bar)\{\}|\\char34(?=\})", "", text)
    if re.search(r"[\\&%$#_~^<>|\"]", text):
        return False
    depth = 0
    for character in text:
        depth += (character == "{") - (character == "}")
        if depth < 0:
            return False
    return depth == 0


@given(st.text(alphabet='ab \\&%$#_{}~^<>|"[]*-–.', max_size=12))  # noqa: RUF001
def test_any_name_compiles(name: str) -> None:
    escaped = escape_latex(name)
    assert _compiles(escaped)
    assert not escaped.startswith(("[", "*"))
    assert "--" not in escape_latex(name.replace("–", ""))  # noqa: RUF001


def test_the_check_itself_sees_what_does_not_compile() -> None:
    for text in ("a_b", "50%", "{", "}{", "\\unknown", "a & b", '"'):
        assert not _compiles(text)


@pytest.mark.parametrize("name", HOSTILE)
def test_every_name_stands_in_its_cell(name: str) -> None:
    lines = latex(make_report((name, "b", "c"))).splitlines()
    row = lines[5]
    assert row == escape_latex(f"{name} (baseline)") + r" & 30.12 & 50.00 \\"
    assert _compiles(row.removesuffix(r" & 30.12 & 50.00 \\"))
    assert all(line.startswith("%") for line in lines[10:])


@given(st.text(alphabet="ab*_`|<[\\", max_size=10))
def test_markdown_text_stays_itself(text: str) -> None:
    """Undone escapes give the text, and nothing special stands alone."""
    escaped = escape_markdown(text)
    assert re.sub(r"\\(.)", r"\1", escaped) == text
    assert not re.search(r"[*_`|<[]", re.sub(r"\\.", "", escaped))
