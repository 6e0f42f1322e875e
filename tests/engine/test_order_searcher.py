"""What an orders file says of what was found for a target."""

from collections.abc import Sequence

import pytest

from indigo_cli.core.order import Order
from indigo_cli.data.orders_file import OrdersRow, Parts
from indigo_cli.engine.order_searcher import Found

L2R, BACK, OUT = (0, 1, 2), (2, 1, 0), (1, 0, 2)


def found(orders: Sequence[Order], log_probs: Sequence[float], l2r: float) -> Found:
    zeros = (0.0,) * len(orders)
    row = OrdersRow(7, tuple(orders), tuple(log_probs), parts=Parts(zeros, zeros, zeros), bound=-0.5)
    return Found(row, l2r=l2r, num_nodes=5)


@pytest.mark.parametrize(
    ("log_probs", "l2r", "orders", "prices"),
    [
        ([-2.0, -4.0], -5.0, (BACK, OUT), (-2.0, -4.0)),
        ([-2.0, -4.0], -3.0, (BACK, L2R), (-2.0, -3.0)),
        ([-2.0, -4.0], -1.0, (L2R, BACK), (-1.0, -2.0)),
        ([-2.0, -4.0], -4.0, (BACK, OUT), (-2.0, -4.0)),  # of equals what was found stays
        ([-2.0, -4.0], -2.0, (BACK, L2R), (-2.0, -2.0)),
    ],
)
def test_left_to_right_takes_the_place_of_a_worse_order(
    log_probs: list[float], l2r: float, orders: tuple[Order, ...], prices: tuple[float, ...]
) -> None:
    result = found([BACK, OUT], log_probs, l2r)
    assert result.ranked(with_l2r=True) == OrdersRow(7, orders, prices)
    assert result.ranked(with_l2r=False) == OrdersRow(7, (BACK, OUT), tuple(log_probs))


def test_left_to_right_that_was_found_does_not_stand_twice() -> None:
    for orders in ([L2R, BACK], [BACK, L2R]):
        result = found(orders, [-1.0, -2.0], l2r=-1.0)
        assert (
            result.ranked(with_l2r=True) == result.ranked(with_l2r=False) == OrdersRow(7, tuple(orders), (-1.0, -2.0))
        )
    assert found([()], [-0.3], l2r=-0.3).ranked(with_l2r=True) == OrdersRow(7, ((),), (-0.3,))
