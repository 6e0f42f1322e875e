"""Figures of searched orders against orders that were enumerated and counted one by one."""

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch

from indigo_cli.core.order import Order, kendall_tau, order_to_slots
from indigo_cli.core.vocab import Vocabulary
from indigo_cli.data.batch import Batch
from indigo_cli.data.order_tree import count_nodes, grow_tree
from indigo_cli.decoding.order_search import FoundOrders, SearchOptions, search_orders
from indigo_cli.engine import order_health
from indigo_cli.engine.found_targets import found_targets
from indigo_cli.engine.order_health import QUANTILES, FoundTarget, OrderHealth
from tests.models.tiny import A, B, C, D, E, make_batch, make_system, nll

NAMES = Vocabulary(tuple("abcde"), (9, 8, 7, 6, 5))
SOURCES = [[A, B], [C], [], [D, E, A], [B]]
TARGETS = [[B, A, B, C], [D, E], [C], [E, E, A], [A, D, B, B, C, E]]


@pytest.fixture(scope="module")
def model() -> Any:
    """As sure of itself as a trained one."""
    return make_system("indigo", scale=2.0)


def search(model: Any, sources: list[list[int]], targets: list[list[int]], beam: int) -> tuple[Batch, FoundOrders]:
    batch = make_batch(sources, targets, [[range(len(target))] for target in targets])
    found = search_orders(
        model.known,
        model.known.encode(batch.source, None),
        batch.source.mask,
        batch.target,
        batch.lengths,
        SearchOptions(beam),
        reference=batch.plan.orders[:, 0],
        with_end=True,
    )
    return batch, found


def found(order: Sequence[int] = (1, 0), text: str = "a b", **changes: Any) -> FoundTarget:
    """A target in two orders; the best one costs 2 nats, a quarter of it slots, left to right 4."""
    usual = {"word": -1.5, "slot": -0.5, "end": 0.0, "log_sum": -1.5, "l2r": -4.0, "num_orders": 2, "num_nodes": 4}
    return FoundTarget(text.split(), tuple(order), **{**usual, **changes})


def row_of(*targets: FoundTarget, **options: Any) -> dict[str, Any]:
    health = OrderHealth(**options)
    for target in targets:
        health.add(target)
    return health.row()


def histories(target: Sequence[int], orders: Sequence[Order]) -> int:
    """Different beginnings of the orders, as the canvas tells them apart."""
    steps = [[(target[i], slot) for i, slot in zip(order, order_to_slots(order), strict=True)] for order in orders]
    return len({tuple(made[:n]) for made in steps for n in range(1, len(made) + 1)})


def near(value: Any) -> Any:
    return pytest.approx(value, abs=2e-4)


def test_a_wide_beam_against_all_orders(model: Any) -> None:
    """Of 24 orders where there are no more; the last target has 720."""
    beam = 24
    batch, result = search(model, SOURCES, TARGETS, beam)
    row = row_of(*found_targets(batch, result, NAMES))
    costs: dict[str, list[float]] = {"best": [], "log_sum": [], "l2r": []}
    nodes = steps = likely = 0
    best_orders, words = [], 0.0
    for place, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        orders = list(permutations(range(len(target))))
        if len(orders) > beam:
            orders = [tuple(order) for order in result.orders[place, :beam].tolist()]
        prices = {order: nll(model, source, target, order) for order in orders}
        costs["best"].append(min(prices.values()))
        costs["log_sum"].append(-math.log(sum(math.exp(-price) for price in prices.values())))
        costs["l2r"].append(nll(model, source, target, range(len(target))))
        best_orders.append(min(orders, key=lambda order: prices[order]))
        nodes += histories(target, orders)
        steps += len(orders) * len(target)
        likely += costs["log_sum"][-1] < math.log(2)
        with torch.no_grad():
            words += float(model(make_batch([source], [target], [[best_orders[-1]]])).parts["word"][0])
    for name, values in costs.items():
        assert row[name] == near(np.mean(values))
        assert row["quantiles"][name] == near(np.quantile(values, QUANTILES).tolist())
    assert row["gain"] == near(100 * (1 - np.mean(costs["best"]) / np.mean(costs["l2r"])))
    assert row["entropy"] == near(np.mean(costs["best"]) - np.mean(costs["log_sum"])) and row["entropy"] > 0.1
    assert row["word"] + row["end"] == near(words / 5)
    assert row["word"] + row["slot"] + row["end"] == near(row["best"])
    assert row["u"] == near(nodes / steps) and row["u"] < 0.99
    assert row["orders"] == (24 + 2 + 1 + 6 + 24) / 5
    longer = [order for order in best_orders if len(order) > 1]
    assert row["is_l2r"] == sum(list(order) == sorted(order) for order in longer) / 4
    assert row["tau"] == near(np.mean([kendall_tau(order) for order in longer]))
    assert row["likely"]["log_sum"] == likely / 5
    firsts = [NAMES.token(target[order[0]]) for order, target in zip(best_orders, TARGETS, strict=True)]
    assert {first["word"]: first["share"] for first in row["first_words"]} == {w: firsts.count(w) / 5 for w in firsts}
    assert [(bucket["low"], bucket["high"], bucket["targets"]) for bucket in row["lengths"]] == [(0, 5, 4), (6, 10, 1)]
    assert row["lengths"][0]["best"] == near(np.mean(costs["best"][:4]))
    assert row["lengths"][1]["l2r"] == near(costs["l2r"][4])


