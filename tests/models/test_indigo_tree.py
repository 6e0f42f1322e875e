"""Several orders as one prefix tree against the same orders one by one: losses, gradients, log-probabilities, nodes."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from indigo_cli.core.order import order_to_slots, slots_to_anchors
from indigo_cli.core.vocab import EOD
from indigo_cli.data.batch import Batch, Plan
from indigo_cli.data.order_tree import FIRST, grow_tree
from tests.marks import quick
from tests.models.tiny import SOURCES, A, B, C, D, make_batch, make_system
from tests.tensors import assert_close

TARGETS = [[B, A, C], [C], [], [D, A, D, D, A]]
ORDERS: list[list[Sequence[int]]] = [
    [(0, 1, 2), (0, 2, 1), (2, 1, 0), (0, 1, 2)],
    [(0,)] * 4,
    [()] * 4,
    [(0, 1, 2, 3, 4), (2, 1, 0, 3, 4), (3, 2, 4, 0, 1), (0, 4, 2, 3, 1)],
]
WEIGHTS = torch.tensor([[0.25, 0.25, 0.5, 0.0], [0.1, 0.2, 0.3, 0.4], [0.25] * 4, [0.0, 0.5, 0.25, 0.25]])
SETTINGS: list[dict[str, Any]] = [
    {},
    {"attention_scale": "head", "relation_table": "shared"},
    {"eod_position": True},
    {"pointer_query": "plain", "pointer_scale": "none"},
]


def weighted(batch: Batch) -> Batch:
    return replace(batch, plan=Plan(batch.plan.orders, WEIGHTS))


def gradients(model: Any, objective: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(objective, list(model.parameters()), allow_unused=True, materialize_grads=True))


def one_by_one(model: Any, smoothing: float) -> Tensor:
    """Return the weighted sum of the objectives of every order alone."""
    total = torch.zeros((), dtype=torch.float64)
    for sentence, orders in enumerate(ORDERS):
        for order, weight in zip(orders, WEIGHTS[sentence].tolist(), strict=True):
            batch = make_batch([SOURCES[sentence]], [TARGETS[sentence]], [[order]])
            total = total + weight * model(batch, smoothing).objective
    return total


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("settings", quick(SETTINGS), ids=str)
def test_losses_and_gradients_are_those_of_the_orders_one_by_one(settings: dict[str, Any], smoothing: float) -> None:
    model = make_system("indigo", **settings).double()
    batch = weighted(make_batch(SOURCES, TARGETS, ORDERS))
    losses = model(batch, smoothing)
    wanted = one_by_one(model, smoothing)
    assert_close(losses.objective, wanted, rtol=1e-5, atol=0.0)
    for found, by_one in zip(gradients(model, losses.objective), gradients(model, wanted), strict=True):
        assert_close(found, by_one, rtol=1e-5, atol=1e-6)
    plain = model(batch).parts
    assert_close(plain["word"][0] + plain["position"][0], one_by_one(model, 0.0), rtol=1e-5, atol=0.0)
    assert losses.weight == batch.num_predictions


@pytest.mark.parametrize("scale", [1.0, 4.0])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_log_probs_are_those_of_the_orders_one_by_one(settings: dict[str, Any], scale: float) -> None:
    model = make_system("indigo", scale=scale, **settings)
    found = model.log_probs(make_batch(SOURCES, TARGETS, ORDERS))
    for k in range(4):
        alone = model.log_probs(make_batch(SOURCES, TARGETS, [[orders[k]] for orders in ORDERS]))
        assert_close(found.words[:, k], alone.words[:, 0], atol=1e-4, rtol=1e-5)
        assert_close(found.slots[:, k], alone.slots[:, 0], atol=1e-4, rtol=1e-5)


def test_the_average_is_what_single_draws_come_to() -> None:
    """The mean over all ways to draw one order a sentence, each with its chance."""
    model = make_system("indigo").double()
    targets: list[list[int]] = [[B, A], [A, C, A]]
    orders: list[list[Sequence[int]]] = [[(0, 1), (1, 0)], [(2, 0, 1), (1, 0, 2)]]
    both = model(make_batch(SOURCES[:2], targets, orders), 0.1).objective
    draws = [
        model(make_batch(SOURCES[:2], targets, [[orders[0][i]], [orders[1][j]]]), 0.1).objective
        for i in range(2)
        for j in range(2)
    ]
    mean = torch.stack(draws).mean()
    assert_close(both, mean, rtol=1e-6)
    for found, wanted in zip(gradients(model, both), gradients(model, mean), strict=True):
        assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def histories(target: Sequence[int], order: Sequence[int]) -> list[tuple[tuple[int, int], ...]]:
    """Return what has happened by each step: words and where they went."""
    steps = [(target[i], anchor) for i, anchor in zip(order, slots_to_anchors(order_to_slots(order)), strict=True)]
    return [tuple(steps[: step + 1]) for step in range(len(steps))]


@given(
    targets=st.lists(st.lists(st.sampled_from([A, B, C]), max_size=5), min_size=1, max_size=4),
    num_orders=st.integers(2, 5),
    draw=st.randoms(use_true_random=False),
)
def test_a_node_for_each_history_and_a_path_for_each_order(
    targets: list[list[int]], num_orders: int, draw: Any
) -> None:
    orders = [[draw.sample(range(len(t)), len(t)) for _ in range(num_orders)] for t in targets]
    tree = grow_tree(make_batch([[A]] * len(targets), targets, orders))
    pairs = list(zip(targets, orders, strict=True))
    wanted = [{history for order in own for history in histories(target, order)} for target, own in pairs]
    assert tree.num_nodes == sum(map(len, wanted))
    assert tree.words_SN.shape[1] == FIRST + max(map(len, wanted))
    for sentence, (target, own) in enumerate(pairs):
        row_of: dict[tuple[tuple[int, int], ...], int] = {}
        for k, order in enumerate(own):
            path = tree.path_SKT[sentence, k, : len(target)].tolist()
            for row, history in zip(path, histories(target, order), strict=True):
                assert row_of.setdefault(history, row) == row
                assert int(tree.words_SN[sentence, row]) == history[-1][0]
            for step, row in enumerate(path):
                seen = [0, 1, *path[: step + 1]]
                assert tree.seen_SNN[sentence, row].nonzero()[:, 0].tolist() == sorted(seen)
                is_left = [0, *(path[i] for i in range(step) if order[i] < order[step])]
                assert tree.left_SNN[sentence, row].nonzero()[:, 0].tolist() == sorted(is_left)
                assert int(tree.from_SM[sentence, row - FIRST]) == seen[-2]
        assert len(set(row_of.values())) == len(row_of)


def test_shared_beginnings_are_computed_once() -> None:
    """All orders of four words: 4 + 12 + 24 + 24 nodes, not 96."""
    everything = list(permutations(range(4)))
    tree = grow_tree(make_batch([[A]], [[A, B, C, D]], [everything]))
    assert tree.num_nodes == 64 and int((tree.to_SM == EOD).sum()) == 24
    assert float(tree.weight_SM.sum()) == pytest.approx(5.0)  # four words and `<eod>`
