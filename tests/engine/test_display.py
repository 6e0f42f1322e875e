"""The growing sentence and the matrix, as text and with colour."""

import io
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console, RenderableType

from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.data.traces_file import TraceRecord, parse_row, trace_row
from indigo_cli.engine.display import clip, growth, growth_of_order, printable, probability, relations, window

WORDS = ["a", "red", "cat", "sat"]


def render(shown: RenderableType, *, width: int = 100, color: bool = False) -> str:
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=color,
        color_system="truecolor" if color else None,
        no_color=not color,
        markup=False,
        highlight=False,
        emoji=False,
    )
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def rows(shown: RenderableType, *, width: int = 100) -> list[str]:
    return [" ".join(line.split()) for line in render(shown, width=width).splitlines() if line.strip()]


def record(*, end: float | None = math.log(0.5), rounds: tuple[int, ...] = (0, 1, 2, 3)) -> TraceRecord:
    """Cat, a, sat, red; word probabilities 1, 0.5, 0.25, 0.125, slots 0.8 each."""
    steps = zip([8, 6, 9, 7], [0, 0, 2, 1], rounds, range(4), strict=True)
    insertions = tuple(
        Insertion(token, slot, number, math.log(0.5**step), math.log(0.8)) for token, slot, number, step in steps
    )
    hypothesis = Hypothesis(GenerationTrace(insertions, end_log_prob=end), -0.5, end is not None)
    return parse_row(trace_row(3, 1, hypothesis, text="A red cat sat", tokens=WORDS), "t:2")


def test_every_insertion_has_its_row() -> None:
    lines = rows(growth(record()))
    assert lines[0].startswith("line 3, rank 1 log p -5.745, score -0.500, finished")
    assert lines[1] == "A red cat sat"
    assert lines[2] == "step word slot p(word) p(slot) canvas"
    assert lines[4:] == [
        "1 cat 0/0 1.000 █ 0.800 ▆ [cat]",
        "2 a 0/1 0.500 ▄ 0.800 ▆ [a] cat",
        "3 sat 2/2 0.250 ▂ 0.800 ▆ a cat [sat]",
        "4 red 1/3 0.125 ▁ 0.800 ▆ a [red] cat sat",
        "end <eod> 0.500 ▄ a red cat sat",
    ]


def test_unfinished_and_empty_hypotheses() -> None:
    lines = rows(growth(record(end=None)))
    assert "not finished" in lines[0]
    assert lines[-1] == "end out of steps a red cat sat"
    empty = Hypothesis(GenerationTrace((), end_log_prob=-0.1), -0.1, True)
    lines = rows(growth(parse_row(trace_row(0, 1, empty, text="", tokens=[]), "t:2")))
    assert lines[-1] == "end <eod> 0.905 ▇"


def test_given_words_stand_in_one_row_and_rounds_show_where_they_differ_from_steps() -> None:
    lines = rows(growth(record(rounds=(-1, -1, 0, 0))))
    assert lines[2] == "step round word slot p(word) p(slot) canvas"
    assert lines[4] == "given a cat"
    assert lines[5].startswith("1 0 sat 2/2")
    assert lines[6].startswith("2 0 red 1/3")


def test_colour_marks_the_newest_word_without_brackets() -> None:
    text = render(growth(record()), color=True)
    assert "\x1b[" in text
    assert "[cat]" not in text
    assert " cat \x1b[0m" in text


def test_an_order_without_words_shows_indices() -> None:
    lines = rows(growth_of_order(None, (1, 2, 0), title="line 7"))
    assert lines[0] == "line 7"
    assert lines[-3:] == ["1 1 0/0 [1]", "2 2 1/1 1 [2]", "3 0 0/2 [0] 1 2"]


def test_matrix_is_the_transpose_of_the_vector_of_the_fact_sheet() -> None:
    """PAPERS A1: r_i are the columns here, z the last row."""
    lines = rows(relations(["A", "B", "C"], (1, 2, 0)))
    assert lines[0].startswith("R^4 in column i")
    assert lines[1] == "i = 0 1 2 3 4"
    assert lines[2:] == [
        "0 <s> │ 0 + + + +",
        "1 </s> │ - 0 - - -",
        "2 B │ - + 0 + -",
        "3 C │ - + - 0 -",
        "4 A │ - + + + 0",
        "z │ 0 4 2 3 1",
    ]


