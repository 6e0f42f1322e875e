"""Pictures of `indigo show --png`: the orders of whole files, and how one sentence grew.

Words come from files: none is ever read as a formula, and what cannot be seen is spelt out as on the terminal.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from indigo_cli.engine.display import MAX_WORD_CELLS, clip, printable, step_colour
from indigo_cli.engine.order_stats import PLACE_BINS, TAU_BINS
from indigo_cli.engine.plot import families, new_figure
from indigo_cli.engine.present import Sentence, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Of files; people who do not tell red from green can tell them apart (Okabe and Ito 2008)."""
MAPS_IN_ROW = 3
MAX_NAME_CELLS = 48
POINTS = 8.0
"""Size of a word, shrunk where a sentence would need a picture wider than `MAX_INCHES`."""
MIN_POINTS = 4.0
"""Words smaller than this cannot be read and are left out."""
CELL_INCHES = 0.602 / 72
"""Width of a monospaced letter of one point."""
ROW_INCHES = 2 / 72
"""Height of a row for letters of one point."""
MAX_INCHES = 30.0
PLAIN_INCHES = 8.0
"""Width and height of a sentence whose words are left out."""
MARGIN_INCHES = 0.9
MAX_READABLE = 40
"""In a sentence of more words, each is written only in the row in which it came."""
STANDS, NEW = 0.93, 0.72
"""Lightness of the cells of words that stand and of the newest."""


def draw(views: Sequence[View], *, line: int | None = None) -> "Figure":
    """Return the picture of whole files, or with `line` of how that line grew in each."""
    if line is None:
        return draw_statistics(views)
    return draw_growth([(view.name, view.sentence) for view in views if view.sentence is not None])


def draw_statistics(views: Sequence[View]) -> "Figure":
    """Return histograms of tau and of the first word's place, all files in each, and a growth map of every file."""
    columns = min(len(views), MAPS_IN_ROW)
    map_rows = -(-len(views) // MAPS_IN_ROW)
    if len(views) == 1:
        figure = new_figure(width=12.0, height=3.6)
        left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=[2, 1.1]).flatten()
    else:
        figure = new_figure(width=max(9.0, 3.4 * columns), height=3.4 + 3.4 * map_rows)
        left, right = figure.subfigures(2, 1, squeeze=False, height_ratios=[1, map_rows]).flatten()
    tau_axes, place_axes = left.subplots(1, 2)
    half = 1 / (TAU_BINS - 1)
    _histogram(tau_axes, views, np.linspace(-1 - half, 1 + half, TAU_BINS + 1), "tau_histogram")
    _histogram(place_axes, views, np.linspace(0, 1, PLACE_BINS + 1), "first_places")
    tau_axes.set(xlabel="Kendall tau to left to right", xticks=[-1, -0.5, 0, 0.5, 1], xlim=(-1.1, 1.1))
    place_axes.set(xlabel="place of the first word (0 left end, 1 right end)", xlim=(0, 1))
    if len(views) > 1:
        handles, labels = tau_axes.get_legend_handles_labels()
        fonts = {"family": families("sans-serif")}
        legend = left.legend(handles, labels, loc="outside upper center", ncols=columns, prop=fonts)
        for text in legend.get_texts():
            text.set_parse_math(False)
    _maps(right, views, map_rows, columns)
    return figure


def _histogram(axes: "Axes", views: Sequence[View], edges: NDArray[np.float64], name: str) -> None:
    """Draw the share of sequences in each bin, one line a file; the first is the thickest, as others may hide it."""
    for number, view in enumerate(views):
        counts = np.array(getattr(view.stats, name), dtype=np.float64)
        shares = 100 * counts / max(counts.sum(), 1)
        colour = COLOURS[number % len(COLOURS)]
        axes.stairs(shares, edges, fill=True, color=colour, alpha=0.25)
        label = clip(printable(view.name), MAX_NAME_CELLS)
        axes.stairs(shares, edges, color=colour, linewidth=1.2 * min(len(views) - number, 4), label=label)
    axes.set_ylabel("% of sequences")
    axes.set_ylim(bottom=0)
    if not any(sum(getattr(view.stats, name)) for view in views):
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no sequence of two words or more", ha="center", va="center", transform=axes.transAxes)


