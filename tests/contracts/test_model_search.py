"""What the search finds with every serial entry of MODELS: what brute force finds, at the price of teacher forcing."""

import math
import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import torch

from indigo_cli.core.order import slots_to_anchors, slots_to_order
from indigo_cli.core.trace import Hypothesis
from indigo_cli.core.vocab import EOD, FIRST_WORD, UNK
from indigo_cli.data.collate import collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.search import Sentence, search_batch
from tests.marks import quick
from tests.models.tiny import (
    SERIAL,
    SOURCES,
    A,
    B,
    C,
    E,
    allowed_orders,
    make_system,
    nll,
    play,
    slot_log_probs,
    word_log_probs,
)

SEEDS = {"lstm": 4}
"""Of weights with which some outputs end and others are too long."""
READS_IN_ORDER = ("lstm",)
"""Systems whose encoder knows no bags: preprocessing sorts them (CONTRACT, corpus folder)."""

every_system = pytest.mark.parametrize("system", SERIAL)


def search(
    model: Any, sources: Sequence[Sequence[int]], *, beam: int, limit: int, alpha: float = 1.0
) -> list[list[Hypothesis]]:
    config = DecodeConfig(length_penalty=alpha, ban_unk=False)
    sentences = [Sentence(line=i, min_length=0, max_length=limit) for i in range(len(sources))]
    return search_batch(model, collate_source(sources), config, sentences, width=beam, seed=1)


