"""R2L."""

from indigo_cli.orders import ORDERS, Example, OrderContext


def test_right_to_left() -> None:
    assert ORDERS["r2l"].order(Example(0, [9, 5, 7, 5]), OrderContext()) == (3, 2, 1, 0)
