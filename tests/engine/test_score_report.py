"""Which figures of a report are the best, in which order they stand, and the object of JSON."""

import json

import pytest

from indigo_cli.engine.assess import EvaluateConfig, assess
from indigo_cli.engine.score_report import Comparison, Report

REFERENCE = ["the red cat sat on the mat", "a dog ran far off today"]
GOOD = ["the red cat sat on a mat", "a dog ran far off today"]
POOR = ["the cat on mat", "dog ran today"]


def _report(baseline: str | None = None) -> Report:
    systems = {"poor": POOR, "good": GOOD, "as good": GOOD}
    config = EvaluateConfig(metrics=["chrf", "ter"])
    given = None if baseline is None else (baseline, systems[baseline])
    return assess(systems, [REFERENCE], config=config, baseline=given, resamples=40)


def test_best_goes_by_what_is_better_and_counts_ties() -> None:
    assert _report().best() == {"chrf": {"good", "as good"}, "ter": {"good", "as good"}}


def test_best_is_what_a_reader_sees_as_best() -> None:
    """Two figures that are shown alike are alike."""
    lines = ["x"] * 30_000
    almost = ["y", *lines[1:]]
    config = EvaluateConfig(metrics=["exact"])
    assert assess({"a": lines, "b": almost}, [lines], config=config, resamples=2).best() == {"exact": {"a", "b"}}


def test_a_system_alone_is_not_the_best() -> None:
    report = assess({"a": GOOD}, [REFERENCE], config=EvaluateConfig(metrics=["chrf"]), resamples=2)
    assert report.best() == {"chrf": set()}


def test_the_baseline_stands_first_and_once() -> None:
    assert [row.name for row in _report().rows()] == ["poor", "good", "as good"]
    assert [row.name for row in _report("good").rows()] == ["good", "poor", "as good"]


def test_json_says_how_the_systems_were_compared() -> None:
    report = _report("good").as_json()
    assert list(report) == ["n", "metrics", "baseline", "systems"]
    assert report["baseline"]["test"] == {"name": "bootstrap", "samples": 40, "seed": 12345}
    assert [system["name"] for system in report["systems"]] == ["poor", "good", "as good"]
    assert report["systems"][1]["p_value"] == report["systems"][2]["p_value"] == {"chrf": 1.0, "ter": 1.0}
    assert report["metrics"] == report["systems"][0]["metrics"]
    assert report["baseline"]["p_value"] == report["systems"][0]["p_value"]
    assert json.loads(json.dumps(report, allow_nan=False)) == report


@pytest.mark.parametrize(
    ("comparison", "words"),
    [
        (Comparison("bootstrap", 1000, 1), "paired bootstrap, 1,000 resamples, seed 1"),
        (Comparison("randomisation", 10_000, 7), "paired approximate randomisation, 10,000 trials, seed 7"),
    ],
)
def test_the_test_in_words(comparison: Comparison, words: str) -> None:
    assert comparison.describe() == words
