"""BLT against the vectors of PAPERS A3 and the rule written out recursively."""

import pytest

from indigo_cli.core.order import order_to_slots
from indigo_cli.orders import ORDERS, Example, OrderContext

VECTORS = ["2 1 3", "3 1 2 4", "3 1 2 4 5", "4 2 5 6 1 3", "4 2 6 1 3 5 7", "5 3 7 1 2 4 6 8", "6 3 9 1 2 4 5 7 8 10"]


def balanced(length: int) -> tuple[int, ...]:
    return ORDERS["blt"].order(Example(0, [5] * length), OrderContext())


@pytest.mark.parametrize("vector", [*VECTORS, "7 4 10 2 5 6 8 9 11 12 1 3"])
def test_vectors_of_the_fact_sheet(vector: str) -> None:
    order = tuple(int(position) - 1 for position in vector.split())
    assert balanced(len(order)) == order


def test_case_59() -> None:
    assert balanced(7) == (3, 1, 5, 0, 2, 4, 6)
    assert order_to_slots(balanced(7)) == (0, 0, 2, 0, 2, 4, 6)


def levels(start: int, stop: int, depth: int) -> list[tuple[int, int, int]]:
    """(depth, place of the span, index) of every token, by recursion instead of a queue."""
    if stop - start <= 2:
        return [(depth, start, index) for index in range(start, stop)]
    middle = start + (stop - start) // 2
    return [(depth, start, middle), *levels(start, middle, depth + 1), *levels(middle + 1, stop, depth + 1)]


@pytest.mark.parametrize("length", [*range(20), 63, 64, 250])
def test_same_as_the_recursive_rule(length: int) -> None:
    assert balanced(length) == tuple(index for _, _, index in sorted(levels(0, length, 0)))
