"""What every entry of METRICS promises; a new line of the table brings its own tests this way."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indigo_cli.errors import UsageError
from indigo_cli.metrics import METRICS, PLANNED, build_metrics, build_sentence_metric
from indigo_cli.metrics.metric import corpus_score, corpus_statistics
from indigo_cli.metrics.significance import Bootstrap, interval

RANGES = {"bleu": (0.0, 100.0), "chrf": (0.0, 100.0), "ter": (0.0, math.inf)}  # all others 0 to 1
CONTRACT_NAMES = {
    "bleu", "chrf", "ter", "ribes", "meteor", "rouge1", "rouge2", "rougeL", "cider", "exact", "ast_exact",
    "repetition", "length",
}  # fmt: skip
LINES = st.text(alphabet="ab c.'\u2028\u00a0猫&<", max_size=12)

every_metric = pytest.mark.parametrize("name", sorted(METRICS))
comparing_metric = pytest.mark.parametrize("name", sorted(set(METRICS) - {"repetition", "length"}))
"""Of those that hold the words of an output against those of the references."""


def test_every_name_of_the_contract_is_known() -> None:
    assert set(METRICS) | set(PLANNED) == CONTRACT_NAMES
    assert not set(METRICS) & set(PLANNED)


@every_metric
@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(LINES, LINES, LINES), min_size=1, max_size=4))
def test_every_text_has_a_finite_score_in_range(name: str, pairs: list[tuple[str, str, str]]) -> None:
    metric = METRICS[name](tokenize="13a")
    hypotheses, *references = ([*column] for column in zip(*pairs, strict=True))
    statistics = corpus_statistics(metric, hypotheses, references)
    assert statistics.shape[0] == len(pairs)
    low, high = RANGES.get(name, (0.0, 1.0))
    scores = [corpus_score(metric, statistics), *Bootstrap(len(pairs), resamples=5).scores(metric, statistics)]
    for part in metric.parts.values():
        assert all(map(math.isfinite, (corpus_score(part, statistics), part.score(statistics[0].tolist()))))
    for score in scores:
        assert low <= score <= high + 1e-9
        assert math.isfinite(score)


@every_metric
def test_statistics_add_up_over_lines_in_any_order(name: str) -> None:
    metric = METRICS[name](tokenize="13a")
    hypotheses = ["the red cat sat on the mat .", "a dog ran", "", "two big dogs ran to the barn today"]
    references = [["the cat sat on the red mat .", "a dog ran off", "empty", "two big dogs ran off to the barn"]]
    whole = corpus_statistics(metric, hypotheses, references)
    backwards = corpus_statistics(metric, hypotheses[::-1], [references[0][::-1]])
    assert corpus_score(metric, whole) == pytest.approx(corpus_score(metric, backwards), abs=1e-9)
    for line, row in enumerate(whole):
        alone = corpus_statistics(metric, hypotheses[line : line + 1], [references[0][line : line + 1]])
        assert alone[0].tolist() == row.tolist()


@comparing_metric
def test_perfect_beats_worse(name: str) -> None:
    metric = METRICS[name](tokenize="13a")
    reference = ["the red cat sat on the mat today", "two big dogs ran to the barn"]
    perfect = corpus_score(metric, corpus_statistics(metric, reference, [reference]))
    worse = corpus_score(metric, corpus_statistics(metric, [reference[0], "dogs"], [reference]))
    assert perfect > worse if metric.higher_is_better else perfect < worse


@every_metric
def test_interval_holds_the_score(name: str) -> None:
    metric = METRICS[name](tokenize="13a")
    hypotheses = ["the red cat sat on the mat", "a dog ran far off today"] * 20
    references = [["the red cat sat on a mat", "a dog ran far off today"] * 20]
    statistics = corpus_statistics(metric, hypotheses, references)
    low, high = interval(Bootstrap(40).scores(metric, statistics))
    assert low <= corpus_score(metric, statistics) <= high


@comparing_metric
def test_more_references_never_make_it_worse(name: str) -> None:
    metric = METRICS[name](tokenize="13a")
    hypotheses = ["the red cat sat on the mat today", "a dog ran"]
    first, second = ["the red cat sat on a mat today", "a dog ran off"], ["one cat sat on the mat", "a dog ran"]
    alone = corpus_score(metric, corpus_statistics(metric, hypotheses, [first]))
    both = corpus_score(metric, corpus_statistics(metric, hypotheses, [first, second]))
    other_way = corpus_score(metric, corpus_statistics(metric, hypotheses, [second, first]))
    assert both > alone if metric.higher_is_better else both < alone
    assert both == pytest.approx(other_way)


@every_metric
def test_score_of_a_line_is_that_of_a_corpus_of_one(name: str) -> None:
    """But for BLEU where it has no 4-grams; the signature tells the two apart then."""
    metric, sentence = METRICS[name](tokenize="13a"), build_sentence_metric(name, tokenize="13a")
    for hypothesis in ("the red cat sat on a mat today", "nothing like it at all"):
        row = metric.stats(hypothesis, ["the red cat sat on the mat today"])
        assert sentence.stats(hypothesis, ["the red cat sat on the mat today"]) == row
        assert sentence.score(row) == pytest.approx(metric.score(row))


@every_metric
def test_it_says_how_to_show_it(name: str) -> None:
    metric = METRICS[name](tokenize="13a")
    assert metric.title.strip()
    assert 1 <= metric.decimals <= 4
    for part_name, part in metric.parts.items():
        assert part.title.strip() and part_name.strip() and 1 <= part.decimals <= 4
    assert len({part.title for part in metric.parts.values()} | {metric.title}) == len(metric.parts) + 1


@every_metric
def test_signature_names_references_resamples_seed_and_version(name: str) -> None:
    signature = METRICS[name](tokenize="13a").signature(num_references=3, resamples=50, seed=7)
    parts = [part.split(":", 1)[0] for part in signature.split("|")]
    assert {"nrefs:3", "bs:50", "seed:7"} <= set(signature.split("|"))
    assert parts[-1] == "version"
    assert len(parts) == len(set(parts))


@pytest.mark.parametrize(
    ("names", "what", "fix"),
    [
        (["bleu", "meteor"], "'meteor' is not in this version", "available: bleu, chrf, ter, ribes, exact, rouge1"),
        (["blue"], "unknown metric 'blue'", "did you mean `bleu`?"),
        (["BLEU"], "unknown metric 'BLEU'", "did you mean `bleu`?"),
        ([], "no metric", "available"),
    ],
)
def test_names_that_cannot_be_had(names: list[str], what: str, fix: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        build_metrics(names, tokenize="13a")
    assert caught.value.where == "evaluate.metrics"
    assert fix in caught.value.fix