@every_system
class TestSearch:
    def test_all_traces_add_up_to_one(self, system: str) -> None:
        """CONTRACT number 1: complete traces of fewer than 3 words, and beginnings of exactly 3."""
        model = make_system(system, tokens=1)
        for found in search(model, [[A], [], [A, UNK]], beam=100, limit=3):
            assert {len(h.trace) for h in found if h.finished} == {0, 1, 2}
            assert {len(h.trace) for h in found if not h.finished} == {3}
            assert math.fsum(math.exp(h.trace.log_prob) for h in found) == pytest.approx(1.0, abs=1e-5)
            assert all(token in (UNK, A) for h in found for token in h.trace.tokens())

    @pytest.mark.parametrize("alpha", [0.0, 1.0])
    def test_a_beam_as_wide_as_the_space_is_brute_force(self, system: str, alpha: float) -> None:
        model, source = make_system(system, tokens=1, seed=4), [A, UNK]
        space = [
            (words, order) for length in range(3) for words in product([UNK, A], repeat=length)
            for order in allowed_orders(system, length)
        ]  # fmt: skip
        scores = {
            (words, order): -nll(model, source, words, order) / (len(words) + 1) ** alpha for words, order in space
        }
        (found,) = search(model, [source], beam=100, limit=3, alpha=alpha)
        finished = [h for h in found if h.finished]
        assert [h.score for h in finished] == pytest.approx(sorted(scores.values(), reverse=True), rel=1e-4)
        for h in finished:
            assert h.score == pytest.approx(scores[tuple(h.trace.tokens()), h.trace.order()], rel=1e-4)

    @pytest.mark.parametrize("scale", [1.0, 3.0])
    def test_a_trace_costs_what_teacher_forcing_says(self, system: str, scale: float) -> None:
        """CONTRACT number 2, also with the large logits of a trained model (PERFORMANCE.md, trap 1)."""
        model = make_system(system, tokens=2, scale=scale, seed=SEEDS.get(system, 0))
        sources, seen = [[A, B], [], [B, B, A, UNK]], set()
        for source, found in zip(sources, search(model, sources, beam=8, limit=5), strict=True):
            for h in found:
                whole = wanted = -nll(model, source, h.trace.tokens(), h.trace.order())
                if not h.finished:  # teacher forcing went on to `<eod>`
                    words = [insertion.token for insertion in h.trace.insertions]
                    with torch.no_grad():
                        last = word_log_probs(model, play(model, source, words, h.trace.slots()))
                    wanted -= last[0, 0, EOD - FIRST_WORD].item()
                assert h.trace.log_prob == pytest.approx(wanted, abs=max(1e-4, 1e-5 * abs(whole)))
                seen.add((len(h.trace), h.finished))
        assert (5, False) in seen and any(finished and length > 1 for length, finished in seen)

    @torch.inference_mode()
    def test_a_beam_of_one_is_greedy(self, system: str) -> None:
        model = make_system(system, seed=7)
        for source, (hypothesis,) in zip(SOURCES, search(model, SOURCES, beam=1, limit=8), strict=True):
            words: list[int] = []
            anchors: list[int] = []
            state = model.start(collate_source([source]))
            while len(words) < 8:
                word = FIRST_WORD + int(word_log_probs(model, state)[0, 0].argmax())
                if word == EOD:
                    break
                anchor = int(slot_log_probs(model, state, [word], length=len(words))[0, 0, 0].argmax())
                words, anchors = [*words, word], [*anchors, anchor]
                state = model.advance(state, torch.tensor([[0]]), torch.tensor([[word]]), torch.tensor([[anchor]]))
            assert [i.token for i in hypothesis.trace.insertions] == words
            assert slots_to_anchors(hypothesis.trace.slots()) == tuple(anchors)
            assert hypothesis.finished == (len(words) < 8)

    @pytest.mark.parametrize("beam", quick([4, 1]))
    def test_case_85_a_hypothesis_does_not_depend_on_its_batch(self, system: str, beam: int) -> None:
        """Also when others end before or after it, and the batch is compacted."""
        choose = random.Random(0)
        sources = [[choose.randrange(A, E + 1) for _ in range(length)] for length in (1, 9, 3, 7, 2)]
        limits = [min(3 * len(source), 12) for source in sources]
        model = make_system(system, seed=8)

        def decode(rows: list[int]) -> list[list[Hypothesis]]:
            sentences = [Sentence(line=i, min_length=0, max_length=limits[i]) for i in rows]
            batch = collate_source([sources[i] for i in rows])
            return search_batch(model, batch, DecodeConfig(), sentences, width=beam, seed=1)

        together = decode([0, 1, 2, 3, 4])
        turned = decode([4, 3, 2, 1, 0])[::-1]
        in_pairs = [*decode([0, 1]), *decode([2, 3]), *decode([4])]
        alone = [found for i in range(5) for found in decode([i])]
        assert len({len(found[0].trace) for found in together}) > 1, "they must not all end at once"
        for other in (turned, in_pairs, alone):
            for one, two in zip(together, other, strict=True):
                assert [(h.trace.tokens(), h.trace.order(), h.finished) for h in one] == [
                    (h.trace.tokens(), h.trace.order(), h.finished) for h in two
                ]
                assert [h.score for h in one] == pytest.approx([h.score for h in two], rel=1e-5, abs=1e-6)

    def test_case_83_fewer_words_than_the_beam_has_places(self, system: str) -> None:
        model = make_system(system, tokens=0)  # `<eod>` and `<unk>`
        (found,) = search(model, [[UNK]], beam=8, limit=2)
        assert 0 < len(found) <= 8
        assert len({(h.trace.slots(), h.finished) for h in found}) == len(found)
        assert all(set(h.trace.tokens()) <= {UNK} for h in found)


@pytest.mark.parametrize("system", [system for system in SERIAL if system not in READS_IN_ORDER])
def test_the_order_of_a_bag_tells_nothing(system: str) -> None:
    bag, shuffled = [A, C, B, A, E], [E, A, A, B, C]
    model = make_system(system, ordered_source=False)
    (one,), (two,) = (search(model, [source], beam=3, limit=6) for source in (bag, shuffled))
    assert [h.trace.tokens() for h in one] == [h.trace.tokens() for h in two]
    assert [h.trace.log_prob for h in one] == pytest.approx([h.trace.log_prob for h in two], rel=1e-4)
    order = slots_to_order(range(3))
    assert nll(model, bag, [A, B, C], order) == pytest.approx(nll(model, shuffled, [A, B, C], order), rel=1e-5)
    ordered = make_system(system, ordered_source=True)
    assert abs(nll(ordered, bag, [A, B, C], order) - nll(ordered, shuffled, [A, B, C], order)) > 1e-3