def _maps(figure: "SubFigure", views: Sequence[View], rows: int, columns: int) -> None:
    """Draw when which part of the sentences was generated, one map a file, all in one scale of colours."""
    from matplotlib.colors import PowerNorm

    grids = [view.stats.mean_growth() for view in views]
    scale = PowerNorm(0.5, vmin=0, vmax=max(1.0, *(float(grid.max()) for grid in grids)))
    all_axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes in all_axes[len(views) :]:
        axes.set_axis_off()
    for axes, view, grid in zip(all_axes, views, grids, strict=False):
        image = axes.imshow(grid, extent=(0, 1, 1, 0), norm=scale, cmap="Blues")
        axes.set(xlabel="place in the sentence", ylabel="time", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        _title(axes, clip(printable(view.name), MAX_NAME_CELLS))
    figure.colorbar(image, ax=list(all_axes), shrink=0.8, label="density (random orders: 1)")


def _title(axes: "Axes", text: str, *, loc: Literal["left", "center"] = "center") -> None:
    axes.set_title(text, fontsize=9, loc=loc, family=families("sans-serif"), parse_math=False)


def draw_growth(sentences: Sequence[tuple[str, Sentence]]) -> "Figure":
    """Return a panel for each sentence: a row a step, every word in the column where it finally stands.

    The colour of a word is that of its step, from blue for the first to orange for the last, as on the terminal.

    Args:
        sentences: With the name of its file.
    """
    panels = [_Panel(name, sentence) for name, sentence in sentences]
    figure = new_figure(
        width=max(panel.width for panel in panels) + MARGIN_INCHES,
        height=sum(panel.height + MARGIN_INCHES for panel in panels),
    )
    ratios = [panel.height for panel in panels]
    all_axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=ratios).flatten()
    for axes, panel in zip(all_axes, panels, strict=True):
        panel.draw(axes)
    return figure


class _Panel:
    """The picture of one sentence, and how large it wants to be."""

    def __init__(self, name: str, sentence: Sentence) -> None:
        order, given = sentence.order, sentence.given
        tokens = sentence.tokens if sentence.tokens is not None else [str(index) for index in range(len(order))]
        self.title = clip(f"{printable(name)}: {printable(sentence.title)}", 100)
        self.labels = [clip(printable(token), MAX_WORD_CELLS) for token in tokens]
        self.order, self.given = order, given
        self.rows = [*range(given, len(order)), len(order)]  # the last shows the whole sentence
        cells = np.array([cell_len(label) + 1.5 for label in self.labels] or [1.0])
        longest = max(cells.sum() * CELL_INCHES, len(self.rows) * ROW_INCHES)
        self.points = min(POINTS, MAX_INCHES / longest)
        self.readable = self.points >= MIN_POINTS
        if self.readable:
            self.width = max(cells.sum() * CELL_INCHES * self.points, 3.0)
            self.height = max(len(self.rows) * ROW_INCHES * self.points, 0.5)
        else:
            cells = np.ones(len(cells))
            self.width = self.height = PLAIN_INCHES
        self.edges = np.concatenate([[0.0], np.cumsum(cells)])

    def draw(self, axes: "Axes") -> None:
        """Fill the axes."""
        _title(axes, self.title, loc="left")
        axes.set_xlim(0, self.edges[-1])
        axes.set_ylim(len(self.rows), 0)
        axes.set_xticks([])
        axes.spines[:].set_visible(False)
        if not self.labels:
            axes.set_yticks([])
            axes.text(0.5, 0.5, "no words", ha="center", va="center", transform=axes.transAxes)
            return
        every = 1 if self.readable else max(1, len(self.rows) // 20)
        names = [*(str(step + 1 - self.given) for step in self.rows[:-1]), "end"]
        axes.set_yticks([row + 0.5 for row in range(len(self.rows))][::every], names[::every], fontsize=7)
        axes.tick_params(length=0)
        axes.set_ylabel("step", fontsize=8)
        axes.pcolormesh(self.edges, np.arange(len(self.rows) + 1), self.colours())
        if self.readable:
            self.write(axes)

    def colours(self) -> NDArray[np.float64]:
        """Return the colour of each row and column, (rows, words, 3)."""
        count = len(self.order)
        cells = np.ones((len(self.rows), count, 3))
        for step, place in enumerate(self.order):
            row = max(step - self.given, 0)
            cells[row:, place] = step_colour(step, count, lightness=STANDS)
            if step >= self.given:
                cells[row, place] = step_colour(step, count, lightness=NEW)
        return cells

    def write(self, axes: "Axes") -> None:
        """Write the words: the newest of each row in bold, those that stand in grey, the whole sentence at the end."""
        fonts = families("monospace")
        centres = (self.edges[:-1] + self.edges[1:]) / 2
        for row, newest in enumerate(self.rows):
            last = newest == len(self.order)
            for step, place in enumerate(self.order[: newest + 1]):
                if not last and step < newest and len(self.order) > MAX_READABLE:
                    continue
                axes.text(
                    centres[place],
                    row + 0.5,
                    self.labels[place],
                    ha="center",
                    va="center",
                    fontsize=self.points,
                    family=fonts,
                    weight="bold" if step == newest else "normal",
                    color="black" if last or step == newest else "0.55",
                    parse_math=False,
                    in_layout=False,
                )
