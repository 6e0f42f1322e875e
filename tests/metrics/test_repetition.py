"""Shares of repeated n-grams beside counting by hand and by a second, slow way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.metrics import METRICS
from indigo_cli.metrics.metric import corpus_score, corpus_statistics
from indigo_cli.metrics.repetition import repeated_share
from indigo_cli.metrics.significance import Bootstrap, bootstrap_p_value


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("a b c d", (0, 0, 0, 0)),
        ("a a a a a", (4 / 5, 3 / 4, 2 / 3, 1 / 2)),
        ("a b a b a", (3 / 5, 2 / 4, 1 / 3, 0)),
        ("the cat the dog", (1 / 4, 0, 0, 0)),
        ("a", (0, 0, 0, 0)),
        ("", (0, 0, 0, 0)),
    ],
)
def test_values_by_hand(text: str, shares: tuple[float, ...]) -> None:
    metric = METRICS["repetition"](tokenize="none")
    statistics = corpus_statistics(metric, [text], [["whatever stands here"]])
    parts = [corpus_score(part, statistics) for part in metric.parts.values()]
    assert list(metric.parts) == ["1-grams", "2-grams", "3-grams", "4-grams"]
    assert parts == pytest.approx(list(shares))
    assert corpus_score(metric, statistics) == pytest.approx(sum(shares) / 4)


@given(tokens=st.lists(st.sampled_from("abc"), max_size=10), n=st.integers(1, 4))
def test_a_repeat_is_an_ngram_that_stood_before(tokens: list[str], n: int) -> None:
    starts = range(len(tokens) - n + 1)
    repeats = sum(any(tokens[i : i + n] == tokens[j : j + n] for j in range(i)) for i in starts)
    assert repeated_share(tokens, n) == pytest.approx(repeats / len(starts) if len(starts) else 0.0)


def test_each_line_counts_the_same() -> None:
    """Mean of shares, not share of all n-grams: 1/2 and 0, not 1 of 8."""
    metric = METRICS["repetition"](tokenize="none")
    statistics = corpus_statistics(metric, ["a a", "b c d e f g"], [["", ""]])
    assert corpus_score(metric.parts["1-grams"], statistics) == pytest.approx(1 / 4)


def test_tokens_are_those_of_the_evaluation() -> None:
    text = "no, no, no."
    by_13a, by_blanks = (METRICS["repetition"](tokenize=name).stats(text, [""]) for name in ("13a", "none"))
    assert by_13a[0] == pytest.approx(3 / 6) and by_blanks[0] == pytest.approx(1 / 3)
    assert METRICS["repetition"](tokenize="char").stats("ああい", [""])[0] == pytest.approx(1 / 3)
    assert METRICS["repetition"](tokenize="13a").stats("The the", [""])[0] == 0.0


def test_less_repetition_is_a_difference_for_the_better_and_significant_when_large() -> None:
    metric = METRICS["repetition"](tokenize="none")
    assert not metric.higher_is_better and not any(part.higher_is_better for part in metric.parts.values())
    system, baseline = ["a b c d e"] * 30, ["a b a b e"] * 30
    rows = [corpus_statistics(metric, lines, [[""] * 30]) for lines in (system, baseline)]
    resampled = Bootstrap(30, resamples=200).scores_of([(metric, row) for row in rows])
    difference = corpus_score(metric, rows[0]) - corpus_score(metric, rows[1])
    assert difference < 0
    assert bootstrap_p_value(difference, resampled[0] - resampled[1]) < 0.05
