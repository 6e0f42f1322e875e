"""ODD."""

import pytest

from indigo_cli.core.order import order_to_slots
from indigo_cli.orders import ORDERS, Example, OrderContext


@pytest.mark.parametrize(("length", "order"), [(1, (0,)), (2, (0, 1)), (3, (0, 2, 1)), (5, (0, 2, 4, 1, 3))])
def test_case_55(length: int, order: tuple[int, ...]) -> None:
    assert ORDERS["odd"].order(Example(0, [5] * length), OrderContext()) == order


def test_case_55_slots() -> None:
    assert order_to_slots((0, 2, 4, 1, 3)) == (0, 1, 2, 1, 3)
