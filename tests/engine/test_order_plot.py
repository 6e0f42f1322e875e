"""Pictures of orders: what is drawn where, for every odd sentence; the figure is asked, not its pixels."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from indigo_cli.engine.display import growth_of_order
from indigo_cli.engine.order_plot import MAX_READABLE, PLAIN_INCHES, draw, draw_growth
from indigo_cli.engine.order_stats import GRID, OrderStats
from indigo_cli.engine.plot import save_png
from indigo_cli.engine.present import Sentence, View


def sentence(tokens: Sequence[str] | None, order: Sequence[int], *, given: int = 0) -> Sentence:
    return Sentence("line 0", tokens, order, given, growth_of_order(tokens, order, title="line 0"))


def view(name: str, orders: Sequence[Sequence[int]]) -> View:
    stats = OrderStats()
    for order in orders:
        stats.add_order(order)
    return View(name, name, {}, stats, sentence(None, orders[0]) if orders else None)


def words_by_row(figure: Figure, panel: int = 0) -> dict[int, dict[float, str]]:
    """Return the words of each row by where they stand, from the left."""
    rows: dict[int, dict[float, str]] = {}
    for text in figure.axes[panel].texts:
        x, y = text.get_position()
        rows.setdefault(int(y), {})[x] = text.get_text()
    return {row: dict(sorted(words.items())) for row, words in rows.items()}


def test_each_row_shows_what_stands_where_it_finally_stands() -> None:
    rows = words_by_row(draw_growth([("f", sentence(["a", "red", "cat", "sat"], (2, 0, 3, 1)))]))
    assert [list(rows[row].values()) for row in range(5)] == [
        ["cat"],
        ["a", "cat"],
        ["a", "cat", "sat"],
        ["a", "red", "cat", "sat"],
        ["a", "red", "cat", "sat"],
    ]
    places = {word: x for x, word in rows[4].items()}
    assert all(places[word] == x for row in rows.values() for x, word in row.items())


def test_the_newest_word_is_bold_and_its_cell_is_the_darkest_of_its_row() -> None:
    order = (2, 0, 3, 1)
    figure = draw_growth([("f", sentence(["a", "red", "cat", "sat"], order))])
    bold = [text.get_text() for text in figure.axes[0].texts if text.get_fontweight() == "bold"]
    assert bold == ["cat", "a", "sat", "red"]
    (mesh,) = figure.axes[0].collections
    cells = np.asarray(mesh.get_array())
    assert cells.shape == (5, 4, 3)
    for row, place in enumerate(order):
        assert cells[row].sum(axis=1).argmin() == place
        assert (cells[row, list(order[row + 1 :])] == to_rgb("white")).all()


def test_given_words_stand_from_the_start() -> None:
    rows = words_by_row(draw_growth([("f", sentence(["a", "red", "cat"], (2, 0, 1), given=2))]))
    assert [list(words.values()) for words in rows.values()] == [["a", "red", "cat"]] * 2


def test_a_long_sentence_writes_each_word_once_and_a_very_long_one_none() -> None:
    length = MAX_READABLE + 1
    rows = words_by_row(draw_growth([("f", sentence(None, range(length)))]))
    assert all(len(rows[row]) == 1 for row in range(length))
    assert len(rows[length]) == length
    endless = draw_growth([("f", sentence(["word" * 9] * 300, range(300)))])
    assert not endless.axes[0].texts
    assert endless.get_size_inches()[1] < 2 * PLAIN_INCHES


def test_several_files_are_panels() -> None:
    figure = draw([view("a", [(0, 1)]), view("b", [(1, 0)])], line=0)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["a: line 0", "b: line 0"]
    assert list(words_by_row(figure, 1)[0].values()) == ["1"]


def test_statistics_overlay_files_and_map_each() -> None:
    figure = draw([view("a", [(0, 1, 2), (2, 1, 0)]), view("b", [(0, 1, 2)])])
    tau, place, *maps = figure.axes
    filled, outline = tau.patches[0], tau.patches[1]
    assert filled.get_data().values.tolist() == outline.get_data().values.tolist()  # type: ignore[attr-defined]
    assert outline.get_data().values[[0, -1]].tolist() == [50, 50]  # type: ignore[attr-defined]
    assert tau.patches[3].get_data().values[-1] == 100  # type: ignore[attr-defined]
    assert place.patches[3].get_data().values[0] == 100  # type: ignore[attr-defined]
    assert [axes.get_title() for axes in maps[:2]] == ["a", "b"]
    assert maps[0].images[0].get_array().shape == (GRID, GRID)  # type: ignore[union-attr]


ODD = [
    (["cat"], (0,)),
    ([], ()),
    (["$5", "and", "$6", "\\frac{", "^_"], (4, 2, 0, 1, 3)),
    (["Donaudampfschifffahrtsgesellschaft"] * 2, (1, 0)),
    (["\x1b[31m", "a\u200bb", "\ud800"], (2, 1, 0)),
    (None, (1, 0)),
]


@pytest.mark.parametrize(("tokens", "order"), ODD)
def test_odd_sentences_can_be_drawn(tmp_path: Path, tokens: list[str] | None, order: tuple[int, ...]) -> None:
    save_png(draw_growth([("$x$", sentence(tokens, order))]), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.parametrize("names", [["$x_1$"], ["{a", "$", "b", "c"]])
def test_odd_files_can_be_drawn(tmp_path: Path, names: list[str]) -> None:
    views = [view(name, [(), (0,), (0, 1)] if number else []) for number, name in enumerate(names)]
    save_png(draw(views), tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000
