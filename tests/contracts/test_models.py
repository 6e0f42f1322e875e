"""What every system promises to training and to search, for every entry of MODELS."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from indigo_cli.core.order import order_to_slots, slots_to_anchors
from indigo_cli.core.vocab import EOD, FIRST_WORD, NUM_SPECIALS, PAD, UNK
from indigo_cli.data.batch import Plan
from indigo_cli.data.collate import collate_source
from indigo_cli.models import MODELS
from tests.models.tiny import (
    SERIAL,
    SOURCES,
    A,
    B,
    C,
    D,
    E,
    allowed_orders,
    make_batch,
    make_system,
    nll,
    play,
    slot_log_probs,
    word_log_probs,
)
from tests.tensors import assert_close

every_system = pytest.mark.parametrize("system", MODELS)
every_serial_system = pytest.mark.parametrize("system", SERIAL)
TARGETS = [[B, A], [C], [], [D, E, D, A]]


def orders_for(system: str, targets: Sequence[Sequence[int]], *, count: int = 1) -> list[list[tuple[int, ...]]]:
    """Return `count` orders of each target, as different as they can be."""
    chosen = []
    for target in targets:
        possible = list(allowed_orders(system, len(target)))
        chosen.append([possible[(3 + 5 * k) % len(possible)] for k in range(count)])
    return chosen


def gradients(model: Any, objective: Tensor) -> dict[str, Tensor]:
    parameters = dict(model.named_parameters())
    found = torch.autograd.grad(objective, list(parameters.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(parameters, found, strict=True))


@every_serial_system
class TestSerialLosses:
    def test_parts_and_weight(self, system: str) -> None:
        losses = make_system(system)(make_batch(SOURCES, TARGETS, orders_for(system, TARGETS)), 0.1)
        tokens, sentences = 7, 4
        assert losses.weight == losses.parts["word"][1] == tokens + sentences
        assert losses.parts.get("position", (None, tokens))[1] == tokens
        assert set(losses.parts) <= {"word", "position"}
        assert losses.objective.requires_grad
        assert not any(nats.requires_grad for nats, _ in losses.parts.values())

    def test_smoothing_spreads_over_the_allowed_words(self, system: str) -> None:
        model = make_system(system)
        (order,) = orders_for(system, [[D, E, D]])[0]
        words, slots = [[D, E, D][index] for index in order], order_to_slots(order)
        batch = make_batch([[A, B]], [[D, E, D]], [[order]])
        uniform = 0.0
        with torch.no_grad():
            for step in range(4):
                uniform -= word_log_probs(model, play(model, [A, B], words[:step], slots[:step]))[0, 0].mean().item()
            plain, smooth = model(batch), model(batch, 0.25)
        word = plain.parts["word"][0].item()
        expected = plain.objective.item() - word + 0.75 * word + 0.25 * uniform
        assert smooth.objective.item() == pytest.approx(expected, rel=1e-5)


@every_system
class TestLosses:
    def test_without_smoothing_the_objective_is_the_sum_of_the_parts(self, system: str) -> None:
        model, batch = make_system(system), make_batch(SOURCES, TARGETS, orders_for(system, TARGETS))
        plain, smooth = model(batch), model(batch, 0.2)
        assert_close(plain.objective, torch.stack([nats for nats, _ in plain.parts.values()]).sum())
        assert abs((smooth.objective - plain.objective).item()) > 1e-2
        for name, (nats, _) in plain.parts.items():
            assert_close(smooth.parts[name][0], nats)

    def test_a_row_alone_is_the_same_row_in_a_padded_batch(self, system: str) -> None:
        model, orders = make_system(system).double(), orders_for(system, TARGETS)
        together = model(make_batch(SOURCES, TARGETS, orders), 0.1)
        alone = [
            model(make_batch([source], [target], [candidates]), 0.1)
            for source, target, candidates in zip(SOURCES, TARGETS, orders, strict=True)
        ]
        objective = torch.stack([losses.objective for losses in alone]).sum()
        assert_close(together.objective, objective)
        for name, (nats, count) in together.parts.items():
            assert_close(nats, torch.stack([losses.parts[name][0] for losses in alone]).sum())
            assert count == sum(losses.parts[name][1] for losses in alone)
        wanted = gradients(model, objective)
        for name, gradient in gradients(model, together.objective).items():
            assert_close(gradient, wanted[name], rtol=1e-5, atol=1e-6, what=name)

    def test_padding_has_no_gradient(self, system: str) -> None:
        model = make_system(system)
        objective = model(make_batch(SOURCES, TARGETS, orders_for(system, TARGETS)), 0.1).objective
        assert not gradients(model, objective)["embeddings.target.weight"][PAD].any()

    def test_several_orders_are_the_mean_of_each_alone(self, system: str) -> None:
        model, orders = make_system(system).double(), orders_for(system, TARGETS, count=3)
        together = model(make_batch(SOURCES, TARGETS, orders), 0.1)
        alone = [model(make_batch(SOURCES, TARGETS, [[candidates[k]] for candidates in orders]), 0.1) for k in range(3)]
        objective = torch.stack([losses.objective for losses in alone]).mean()
        assert_close(together.objective, objective)
        assert together.weight == alone[0].weight
        for name, (nats, count) in together.parts.items():
            assert_close(nats, torch.stack([losses.parts[name][0] for losses in alone]).mean())
            assert count == alone[0].parts[name][1]
        wanted = gradients(model, objective)
        for name, gradient in gradients(model, together.objective).items():
            assert_close(gradient, wanted[name], rtol=1e-5, atol=1e-6, what=name)

    def test_weights_of_the_plan(self, system: str) -> None:
        model, orders = make_system(system), orders_for(system, TARGETS, count=2)
        batch = make_batch(SOURCES, TARGETS, orders)
        weights = torch.tensor([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
        batch = replace(batch, plan=Plan(batch.plan.orders, weights))
        expected = sum(
            weights[i, k].item() * nll(model, SOURCES[i], TARGETS[i], orders[i][k]) for i in range(4) for k in range(2)
        )
        with torch.no_grad():
            assert model(batch).objective.item() == pytest.approx(expected, rel=1e-5)

    @pytest.mark.parametrize("targets", [[[], [A], [B, C]], [[], []], [[A, B]]], ids=["0-1-2", "0-0", "2"])
    def test_gradients_are_finite_in_bf16(self, system: str, targets: list[list[int]]) -> None:
        """With padding rows, empty targets and dropout, as in training."""
        model = make_system(system, dropout=0.2).train()
        batch = make_batch(SOURCES[: len(targets)], targets, orders_for(system, targets))
        with torch.autocast("cpu", torch.bfloat16):
            losses = model(batch, 0.1)
        assert losses.objective.dtype == torch.float32
        assert math.isfinite(losses.objective.item())
        for name, gradient in gradients(model, losses.objective).items():
            assert gradient.isfinite().all(), name
            assert gradient.dtype == torch.float32

    def test_bf16_is_near_fp32(self, system: str) -> None:
        model, batch = make_system(system), make_batch(SOURCES, TARGETS, orders_for(system, TARGETS))
        exact = model(batch, 0.1).objective
        with torch.autocast("cpu", torch.bfloat16):
            rough = model(batch, 0.1).objective
        assert rough.item() == pytest.approx(exact.item(), rel=0.03)
        wanted, got = (torch.cat([g.flatten() for g in gradients(model, x).values()]) for x in (exact, rough))
        assert torch.cosine_similarity(wanted, got, dim=0) > 0.99

    def test_dropout_is_for_training_only(self, system: str) -> None:
        model, batch = make_system(system, dropout=0.3), make_batch(SOURCES, TARGETS, orders_for(system, TARGETS))
        with torch.no_grad():
            assert model(batch).objective == model(batch).objective
            model.train()
            assert model(batch).objective != model(batch).objective


@every_serial_system
class TestLogProbs:
    @pytest.mark.parametrize("count", [1, 3])
    def test_their_sums_are_minus_the_losses(self, system: str, count: int) -> None:
        model, orders = make_system(system), orders_for(system, TARGETS, count=count)
        steps = model.log_probs(make_batch(SOURCES, TARGETS, orders))
        assert steps.words.shape == (4, count, 5) and steps.slots.shape == (4, count, 4)
        assert steps.words.dtype == steps.slots.dtype == torch.float32
        assert not steps.words.requires_grad and not steps.slots.requires_grad
        for i, k in product(range(4), range(count)):
            with torch.no_grad():
                parts = model(make_batch([SOURCES[i]], [TARGETS[i]], [[orders[i][k]]])).parts
            assert_close(steps.words[i, k].sum(), -parts["word"][0])
            assert_close(steps.slots[i, k].sum(), -parts["position"][0] if "position" in parts else torch.tensor(0.0))

    def test_padding_costs_nothing_and_weights_do_not_matter(self, system: str) -> None:
        model, orders = make_system(system), orders_for(system, TARGETS, count=2)
        batch = make_batch(SOURCES, TARGETS, orders)
        steps = model.log_probs(batch)
        for i, target in enumerate(TARGETS):
            assert (steps.words[i, :, : len(target) + 1] < 0).all()
            assert not steps.words[i, :, len(target) + 1 :].any() and not steps.slots[i, :, len(target) :].any()
            assert not torch.signbit(steps.slots[i, :, len(target) :]).any(), "0.0, not -0.0"
        assert (steps.slots <= 0).all(), "also the first slot, which is certain"
        weighted = replace(batch, plan=Plan(batch.plan.orders, torch.tensor([[0.0, 1.0]] * 4)))
        assert torch.equal(model.log_probs(weighted).words, steps.words)

    def test_a_row_alone_is_the_same_row_in_a_padded_batch(self, system: str) -> None:
        model, orders = make_system(system), orders_for(system, TARGETS, count=2)
        together = model.log_probs(make_batch(SOURCES, TARGETS, orders))
        for i, target in enumerate(TARGETS):
            for k, order in enumerate(orders[i]):
                alone = model.log_probs(make_batch([SOURCES[i]], [target], [[order]]))
                assert_close(together.words[i, k, : len(target) + 1], alone.words[0, 0])
                assert_close(together.slots[i, k, : len(target)], alone.slots[0, 0])

    @torch.inference_mode()
    def test_each_step_is_what_decoding_says(self, system: str) -> None:
        """All orders of a target with a repeated word at once, each played along its trace."""
        model, target, source = make_system(system, seed=2), [B, A, B], [C, D]
        orders = list(allowed_orders(system, 3))
        steps = model.log_probs(make_batch([source], [target], [orders]))
        for k, order in enumerate(orders):
            words, slots = [target[index] for index in order], order_to_slots(order)
            for step, (word, anchor) in enumerate(zip([*words, EOD], [*slots_to_anchors(slots), 0], strict=True)):
                state = play(model, source, words[:step], slots[:step])
                assert_close(steps.words[0, k, step], word_log_probs(model, state)[0, 0, word - FIRST_WORD])
                if step < 3:
                    slot = slot_log_probs(model, state, [word], length=step)[0, 0, 0, anchor]
                    assert_close(steps.slots[0, k, step], slot)


@every_serial_system
class TestSteps:
    def test_boundaries_and_padding_are_not_words(self, system: str) -> None:
        model = make_system(system)
        scores = model.words(model.start(collate_source([[A], [B, C]])))
        assert scores.logits.shape == (2, 1, NUM_SPECIALS + 5 - FIRST_WORD)
        assert_close(scores.logits.logsumexp(-1), scores.log_z)

    @torch.inference_mode()
    def test_words_slots_and_end_add_up_to_one(self, system: str) -> None:
        """CONTRACT number 1, at every step of hypotheses that differ, in a padded batch."""
        model, words = make_system(system, seed=1), range(FIRST_WORD, NUM_SPECIALS + 5)
        state = model.start(collate_source(SOURCES))
        for length in range(4):
            word = word_log_probs(model, state).exp()
            slots = slot_log_probs(model, state, words, length=length).exp()
            assert slots.shape[-1] == length + 1
            assert_close(slots.sum(-1), torch.ones(slots.shape[:-1]))
            ends = word[..., EOD - FIRST_WORD]
            inserted = (word[..., None] * slots).sum(-1)[..., [w - FIRST_WORD for w in words if w != EOD]].sum(-1)
            assert_close(inserted + ends, torch.ones(inserted.shape))
            parent = torch.arange(3)[None].expand(4, -1) % inserted.shape[1]
            anchor = (
                torch.tensor([length, 0, length // 2]) if MODELS[system].orders is None else torch.tensor([length] * 3)
            )
            state = model.advance(state, parent, torch.tensor([[A, UNK, B]] * 4), anchor[None].expand(4, -1))

    @torch.inference_mode()
    def test_a_gold_trace_costs_what_teacher_forcing_says(self, system: str) -> None:
        """Cached decoding = recomputation, for each order of a target with a repeated word."""
        model, target, source = make_system(system, seed=2), [B, A, B], [C, D]
        for order in allowed_orders(system, 3):
            words, slots = [target[index] for index in order], order_to_slots(order)
            word_nats = slot_nats = 0.0
            for step, (word, anchor) in enumerate(zip([*words, EOD], [*slots_to_anchors(slots), None], strict=True)):
                state = play(model, source, words[:step], slots[:step])
                word_nats -= word_log_probs(model, state)[0, 0, word - FIRST_WORD].item()
                if anchor is not None:
                    slot_nats -= slot_log_probs(model, state, [word], length=step)[0, 0, 0, anchor].item()
            parts = model(make_batch([source], [target], [[order]])).parts
            assert parts["word"][0].item() == pytest.approx(word_nats, rel=1e-5)
            assert "position" not in parts or parts["position"][0].item() == pytest.approx(slot_nats, rel=1e-5)
            assert "position" in parts or slot_nats == 0

    @pytest.mark.slow
    @torch.inference_mode()
    def test_hypotheses_may_change_places_multiply_and_go(self, system: str) -> None:
        """A state reached through any parents, and without some sentences, is that of each hypothesis played alone."""
        model, choose = make_system(system, seed=3), random.Random(5)
        sources = SOURCES
        state = model.start(collate_source(sources))
        histories: list[list[list[tuple[int, int]]]] = [[[]] for _ in sources]
        for length, beam in enumerate((3, 5, 2, 1, 4)):
            if length == 3:
                kept = [0, 2, 3]
                sources, histories = [sources[i] for i in kept], [histories[i] for i in kept]
                state = model.keep(state, torch.tensor(kept))
            grown = []
            for old in histories:
                parents = [choose.randrange(len(old)) for _ in range(beam)]
                slots = [choose.randint(0, length) if MODELS[system].orders is None else length for _ in range(beam)]
                words = [choose.choice([A, B, C, UNK]) for _ in range(beam)]
                grown.append([(p, [*old[p], (w, s)]) for p, w, s in zip(parents, words, slots, strict=True)])
            histories = [[history for _, history in row] for row in grown]
            state = model.advance(
                state,
                torch.tensor([[parent for parent, _ in row] for row in grown]),
                torch.tensor([[history[-1][0] for history in row] for row in histories]),
                torch.tensor([[slots_to_anchors([s for _, s in history])[-1] for history in row] for row in histories]),
            )
            got_words = word_log_probs(model, state)
            got_slots = slot_log_probs(model, state, [C, D], length=length + 1)
            for i, j in product(range(len(sources)), range(beam)):
                alone = play(model, sources[i], *zip(*histories[i][j], strict=True))
                assert_close(got_words[i, j], word_log_probs(model, alone)[0, 0], rtol=1e-4)
                wanted = slot_log_probs(model, alone, [C, D], length=length + 1)[0, 0]
                assert_close(got_slots[i, j], wanted, rtol=1e-4)

    @pytest.mark.parametrize("beam", [1, 3, 40], ids=["alone", "shared", "copies"])
    @torch.inference_mode()
    def test_bf16_is_near_fp32(self, system: str, beam: int) -> None:
        model, word = make_system(system, seed=1), torch.tensor([A, UNK, B] * 14)[:beam].expand(4, -1)

        def walk() -> tuple[Tensor, Tensor]:
            state = model.start(collate_source(SOURCES))
            for length in range(3):
                parent = torch.zeros_like(word) if length == 0 else torch.arange(beam).flip(0).expand(4, -1)
                anchor = torch.full_like(word, length)
                state = model.advance(state, parent, word, anchor)
            return word_log_probs(model, state), slot_log_probs(model, state, [C, EOD], length=3)

        exact = walk()
        with torch.autocast("cpu", torch.bfloat16):
            rough = walk()
        for one, other in zip(rough, exact, strict=True):
            assert one.dtype == torch.float32
            assert_close(one.exp(), other.exp(), atol=0.03)
