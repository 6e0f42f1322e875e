"""The bootstrap against sacreBLEU's own, and p-values against what they must be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from indigo_cli.metrics import METRICS
from indigo_cli.metrics.metric import Bootstrap, corpus_score, corpus_statistics, interval, p_value

WORDS = "the a red big cat dog sat ran on to mat barn , . !".split()


def _corpus(num_lines: int, seed: int, error_rate: float) -> tuple[list[str], list[str]]:
    """Return references and noisy copies."""
    random = np.random.default_rng(seed)
    references, hypotheses = [], []
    for _ in range(num_lines):
        words = random.choice(WORDS, size=random.integers(1, 12)).tolist()
        references.append(" ".join(words))
        noisy = [str(random.choice(WORDS)) if random.random() < error_rate else word for word in words]
        hypotheses.append(" ".join(noisy))
    return references, hypotheses


@pytest.mark.parametrize(("name", "scorer"), [("bleu", BLEU(tokenize="13a")), ("chrf", CHRF()), ("ter", TER())])
def test_score_interval_and_signature_are_those_of_sacrebleu(
    name: str, scorer: BLEU | CHRF | TER, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    references, hypotheses = _corpus(60, seed=1, error_rate=0.3)
    second, _ = _corpus(60, seed=2, error_rate=0.0)
    expected = scorer.corpus_score(hypotheses, [references, second], n_bootstrap=1000)
    metric = METRICS[name](tokenize="13a")
    statistics = corpus_statistics(metric, hypotheses, [references, second])
    assert corpus_score(metric, statistics) == pytest.approx(expected.score, abs=1e-9)
    scores = Bootstrap(60).scores(metric, statistics)
    low, high = interval(scores)
    assert (high - low) / 2 == pytest.approx(expected._ci, abs=1e-3)  # sacreBLEU sums in float32
    assert scores.mean() == pytest.approx(expected._mean, abs=1e-3)
    assert low < expected.score < high
    signature = metric.signature(num_references=2, resamples=1000, seed=12345)
    assert signature == str(scorer.get_signature())
    assert "bs:1000" in signature


def test_totals_are_sums_of_drawn_lines() -> None:
    statistics = np.eye(7)
    for total in Bootstrap(7, resamples=50, seed=3).totals(statistics):
        assert total.sum() == 7
        assert (total >= 0).all()
        assert (total == total.round()).all()


def test_bootstrap_repeats_with_its_seed_only() -> None:
    metric = METRICS["exact"](tokenize="none")
    statistics = corpus_statistics(metric, ["a", "b", "c", "d"], [["a", "x", "c", "y"]])
    first = Bootstrap(4, resamples=20, seed=1).scores(metric, statistics)
    assert (first == Bootstrap(4, resamples=20, seed=1).scores(metric, statistics)).all()
    assert (first != Bootstrap(4, resamples=20, seed=2).scores(metric, statistics)).any()


def test_interval_width_is_that_of_a_binomial() -> None:
    """Half of 400 lines right: the share has a standard error of 0.025, so 95 % lie within 1.96 of it."""
    metric = METRICS["exact"](tokenize="none")
    statistics = corpus_statistics(metric, ["a"] * 400, [["a", "b"] * 200])
    low, high = interval(Bootstrap(400).scores(metric, statistics))
    assert low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.006)
    assert high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.006)


def test_interval_of_one_line_is_its_score() -> None:
    metric = METRICS["chrf"](tokenize="13a")
    statistics = corpus_statistics(metric, ["the red cat"], [["the red dog"]])
    score = corpus_score(metric, statistics)
    assert interval(Bootstrap(1, resamples=10).scores(metric, statistics)) == (score, score)


def test_unequal_lengths_are_a_wrong_call() -> None:
    with pytest.raises(ValueError, match="2 hypotheses but a reference of 1 lines"):
        corpus_statistics(METRICS["exact"](tokenize="none"), ["a", "b"], [["a", "b"], ["a"]])


class TestPValue:
    def test_equal_systems_are_not_different(self) -> None:
        assert p_value(0.0, np.zeros(1000)) == 1.0

    def test_rounding_does_not_make_a_constant_difference_significant(self) -> None:
        assert p_value(0.3, np.full(1000, 0.1 + 0.2)) < 0.01
        assert p_value(0.0, np.full(1000, 1e-15)) == 1.0

    def test_sides_are_equal(self) -> None:
        resampled = np.random.default_rng(0).normal(0.4, 0.2, size=1000)
        assert p_value(0.4, resampled) == p_value(-0.4, resampled) == p_value(-0.4, -resampled)

    def test_is_that_of_the_normal_distribution(self) -> None:
        """A difference of 1.96 standard errors has a two-sided p-value of 0.05."""
        resampled = np.random.default_rng(0).normal(1.96, 1.0, size=40_000)
        assert p_value(1.96, resampled) == pytest.approx(0.05, abs=0.005)

    @settings(max_examples=50)
    @given(st.floats(-5, 5), st.lists(st.floats(-5, 5), min_size=1, max_size=30))
    def test_lies_in_its_range(self, difference: float, resampled: list[float]) -> None:
        value = p_value(difference, np.array(resampled))
        assert 1 / (len(resampled) + 1) <= value <= 1.0
