"""The paired tests against sacreBLEU's own, a direct count of all swaps, and what p-values must be."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from indigo_cli.metrics import METRICS, significance
from indigo_cli.metrics.metric import Metric, Statistics, corpus_score, corpus_statistics
from indigo_cli.metrics.significance import (
    Bootstrap,
    Randomisation,
    bootstrap_p_value,
    interval,
    randomisation_p_value,
)

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


def test_counts_are_those_of_drawn_lines() -> None:
    drawn = list(Bootstrap(7, resamples=50, seed=3).counts())
    assert len(drawn) == 50
    for counts in drawn:
        assert counts.shape == (7,)
        assert counts.sum() == 7
        assert (counts >= 0).all()


def test_many_are_scored_as_each_alone() -> None:
    references, hypotheses = _corpus(20, seed=1, error_rate=0.3)
    metrics = [METRICS[name](tokenize="13a") for name in ("bleu", "exact")]
    pairs = [(metric, corpus_statistics(metric, hypotheses, [references])) for metric in metrics]
    bootstrap = Bootstrap(20, resamples=30, seed=3)
    for together, (metric, statistics) in zip(bootstrap.scores_of(pairs), pairs, strict=True):
        assert (together == bootstrap.scores(metric, statistics)).all()


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


class TestBootstrapPValue:
    def test_equal_systems_are_not_different(self) -> None:
        assert bootstrap_p_value(0.0, np.zeros(1000)) == 1.0

    def test_rounding_does_not_make_a_constant_difference_significant(self) -> None:
        assert bootstrap_p_value(0.3, np.full(1000, 0.1 + 0.2)) < 0.01
        assert bootstrap_p_value(0.0, np.full(1000, 1e-15)) == 1.0

    def test_sides_are_equal(self) -> None:
        resampled = np.random.default_rng(0).normal(0.4, 0.2, size=1000)
        assert (
            bootstrap_p_value(0.4, resampled)
            == bootstrap_p_value(-0.4, resampled)
            == bootstrap_p_value(-0.4, -resampled)
        )

    def test_is_that_of_the_normal_distribution(self) -> None:
        """A difference of 1.96 standard errors has a two-sided p-value of 0.05."""
        resampled = np.random.default_rng(0).normal(1.96, 1.0, size=40_000)
        assert bootstrap_p_value(1.96, resampled) == pytest.approx(0.05, abs=0.005)

    @settings(max_examples=50)
    @given(st.floats(-5, 5), st.lists(st.floats(-5, 5), min_size=1, max_size=30))
    def test_lies_in_its_range(self, difference: float, resampled: list[float]) -> None:
        value = bootstrap_p_value(difference, np.array(resampled))
        assert 1 / (len(resampled) + 1) <= value <= 1.0


def _noisy(references: list[str], seed: int, error_rate: float) -> list[str]:
    random = np.random.default_rng(seed)
    return [
        " ".join(str(random.choice(WORDS)) if random.random() < error_rate else word for word in line.split())
        for line in references
    ]


def _two_systems(
    name: str, num_lines: int, seed: int, error_rates: tuple[float, float] = (0.2, 0.3)
) -> tuple[Metric, Statistics, Statistics]:
    references, _ = _corpus(num_lines, seed=seed, error_rate=0.0)
    metric = METRICS[name](tokenize="13a")
    system, baseline = (_noisy(references, seed + i, rate) for i, rate in enumerate(error_rates))
    return (
        metric,
        corpus_statistics(metric, system, [references]),
        corpus_statistics(metric, baseline, [references]),
    )


def _p_of_all_swaps(metric: Metric, system: Statistics, baseline: Statistics) -> float:
    """Return the exact p-value, from every way to deal the lines."""
    wanted = abs(corpus_score(metric, system) - corpus_score(metric, baseline))
    as_large = []
    for swaps in itertools.product([False, True], repeat=len(system)):
        one = [b if swap else a for swap, a, b in zip(swaps, system, baseline, strict=True)]
        other = [a if swap else b for swap, a, b in zip(swaps, system, baseline, strict=True)]
        difference = corpus_score(metric, np.array(one)) - corpus_score(metric, np.array(other))
        as_large.append(abs(difference) >= wanted - 1e-9)
    return float(np.mean(as_large))


class TestRandomisation:
    @pytest.mark.parametrize("name", ["bleu", "chrf", "ter", "ribes", "exact"])
    def test_p_value_is_close_to_the_count_of_all_swaps(self, name: str) -> None:
        """Within four standard errors of 4,000 trials."""
        metric, system, baseline = _two_systems(name, num_lines=8, seed=3)
        exact = _p_of_all_swaps(metric, system, baseline)
        difference = corpus_score(metric, system) - corpus_score(metric, baseline)
        found = randomisation_p_value(
            difference, Randomisation(8, trials=4000, seed=1).differences(metric, system, baseline)
        )
        assert found == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 4000) ** 0.5 + 1 / 4000)

    def test_toy_corpus_has_the_p_value_of_the_sign_test(self) -> None:
        """Seven lines that only one system has right: as far apart as that are 2 of the 2^7 ways to deal them."""
        metric = METRICS["exact"](tokenize="none")
        good, bad = (corpus_statistics(metric, [text] * 7, [["a"] * 7]) for text in ("a", "b"))
        shuffled = Randomisation(7, trials=20_000).differences(metric, good, bad)
        assert randomisation_p_value(1.0, shuffled) == pytest.approx(2 / 2**7, abs=0.004)

    @pytest.mark.parametrize(("name", "scorer"), [("bleu", BLEU(tokenize="13a")), ("chrf", CHRF()), ("ter", TER())])
    def test_p_value_is_that_of_sacrebleu(
        self, name: str, scorer: BLEU | CHRF | TER, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Same seed, same throws; sacreBLEU leaves out the trials that give the very difference of the systems."""
        monkeypatch.delenv("SACREBLEU_SEED", raising=False)
        references, _ = _corpus(60, seed=5, error_rate=0.0)
        baseline, system = (_noisy(references, seed, 0.3) for seed in (6, 7))
        systems: list[tuple[str, Sequence[str]]] = [("baseline", baseline), ("system", system)]
        _, results = PairedTest(systems, {name: scorer}, [references], test_type="ar", n_samples=500)()
        (result,) = [values[1] for key, values in results.items() if key != "System"]
        assert isinstance(result, Result)
        metric = METRICS[name](tokenize="13a")
        rows = [corpus_statistics(metric, lines, [references]) for lines in (system, baseline)]
        difference = corpus_score(metric, rows[0]) - corpus_score(metric, rows[1])
        shuffled = Randomisation(60, trials=500).differences(metric, *rows)
        equal = np.count_nonzero(abs(abs(shuffled) - abs(difference)) < 1e-9)
        assert randomisation_p_value(difference, shuffled) - equal / 501 == pytest.approx(result.p_value, abs=1e-12)
        assert result.p_value is not None and 0.01 < result.p_value < 0.99

    def test_it_repeats_with_its_seed_only(self) -> None:
        metric, system, baseline = _two_systems("bleu", num_lines=20, seed=1)
        first, again, other = (
            Randomisation(20, trials=50, seed=seed).differences(metric, system, baseline) for seed in (1, 1, 2)
        )
        assert (first == again).all()
        assert (first != other).any()

    def test_chunks_are_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(significance, "CHUNK", 60)
        chunks = list(Randomisation(20, trials=7).swaps())
        assert [chunk.shape for chunk in chunks] == [(3, 20), (3, 20), (1, 20)]
        assert 0.3 < np.concatenate(chunks).mean() < 0.7

    def test_sides_are_equal(self) -> None:
        metric, system, baseline = _two_systems("ribes", num_lines=30, seed=2)
        difference = corpus_score(metric, system) - corpus_score(metric, baseline)
        trials = Randomisation(30, trials=300)
        one = randomisation_p_value(difference, trials.differences(metric, system, baseline))
        assert one == randomisation_p_value(-difference, trials.differences(metric, baseline, system))

    def test_a_system_is_not_different_from_itself(self) -> None:
        metric, system, _ = _two_systems("ribes", num_lines=30, seed=2)
        assert randomisation_p_value(0.0, Randomisation(30, trials=100).differences(metric, system, system)) == 1.0

    def test_chance_alone_is_significant_as_often_as_it_says(self) -> None:
        """Two systems of one kind: p-values below 0.2 in a fifth of the corpora (three standard errors: 0.085)."""
        metric = METRICS["exact"](tokenize="none")
        random = np.random.default_rng(0)
        below = 0
        for _ in range(200):
            rows = [np.stack([random.random(50), np.ones(50)], axis=1) for _ in range(2)]
            difference = corpus_score(metric, rows[0]) - corpus_score(metric, rows[1])
            shuffled = Randomisation(50, trials=199).differences(metric, *rows)
            below += randomisation_p_value(difference, shuffled) <= 0.2
        assert below / 200 == pytest.approx(0.2, abs=0.085)


def test_both_tests_agree_on_a_clear_and_on_no_difference() -> None:
    metric, system, baseline = _two_systems("chrf", num_lines=80, seed=4, error_rates=(0.1, 0.5))
    equal = _two_systems("chrf", num_lines=80, seed=4, error_rates=(0.1, 0.1))[2]
    for other, clear in ((baseline, True), (equal, False)):
        difference = corpus_score(metric, system) - corpus_score(metric, other)
        bootstrap = Bootstrap(80, resamples=200)
        by_bootstrap = bootstrap_p_value(difference, bootstrap.scores(metric, system) - bootstrap.scores(metric, other))
        shuffled = Randomisation(80, trials=200).differences(metric, system, other)
        by_randomisation = randomisation_p_value(difference, shuffled)
        assert (by_bootstrap < 0.05, by_randomisation < 0.05) == (clear, clear)
