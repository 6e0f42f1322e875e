"""Further figures of metrics: values, intervals, p-values, in JSON and in every table."""

import json

import numpy as np
import pytest

from indigo_cli.engine.assess import EvaluateConfig, assess
from indigo_cli.engine.score_markup import latex, markdown
from indigo_cli.engine.score_parts import part_header, part_rows
from indigo_cli.engine.score_report import Report
from indigo_cli.metrics import METRICS

REFERENCE = ["the red cat sat on the mat", "a dog ran off", "two dogs", "it is late"] * 10
SYSTEM = ["the red cat", "a dog ran ran ran off", "two dogs", "it"] * 10
BASELINE = ["the the the the", "dog", "two", "late it is is"] * 10
NAMES = ["rouge1", "repetition", "length", "exact"]


def report_of(test: str = "bootstrap", *, parts: bool = True, baseline: bool = True) -> Report:
    config = EvaluateConfig(metrics=NAMES, significance="randomisation" if test == "randomisation" else "bootstrap")
    first = ("b", BASELINE) if baseline else None
    return assess({"a": SYSTEM}, [REFERENCE], config=config, baseline=first, resamples=200, trials=200, parts=parts)


@pytest.mark.parametrize("test", ["bootstrap", "randomisation"])
def test_a_part_is_scored_and_compared_as_a_metric_would_be(test: str) -> None:
    """Beside a second way: the mean over lines, and p-values of the mean difference from draws made here."""
    report = report_of(test)
    random = np.random.default_rng(12345)
    for name in ("rouge1", "repetition", "length"):
        metric = METRICS[name](tokenize="13a")
        rows = {
            system: np.array([metric.stats(line, [ref]) for line, ref in zip(lines, REFERENCE, strict=True)])
            for system, lines in {"a": SYSTEM, "b": BASELINE}.items()
        }
        places = {"rouge1": [0, 1], "repetition": [0, 1, 2, 3], "length": [1, 2, 3]}[name]
        figures = report.systems[0].scores[name].parts
        assert list(figures) == list(metric.parts)
        for place, figure in zip(places, figures.values(), strict=True):
            values, others = rows["a"][:, place], rows["b"][:, place]
            assert figure.score == pytest.approx(values.mean())
            assert figure.low <= figure.score <= figure.high and figure.p_value is not None
            difference, chance = values - others, []
            for _ in range(2000):
                if test == "bootstrap":
                    drawn = random.choice(40, size=40)
                    chance.append(difference[drawn].mean() - difference.mean())
                else:
                    chance.append((difference * random.choice([-1, 1], size=40)).mean())
            expected = np.mean(np.abs(chance) >= abs(difference.mean()) - 1e-9)
            assert figure.p_value == pytest.approx(expected, abs=0.1)


def test_json_has_parts_and_their_p_values_only_where_asked() -> None:
    found = report_of().as_json()
    assert list(found["metrics"]["rouge1"]) == ["score", "signature", "ci", "parts"]
    assert list(found["metrics"]["rouge1"]["parts"]) == ["precision", "recall"]
    assert list(found["metrics"]["rouge1"]["parts"]["recall"]) == ["score", "ci"]
    assert "parts" not in found["metrics"]["exact"]
    assert list(found["baseline"]["parts_p_value"]) == ["rouge1", "repetition", "length"]
    assert list(found["baseline"]["parts_p_value"]["length"]) == ["absolute", "squared", "unused"]
    assert 0 < found["baseline"]["parts_p_value"]["length"]["squared"] <= 1
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    without = report_of(parts=False).as_json()
    assert "parts" not in json.dumps(without)
    for name in NAMES:  # the figures beside them do not change
        assert {**found["metrics"][name], "parts": 0} == {**without["metrics"][name], "parts": 0}
    assert found["baseline"]["p_value"] == without["baseline"]["p_value"]
    assert "parts_p_value" not in report_of(baseline=False).as_json().get("baseline", {})


def test_rows_name_metric_figure_and_systems() -> None:
    report = report_of()
    assert part_header(report) == ["metric", "figure", "b (baseline)", "a"]
    rows = list(part_rows(report, intervals=True))
    assert [row[:2] for row in rows[:3]] == [
        ["rouge1", "precision"],
        ["rouge1", "recall"],
        ["repetition", "1-grams (less is better)"],
    ]
    assert len(rows) == 2 + 4 + 3
    assert "p = " in rows[0][3] and "p = " not in rows[0][2] and "[" in rows[0][2]
    assert not any("[" in cell for row in part_rows(report, intervals=False) for cell in row)


def test_parts_stand_in_pages_to_paste_into() -> None:
    text = markdown(report_of(), parts=True)
    assert "Further figures" in text and "| rouge1 " in text and "mean squared difference" in text
    text = latex(report_of(), parts=True)
    assert text.count(r"\begin{tabular}") == 2 and "mean squared difference" in text
    assert "Further figures" not in markdown(report_of(), parts=False)
