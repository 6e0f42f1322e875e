"""Given words in the loss of InDIGO: they stand, and cost nothing."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from indigo_cli.core.vocab import EOD
from indigo_cli.data.batch import Batch
from indigo_cli.data.collate import collate
from tests import reference
from tests.models.tiny import SOURCES, A, B, C, D, E, make_config, make_system
from tests.tensors import assert_close

TARGETS = [[B, A, B, D], [E], [], [C, D, E, A, B]]
ORDERS: list[list[list[int]]] = [[[3, 0, 2, 1]], [[0]], [[]], [[1, 4, 0, 3, 2]]]
GIVEN = [2, 1, 0, 0]
SETTINGS: list[dict[str, Any]] = [{}, {"eod_position": True}, {"predict": "position_first"}]


def batch_of(given: list[int], orders: list[list[list[int]]] = ORDERS) -> Batch:
    return collate([f"train:{i}" for i in range(4)], SOURCES, TARGETS, orders, given=given)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_loss_is_that_of_the_rest_alone(settings: dict[str, Any]) -> None:
    """Term by term what teacher forcing of the whole order says of the steps behind the given words."""
    system = make_system("indigo", **settings)
    losses = system(batch_of(GIVEN))
    steps = system.log_probs(batch_of([]))
    words = -sum(steps.words[i, 0, given:].double().sum() for i, given in enumerate(GIVEN))
    slots = -sum(steps.slots[i, 0, given:].double().sum() for i, given in enumerate(GIVEN))
    tokens = sum(map(len, TARGETS)) - sum(GIVEN)
    total = sum(nats for nats, _ in losses.parts.values())
    assert_close(total.double(), losses.objective.double(), rtol=1e-6, atol=0)
    assert losses.weight == losses.parts["word"][1] == tokens + len(TARGETS)
    if not settings:
        assert losses.parts["position"][1] == tokens
        assert_close(losses.parts["word"][0].double(), words, rtol=1e-5, atol=0)
        assert_close(losses.parts["position"][0].double(), slots, rtol=1e-5, atol=0)
    elif "predict" in settings:
        assert_close(total.double(), words + slots, rtol=1e-5, atol=0)
    else:  # what is trained for the slot of `<eod>` is no part of a trace
        plain = system(batch_of([])).parts["position"][0] + steps.slots.sum()
        assert_close(losses.parts["position"][0].double(), slots + plain.double(), rtol=1e-4, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_loss_and_gradients_are_those_of_the_slow_implementation(smoothing: float) -> None:
    """It walks through the steps of each target; those of given words are left out."""
    system, config = make_system("indigo").double(), make_config("indigo")
    wanted = []
    for source, target, orders, given in zip(SOURCES, TARGETS, ORDERS, GIVEN, strict=True):
        (order,) = orders
        steps = reference.indigo_steps(system, config, source, target, order, ordered_source=True)
        slots = reference.gold_slots(order)
        for step, word in enumerate([*(target[index] for index in order), EOD]):
            words = steps[step].words
            if step >= given:
                uniform = words[words > -torch.inf].mean()
                wanted.append(-(1 - smoothing) * words[word] - smoothing * uniform)
                wanted += [-steps[step].slots[slots[step]]] if word != EOD else []
    objective = system(batch_of(GIVEN), smoothing).objective
    slow = torch.stack(wanted).sum()
    assert_close(objective, slow, rtol=1e-6, atol=0)
    parameters = dict(system.named_parameters())
    pairs = zip(*(torch.autograd.grad(x, list(parameters.values())) for x in (objective, slow)), strict=True)
    for name, (one, other) in zip(parameters, pairs, strict=True):
        assert_close(one, other, rtol=1e-5, atol=1e-6, what=name)


def test_several_orders_with_given_words_are_their_mean() -> None:
    """Taught one by one: a tree would have to know what is given."""
    system = make_system("indigo")
    orders: list[list[list[int]]] = [
        [[3, 0, 2, 1], [3, 0, 1, 2]],
        [[0], [0]],
        [[], []],
        [[1, 4, 0, 3, 2], [0, 1, 2, 3, 4]],
    ]
    both = system(batch_of(GIVEN, orders))
    alone = [system(batch_of(GIVEN, [[own[k]] for own in orders])) for k in range(2)]
    assert both.num_nodes == 0
    assert_close(both.objective, (alone[0].objective + alone[1].objective) / 2, rtol=1e-5, atol=0)


def test_where_nothing_is_given_nothing_changes() -> None:
    system = make_system("indigo")
    plain, none = system(batch_of([]), 0.1), system(batch_of([0, 0, 0, 0]), 0.1)
    assert torch.equal(plain.objective, none.objective) and plain.weight == none.weight


def test_a_batch_moves_with_what_is_given() -> None:
    batch = batch_of(GIVEN)
    moved = replace(batch, plan=batch.plan.to(torch.device("cpu")))
    assert moved.plan.given is not None and moved.plan.given.tolist() == GIVEN
    assert (moved.num_given, moved.num_words, moved.num_predictions) == (3, 7, 11)
