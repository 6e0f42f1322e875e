"""Filling one slot at a time: a parallel system as a serial one."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from indigo_cli.core.trace import Hypothesis
from indigo_cli.core.vocab import EOD, FIRST_WORD, PAD
from indigo_cli.data.collate import collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.one_slot import OneSlot
from indigo_cli.decoding.search import Sentence, search_batch
from tests.models.tiny import SOURCES, A, make_batch, make_system

PLAIN = DecodeConfig(ban_unk=False, length_penalty=0.0)
KINDS: dict[str, dict[str, Any]] = {
    "joint": {},
    "factorised": {"slot_choice": "factorised"},
    "sequence": {"termination": "sequence"},
}


@pytest.fixture(scope="module")
def systems() -> dict[str, Any]:
    return {kind: make_system("insertion", positions="absolute", **settings) for kind, settings in KINDS.items()}


def search(
    model: Any, sources: Any, config: DecodeConfig = PLAIN, *, width: int, limit: int = 5, **kwargs: Any
) -> list[list[Hypothesis]]:
    sentences = [Sentence(i, 0, limit) for i in range(len(sources))]
    return search_batch(OneSlot(model, **kwargs), collate_source(sources), config, sentences, width=width, seed=1)


def outcomes(model: Any, source: list[int], words: list[int]) -> tuple[dict[tuple[int, int], float], list[int]]:
    """Return log p(word, slot) of a canvas for every pair, and the best column of each slot."""
    state = model.start(collate_source([source]))
    for i, word in enumerate(words):
        state = model.insert(state, torch.tensor([[0]]), torch.tensor([[[PAD] * i + [word]]]))
    scores = model.slots(state)
    log_probs = (scores.logits - scores.log_z[..., None] + scores.slots[..., None])[0, 0]
    pairs = {
        (column + FIRST_WORD, slot): float(log_probs[slot, column])
        for slot in range(log_probs.shape[0])
        for column in range(log_probs.shape[1])
    }
    return pairs, scores.logits[0, 0].argmax(dim=1).tolist()


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_the_joint_beam_of_one_takes_the_best_pair(systems: dict[str, Any], kind: str) -> None:
    """Word and slot of the highest p(word, slot) of slots that want a word, or the end: `<eod>` in any slot."""
    model = systems[kind]
    config = DecodeConfig(search="joint", ban_unk=False, length_penalty=0.0)
    for source in SOURCES:
        ((found,),) = search(model, [source], config, width=1)
        words: list[int] = []
        for insertion in found.trace.insertions:
            pairs, wants = outcomes(model, source, words)
            left = {p: v for p, v in pairs.items() if p[0] != EOD and (kind == "sequence" or wants[p[1]])}
            best = max(left, key=lambda pair: left[pair])
            assert (insertion.token, insertion.slot) == best
            assert insertion.word_log_prob + insertion.slot_log_prob == pytest.approx(left[best], abs=1e-5)
            words.insert(best[1], best[0])
            if best[1] != len(words) - 1:
                return  # the canvas of `outcomes` grows to the right only
        if found.finished:
            pairs, _ = outcomes(model, source, words)
            end = math.log(math.fsum(math.exp(v) for (word, _), v in pairs.items() if word == EOD))
            assert found.trace.end_log_prob == pytest.approx(end, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["beam", "joint", "sample"])
def test_traces_cost_what_teacher_forcing_says(systems: dict[str, Any], kind: str, how: Any) -> None:
    model = systems[kind]
    config = DecodeConfig(search=how, ban_unk=False, length_penalty=0.0)
    checked = 0
    for source, found in zip(SOURCES, search(model, SOURCES, config, width=3), strict=True):
        for hypothesis in found:
            trace = hypothesis.trace
            steps = model.serial_log_probs(make_batch([source], [trace.tokens()], [[trace.order()]]))
            end = float(steps.words[0, 0, len(trace)])
            made = float(steps.words.sum() + steps.slots.sum()) - end
            assert trace.log_prob == pytest.approx(made + (end if hypothesis.finished else 0.0), abs=1e-4)
            checked += len(trace) > 1
    assert checked > 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_its_sentences_alone(systems: dict[str, Any], kind: str) -> None:
    together = search(systems[kind], SOURCES, width=2)
    for source, found in zip(SOURCES, together, strict=True):
        (alone,) = search(systems[kind], [source], width=2)
        assert [h.trace.slots() for h in alone] == [h.trace.slots() for h in found]
        assert [h.score for h in alone] == pytest.approx([h.score for h in found], abs=1e-5)


def test_words_and_the_end_add_up_to_one_where_any_slot_may_end(systems: dict[str, Any]) -> None:
    decoder = OneSlot(systems["sequence"])
    state = decoder.start(collate_source(SOURCES))
    for word in (A, A + 1):
        scores = decoder.words(state)
        assert torch.allclose((scores.logits - scores.log_z[..., None]).exp().sum(dim=2), torch.ones(len(SOURCES), 1))
        parent = torch.zeros(len(SOURCES), 1, dtype=torch.int64)
        slots = decoder.slots(state, parent, torch.full_like(parent, word))
        assert torch.allclose(slots.exp().sum(dim=2), torch.ones(len(SOURCES), 1))
        state = decoder.advance(state, parent, torch.full_like(parent, word), parent)


def test_a_penalty_on_closing_keeps_slots_open(systems: dict[str, Any]) -> None:
    """The search takes the same off the end of the whole."""
    lengths = []
    for penalty in (-9.0, 0.0, 9.0):
        config = replace(PLAIN, eod_penalty=penalty)
        found = search(systems["joint"], SOURCES, config, width=1, limit=9, close_penalty=penalty)
        lengths.append(sum(len(one[0].trace) for one in found))
    assert lengths[0] == 0
    assert lengths[0] <= lengths[1] <= lengths[2]
    assert lengths[2] > lengths[0]


def test_slots_that_cannot_wait() -> None:
    kinds: list[dict[str, Any]] = [{}, {"positions": "absolute", "slot_choice": "none"}]
    for settings in kinds:
        with pytest.raises(ValueError, match="one slot"):
            OneSlot(make_system("insertion", **settings))
