"""CF, frequency ranks and the balancing cutoff."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.order import order_to_slots
from indigo_cli.core.vocab import UNK
from indigo_cli.orders import ORDERS, Example, OrderContext
from indigo_cli.orders.common_first import balancing_cutoff, frequency_ranks

THE, CAT, DOG = 5, 6, 7
CONTEXT = OrderContext(rank_of=np.array([9, 9, 9, 9, 9, 1, 2, 3]), cutoff=1)


def test_case_57() -> None:
    order = ORDERS["cf"].order(Example(0, [THE, CAT, THE, DOG]), CONTEXT)
    assert order == (0, 2, 1, 3)
    assert order_to_slots(order) == (0, 1, 1, 3)


def test_blocks_are_not_sorted_by_rank() -> None:
    context = OrderContext(rank_of=CONTEXT.rank_of, cutoff=2)
    assert ORDERS["cf"].order(Example(0, [DOG, CAT, THE, CAT]), context) == (1, 2, 3, 0)


def test_ranks_fall_with_the_count_and_ties_go_by_id() -> None:
    counts = np.array([0, 0, 0, 0, 100, 3, 7, 3])
    ranks = frequency_ranks(counts, rarest=UNK)
    assert ranks[6] == 1
    assert ranks[5] == 2
    assert ranks[7] == 3
    assert ranks[UNK] == len(counts)
    assert counts[UNK] == 100, "the caller's counts stay as they are"


@given(st.lists(st.integers(0, 50), min_size=6, max_size=30))
def test_ranks_are_a_permutation(counts: list[int]) -> None:
    assert sorted(frequency_ranks(np.array(counts), rarest=UNK)) == list(range(1, len(counts) + 1))


@given(st.lists(st.integers(0, 50), min_size=6, max_size=30))
def test_no_other_cutoff_balances_better(counts: list[int]) -> None:
    table = np.array(counts)
    ranks = frequency_ranks(table, rarest=UNK)

    def imbalance(cutoff: int) -> int:
        common = int(table[ranks <= cutoff].sum())
        return abs(common - (int(table.sum()) - common))

    best = balancing_cutoff(table, ranks)
    gaps = {cutoff: imbalance(cutoff) for cutoff in range(1, len(counts) + 1)}
    assert gaps[best] == min(gaps.values())
    assert all(gap > gaps[best] for cutoff, gap in gaps.items() if cutoff < best)


def test_an_unknown_id_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(IndexError):
        ORDERS["cf"].order(Example(0, [99]), CONTEXT)
