"""The picture of scores by length: what is drawn, and that any name can be in its legend."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

from indigo_cli.engine.score_plot import draw_by_length, length_figure
from indigo_cli.errors import UsageError
from tests.engine.test_score_tables import make_lengths


def test_axes_legend_and_values() -> None:
    figure = length_figure(make_lengths())
    (axes,) = figure.axes
    assert axes.get_ylabel() == "BLEU"
    assert axes.get_xlabel() == "length of the reference, in tokens (13a)"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1–9\n1,200 lines", "10\n300 lines"]  # noqa: RUF001
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["a.de", "b.de"]
    lines = [container.lines[0] for container in axes.containers if isinstance(container, ErrorbarContainer)]
    assert [np.asarray(line.get_ydata(), dtype=float).tolist() for line in lines] == [[10.0, 40.0], [20.0, 0.0]]
    places = [float(np.asarray(line.get_xdata(), dtype=float)[0]) for line in lines]
    assert places[0] < 0 < places[1] and places[1] - places[0] < 0.5


def test_any_name_is_in_the_legend(tmp_path: Path) -> None:
    names = ("_hidden", "$a_b$ ${", "c")
    draw_by_length(make_lengths(names), tmp_path / "a.png")
    legend = length_figure(make_lengths(names)).axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [" _hidden", r"\$a_b\$ \${", "c"]


def test_the_file_is_a_picture_and_repeats(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        draw_by_length(make_lengths(("one",)), tmp_path / name)
    content = (tmp_path / "a.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert content == (tmp_path / "b.png").read_bytes()
    with pytest.raises(UsageError, match="exists already"):
        draw_by_length(make_lengths(), tmp_path / "a.png")
