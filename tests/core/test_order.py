"""Order algebra: orders, slots, anchors and relations are four spellings of one thing."""

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.order import (
    absolute_positions,
    anchors_to_slots,
    check_order,
    kendall_tau,
    order_to_slots,
    relative_positions,
    replay,
    rightward_runs,
    slots_to_anchors,
    slots_to_order,
    stages,
)

orders = st.integers(0, 40).flatmap(lambda length: st.permutations(range(length))).map(tuple)


@pytest.mark.parametrize("length", range(6))
def test_orders_and_slots_are_in_bijection(length: int) -> None:
    slots = {order_to_slots(order) for order in permutations(range(length))}
    assert slots == set(all_slots(length))
    assert all(slots_to_order(order_to_slots(order)) == order for order in permutations(range(length)))


def all_slots(length: int) -> list[tuple[int, ...]]:
    """Every slot sequence of a length, by definition: step t has the slots 0 .. t."""
    found: list[tuple[int, ...]] = [()]
    for step in range(length):
        found = [(*slots, slot) for slots in found for slot in range(step + 1)]
    return found


@given(orders)
def test_round_trip_of_any_order(order: tuple[int, ...]) -> None:
    slots = order_to_slots(order)
    assert slots_to_order(slots) == order
    assert anchors_to_slots(slots_to_anchors(slots)) == slots


@given(orders)
def test_slot_counts_the_earlier_tokens_to_the_left(order: tuple[int, ...]) -> None:
    assert order_to_slots(order) == tuple(
        sum(other < index for other in order[:step]) for step, index in enumerate(order)
    )


@given(orders)
def test_replaying_slots_gives_surface_order(order: tuple[int, ...]) -> None:
    assert replay(list(order), order_to_slots(order)) == list(range(len(order)))


def test_case_51_a_repeated_word() -> None:
    words = ["the", "cat", "the"]
    expected = {
        (0, 1, 2): (0, 1, 2),
        (0, 2, 1): (0, 1, 1),
        (1, 0, 2): (0, 0, 2),
        (1, 2, 0): (0, 1, 0),
        (2, 0, 1): (0, 0, 1),
        (2, 1, 0): (0, 0, 0),
    }
    for order, slots in expected.items():
        assert order_to_slots(order) == slots
        assert replay([words[index] for index in order], slots) == words


def test_vector_of_the_fact_sheet() -> None:
    """PAPERS A1: "A B C" generated as B, C, A."""
    order = (1, 2, 0)
    assert order_to_slots(order) == (0, 1, 0)
    assert absolute_positions(order) == [0, 4, 2, 3, 1]
    assert relative_positions(order, boundaries=True) == [
        [0, -1, -1, -1, -1],
        [1, 0, 1, 1, 1],
        [1, -1, 0, -1, 1],
        [1, -1, 1, 0, 1],
        [1, -1, -1, -1, 0],
    ]


def test_relations_start_as_in_algorithm_1() -> None:
    """R^1 = [[0, 1], [-1, 0]] with r_i as columns: ours has r_i as rows."""
    r = relative_positions((), boundaries=True)
    assert [list(column) for column in zip(*r, strict=True)] == [[0, 1], [-1, 0]]


@given(orders, st.booleans())
def test_relations_are_skew_symmetric(order: tuple[int, ...], boundaries: bool) -> None:
    r = relative_positions(order, boundaries=boundaries)
    assert all(r[i][j] == -r[j][i] for i in range(len(r)) for j in range(len(r)))


@given(orders)
def test_positive_row_sums_are_the_surface_indices(order: tuple[int, ...]) -> None:
    assert tuple(sum(max(0, entry) for entry in row) for row in relative_positions(order)) == order


@given(orders)
def test_positive_row_sums_with_boundaries_are_z(order: tuple[int, ...]) -> None:
    r = relative_positions(order, boundaries=True)
    assert [sum(max(0, entry) for entry in row) for row in r] == absolute_positions(order)


@given(orders, st.data())
def test_appending_a_token_leaves_old_relations_alone(order: tuple[int, ...], data: st.DataObject) -> None:
    steps = data.draw(st.integers(0, len(order)))
    whole = relative_positions(order, boundaries=True)
    size = steps + 2
    assert relative_positions(order[:steps], boundaries=True) == [row[:size] for row in whole[:size]]
    assert order_to_slots(order[:steps]) == order_to_slots(order)[:steps]


def test_anchor_is_the_left_neighbour_by_generation() -> None:
    assert slots_to_anchors((0, 1, 2)) == (0, 1, 2)  # left to right: always the latest
    assert slots_to_anchors((0, 0, 0)) == (0, 0, 0)  # right to left: always <s>
    assert slots_to_anchors((0, 1, 1)) == (0, 1, 1)  # the second "right of the first" pushes in between


@given(orders.filter(lambda order: len(order) > 1))
def test_kendall_tau_counts_pairs(order: tuple[int, ...]) -> None:
    pairs = list(combinations(order, 2))
    expected = sum(1 if a < b else -1 for a, b in pairs) / len(pairs)
    assert kendall_tau(order) == pytest.approx(expected)
    assert kendall_tau(order[::-1]) == pytest.approx(-expected)


@given(orders)
def test_stages_are_depths_of_the_tree_whose_spans_take_their_first_token(order: tuple[int, ...]) -> None:
    def fill(low: int, high: int, made: int) -> dict[int, int]:
        if low == high:
            return {}
        token = min(range(low, high), key=order.index)
        return {token: made, **fill(low, token, made + 1), **fill(token + 1, high, made + 1)}

    found = fill(0, len(order), 0)
    assert stages(order) == tuple(found[index] for index in range(len(order)))


@pytest.mark.parametrize("length", range(6))
def test_there_are_as_many_histories_as_trees(length: int) -> None:
    assert len({stages(order) for order in permutations(range(length))}) == (1, 1, 2, 5, 14, 42)[length]


def test_runs() -> None:
    assert rightward_runs(()) == 0
    assert rightward_runs((0, 1, 2)) == 1
    assert rightward_runs((2, 1, 0)) == 3
    assert rightward_runs((2, 3, 0, 1)) == 2


@pytest.mark.parametrize(
    ("order", "length", "message"),
    [
        ((0, 1), 3, "2 steps but the target has 3"),
        ((0, 2), 2, "outside 0..1"),
        ((-1, 0), 2, "outside 0..1"),
        ((1, 1), 2, "places token 1 twice"),
        ((0, True), 2, "not a whole number"),
        ((0, 1.0), 2, "not a whole number"),
        ((0, "1"), 2, "not a whole number"),
    ],
)
def test_wrong_orders_are_named(order: tuple[int, ...], length: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_order(order, length)


@given(orders)
def test_right_orders_pass(order: tuple[int, ...]) -> None:
    check_order(order, len(order))


@pytest.mark.parametrize("slots", [(1,), (0, 2), (0, -1)])
def test_slots_that_do_not_exist(slots: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="slot"):
        slots_to_order(slots)
