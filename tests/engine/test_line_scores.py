"""Scores of single lines and of lines of one length, against those of the corpus."""

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu import sentence_bleu

from indigo_cli.engine.assess import EvaluateConfig, assess
from indigo_cli.engine.line_scores import (
    buckets,
    scores_by_length,
    scores_by_source_length,
    sentence_scores,
    sentence_signatures,
    write_sentence_scores,
)
from indigo_cli.engine.score_report import Report
from indigo_cli.errors import UsageError

REFERENCE = ["the red cat sat on the mat", "cat", "a dog ran far off today", "it's late, isn't it?"]
A = ["the red cat sat on a mat", "cat", "a dog ran far off", "it's late, isn't it?"]
B = ["red cat the sat on mat", "dog", "", "it is late"]
METRICS = ["bleu", "chrf", "ter", "ribes", "exact"]


@pytest.fixture(scope="module")
def report() -> Report:
    return assess({"a": A, "b": B}, [REFERENCE], config=EvaluateConfig(metrics=METRICS), resamples=5)


def test_every_line_and_system_has_its_scores(report: Report) -> None:
    rows = list(sentence_scores(report.measured))
    assert [(line, system) for line, system, _ in rows] == [(line, system) for line in range(4) for system in "ab"]
    for line, system, scores in rows:
        text = (A if system == "a" else B)[line]
        assert list(scores) == METRICS
        assert scores["exact"] == float(text == REFERENCE[line])
        assert scores["bleu"] == pytest.approx(sentence_bleu(text, [REFERENCE[line]]).score, abs=1e-7)


def test_a_short_perfect_line_has_100(report: Report) -> None:
    """Case 89: effective order, and the signature says so; that of the corpus says no."""
    scores = {(line, system): scores for line, system, scores in sentence_scores(report.measured)}
    assert scores[1, "a"] == {"bleu": 100.0, "chrf": 100.0, "ter": 0.0, "ribes": 1.0, "exact": 1.0}
    assert scores[1, "b"]["bleu"] == 0.0
    signatures = sentence_signatures(report.measured)
    assert "eff:yes" in signatures["bleu"].split("|")
    assert "eff:no" in report.systems[0].scores["bleu"].signature.split("|")
    assert not any("bs:" in signature or "seed:" in signature for signature in signatures.values())


@pytest.mark.parametrize("metric", ["exact", "ribes"])
def test_a_mean_over_lines_is_the_corpus(report: Report, metric: str) -> None:
    for system in report.systems:
        lines = [scores[metric] for _, name, scores in sentence_scores(report.measured) if name == system.name]
        assert np.mean(lines) == pytest.approx(system.scores[metric].score, abs=1e-7)


def test_table_and_json_lines_hold_the_same(report: Report, tmp_path: Path) -> None:
    write_sentence_scores(report.measured, tmp_path / "s.tsv")
    write_sentence_scores(report.measured, tmp_path / "s.jsonl.gz")
    header, *rows = (tmp_path / "s.tsv").read_text(encoding="utf-8").splitlines()
    assert header.split("\t") == ["id", "system", *METRICS]
    with gzip.open(tmp_path / "s.jsonl.gz", "rt", encoding="utf-8") as stream:
        first, *objects = [json.loads(line) for line in stream]
    assert (first["format"], first["version"]) == ("indigo-sentence-scores", 1)
    assert first["signatures"] == sentence_signatures(report.measured)
    assert len(rows) == len(objects) == 8
    for row, found in zip(rows, objects, strict=True):
        assert list(found) == ["id", "system", *METRICS]
        line, system, *scores = row.split("\t")
        assert (int(line), system) == (found["id"], found["system"])
        assert [float(score) for score in scores] == pytest.approx([found[name] for name in METRICS], rel=1e-5)


def test_a_name_cannot_break_the_table(tmp_path: Path) -> None:
    report = assess({"a\tb\nc": A}, [REFERENCE], config=EvaluateConfig(metrics=["exact"]), resamples=2)
    write_sentence_scores(report.measured, tmp_path / "s.tsv")
    assert (tmp_path / "s.tsv").read_text(encoding="utf-8").splitlines()[1] == "0\ta b c\t0"


def test_a_file_in_the_way_is_kept(report: Report, tmp_path: Path) -> None:
    (tmp_path / "s.tsv").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="exists already"):
        write_sentence_scores(report.measured, tmp_path / "s.tsv")
    assert (tmp_path / "s.tsv").read_text(encoding="utf-8") == "mine"


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_buckets_hold_every_length_once(lengths: list[int]) -> None:
    found = buckets(lengths)
    assert 1 <= len(found) <= 6
    assert found[0][0] == min(lengths) and found[-1][1] == max(lengths)
    assert all(low <= high for low, high in found)
    assert all(high + 1 == low for (_, high), (low, _) in itertools.pairwise(found))
    assert all(any(low <= length <= high for length in lengths) for low, high in found)


