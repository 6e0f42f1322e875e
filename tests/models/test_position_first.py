"""InDIGO that chooses the slot before the word: the slow implementation, sums to one, and greedy search."""

import math
from collections.abc import Sequence
from itertools import permutations, product
from typing import Any

import pytest
import torch
from torch import Tensor

from indigo_cli.core.order import order_to_slots, slots_to_anchors
from indigo_cli.core.trace import Hypothesis
from indigo_cli.core.vocab import EOD, FIRST_WORD, NUM_SPECIALS, UNK
from indigo_cli.data.collate import collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.search import Sentence, search_batch
from indigo_cli.models.indigo_config import IndigoConfig
from tests import reference
from tests.models.tiny import A, B, C, D, E, make_batch, make_config, make_system, play, slot_log_probs, word_log_probs
from tests.tensors import assert_close

SETTINGS: list[dict[str, Any]] = [{}, {"pointer_query": "plain", "pointer_scale": "none"}]
SENTENCES: list[tuple[list[int], list[int], list[int]]] = [
    ([A, B, C], [A, B, C], [1, 2, 0]),
    ([D], [], []),
    ([], [E], [0]),
    ([C, C, D, E, A], [B, A, B, D], [3, 0, 2, 1]),
]
"""Source, target, order."""


def make(**settings: Any) -> Any:
    return make_system("indigo", predict="position_first", **settings)


def batch_of(sentences: Sequence[tuple[list[int], list[int], list[int]]]) -> Any:
    sources, targets, orders = zip(*sentences, strict=True)
    return make_batch(sources, targets, [[order] for order in orders])


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_losses_and_gradients_are_those_of_the_slow_implementation(settings: dict[str, Any]) -> None:
    model, config = make(**settings).double(), make_config("indigo", predict="position_first", **settings)
    losses = model(batch_of(SENTENCES), 0.3)
    expected = []
    for source, target, order in SENTENCES:
        steps = reference.position_first_steps(model, config, source, target, order, ordered_source=True)
        expected.append(reference.losses(steps, target, order, smoothing=0.3, eod_position=True))
    smooth, words, slots = (torch.stack([parts[i] for parts in expected]).sum() for i in range(3))
    assert_close(losses.objective, smooth + slots, rtol=1e-6, atol=0)
    assert_close(losses.parts["word"][0], words, rtol=1e-6, atol=0)
    assert_close(losses.parts["position"][0], slots, rtol=1e-6, atol=0)
    assert losses.weight == losses.parts["word"][1] == losses.parts["position"][1] == 8 + 4, "`<eod>` has a position"

    parameters = dict(model.named_parameters())
    wanted = torch.autograd.grad(smooth + slots, list(parameters.values()))
    got = torch.autograd.grad(losses.objective, list(parameters.values()))
    for name, one, other in zip(parameters, got, wanted, strict=True):
        assert_close(one, other, rtol=1e-5, atol=1e-6, what=name)
        assert other.abs().max() > 1e-4, f"{name} must matter"


def test_log_probs_are_the_terms_of_the_loss_with_the_end_in_one_piece() -> None:
    model = make()
    parts, steps = model(batch_of(SENTENCES)).parts, model.log_probs(batch_of(SENTENCES))
    whole = -(parts["word"][0] + parts["position"][0])
    assert_close(steps.words.sum() + steps.slots.sum(), whole.detach())
    for i, (source, target, order) in enumerate(SENTENCES):
        alone = model.log_probs(batch_of([(source, target, order)]))
        assert_close(steps.words[i, 0, : len(target) + 1], alone.words[0, 0])
        assert_close(steps.slots[i, 0, : len(target)], alone.slots[0, 0])
        assert not steps.words[i, 0, len(target) + 1 :].any() and not steps.slots[i, 0, len(target) :].any()
        state = play(model, source, [target[index] for index in order], order_to_slots(order))
        end = slot_log_probs(model, state, [EOD], length=len(target))[0, 0, 0]
        assert end[1:].isneginf().all() and end[0] <= 0
        if state.open_PA[0].argmax() == slots_to_anchors([*order_to_slots(order), len(order)])[-1]:
            end = end[0] + word_log_probs(model, state)[0, 0, EOD - FIRST_WORD]
            assert_close(steps.words[i, 0, len(target)], end)


