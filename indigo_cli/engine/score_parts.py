"""Further figures of metrics (`evaluate --parts`) as rows: one a figure, a column a system."""

from collections.abc import Iterator

from rich import box
from rich.table import Table
from rich.text import Text

from indigo_cli.engine.score_report import MetricScore, Report
from indigo_cli.engine.score_tables import row_names, significance_mark
from indigo_cli.metrics.metric import Part

LESS = "less is better"
TITLE = "Further figures of the same lines"


def part_header(report: Report) -> list[str]:
    """Return the titles of the columns; the baseline is marked."""
    names = row_names(report)
    return ["metric", "figure", *(names[row.name] for row in report.rows())]


def part_rows(report: Report, *, intervals: bool) -> Iterator[list[str]]:
    """Yield the cells of each row: metric, figure, and of each system its value with interval and mark.

    Args:
        intervals: Give the 95 % interval and the p-value, too.
    """
    rows = report.rows()
    for name, metric in report.measured.metrics.items():
        for part_name, part in metric.parts.items():
            title = part.title if part.higher_is_better else f"{part.title} ({LESS})"
            found = (row.scores[name].parts[part_name] for row in rows)
            yield [name, title, *(_cell(figure, part, intervals=intervals) for figure in found)]


def part_table(report: Report, *, intervals: bool) -> Table:
    """Return the rows as a table for a terminal or a text file."""
    table = Table(box=box.SIMPLE_HEAD, title=TITLE, title_justify="left", title_style="")
    for place, name in enumerate(part_header(report)):
        table.add_column(name, no_wrap=place < 2)
    for row in part_rows(report, intervals=intervals):
        table.add_row(*map(Text, row))
    return table


def _cell(figure: MetricScore, part: Part, *, intervals: bool) -> str:
    score, low, high = (f"{value:.{part.decimals}f}" for value in (figure.score, figure.low, figure.high))
    words = [score]
    if intervals:
        words.append(f"[{low}, {high}]")
        words += [] if figure.p_value is None else [f"p = {figure.p_value:.3f}"]
    return " ".join([*words, significance_mark(figure.p_value)]).rstrip()