def test_a_matrix_too_wide_shows_the_matrix_of_an_earlier_step() -> None:
    lines = rows(relations(None, tuple(range(30))), width=40)
    assert lines[0].startswith("R^")
    shown = len(next(line for line in lines if line.startswith("i =")).split()) - 2
    assert shown < 32
    z = next(line for line in lines if line.startswith("z │"))
    assert z.split()[2:] == [str(position) for position in (0, shown - 1, *range(1, shown - 1))]
    assert f"the first {shown - 2} of 30 insertions" in " ".join(lines)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.text(min_size=1, max_size=12), max_size=25), st.integers(20, 120), st.booleans(), st.data())
def test_no_line_is_wider_than_the_terminal(tokens: list[str], width: int, color: bool, data: st.DataObject) -> None:
    order = tuple(data.draw(st.permutations(range(len(tokens)))))
    for shown in (growth_of_order(tokens, order, title=""), relations(tokens, order)):
        console = Console(file=io.StringIO(), width=width, color_system="truecolor" if color else None, highlight=False)
        for line in console.render_lines(shown, pad=False):
            text = "".join(segment.text for segment in line)
            assert cell_len(text.rstrip()) <= width
            assert "\x1b" not in text


@given(st.lists(st.integers(1, 12), min_size=1, max_size=40), st.integers(8, 120), st.data())
def test_window_holds_the_centre_and_fits(widths: list[int], room: int, data: st.DataObject) -> None:
    centre = data.draw(st.integers(0, len(widths) - 1))
    start, stop = window(widths, centre, room)
    assert 0 <= start <= centre < stop <= len(widths)
    cells = sum(widths[start:stop]) + stop - start - 1
    marks = 2 * (start > 0) + 2 * (stop < len(widths))
    assert cells + marks <= room or stop - start == 1
    if sum(widths) + len(widths) - 1 <= room:
        assert (start, stop) == (0, len(widths))


def test_a_window_of_a_long_sentence_shows_what_stands_around_the_newest_word() -> None:
    tokens = [f"word{i}" for i in range(40)]
    lines = rows(growth_of_order(tokens, (*range(0, 40, 2), *range(1, 40, 2)), title=""), width=80)
    newest = next(line for line in lines if "[word21]" in line)
    assert "word20 [word21] word22" in newest
    assert newest.count("…") == 2


def test_probabilities() -> None:
    assert probability(0.0).plain == "1.000 █"
    assert probability(math.log(0.5)).plain == "0.500 ▄"
    assert probability(math.log(2e-5)).plain == "2e-05 ▁"
    assert probability(-2000.0).plain == "0.000  "


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cat", "cat"),
        ("red\u200bcat", "red\\u200bcat"),
        ("\x1b[31m", "\\u001b[31m"),
        ("\ud800", "\\ud800"),
        ("猫", "猫"),
    ],
)
def test_invisible_and_dangerous_characters_are_spelt(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(max_size=30), st.integers(1, 10))
def test_clip_fits(text: str, cells: int) -> None:
    assert cell_len(clip(printable(text), cells)) <= cells


class TestRounds:
    def played(self, *, forced: bool = False, given: bool = False) -> TraceRecord:
        """Red in the first round (or given), a and cat in the second, sat in the third; five slots closed."""
        first = Insertion(7, 0, -1 if given else 0, 0.0 if given else math.log(0.5), 0.0)
        insertions = (
            first,
            Insertion(6, 0, 1, math.log(0.5), 0.0),
            Insertion(8, 2, 1, math.log(0.25), 0.0),
            Insertion(9, 3, 2, math.log(0.8), 0.0),
        )
        trace = GenerationTrace(insertions, (math.log(0.5), 0.0, 0.0, math.log(0.5), 0.0))
        hypothesis = Hypothesis(trace, -0.5, not forced)
        return parse_row(trace_row(3, 1, hypothesis, text="A red cat sat", tokens=WORDS), "t:2")

    def test_a_row_for_each_with_all_its_words(self) -> None:
        lines = rows(growth(self.played()))
        assert lines[2].split() == ["round", "new", "p(words)", "canvas"]
        assert lines[4:] == [
            "0 1 0.500 ▄ [red]",
            "1 2 0.125 ▁ [a] red [cat]",
            "2 1 0.800 ▆ a red cat [sat]",
            "end 0.250 ▂ a red cat sat",
        ]

    def test_given_words_and_force(self) -> None:
        lines = rows(growth(self.played(forced=True, given=True)))
        assert lines[4] == "given red"
        assert lines[-1] == "forced 0.250 ▂ a red cat sat"

    @pytest.mark.parametrize("width", [20, 30, 60])
    def test_it_fits_the_width(self, width: int) -> None:
        table = render(growth(self.played()), width=width).splitlines()[2:]
        assert all(cell_len(line.rstrip()) <= max(width, 40) for line in table)
