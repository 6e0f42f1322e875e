"""Orders searched in the middle of training: what a sentence gets, and what the model learns from it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from indigo_cli.data.batch import Batch, Plan
from indigo_cli.engine.order_choice import Candidates
from indigo_cli.engine.order_planner import OrderPlanner, Searching
from indigo_cli.engine.search_config import SearchConfig
from tests.models.tiny import SOURCES, A, B, C, D, make_batch, make_system
from tests.tensors import assert_close

pytestmark = pytest.mark.slow

TARGETS = [[B, A, C, A], [C], [D, A, D, B, A], [A, B, C]]
DROPOUT = 0.3


def batch_of(sentences: Sequence[int], reference: Sequence[Sequence[int]] | None = None) -> Batch:
    orders = [range(len(TARGETS[i])) for i in sentences] if reference is None else reference
    return make_batch([SOURCES[i] for i in sentences], [TARGETS[i] for i in sentences], [[order] for order in orders])


def planner(
    sentences: Sequence[int], *, model_dropout: float = DROPOUT, epoch: int = 2, seed: int = 7, **settings: Any
) -> OrderPlanner:
    config = SearchConfig(**{"beam_size": 3, "dropout": DROPOUT, **settings})
    lines = 10 + np.array(sentences)
    return OrderPlanner(Searching(config, seed, model_dropout), epoch, lines, np.ones(len(lines), dtype=np.bool_))


def plan(system: Any, sentences: Sequence[int], **settings: Any) -> Plan:
    """Return the plan that training makes, seen from inside."""
    chosen: list[Plan] = []
    inner = planner(sentences, **settings)

    class Spy:
        def dropout(self, batch: Batch) -> Any:
            return inner.dropout(batch)

        def __call__(self, system: Any, memory: Tensor, batch: Batch) -> Plan:
            chosen.append(inner(system, memory, batch))
            return chosen[-1]

    system(batch_of(sentences), 0.1, Spy())
    return chosen[0]


def trained(**settings: Any) -> Any:
    return make_system("indigo", **{"scale": 3.0, "dropout": DROPOUT, **settings}).train()


SETTINGS: list[dict[str, Any]] = [
    {},
    {"dropout": 0.1},
    {"dropout": 0.0},
    {"gumbel": 1.0},
    {"train_on": "sample", "temperature": 5.0},
    {"train_on": "average", "reference": "none"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_what_is_found_does_not_depend_on_the_batch(settings: dict[str, Any]) -> None:
    """Also with dropout, noise and draws, and whatever state torch's own generator is in."""
    system = trained()
    whole = plan(system, range(4), **settings)
    for i in range(4):
        torch.manual_seed(i)
        alone = plan(system, [i], **settings)
        count, length = alone.weights.shape[1], len(TARGETS[i])
        assert torch.equal(whole.orders[i, :count, :length], alone.orders[0])
        assert_close(whole.weights[i, :count], alone.weights[0])
        assert whole.weights[i, count:].sum() == 0
    assert system.training


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"dropout": 0.1},
        {"train_on": "sample", "temperature": 50.0, "dropout": 0.0},
        {"gumbel": 3.0, "dropout": 0.0},
    ],
)
def test_the_next_visit_searches_anew(settings: dict[str, Any]) -> None:
    system = trained()
    seen = {plan(system, range(4), epoch=epoch, **settings).orders.numpy().tobytes() for epoch in range(6)}
    assert len(seen) > 1
    assert len({plan(system, range(4), seed=s, **settings).orders.numpy().tobytes() for s in range(6)}) > 1


def test_without_dropout_and_noise_every_visit_finds_the_same() -> None:
    system = trained()
    plans = [plan(system, range(4), epoch=epoch, seed=epoch, dropout=0.0) for epoch in range(3)]
    assert all(torch.equal(plans[0].orders, other.orders) for other in plans)


def test_the_reference_wins_where_it_is_better() -> None:
    """Greedy search is beaten by some order; as the reference, that one is trained on, a worse one is not."""
    system = trained(dropout=0.0)
    for i in (0, 2):
        orders = list(permutations(range(len(TARGETS[i]))))
        with torch.no_grad():
            steps = system.log_probs(make_batch([SOURCES[i]], [TARGETS[i]], [orders]))
        scores = steps.words[0, :, :-1].sum(dim=1) + steps.slots[0].sum(dim=1)
        best, worst = orders[int(scores.argmax())], orders[int(scores.argmin())]
        greedy = planner([i], model_dropout=0.0, dropout=0.0, beam_size=1, reference="none")
        found = {}
        for name, order in (("best", best), ("worst", worst)):
            batch = batch_of([i], [order])
            memory = system.encode(batch.source)
            free = greedy(system, memory, batch)
            competing = planner([i], model_dropout=0.0, dropout=0.0, beam_size=1, reference="l2r")
            found[name] = tuple(competing(system, memory, batch).orders[0, 0].tolist())
            assert found[name] == (best if name == "best" else tuple(free.orders[0, 0].tolist()))
        assert tuple(free.orders[0, 0].tolist()) != best, "else this shows nothing"


def test_sentences_that_are_not_due_keep_their_orders() -> None:
    system = trained()
    batch = batch_of(range(4))
    kept = Candidates(torch.arange(5).flip(0).repeat(4, 1, 1), torch.zeros(4, 1))
    kept.orders[1] = torch.arange(5)
    told: list[Candidates] = []
    inner = planner(range(4))
    mixed = replace(inner, due=np.array([True, False, False, True]), kept=kept, found=told.append)
    dropout = inner.dropout(batch)
    memory = system.known.encode(batch.source, dropout)
    whole, some = inner(system, memory, batch), mixed(system, memory, batch)
    assert torch.equal(some.orders[[0, 3]], whole.orders[[0, 3]])
    assert torch.equal(some.orders[[1, 2]], kept.orders[[1, 2]])
    assert [len(candidates) for candidates in told] == [2]
    nothing = replace(mixed, due=np.zeros(4, dtype=np.bool_))
    assert nothing.dropout(batch) is None and torch.equal(nothing(system, memory, batch).orders, kept.orders)
    assert len(told) == 1


def gradients(system: Any, objective: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(objective, list(system.parameters()), allow_unused=True, materialize_grads=True))


def test_the_average_is_the_mean_of_its_orders_one_by_one() -> None:
    system = trained(dropout=0.0, scale=1.0).double()
    settings: dict[str, Any] = {"train_on": "average", "dropout": 0.0, "model_dropout": 0.0}
    orders = plan(system, [0, 2, 3], **settings).orders
    assert len({tuple(order) for order in orders[0].tolist()}) == 3
    losses = system(batch_of([0, 2, 3]), 0.1, planner([0, 2, 3], **settings))
    assert losses.num_steps == 3 * 12 and 12 < losses.num_nodes <= 36
    mean = torch.stack(
        [
            system(replace(batch_of([0, 2, 3]), plan=Plan(orders[:, k, None], torch.ones(3, 1))), 0.1).objective
            for k in range(3)
        ]
    ).mean()
    assert_close(losses.objective, mean, rtol=1e-6)
    for found, wanted in zip(gradients(system, losses.objective), gradients(system, mean), strict=True):
        assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_in_bfloat16_the_decoder_learns_from_what_the_search_has_touched() -> None:
    """The search runs first and without gradient; casts of weights that it left behind would learn nothing."""
    system = trained(dropout=0.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = system(batch_of(range(4)), 0.1, planner(range(4), model_dropout=0.0, dropout=0.0))
    losses.objective.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in system.decoder.layers.parameters())
