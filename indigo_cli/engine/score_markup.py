"""Tables of scores to paste into a page: Markdown as GitHub reads it, LaTeX with booktabs."""

from collections.abc import Iterator, Sequence

from indigo_cli.engine.line_scores import ScoresByLength
from indigo_cli.engine.score_parts import TITLE as PARTS_TITLE
from indigo_cli.engine.score_parts import part_header, part_rows
from indigo_cli.engine.score_report import Report
from indigo_cli.engine.score_tables import (
    Cell,
    cells,
    legend,
    length_title,
    row_names,
    short_names,
    signature_lines,
)

_MARKDOWN_SPECIAL = "\\`*_{}[]<>#|~&$!"
_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\char34}",  # Babel may have made the character itself a command
    "[": "{[}",  # these two would be options of the \\ of the line before
    "*": "{*}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def escape_markdown(text: str) -> str:
    """Return text that a table shows as it is."""
    return "".join(f"\\{character}" if character in _MARKDOWN_SPECIAL else character for character in text)


def escape_latex(text: str) -> str:
    """Return text that compiles and prints as it is."""
    escaped = "".join(_LATEX_SPECIAL.get(character, character) for character in text)
    while "--" in escaped:
        escaped = escaped.replace("--", "-{}-")  # no ligature makes a dash of two hyphens
    return escaped.replace("–", "--")  # noqa: RUF001


def markdown(
    report: Report, lengths: Sequence[ScoresByLength] = (), *, intervals: bool = False, parts: bool = False
) -> str:
    """Return the table, the meaning of the marks and the signatures; a table more for parts and each of the lengths."""
    header = ["system", *(_title(report, name, " ↓") for name in report.titles)]
    names = row_names(report)
    rows = [
        [escape_markdown(names[row.name]), *(_markdown_figure(cell, intervals) for cell in cells(report, row))]
        for row in report.rows()
    ]
    pieces = [_markdown_table([escape_markdown(title) for title in header], rows)]
    pieces += [escape_markdown(line) for line in _notes(report)]
    signatures = {name: figure.signature for name, figure in report.systems[0].scores.items()}
    pieces.append("\n".join(f"- `{line}`" for line in signature_lines(signatures)))
    for title, titles, more_rows in _further_tables(report, lengths, intervals=intervals, parts=parts):
        pieces.append(escape_markdown(title))
        cells_of_rows = [[escape_markdown(cell) for cell in row] for row in more_rows]
        pieces.append(_markdown_table([escape_markdown(title) for title in titles], cells_of_rows))
    return "\n\n".join(pieces)


def latex(
    report: Report, lengths: Sequence[ScoresByLength] = (), *, intervals: bool = False, parts: bool = False
) -> str:
    """Return what `markdown` does as tabulars, with the meaning of the marks and the signatures as comments."""
    header = ["system", *(_title(report, name, "") for name in report.titles)]
    arrows = ["", *("" if higher else r" $\downarrow$" for higher in report.higher_is_better.values())]
    names = row_names(report)
    rows = [
        [escape_latex(names[row.name]), *(_latex_figure(cell, intervals) for cell in cells(report, row))]
        for row in report.rows()
    ]
    signatures = {name: figure.signature for name, figure in report.systems[0].scores.items()}
    comments = [*_notes(report), *signature_lines(signatures)]
    titles = [escape_latex(title) + arrow for title, arrow in zip(header, arrows, strict=True)]
    pieces = [r"% \usepackage{booktabs}", _latex_table(titles, rows), *(f"% {line}" for line in comments)]
    for title, titles, more_rows in _further_tables(report, lengths, intervals=intervals, parts=parts):
        pieces.append(f"% {title}")
        cells_of_rows = [[escape_latex(cell) for cell in row] for row in more_rows]
        pieces.append(_latex_table([escape_latex(title) for title in titles], cells_of_rows))
    return "\n".join(pieces)


def _further_tables(
    report: Report, lengths: Sequence[ScoresByLength], *, intervals: bool, parts: bool
) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yield title, header and rows of what stands below the scores."""
    if parts and (rows := list(part_rows(report, intervals=intervals))):
        yield PARTS_TITLE, part_header(report), rows
    for by_length in lengths:
        yield length_title(by_length), *_length_rows(by_length)


def _title(report: Report, name: str, less_is_better: str) -> str:
    return report.titles[name] + ("" if report.higher_is_better[name] else less_is_better)


def _notes(report: Report) -> list[str]:
    """Return what the marks mean, if there are any."""
    return [legend(report)] if report.comparison is not None else []


def _markdown_figure(cell: Cell, intervals: bool) -> str:
    score = f"**{cell.score}**" if cell.best else cell.score
    mark = f" {escape_markdown(cell.mark)}" if cell.mark else ""
    return f"{score}{mark}" + (f" {escape_markdown(cell.interval)}" if intervals else "")


def _latex_figure(cell: Cell, intervals: bool) -> str:
    score = rf"\textbf{{{cell.score}}}" if cell.best else cell.score
    mark = rf"\textsuperscript{{{cell.mark}}}" if cell.mark else ""
    if intervals:
        return rf"{score}{mark} {{\scriptsize {cell.interval}}}"
    return score + (rf"\rlap{{{mark}}}" if mark else "")  # it takes no room: the digits of a column stay in line


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a pipe table of escaped cells: text on the left, figures on the right, columns in line."""
    widths = [max(3, *(len(row[column]) for row in [header, *rows])) for column in range(len(header))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [_pipes(header, widths), _pipes(rule, widths), *(_pipes(row, widths) for row in rows)]
    return "\n".join(lines)


def _pipes(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(row, widths, strict=True)
    return "| " + " | ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]) + " |"


def _latex_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a tabular of escaped cells."""
    lines = [
        rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        r"\toprule",
        " & ".join(header) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def _length_rows(by_length: ScoresByLength) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: tokens, lines, then a column a system."""
    names = short_names(by_length.rows[0].scores)
    rows = [
        [row.label, str(row.num_lines), *(f"{score:.{by_length.decimals}f}" for score, _, _ in row.scores.values())]
        for row in by_length.rows
    ]
    return ["tokens", "lines", *names.values()], rows
