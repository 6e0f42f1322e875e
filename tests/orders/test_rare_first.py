"""RF mirrors CF."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.order import order_to_slots
from indigo_cli.orders import ORDERS, Example, OrderContext

THE, CAT, DOG = 5, 6, 7
CONTEXT = OrderContext(rank_of=np.array([9, 9, 9, 9, 9, 1, 2, 3]), cutoff=1)


def test_case_57() -> None:
    order = ORDERS["rf"].order(Example(0, [THE, CAT, THE, DOG]), CONTEXT)
    assert order == (1, 3, 0, 2)
    assert order_to_slots(order) == (0, 1, 0, 2)


@given(st.lists(st.sampled_from([THE, CAT, DOG]), max_size=12), st.integers(1, 3))
def test_both_blocks_change_places(tokens: list[int], cutoff: int) -> None:
    context = OrderContext(rank_of=CONTEXT.rank_of, cutoff=cutoff)
    common = sum(context.rank_of[token] <= cutoff for token in tokens)
    common_first = ORDERS["cf"].order(Example(0, tokens), context)
    rare_first = ORDERS["rf"].order(Example(0, tokens), context)
    assert rare_first == common_first[common:] + common_first[:common]
