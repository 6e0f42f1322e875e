"""Which validations were the best, against a slow second way to say it."""

import math

from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.engine.validations import Validations

FIGURES = st.lists(st.integers(0, 5).map(float), max_size=12)


def make(figures: list[float], *, higher: bool = False) -> Validations:
    validations = Validations("bleu" if higher else "loss", higher_is_better=higher)
    for step, figure in enumerate(figures, start=1):
        validations.add(10 * step, {"loss": figure, "bleu": figure, "step": -1})
    return validations


@given(FIGURES)
def test_patience_counts_from_the_last_one_better_than_all_before(figures: list[float]) -> None:
    since, best = 0, math.inf
    for figure in figures:
        since, best = (0, figure) if figure < best else (since + 1, best)
    assert make(figures).since_better() == since
    assert make([-figure for figure in figures], higher=True).since_better() == since


@given(FIGURES)
def test_the_best_first_of_equal_ones_the_later(figures: list[float]) -> None:
    ranked, left = [], {10 * i: figure for i, figure in enumerate(figures, start=1)}
    while left:
        ranked.append(max(step for step, figure in left.items() if figure == min(left.values())))
        del left[ranked[-1]]
    assert make(figures).ranked() == ranked
    assert make([-figure for figure in figures], higher=True).ranked() == ranked


def test_figures_and_directions() -> None:
    assert make([3.0, 1.0, 2.0]).best_figure() == 1
    assert make([3.0, 1.0, 2.0], higher=True).best_figure() == 3
    assert math.isnan(make([]).best_figure()) and make([]).since_better() == 0


def test_not_a_number_is_never_the_best() -> None:
    assert make([math.nan, 7.0, math.nan]).ranked()[0] == 20
    assert make([math.nan, 7.0, math.nan], higher=True).ranked()[0] == 20
    assert make([5.0, math.nan, math.nan]).since_better() == 2


def test_rows_of_a_log() -> None:
    """Those without the figure do not count; a validation that is done again takes its own place."""
    validations = Validations("bleu", higher_is_better=True)
    validations.restore([{"step": 1, "loss": 1.0}, {"step": 2, "bleu": 9.0}, {"step": 3, "bleu": 5}])
    validations.add(3, {"bleu": 5.0})
    assert validations.ranked() == [2, 3] and validations.since_better() == 1
