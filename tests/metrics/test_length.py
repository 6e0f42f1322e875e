"""Lengths beside the wanted ones, in every unit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.units import LengthUnit
from indigo_cli.metrics import METRICS
from indigo_cli.metrics.metric import MetricOptions, corpus_score, corpus_statistics

lines = st.lists(st.tuples(st.text(max_size=12), st.text(max_size=12), st.integers(0, 12)), min_size=1, max_size=6)


def figures(
    hypotheses: list[str],
    references: list[list[str]],
    wishes: list[int | None] | None = None,
    options: MetricOptions = MetricOptions(),  # noqa: B008
) -> dict[str, float]:
    metric = METRICS["length"](tokenize="13a", options=options)
    statistics = corpus_statistics(metric, hypotheses, references, wishes)
    parts = {name: corpus_score(part, statistics) for name, part in metric.parts.items()}
    return {"within": corpus_score(metric, statistics), **parts}


def test_values_by_hand() -> None:
    """Lengths 4, 6, 2 beside a wish of 4: differences 0, 2, -2; half of the room of the last line is unused."""
    found = figures(["abcd", "abcdef", "ab"], [["x"] * 3], [4, 4, 4])
    assert found == pytest.approx({"within": 2 / 3, "absolute": 4 / 3, "squared": 8 / 3, "unused": 1 / 6})


@given(rows=lines)
def test_it_is_the_mean_over_lines(rows: list[tuple[str, str, int]]) -> None:
    """The two differences as the authors' script counts them (Takase & Okazaki 2019)."""
    hypotheses, references, wishes = ([row[place] for row in rows] for place in range(3))
    found = figures(list(map(str, hypotheses)), [list(map(str, references))], [int(wish) for wish in wishes])
    differences = [len(text) - wish for text, _, wish in rows]
    assert found["absolute"] == pytest.approx(sum(map(abs, differences)) / len(rows))
    assert found["squared"] == pytest.approx(sum(d * d for d in differences) / len(rows))
    assert found["within"] == pytest.approx(sum(d <= 0 for d in differences) / len(rows))
    shares = [max(0, wish - len(text)) / wish if wish else 0 for text, _, wish in rows]
    assert found["unused"] == pytest.approx(sum(shares) / len(rows))


def test_what_is_wanted_is_the_limit_then_the_wish_then_the_reference() -> None:
    text, reference = "abcd", "abcdefg"
    by_limit = figures([text], [[reference]], [9], MetricOptions(length_limit=5))
    assert (by_limit["absolute"], figures([text], [[reference]], [9])["absolute"]) == (1, 5)
    assert figures([text], [[reference]])["absolute"] == figures([text], [[reference]], [None])["absolute"] == 3
    assert figures([text], [[reference]], [0]) == {"within": 0, "absolute": 4, "squared": 16, "unused": 0}


def test_of_several_references_the_nearest_length_is_wanted_and_the_shorter_of_two() -> None:
    assert figures(["abcd"], [["abcdefghi"], ["abcde"], ["a"]])["absolute"] == 1
    assert figures(["abcd"], [["abc"], ["abcde"]])["within"] == figures(["abcd"], [["abcde"], ["abc"]])["within"] == 0


@pytest.mark.parametrize(
    ("unit", "text", "length"),
    [
        ("character", "Tiếng Việt", 10),
        ("byte", "Tiếng Việt", 14),
        ("word", "Tiếng Việt", 2),
        ("token", "Tiếng Việt, ừ.", 5),
        ("character", "e\u0301", 2),  # code points
        ("byte", "e\u0301", 3),
        ("character", "日本語です。", 6),
        ("word", "日本語です。", 1),
        ("byte", "日本語です。", 18),
        ("character", "\U0001f469\u200d\U0001f4bb", 3),
        ("word", " a\u3000b\u2028c ", 3),
        ("word", "", 0),
        ("token", "", 0),
    ],
)
def test_units(unit: LengthUnit, text: str, length: int) -> None:
    options = MetricOptions(length_unit=unit, length_limit=100)
    assert figures([text], [[""]], options=options)["absolute"] == 100 - length
    signature = METRICS["length"](tokenize="13a", options=options).signature(num_references=1, resamples=1, seed=1)
    assert f"unit:{unit}" in signature and ("tok:13a" in signature) == (unit == "token") and "wish:100" in signature


def test_nearer_and_within_are_better() -> None:
    metric = METRICS["length"](tokenize="13a")
    assert metric.higher_is_better and not any(part.higher_is_better for part in metric.parts.values())