def test_buckets_are_about_equal_where_lengths_differ() -> None:
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, 1000, size=6000).tolist()
    sizes = [sum(low <= length <= high for length in lengths) for low, high in buckets(lengths)]
    assert len(sizes) == 6
    assert min(sizes) > 950 and max(sizes) < 1050


def test_lines_of_one_length_stay_together() -> None:
    assert buckets([7] * 50) == [(7, 7)]
    assert buckets([1] * 50 + [9]) == [(1, 1), (2, 9)]


def test_scores_of_a_bucket_are_those_of_its_lines_as_a_corpus() -> None:
    references = [" ".join(["word"] * n) + " end." for n in range(1, 13)] * 3
    system = [line.replace("word word", "word", 1) for line in references]
    config = EvaluateConfig(metrics=["bleu", "exact"])
    report = assess({"a": system, "b": references}, [references], config=config, resamples=5)
    found = scores_by_length(report.measured, seed=1, resamples=20)
    assert (found.metric, found.tokenizer, found.higher_is_better) == ("bleu", "13a", True)
    assert sum(row.num_lines for row in found.rows) == 36
    assert (found.rows[0].low, found.rows[-1].high) == (3, 14)  # the full stop is a token of its own
    for row in found.rows:
        assert row.high is not None
        part = [i for i, line in enumerate(references) if row.low <= len(line.split()) + 1 <= row.high]
        assert len(part) == row.num_lines
        lines, targets = ([text[i] for i in part] for text in (system, references))
        alone = assess({"a": lines}, [targets], config=config, resamples=20, seed=1).systems[0].scores["bleu"]
        assert row.scores["a"] == pytest.approx((alone.score, alone.low, alone.high))
        assert row.scores["b"][0] == pytest.approx(100.0) or row.high < 4


def test_length_goes_by_the_first_reference_in_evaluation_tokens() -> None:
    config = EvaluateConfig(metrics=["chrf"])
    report = assess(
        {"a": ["猫", "猫"]}, [["猫が", "猫が座った"], ["x", "y"]], config=config, language="ja", resamples=2
    )
    found = scores_by_length(report.measured, seed=1, resamples=2)
    assert found.rows[0].low >= 2 and (found.rows[-1].high or 0) >= 3
    assert found.as_json()["tokens"] == report.measured.tokenizer != "13a"
    assert json.loads(json.dumps(found.as_json(), allow_nan=False)) == found.as_json()


@pytest.mark.parametrize("metric", ["bleu", "repetition"])
def test_scores_by_least_length_of_the_source_are_those_of_the_lines_alone(metric: str) -> None:
    """Each row scored anew on a corpus of just these lines; rows that no line reaches are left out."""
    sources = [" ".join(["w"] * length) for length in (9, 10, 20, 35, 39, 41)]
    references = [f"{line} and so on {i}" for i, line in enumerate(["the red cat sat", "a dog ran far"] * 3)]
    systems = {"a": [line[:-2] for line in references], "b": references}
    config = EvaluateConfig(metrics=[metric])
    report = assess(systems, [references], config=config, resamples=2)
    found = scores_by_source_length(
        report.measured, sources, least=[50, 20, 10, 20, 30, 40, 60], tokenizer="none", seed=1, resamples=30
    )
    assert [(row.low, row.high, row.num_lines) for row in found.rows] == [
        (10, None, 5),
        (20, None, 4),
        (30, None, 3),
        (40, None, 1),
    ]
    assert [row.label for row in found.rows] == ["≥ 10", "≥ 20", "≥ 30", "≥ 40"]
    for row in found.rows:
        lines = [i for i, source in enumerate(sources) if len(source.split()) >= row.low]
        part = {name: [texts[i] for i in lines] for name, texts in systems.items()}
        alone = assess(part, [[references[i] for i in lines]], config=config, seed=1, resamples=30)
        for system in alone.systems:
            figure = system.scores[metric]
            assert row.scores[system.name] == pytest.approx((figure.score, figure.low, figure.high))
    assert found.what == "least length of the source, in tokens (none)"
    assert found.as_json()["buckets"][0]["high"] is None


def test_sources_that_are_all_short_have_no_scores_by_length(report: Report) -> None:
    with pytest.raises(UsageError, match="no source line has 10 tokens"):
        scores_by_source_length(report.measured, ["a b c"] * 4, least=[10, 20], tokenizer="13a", seed=1)
    with pytest.raises(UsageError, match="there are no lengths"):
        scores_by_source_length(report.measured, ["a b c"] * 4, least=[], tokenizer="13a", seed=1)
