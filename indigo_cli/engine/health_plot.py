"""The picture of `indigo show RUN --png`: how the orders that a run finds changed over its updates."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from indigo_cli.engine.order_plot import COLOURS
from indigo_cli.engine.plot import new_figure
from indigo_cli.engine.run_health import RunHealth

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BEST, L2R, ALL, OTHER = COLOURS[:4]
Curve = tuple[str, tuple[str, ...], str, str]
"""Label, where the figure stands in a row, colour, style of line."""
COSTS: tuple[Curve, ...] = (
    ("best found", ("best",), BEST, "o-"),
    ("all found, added up", ("log_sum",), ALL, "^-"),
    ("left to right", ("l2r",), L2R, "s--"),
)
PARTS: tuple[Curve, ...] = (
    ("words", ("word",), BEST, "o-"),
    ("slots", ("slot",), OTHER, "^-"),
    ("<eod>", ("end",), "0.5", "s--"),
)
LIKELY: tuple[Curve, ...] = (
    ("best found", ("likely", "best"), BEST, "o-"),
    ("all found, added up", ("likely", "log_sum"), ALL, "^-"),
    ("left to right", ("likely", "l2r"), L2R, "s--"),
)
SHAPE: tuple[Curve, ...] = (
    ("strictly left to right", ("is_l2r",), L2R, "s--"),
    ("u, nodes of trees a step", ("u",), OTHER, "o-"),
)


def draw_health(health: RunHealth) -> "Figure":
    """Return the picture; a vertical line ends the updates that did not search."""
    figure = new_figure(width=11.0, height=7.0)
    panels = figure.subplots(2, 2, sharex=True).flatten()
    for axes, curves, title in zip(
        panels,
        (COSTS, PARTS, LIKELY, SHAPE),
        ("-log p of a target, nats", "of it in the best order", "share of targets with p > 0.5", "shape of the orders"),
        strict=True,
    ):
        _draw(axes, health, curves)
        axes.set_title(title, fontsize=10, loc="left")
        axes.legend(fontsize=8)
        if curves in (LIKELY, SHAPE):
            axes.set_ylim(-0.03, 1.03)
            axes.set_xlabel("updates")
        else:
            axes.set_ylim(bottom=0)
    return figure


def _draw(axes: "Axes", health: RunHealth, curves: Sequence[Curve]) -> None:
    steps = list(health.rows)
    for label, keys, colour, style in curves:
        values = [_figure(row, keys) for row in health.rows.values()]
        axes.plot(steps, values, style, color=colour, markersize=4, label=label)
    if health.bootstrap_updates:
        axes.axvline(health.bootstrap_updates, color="0.4", linestyle=":", label="the search begins")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)


def _figure(row: Any, keys: Sequence[str]) -> float:
    for key in keys:
        row = row[key]
    return float(row)
