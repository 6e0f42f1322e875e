"""L2R."""

from indigo_cli.orders import ORDERS, Example, OrderContext


def test_left_to_right() -> None:
    assert ORDERS["l2r"].order(Example(0, [9, 5, 7, 5]), OrderContext()) == (0, 1, 2, 3)