def complete_and_begun(model: Any, source: list[int], longest: int) -> tuple[float, float]:
    """Return the added probabilities of all traces shorter than `longest`, and of all beginnings of this length."""
    complete = begun = 0.0
    for length in range(longest + 1):
        orders = list(permutations(range(length)))
        for words in product((UNK, A), repeat=length):
            steps = model.log_probs(make_batch([source], [list(words)], [orders]))
            slots = steps.slots[0].double().sum(dim=1)
            if length < longest:
                complete += float((steps.words[0].double().sum(dim=1) + slots).exp().sum())
            else:
                begun += float((steps.words[0, :, :length].double().sum(dim=1) + slots).exp().sum())
    return complete, begun


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_all_traces_add_up_to_one(scale: float) -> None:
    """CONTRACT number 1. Each (word, slot) and `<eod>` of every step is among them."""
    complete, begun = complete_and_begun(make(tokens=1, scale=scale, seed=1), [A, UNK], 3)
    assert complete + begun == pytest.approx(1.0, abs=1e-5)
    assert min(complete, begun) > 1e-3


@torch.inference_mode()
def test_stepping_shows_the_best_slot_and_its_words() -> None:
    """Against the slow implementation, whose gold slot is made the best one, in a batch of unlike sentences."""
    model, config = make(), make_config("indigo", predict="position_first")
    sentences = [([A, B], [C, D, C], (2, 0, 1)), ([E], [A, A, B], (0, 1, 2)), ([], [B, E, D], (1, 0, 2))]
    anchors = [slots_to_anchors(order_to_slots(order)) for _, _, order in sentences]
    state, parent = model.start(collate_source([source for source, _, _ in sentences])), torch.zeros(3, 1).long()
    for step in range(4):
        scores = model.words(state)
        log_probs = scores.logits - scores.log_z[..., None]
        assert_close(log_probs.exp().sum(-1), torch.ones(3, 1))
        slots = model.slots(state, parent, torch.full((3, 1), A))[:, 0]
        ends = model.slots(state, parent, torch.full((3, 1), EOD))[:, 0]
        for i, (source, target, order) in enumerate(sentences):
            by_surface = [0] + [1 + order.index(index) for index in sorted(order[:step])]
            best = by_surface.index(int(slots[i].argmax()))
            made = [target[index] for index in order[:step]]
            canvas = [target[index] for index in sorted(order[:step])]
            ranks = [sorted(order[:step]).index(index) for index in order[:step]]
            canvas.insert(best, made[0] if made else A)  # what is inserted next does not matter to this step
            grown = [rank + (rank >= best) for rank in ranks] + [best]
            wanted = reference.position_first_steps(model, config, source, canvas, grown, ordered_source=True)[step]
            assert_close(slots[i, by_surface[best]], wanted.slots.max())
            assert slots[i].isfinite().sum() == 1
            assert_close(ends[i, 0], wanted.slots[-1])
            assert ends[i, 1:].isneginf().all()
            assert_close(log_probs[i, 0], wanted.words[FIRST_WORD:], atol=1e-5)
            assert (log_probs[i, 0, 0] == -math.inf) == (best != step), "`<eod>` belongs to the last slot"
        if step < 3:
            word = torch.tensor([[target[order[step]]] for _, target, order in sentences])
            state = model.advance(state, parent, word, torch.tensor([[row[step]] for row in anchors]))


