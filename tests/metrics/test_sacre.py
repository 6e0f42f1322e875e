"""Examples whose scores were computed with sacreBLEU's command or by hand, through our adapter."""

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from indigo_cli.metrics import METRICS, bleu, build_metrics, build_sentence_metric
from indigo_cli.metrics.metric import corpus_score, corpus_statistics


def _score(name: str, hypotheses: list[str], references: list[list[str]], tokenize: str = "13a") -> float:
    metric = METRICS[name](tokenize=tokenize)
    return corpus_score(metric, corpus_statistics(metric, hypotheses, references))


def test_short_perfect_line_is_zero_in_a_corpus_and_right_alone() -> None:
    """Case 89: corpus BLEU has no 4-grams to count; the sentence score uses effective order and says so."""
    assert _score("bleu", ["cat"], [["cat"]]) == 0.0
    sentence = bleu.build(tokenize="13a", effective_order=True)
    assert sentence.score(sentence.stats("cat", ["cat"])) == pytest.approx(100.0)
    assert sentence.score(sentence.stats("yes", ["no"])) == 0.0
    assert "eff:yes" in sentence.signature(num_references=1, resamples=1000, seed=1)
    corpus = bleu.build(tokenize="13a")
    assert "eff:no" in corpus.signature(num_references=1, resamples=1000, seed=1)


@pytest.mark.parametrize(
    ("hypothesis", "reference", "tokenize", "expected"),
    [
        ("It's a cat, isn't it?", "It's a cat, isn't it?", "13a", 100.0),
        ("It 's a cat , isn 't it ?", "It's a cat, isn't it?", "13a", 22.3162),
        ("It 's a cat , isn 't it ?", "It 's a cat , isn 't it ?", "none", 100.0),
        ("小猫今天喝了牛奶", "小猫今天喝了豆奶", "13a", 0.0),
        ("小猫今天喝了牛奶", "小猫今天喝了豆奶", "zh", 70.71),
    ],
)
def test_tokeniser_decides(hypothesis: str, reference: str, tokenize: str, expected: float) -> None:
    """Cases 91 and 109."""
    assert _score("bleu", [hypothesis], [[reference]], tokenize) == pytest.approx(expected, abs=0.005)
    signature = METRICS["bleu"](tokenize=tokenize).signature(num_references=1, resamples=1000, seed=1)
    assert f"tok:{tokenize}" in signature.split("|")


def test_references_are_lists_per_file() -> None:
    """Case 93: one list per sentence would score the first sentence only, 100."""
    hypotheses = ["the red cat sat", "zzz yyy xxx www"]
    assert _score("bleu", hypotheses, [["the red cat sat", "a dog ran far off"]]) == pytest.approx(44.12, abs=0.005)


def test_any_reference_may_match() -> None:
    hypotheses = ["the red cat sat", "a dog ran off"]
    references = [["the red cat sat", "two dogs ran far"], ["one blue cat", "a dog ran off"]]
    for name, perfect in (("bleu", 100.0), ("chrf", 100.0), ("ter", 0.0), ("ribes", 1.0), ("exact", 1.0)):
        assert _score(name, hypotheses, references) == pytest.approx(perfect)
        assert _score(name, hypotheses, references[::-1]) == pytest.approx(perfect)


@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [("", "red cat", (0, 0, 100)), ("red cat", "", (0, 0, 100)), ("", "", (0, 0, 0))],
)
def test_empty_lines_have_scores(hypothesis: str, reference: str, expected: tuple[float, float, float]) -> None:
    """Case 95."""
    scores = tuple(_score(name, [hypothesis], [[reference]]) for name in ("bleu", "chrf", "ter"))
    assert scores == expected


def test_exact_match_compares_the_text() -> None:
    """Case 107: tokenise-and-join would call the second line right."""
    reference = 'x = "a  b"'
    assert _score("exact", [reference], [[reference]]) == 1.0
    assert _score("exact", ['x = "a b"'], [[reference]]) == 0.0
    assert _score("exact", [reference, 'x = "a b"'], [[reference] * 2]) == 0.5
    assert _score("bleu", [reference, 'x = "a b"'], [[reference] * 2]) == pytest.approx(100.0)


def test_no_output_is_not_right_where_a_further_reference_is_missing() -> None:
    """A line may have fewer references than others; its further file is empty there."""
    assert _score("exact", ["", "b"], [["a", "c"], ["", "b"]]) == 0.5
    assert _score("exact", [""], [[""], [""]]) == 1.0


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_empty_further_references_are_those_of_sacrebleu(name: str) -> None:
    scorers: dict[str, BLEU | CHRF | TER] = {"bleu": BLEU(tokenize="13a"), "chrf": CHRF(), "ter": TER()}
    hypotheses, files = ["the red cat sat down", "a dog ran"], [["the red cat sat", "a dog ran off"], ["", "a dog"]]
    expected = scorers[name].corpus_score(hypotheses, files).score
    assert _score(name, hypotheses, files) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_scores_of_single_lines_are_those_of_sacrebleu(name: str) -> None:
    scorers = {"bleu": BLEU(tokenize="13a", effective_order=True), "chrf": CHRF(), "ter": TER()}
    corpus, sentence = METRICS[name](tokenize="13a"), build_sentence_metric(name, tokenize="13a")
    for hypothesis in ("cat", "the red cat", "the cat sat on a red mat", "", "dog"):
        references = ["the red cat sat on the mat", "cat"]
        expected = scorers[name].sentence_score(hypothesis, references).score
        assert sentence.score(corpus.stats(hypothesis, references)) == pytest.approx(expected, abs=1e-9)


def test_ter_counts_a_shift_once() -> None:
    """One block moved: 1 edit over 6 words."""
    assert _score("ter", ["ran off the red cat quickly"], [["the red cat ran off quickly"]]) == pytest.approx(100 / 6)


def test_metrics_come_in_the_order_asked_for() -> None:
    assert list(build_metrics(["ter", "bleu", "ter"], tokenize="13a")) == ["ter", "bleu"]
