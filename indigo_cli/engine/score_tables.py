"""Tables of scores for a terminal or a text file: systems by metrics, and bars by length."""

import os.path
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from indigo_cli.engine.display import printable
from indigo_cli.engine.line_scores import ScoresByLength
from indigo_cli.engine.score_report import Report, SystemReport

LEVELS = (("**", 0.01), ("*", 0.05))
"""Marks of significance, the strictest first: p below the number."""
BEST = "best"
"""Said before the best figure of a column where there is no bold type."""
BAR_CELLS = 40
COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")


@dataclass(frozen=True)
class Cell:
    """One figure as text; `mark` is empty where the difference may be chance, `p_value` where nothing was compared."""

    score: str
    interval: str
    p_value: str
    mark: str
    best: bool


def significance_mark(p_value: float | None) -> str:
    """Return the mark of a p-value, empty from 0.05 on and for None."""
    return next((mark for mark, level in LEVELS if p_value is not None and p_value < level), "")


def cells(report: Report, system: SystemReport) -> list[Cell]:
    """Return the figures of a row."""
    best = report.best()
    row = []
    for name, figure in system.scores.items():
        score, low, high = (f"{value:.{report.decimals[name]}f}" for value in (figure.score, figure.low, figure.high))
        p_value = "" if figure.p_value is None else f"{figure.p_value:.3f}"
        mark = significance_mark(figure.p_value)
        row.append(Cell(score, f"[{low}, {high}]", p_value, mark, best=system.name in best[name]))
    return row


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return what to call each system in a table: paths lose the folder that they share, nothing else."""
    names = list(names)
    folders = {os.path.dirname(name) for name in names}
    shared = len(folders) == 1 and len({os.path.basename(name) for name in names} - {""}) == len(names)
    return {name: printable(os.path.basename(name) if shared else name) for name in names}


def row_names(report: Report) -> dict[str, str]:
    """Return the names of the rows, the baseline marked."""
    names = short_names(row.name for row in report.rows())
    if report.baseline is not None:
        names[report.baseline.name] += " (baseline)"
    return names


def legend(report: Report) -> str:
    """Return what the marks mean, empty without a baseline."""
    if report.baseline is None or report.comparison is None:
        return ""
    marks = ", ".join(f"{mark} p < {level:g}" for mark, level in reversed(LEVELS))
    name = short_names(row.name for row in report.rows())[report.baseline.name]
    return f"{marks}: differs from {name} ({report.comparison.describe()})"


def score_table(report: Report, *, bold: bool, intervals: bool = True) -> Table:
    """Return one row a system, the baseline first, one column a metric.

    Args:
        bold: Whether the best figures can be set in bold type; else the word `best` stands before them.
        intervals: Show the 95 % interval and the p-value below each figure.
    """
    table = Table(box=box.SIMPLE_HEAD, leading=1 if intervals else 0)
    table.add_column("system", overflow="fold")
    for name, higher_is_better in report.higher_is_better.items():
        title = name if higher_is_better else f"{name}\nless is better"
        table.add_column(Text(title, justify="right"), justify="right" if intervals else "left")
    names = row_names(report)
    rows = {system.name: cells(report, system) for system in report.rows()}
    widths = [max(len(_score(cell, bold)) for cell in column) for column in zip(*rows.values(), strict=True)]
    for system, row in rows.items():
        if intervals:
            figures = [_figure(cell, bold) for cell in row]
        else:  # padded by hand: marks must not push the digits out of line
            figures = [
                Text(" " * (width - len(_score(cell, bold))))
                .append(_score(cell, bold))
                .append(f" {cell.mark}".rstrip())
                for cell, width in zip(row, widths, strict=True)
            ]
        table.add_row(names[system], *figures)
    return table


def _score(cell: Cell, bold: bool) -> Text:
    """Return the score, marked where it is the best."""
    if not cell.best:
        return Text(cell.score)
    return Text(cell.score, "bold") if bold else Text(f"{BEST} {cell.score}")


def _figure(cell: Cell, bold: bool) -> Text:
    """Return the score with its interval below it, and the p-value of its difference from the baseline."""
    p_value = f"\np = {cell.p_value} {cell.mark}".rstrip() if cell.p_value else ""
    return Text.assemble(_score(cell, bold), f"\n{cell.interval}", p_value)


def length_title(by_length: ScoresByLength) -> str:
    """Return what a chart by length shows."""
    less = "" if by_length.higher_is_better else ", less is better"
    return f"{by_length.title} by {by_length.what}{less}"


def length_chart(by_length: ScoresByLength, *, width: int) -> RenderableType:
    """Return a bar for each bucket and system; bars start at 0 and the longest one is the highest score.

    Args:
        width: Cells that the chart may take.
    """
    names = short_names(by_length.rows[0].scores)
    table = Table(
        box=box.SIMPLE_HEAD, title=length_title(by_length), title_justify="left", title_style="", expand=False
    )
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("lines", justify="right", no_wrap=True)
    table.add_column("system", overflow="fold", max_width=max(12, width // 3))
    table.add_column(by_length.metric, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    longest = min(max(map(len, names.values())), max(12, width // 3))
    bar_cells = max(8, min(BAR_CELLS, width - longest - 34))
    top = max(score for row in by_length.rows for score, _, _ in row.scores.values())
    for row in by_length.rows:
        for position, (system, (score, _, _)) in enumerate(row.scores.items()):
            colour = COLOURS[position % len(COLOURS)]
            table.add_row(
                row.label if position == 0 else "",
                f"{row.num_lines:,}" if position == 0 else "",
                names[system],
                f"{score:.{by_length.decimals}f}",
                Text(_bar(score / top if top else 0.0, bar_cells), colour),
                end_section=position == len(names) - 1 and len(names) > 1,
            )
    return table


def _bar(share: float, width: int) -> str:
    """Return a bar of eighths of a cell."""
    full, rest = divmod(round(share * width * 8), 8)
    return "█" * full + " ▏▎▍▌▋▊▉"[rest].strip()


def signature_lines(signatures: Mapping[str, str]) -> list[str]:
    """Return `metric: signature` lines."""
    return [f"{name}: {signature}" for name, signature in signatures.items()]