def greedy(model: Any, sources: Sequence[Sequence[int]], limit: int = 8) -> list[Hypothesis]:
    sentences = [Sentence(line=i, min_length=0, max_length=limit) for i in range(len(sources))]
    config = DecodeConfig(length_penalty=0.0, ban_unk=False)
    return [found[0] for found in search_batch(model, collate_source(sources), config, sentences, width=1, seed=1)]


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_greedy_search_takes_the_best_slot_then_the_best_word(scale: float) -> None:
    """And costs what teacher forcing says (CONTRACT number 2), also where sentences of the batch end early."""
    model, config = make(scale=scale, seed=3), make_config("indigo", predict="position_first")
    sources = [[A, B, C], [], [E, D, D, A, B], [C], [B, B]]
    ended = set()
    for source, found in zip(sources, greedy(model, sources), strict=True):
        target, order, trace = found.trace.tokens(), list(found.trace.order()), found.trace
        steps = reference.position_first_steps(model, config, source, target, order, ordered_source=True)
        for step, insertion in zip(steps, trace.insertions, strict=False):
            assert step.slots[insertion.slot] >= step.slots.max() - 1e-4
            assert step.words[insertion.token] >= step.words.max() - 1e-4
        taught = model.log_probs(make_batch([source], [target], [[order]]))
        assert [i.slot_log_prob for i in trace.insertions] == pytest.approx(taught.slots[0, 0].tolist(), abs=1e-4)
        assert [i.word_log_prob for i in trace.insertions] == pytest.approx(taught.words[0, 0, :-1].tolist(), abs=1e-4)
        assert found.finished == (len(trace) < 8)
        if found.finished:
            assert trace.end_log_prob == pytest.approx(taught.words[0, 0, -1].item(), abs=1e-4)
            assert int(steps[-1].slots.argmax()) == len(trace) and int(steps[-1].words.argmax()) == EOD
        ended.add(found.finished)
    assert ended == {True, False}


@torch.inference_mode()
def test_hypotheses_may_change_places_multiply_and_go() -> None:
    model, parent = make(seed=3), torch.tensor([[0, 0], [0, 0]])
    words = torch.tensor([[A, B], [C, D]])
    state = model.advance(model.start(collate_source([[A, B], [C]])), parent, words, torch.zeros(2, 2).long())
    state = model.advance(state, torch.tensor([[1, 0], [1, 1]]), words, torch.tensor([[0, 1], [1, 0]]))
    state = model.keep(state, torch.tensor([1]))
    for beam, (word, anchor) in enumerate([(C, 1), (D, 0)]):
        alone = play(model, [C], [D, word], [0, anchor])
        assert_close(word_log_probs(model, state)[:, beam], word_log_probs(model, alone)[:, 0])
        got, wanted = (slot_log_probs(model, x, [A, EOD], length=2)[0, b] for x, b in ((state, beam), (alone, 0)))
        assert_close(got, wanted)


def test_bf16_and_dropout_leave_gradients_finite() -> None:
    model = make(dropout=0.2).train()
    for sentences in (SENTENCES, SENTENCES[1:2]):
        with torch.autocast("cpu", torch.bfloat16):
            losses = model(batch_of(sentences), 0.1)
        assert losses.objective.dtype == torch.float32
        found: tuple[Tensor, ...] = torch.autograd.grad(
            losses.objective, list(model.parameters()), allow_unused=True, materialize_grads=True
        )
        assert all(gradient.isfinite().all() for gradient in found)


def test_what_it_says_of_itself() -> None:
    assert make().greedy_only and not make_system("indigo").greedy_only
    assert "position_first.slot.weight" in make().state_dict()
    assert "position_first.slot.weight" not in make_system("indigo").state_dict()
    with pytest.raises(ValueError, match="eod_position"):
        IndigoConfig(predict="position_first", eod_position=True)


def test_without_any_token_but_unk() -> None:
    found = greedy(make(tokens=0), [[UNK]], limit=2)[0]
    assert set(found.trace.tokens()) <= {UNK}
    assert len(make(tokens=0).embeddings.words) == NUM_SPECIALS - FIRST_WORD
