"""The picture of a sweep: score against the first setting that varies, as Figure 3 of the InDIGO paper needs it.

A panel for each metric; a colour for each combination of the further settings; solid lines are merged strings, dashed
ones the plain ranking. A ring marks the chosen point.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from indigo_cli.core.toml import dump_value
from indigo_cli.engine.plot import new_figure
from indigo_cli.engine.sweep_grid import value_text
from indigo_cli.engine.sweep_report import RANKINGS, Scored, SweepReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES = {"merged": "o-", "plain": "x--"}
TITLES = {"merged": "strings merged", "plain": "single traces"}


def draw_sweep(report: SweepReport) -> "Figure":
    """Return the picture."""
    from matplotlib import colormaps

    x_key, *others = report.keys
    curves: dict[tuple[Any, ...], list[Scored]] = {}
    for found in report.scored:
        curves.setdefault(tuple(found.point.values[key] for key in others), []).append(found)
    places = _places([found.point.values[x_key] for found in report.scored])
    figure = new_figure(width=6.2 * len(report.higher_is_better), height=4.4)
    panels = figure.subplots(1, len(report.higher_is_better), squeeze=False).flatten()
    for axes, (metric, higher) in zip(panels, report.higher_is_better.items(), strict=True):
        for number, (rest, points) in enumerate(curves.items()):
            colour = colormaps["viridis"](0.9 * number / max(len(curves) - 1, 1))
            for ranking in RANKINGS:
                label = ", ".join(
                    [*(f"{k} {dump_value(v)}" for k, v in zip(others, rest, strict=True)), TITLES[ranking]]
                )
                xs = [places[value_text(found.point.values[x_key])] for found in points]
                ys = [found.scores[ranking][metric] for found in points]
                axes.plot(xs, ys, STYLES[ranking], color=colour, markersize=5, label=label)
        _mark_chosen(axes, report, metric, places)
        _set_ticks(axes, places)
        axes.set_xlabel(x_key)
        axes.set_ylabel(metric + ("" if higher else " (less is better)"))
        axes.grid(alpha=0.3)
    panels[0].set_title(f"{report.split}, {report.num_lines:,} lines", fontsize=10, loc="left")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8, handlelength=3)
    return figure


def _places(values: Sequence[Any]) -> dict[str, float]:
    """Return where each value stands: numbers where they belong, anything else side by side."""
    if all(type(value) in (int, float) for value in values):
        return {value_text(value): float(value) for value in values}
    return {name: float(place) for place, name in enumerate(dict.fromkeys(map(value_text, values)))}


def _set_ticks(axes: "Axes", places: dict[str, float]) -> None:
    """Name the values where there is room for all of them."""
    if len(places) <= 20:
        axes.set_xticks(list(places.values()), list(places), fontsize=8)


def _mark_chosen(axes: "Axes", report: SweepReport, metric: str, places: dict[str, float]) -> None:
    """Draw a ring round the chosen combination, in every panel."""
    found, ranking = report.chosen()
    score = found.scores[ranking][metric]
    axes.plot(
        [places[value_text(found.point.values[report.keys[0]])]],
        [score],
        linestyle="none",
        marker="o",
        markersize=12,
        markerfacecolor="none",
        markeredgecolor="#d55e00",
        markeredgewidth=1.8,
        label=f"chosen by {report.metric}: {report.show(report.metric, found.scores[ranking][report.metric])}",
    )