@pytest.mark.parametrize("beam", [1, 3])
def test_left_to_right_is_no_candidate_and_no_order_found(model: Any, beam: int) -> None:
    batch, result = search(model, SOURCES, TARGETS, beam)
    for place, target in enumerate(found_targets(batch, result, NAMES)):
        free = result.alive[place, :-1]
        orders = [tuple(order[: len(TARGETS[place])]) for order in result.orders[place, :-1][free].tolist()]
        assert target.num_orders == len(orders) == min(beam, math.factorial(len(TARGETS[place])))
        assert target.order == orders[0] and target.num_nodes == histories(TARGETS[place], orders)
        scores = [-nll(model, SOURCES[place], TARGETS[place], order) for order in orders]
        assert target.word + target.slot + target.end == near(scores[0])
        assert target.log_sum == near(math.log(sum(map(math.exp, scores))))


def test_empty_targets(model: Any) -> None:
    """Alone in their batch, where the search makes no step, and beside others."""
    beside: list[list[list[int]]] = [[[], []], [[], [A, B]]]
    for targets in beside:
        batch, result = search(model, [[A], [B]], targets, 4)
        first = found_targets(batch, result, NAMES)[0]
        assert first.order == () and (first.num_orders, first.num_nodes) == (1, 0)
        assert first.end == first.log_sum == first.l2r == near(-nll(model, [A], [], []))
    row = row_of(first)
    assert row["first_words"] == row["first_words_l2r"] == [] and row["u"] == 0
    assert row_of()["targets"] == 0 and row_of()["lengths"] == []


def test_nodes_by_sentence_are_those_of_the_trees() -> None:
    orders: list[list[Order]] = [[(0, 1, 2, 3), (2, 1, 0, 3), (0, 2, 1, 3)], [(0, 1), (1, 0), (1, 0)], [(), (), ()]]
    batch = make_batch([[A], [B], [C]], [[A, A, B, A], [C, D], []], orders)
    counts = count_nodes(batch.target, batch.plan.orders, batch.lengths)
    assert counts.tolist() == [histories([A, A, B, A], orders[0]), 4, 0]
    assert int(counts.sum()) == grow_tree(batch).num_nodes


def test_figures_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = (
        found(),
        found((0, 1), "a c", word=-0.2, slot=-0.2, log_sum=-0.3, l2r=-0.4),
        found((2, 1, 0), "d e b", end=-1.0, log_sum=-0.5, l2r=-0.6, num_nodes=3),
        found((0,), "b", num_orders=1, num_nodes=1),
    )
    row = row_of(*targets, frequent={"b"})
    assert (row["targets"], row["tokens"], row["orders"], row["u"]) == (4, 8, 7 / 4, near(12 / 15))
    assert (row["best"], row["l2r"], row["log_sum"]) == (near(7.4 / 4), near(9 / 4), near(3.8 / 4))
    assert (row["word"], row["slot"], row["end"]) == (near(4.7 / 4), near(1.7 / 4), 0.25)
    assert row["likely"] == {"best": 0.25, "log_sum": 0.5, "l2r": 0.5}
    assert (row["is_l2r"], row["is_r2l"], row["tau"]) == (near(1 / 3), near(2 / 3), near(-1 / 3))
    assert row["run"] == near(8 / (2 + 1 + 3 + 1)) and row["different"] == 1.0
    assert row["first_words"][0] == {"word": "b", "share": 0.75, "l2r": 0.25, "frequent": True}
    assert row["first_words"][1] == {"word": "a", "share": 0.25, "l2r": 0.5, "frequent": False}
    assert row["first_words_l2r"][0] == {"word": "a", "share": 0.5}
    monkeypatch.setattr(order_health, "COUNTED", 3)
    counted = row_of(*targets, found(), found(word=-90.0))
    assert counted["quantiles"]["best"] == near(np.quantile([2.0, 0.4, 3.0], QUANTILES).tolist())
    assert counted["different"] == 1.0 and counted["targets"] == 6


@pytest.mark.parametrize(
    ("length", "bucket"),
    [(0, (0, 5)), (5, (0, 5)), (6, (6, 10)), (11, (11, 20)), (30, (21, 30)), (31, (31, None)), (900, (31, None))],
)
def test_buckets(length: int, bucket: tuple[int, int | None]) -> None:
    (only,) = row_of(found(range(length), "a " * length))["lengths"]
    assert (only["low"], only["high"]) == bucket and (only["targets"], only["gain"]) == (1, 50.0)
