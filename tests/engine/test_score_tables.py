"""Tables for people: what is marked, what is bold, and that nothing is lost at 80 columns."""

import io

import pytest
from rich.console import Console, RenderableType

from indigo_cli.engine.assess import EvaluateConfig, assess
from indigo_cli.engine.line_scores import LengthRow, ScoresByLength
from indigo_cli.engine.score_report import Comparison, MetricScore, Report, SystemReport
from indigo_cli.engine.score_tables import (
    legend,
    length_chart,
    row_names,
    score_table,
    short_names,
    significance_mark,
)

FIGURES = {"bleu": [(30.123, 0.2), (31.5, 0.03), (29.0, 0.004)], "ter": [(50.0, 0.5), (49.5, 0.05), (51.0, 0.01)]}


def make_report(names: tuple[str, str, str] = ("out/a.de", "out/b.de", "out/c.de"), *, baseline: bool = True) -> Report:
    """Return a report of three systems, the first the baseline; the second is the best in both metrics."""
    measured = assess({"a": ["x"]}, [["x"]], config=EvaluateConfig(metrics=["exact"]), resamples=2).measured
    systems = []
    for position, name in enumerate(names):
        scores = {}
        for metric, figures in FIGURES.items():
            score, p_value = figures[position]
            given = p_value if baseline and position else None
            scores[metric] = MetricScore(score, score - 1, score + 1, f"of:{metric}", given)
        systems.append(SystemReport(name, scores))
    return Report(
        num_lines=10,
        systems=tuple(systems),
        measured=measured,
        baseline=systems[0] if baseline else None,
        comparison=Comparison("bootstrap", 1000, 12345) if baseline else None,
        higher_is_better={"bleu": True, "ter": False},
        decimals={"bleu": 2, "ter": 2},
        titles={"bleu": "BLEU", "ter": "TER"},
    )


def make_lengths(names: tuple[str, ...] = ("out/a.de", "out/b.de")) -> ScoresByLength:
    """Return two buckets; the first system has 10 and 40, the second 20 and 0."""
    values = [(10.0, 40.0), (20.0, 0.0), (30.0, 5.0)]
    rows = [
        LengthRow(low, high, lines, {name: (values[i][bucket], 0.0, 50.0) for i, name in enumerate(names)})
        for bucket, (low, high, lines) in enumerate([(1, 9, 1200), (10, 10, 300)])
    ]
    return ScoresByLength("bleu", "BLEU", 2, True, "13a", tuple(rows))


def printed(shown: RenderableType, width: int, *, colour: bool = False) -> str:
    console = Console(
        width=width,
        file=io.StringIO(),
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=colour,
    )
    with console.capture() as capture:
        console.print(shown)
    return capture.get()


@pytest.mark.parametrize(
    ("p_value", "mark"), [(None, ""), (1.0, ""), (0.05, ""), (0.0499, "*"), (0.01, "*"), (0.0099, "**"), (0.0, "**")]
)
def test_marks(p_value: float | None, mark: str) -> None:
    assert significance_mark(p_value) == mark


def test_best_is_said_where_it_cannot_be_bold() -> None:
    text = printed(score_table(make_report(), bold=False), 120)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "a.de (baseline) 30.12 50.00" in lines
    assert "b.de best 31.50 best 49.50" in lines
    assert "[30.50, 32.50] [48.50, 50.50]" in lines
    assert "p = 0.030 * p = 0.050" in lines
    assert "p = 0.004 ** p = 0.010 *" in lines
    assert "less is better" in text


def test_best_is_bold_where_it_can_be() -> None:
    text = printed(score_table(make_report(), bold=True), 120, colour=True)
    assert "\x1b[1m31.50\x1b[0m" in text and "\x1b[1m49.50\x1b[0m" in text
    assert "best" not in text.replace("less is better", "")
    assert "\x1b[1m30.12" not in text


def test_one_line_a_system_without_intervals() -> None:
    text = printed(score_table(make_report(), bold=False, intervals=False), 120)
    lines = [line.rstrip() for line in text.splitlines() if ".de" in line]
    assert [" ".join(line.split()) for line in lines] == [
        "a.de (baseline) 30.12 50.00",
        "b.de best 31.50 * best 49.50",
        "c.de 29.00 ** 51.00 *",
    ]
    for points in (("30.12", "31.50", "29.00"), ("50.00", "49.50", "51.00")):
        assert len({line.index(point) for line, point in zip(lines, points, strict=True)}) == 1


def test_nothing_is_compared_without_a_baseline() -> None:
    report = make_report(baseline=False)
    text = printed(score_table(report, bold=False), 120)
    assert "p =" not in text and "baseline" not in text and "best 31.50" in text
    assert legend(report) == ""


def test_legend_names_marks_baseline_and_test() -> None:
    expected = "* p < 0.05, ** p < 0.01: differs from a.de (paired bootstrap, 1,000 resamples, seed 12345)"
    assert legend(make_report()) == expected


@pytest.mark.parametrize("width", [80, 120])
def test_every_figure_is_there_at_any_width(width: int) -> None:
    report = make_report(("runs/" + "long.name." * 6, "runs/b\u202e", "runs/c"))
    text = printed(score_table(report, bold=False), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text and "\u202e" not in text
    for figure in ("30.12", "31.50", "29.00", "[29.12, 31.12]", "[49.00, 51.00]", "p = 0.004 **"):
        assert figure in text


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["out/a.de", "out/b.de"], ["a.de", "b.de"]),
        (["a/x.de", "b/x.de"], ["a/x.de", "b/x.de"]),
        (["a", "-"], ["a", "-"]),
        (["/x/a\n"], ["a\\u000a"]),
        (["out/", "out/b"], ["out/", "out/b"]),
    ],
)
def test_names_lose_the_folder_that_they_share(names: list[str], expected: list[str]) -> None:
    assert list(short_names(names).values()) == expected


def test_the_baseline_is_named() -> None:
    assert list(row_names(make_report()).values()) == ["a.de (baseline)", "b.de", "c.de"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_bars_are_as_long_as_the_scores(width: int) -> None:
    text = printed(length_chart(make_lengths(), width=width), width)
    lines = [line for line in text.splitlines() if ".de" in line]
    assert max(map(len, text.splitlines())) <= width
    bars = [line.count("█") + 0.5 * line.count("▌") for line in lines]
    assert bars[1] == pytest.approx(2 * bars[0], abs=0.6)
    assert bars[2] == pytest.approx(4 * bars[0], abs=1.2) and bars[3] == 0
    squeezed = [" ".join(line.rstrip("█▏▎▍▌▋▊▉ ").split()) for line in lines]
    assert squeezed == ["1–9 1,200 a.de 10.00", "b.de 20.00", "10 300 a.de 40.00", "b.de 0.00"]  # noqa: RUF001
    assert "BLEU by length of the reference, in tokens (13a)" in " ".join(text.split())


def test_scores_of_nought_have_no_bar() -> None:
    rows = (LengthRow(1, 2, 3, {"a": (0.0, 0.0, 0.0)}),)
    text = printed(length_chart(ScoresByLength("ter", "TER", 2, False, "13a", rows), width=80), 80)
    assert "█" not in text and "less is better" in text
