"""Every search with every serial system: nothing depends on the batch, rules hold in surface strings, averages fit."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from indigo_cli.core.trace import Hypothesis
from indigo_cli.core.vocab import EOD, UNK
from indigo_cli.data.collate import collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.ensemble import Ensemble
from indigo_cli.decoding.search import Sentence, search_batch
from indigo_cli.models import MODELS
from tests.marks import quick
from tests.models.tiny import SERIAL, A, B, C, E, make_batch, make_system, play, slot_log_probs, word_log_probs
from tests.tensors import assert_close

every_system = pytest.mark.parametrize("system", SERIAL)
CHOOSE = random.Random(0)
SOURCES = [[CHOOSE.randrange(A, E + 1) for _ in range(length)] for length in (1, 7, 3, 5, 2)]
SEEDS = {"lstm": 18}
"""Of parameters with which sentences end at different lengths, where 8 is none."""
SEARCHES = {
    "joint": (DecodeConfig(search="joint"), False),
    "distinct": (DecodeConfig(), True),
    "sample": (DecodeConfig(search="sample"), False),
    "nucleus": (DecodeConfig(search="sample", temperature=1.5, top_k=4, top_p=0.8), False),
    "ngrams": (DecodeConfig(block_ngrams=2), False),
    "distinct-ngrams": (DecodeConfig(block_ngrams=2), True),
    "bag": (DecodeConfig(restrict_to_bag=True), False),
    "penalties": (DecodeConfig(eod_penalty=-0.7, length_formula="gnmt", length_penalty=0.6), False),
}


def search(
    model: Any,
    config: DecodeConfig,
    rows: Sequence[int],
    *,
    width: int = 3,
    distinct: bool = False,
    fewest: int = 0,
    most: int = 8,
) -> list[list[Hypothesis]]:
    sentences = [
        Sentence(i, fewest, min(most, 3 * len(SOURCES[i])), tuple(SOURCES[i]) if config.restrict_to_bag else None)
        for i in rows
    ]
    batch = collate_source([SOURCES[i] for i in rows])
    return search_batch(model, batch, config, sentences, width=width, seed=3, distinct=distinct)


def written(found: Sequence[Hypothesis]) -> list[tuple[list[int], tuple[int, ...], bool]]:
    return [(h.trace.tokens(), h.trace.order(), h.finished) for h in found]


@every_system
class TestEverySearch:
    @pytest.mark.parametrize("name", quick(SEARCHES, 2))
    def test_case_85_a_hypothesis_does_not_depend_on_its_batch(self, system: str, name: str) -> None:
        model = make_system(system, seed=SEEDS.get(system, 8))
        config, distinct = SEARCHES[name]

        def decode(rows: Sequence[int]) -> list[list[Hypothesis]]:
            return search(model, config, rows, distinct=distinct)

        together = decode([0, 1, 2, 3, 4])
        assert len({len(found[0].trace) for found in together}) > 1, "they must not all end at once"
        turned = decode([4, 3, 2, 1, 0])[::-1]
        in_pairs = [*decode([0, 1]), *decode([2, 3]), *decode([4])]
        for other in (turned, in_pairs):
            for one, two in zip(together, other, strict=True):
                assert written(one) == written(two)
                assert [h.score for h in one] == pytest.approx([h.score for h in two], rel=1e-5, abs=1e-6)

    @pytest.mark.parametrize("name", quick(SEARCHES, 2))
    def test_log_probs_are_the_models_own(self, system: str, name: str) -> None:
        """CONTRACT number 2, by teacher forcing: neither rules nor penalties nor temperatures reach a trace."""
        model = make_system(system, seed=8)
        config, distinct = SEARCHES[name]
        found = search(model, config, range(5), distinct=distinct)
        flat = [(source, h) for source, row in zip(SOURCES, found, strict=True) for h in row]
        batch = make_batch(
            [s for s, _ in flat], [h.trace.tokens() for _, h in flat], [[h.trace.order()] for _, h in flat]
        )
        wanted = model.log_probs(batch)
        for i, (_, h) in enumerate(flat):
            words, slots = wanted.words[i, 0].tolist(), wanted.slots[i, 0].tolist()
            length = len(h.trace)
            assert [part.word_log_prob for part in h.trace.insertions] == pytest.approx(words[:length], abs=1e-4)
            assert [part.slot_log_prob for part in h.trace.insertions] == pytest.approx(slots[:length], abs=1e-4)
            if h.finished:
                assert h.trace.end_log_prob == pytest.approx(words[length], abs=1e-4)
        assert name != "penalties" or any(h.finished for _, h in flat)

    def test_no_string_stands_twice(self, system: str) -> None:
        model = make_system(system, seed=8)
        plain = search(model, DecodeConfig(), range(5), width=6)
        found = search(model, DecodeConfig(), range(5), width=6, distinct=True)
        for hypotheses in found:
            strings = [(tuple(h.trace.tokens()), h.finished) for h in hypotheses]
            assert len(set(strings)) == len(strings) == 6
        repeated = any(len({tuple(h.trace.tokens()) for h in row}) < 6 for row in plain)
        assert repeated == (MODELS[system].orders is None), "or there was nothing to do"
        if not repeated:
            assert [written(row) for row in found] == [written(row) for row in plain]

    def test_no_ngram_stands_twice(self, system: str) -> None:
        model = make_system(system, seed=8)
        for size in (1, 2, 3):
            for search_kind in ("beam", "joint", "sample"):
                config = DecodeConfig(search=search_kind, block_ngrams=size)
                for h in (h for row in search(model, config, range(5), fewest=5) for h in row):
                    tokens = h.trace.tokens()
                    runs = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
                    assert len(set(runs)) == len(runs)
                    assert h.finished or len(tokens) in (3, 5, 6, 8), "the limits, or all of five words once"

    def test_a_bag_is_used_up(self, system: str) -> None:
        model = make_system(system, seed=8, ordered_source=False)
        for search_kind in ("beam", "joint", "sample"):
            config = DecodeConfig(search=search_kind, restrict_to_bag=True)
            for source, found in zip(SOURCES, search(model, config, range(5), width=4), strict=True):
                assert found
                for h in found:
                    assert sorted(h.trace.tokens()) == sorted(source)
                    assert h.finished == (min(8, 3 * len(source)) > len(source))

    def test_as_many_words_as_asked_for(self, system: str) -> None:
        model = make_system(system, seed=8)
        for row in search(model, DecodeConfig(), range(5), fewest=3, most=3):
            assert len(row) == 3
            assert all(len(h.trace) == 3 and UNK not in h.trace.tokens() for h in row)

    def test_samples_of_the_most_probable_are_greedy(self, system: str) -> None:
        model = make_system(system, seed=8)
        greedy = search(model, DecodeConfig(), range(5), width=1)
        sampled = search(model, DecodeConfig(search="sample", top_k=1), range(5), width=2)
        for (wanted,), found in zip(greedy, sampled, strict=True):
            assert written(found) == written([wanted]) * 2

    def test_the_first_samples_of_many(self, system: str) -> None:
        model, config = make_system(system, seed=8), DecodeConfig(search="sample")
        many, few = (search(model, config, range(5), width=width) for width in (7, 2))
        assert [written(row[:2]) for row in many] == [written(row) for row in few]
        assert len({str(written([h])) for row in many for h in row}) > 10


@every_system
class TestEnsemble:
    def test_a_model_with_itself_is_the_model(self, system: str) -> None:
        model = make_system(system, seed=8)
        for config in (DecodeConfig(), DecodeConfig(search="sample"), DecodeConfig(block_ngrams=2)):
            alone = search(model, config, range(5))
            for one, two in zip(alone, search(Ensemble([model, model]), config, range(5)), strict=True):
                assert written(one) == written(two)
                assert [h.score for h in one] == pytest.approx([h.score for h in two], rel=1e-5, abs=1e-5)

    @torch.inference_mode()
    def test_two_models_say_the_average(self, system: str) -> None:
        models = [make_system(system, seed=seed) for seed in (1, 2)]
        ensemble = Ensemble(models)
        words, slots = [A, C, B], (0, 0, 1)
        if MODELS[system].orders is not None:
            slots = (0, 1, 2)
        states = [play(model, SOURCES[1], words, slots) for model in models]
        state = play(ensemble, SOURCES[1], words, slots)
        mean = torch.stack([word_log_probs(m, s).exp() for m, s in zip(models, states, strict=True)]).mean(0)
        assert_close(word_log_probs(ensemble, state).exp(), mean)
        both = [slot_log_probs(m, s, [A, E, EOD], length=3).exp() for m, s in zip(models, states, strict=True)]
        assert_close(slot_log_probs(ensemble, state, [A, E, EOD], length=3).exp(), torch.stack(both).mean(0))
