"""Score by length as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING

from indigo_cli.engine.line_scores import ScoresByLength
from indigo_cli.engine.plot import new_figure, save_png
from indigo_cli.engine.score_tables import short_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = "os^Dv*"
LINES = {
    "reference": "lines in buckets of about equal size",
    "source": "all lines of at least so many source tokens",
}
SPREAD = 0.3
"""How far apart the systems of a bucket stand, in buckets, so that their intervals can be told apart."""


def length_figure(by_length: ScoresByLength) -> "Figure":
    """Return a line for each system over the rows, with 95 % intervals; rows are evenly spaced."""
    figure = new_figure()
    axes = figure.add_subplot()
    names = short_names(by_length.rows[0].scores)
    for position, (system, name) in enumerate(names.items()):
        shift = SPREAD * (position / (len(names) - 1) - 0.5) if len(names) > 1 else 0.0
        values = [row.scores[system] for row in by_length.rows]
        scores = [score for score, _, _ in values]
        below = [max(0.0, score - low) for score, low, _ in values]
        above = [max(0.0, high - score) for score, _, high in values]
        axes.errorbar(
            [place + shift for place in range(len(values))],
            scores,
            yerr=[below, above],
            label=_plain(name),
            marker=MARKERS[position % len(MARKERS)],
            markersize=5,
            linewidth=1.5,
            elinewidth=1,
            capsize=2,
        )
    axes.set_xticks(range(len(by_length.rows)), [f"{row.label}\n{row.num_lines:,} lines" for row in by_length.rows])
    axes.set_xlabel(by_length.what)
    axes.set_ylabel(by_length.title + ("" if by_length.higher_is_better else ", less is better"))
    axes.set_title(f"Scores with 95 % intervals, {LINES[by_length.side]}", fontsize="medium")
    axes.grid(axis="y", alpha=0.3)
    axes.legend()
    return figure


def draw_by_length(by_length: ScoresByLength, path: Path | str, *, overwrite: bool = False) -> None:
    """Write the picture as PNG.

    Raises: UsageError where a file stands and `overwrite` is not set, or matplotlib is not installed.
    """
    save_png(length_figure(by_length), path, overwrite=overwrite)


def _plain(name: str) -> str:
    """Return a legend's text: no mathematics between dollars, and matplotlib hides what begins with an underscore."""
    text = name.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
