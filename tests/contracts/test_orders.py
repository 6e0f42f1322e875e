"""What every predefined order promises, for every entry of ORDERS."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.order import check_order, order_to_slots, replay
from indigo_cli.orders import ORDERS, Example, OrderContext, Parse, Targets
from indigo_cli.orders.rule import PRIORITY_BITS

VOCABULARY = 12
targets_strategy = st.lists(st.lists(st.integers(3, VOCABULARY - 1), max_size=12), max_size=6)


def context_for(targets: list[list[int]], *, first_id: int = 0) -> OrderContext:
    """Something for every rule: ranks, a chain as parse, a seed."""
    parses = {first_id + i: Parse(tuple(max(w - 1, 0) for w in range(len(t)))) for i, t in enumerate(targets)}
    return OrderContext(rank_of=np.arange(1, VOCABULARY + 1), cutoff=7, parses=parses, seed=3, epoch=2)


def block(targets: list[list[int]], *, first_id: int = 0) -> Targets:
    lengths = np.array([len(target) for target in targets], dtype=np.int64)
    return Targets(
        np.arange(first_id, first_id + len(targets), dtype=np.int64),
        np.array([token for target in targets for token in target], dtype=np.int64),
        np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)]),
    )


@pytest.mark.parametrize("name", ORDERS)
@given(targets=targets_strategy)
def test_each_order_is_a_permutation_and_rebuilds_the_target(name: str, targets: list[list[int]]) -> None:
    for i, target in enumerate(targets):
        order = ORDERS[name].order(Example(i, target), context_for(targets))
        check_order(order, len(target))
        assert replay([target[index] for index in order], order_to_slots(order)) == target


@pytest.mark.parametrize("name", ORDERS)
@given(targets=targets_strategy)
def test_a_block_gives_the_orders_of_its_targets_alone(name: str, targets: list[list[int]]) -> None:
    together, context = block(targets), context_for(targets)
    flat = ORDERS[name].orders(together, context)
    assert flat.dtype == np.int32
    for i, target in enumerate(targets):
        order = tuple(flat[together.offsets[i] : together.offsets[i + 1]].tolist())
        assert order == ORDERS[name].order(Example(i, target), context)


@pytest.mark.parametrize("name", ORDERS)
@given(targets=targets_strategy)
def test_priorities_fit_into_the_sort_key(name: str, targets: list[list[int]]) -> None:
    priorities = ORDERS[name].priority(block(targets), context_for(targets))
    assert priorities.dtype == np.int64
    assert ((priorities >= 0) & (priorities < 2**PRIORITY_BITS)).all()


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("length", [0, 1])
def test_no_choice_in_short_targets(name: str, length: int) -> None:
    """Case 53: one token has one order and one slot; no token has none."""
    targets = [[5] * length]
    order = ORDERS[name].order(Example(0, targets[0]), context_for(targets))
    assert order == tuple(range(length))
    assert order_to_slots(order) == (0,) * length


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("l2r", (0, 1)),
        ("r2l", (1, 0)),
        ("odd", (0, 1)),
        ("blt", (0, 1)),
        ("syn", (0, 1)),
        ("cf", (1, 0)),
        ("rf", (0, 1)),
    ],
)
def test_two_tokens(name: str, order: tuple[int, ...]) -> None:
    targets = [[VOCABULARY - 1, 5]]  # a rare word, then a common one
    assert ORDERS[name].order(Example(0, targets[0]), context_for(targets)) == order


@pytest.mark.parametrize("name", ORDERS)
def test_only_a_redrawn_order_changes_with_the_epoch(name: str) -> None:
    targets = [[5, 6, 7, 8, 9, 10, 11]] * 5
    known = context_for(targets)
    drawn = {
        tuple(ORDERS[name].orders(block(targets), OrderContext(known.rank_of, 7, known.parses, 3, epoch)).tolist())
        for epoch in range(4)
    }
    assert len(drawn) == (4 if ORDERS[name].redrawn else 1)


@pytest.mark.parametrize("name", ORDERS)
def test_the_pictures_of_the_docs(name: str, repository: Path) -> None:
    """docs/orders.md shows the step of each word of "the big dog saw a cat", `the` and `a` being common."""
    rows = (repository / "docs" / "orders.md").read_text(encoding="utf-8").splitlines()
    (row,) = (row.split("|") for row in rows if row.startswith(f"| `{name}` | ") and row.count("|") == 9)
    steps = [int(cell) for cell in row[2:8]]
    context = OrderContext(np.array([1, 3, 4, 5, 2, 6]), cutoff=2, parses={0: Parse((2, 2, 3, 3, 5, 3))})
    order = ORDERS[name].order(Example(0, range(6)), context)
    if name == "rnd":
        assert sorted(steps) == [1, 2, 3, 4, 5, 6]
    else:
        assert tuple(steps.index(step) for step in range(1, 7)) == order
