"""Packed orders of a split, and what is kept of earlier searches."""

import numpy as np
import pytest
import torch

from indigo_cli.engine.distributed import Processes
from indigo_cli.engine.order_choice import Candidates
from indigo_cli.engine.order_table import OrderCache

LENGTHS = np.array([2, 0, 3, 1, 4])
NONE = float("-inf")
ALONE = Processes()


def candidates(items: list[int], *, count: int = 2, seed: int = 0) -> Candidates:
    """Random orders, padded as batches are."""
    generator = torch.Generator().manual_seed(seed)
    width = int(LENGTHS[items].max())
    orders = torch.arange(width).repeat(len(items), count, 1)
    for row, item in enumerate(items):
        for k in range(count):
            orders[row, k, : LENGTHS[item]] = torch.randperm(int(LENGTHS[item]), generator=generator)
    return Candidates(orders, -torch.rand(len(items), count, generator=generator))


def cache(refresh: int = 2) -> OrderCache:
    return OrderCache(LENGTHS, num_orders=2, refresh=refresh)


def test_what_is_kept_comes_back_padded_for_any_batch() -> None:
    kept, found = cache(), candidates([4, 0, 1, 2])
    kept.add(np.array([4, 0, 1, 2]), 0, found)
    kept.settle(ALONE)
    for rows in ([0, 1, 2, 3], [3, 1], [1, 2], [2]):
        items = np.array([4, 0, 1, 2])[rows]
        back = kept.get(items)
        width = int(LENGTHS[items].max())
        assert torch.equal(back.orders, found.orders[rows][:, :, :width])
        assert torch.equal(back.score, found.score[rows])


def test_fewer_orders_than_there_is_room_for() -> None:
    kept, one = cache(), candidates([4], count=1)
    kept.add(np.array([4]), 0, candidates([4], seed=1))
    kept.settle(ALONE)
    kept.add(np.array([4]), 2, one)
    kept.settle(ALONE)
    back = kept.get(np.array([4]))
    assert torch.equal(back.orders[0, 0], one.orders[0, 0]) and torch.equal(back.orders[0, 1], one.orders[0, 0])
    assert back.score.tolist() == [[one.score.item(), NONE]]


def test_a_target_is_due_before_its_first_search_and_again_after_some_epochs() -> None:
    kept, items = cache(refresh=3), np.array([0, 2])
    assert kept.due(items, 5).all()
    kept.add(np.array([2]), 5, candidates([2]))
    assert kept.due(items, 5).all(), "what is found counts from the end of the update on"
    kept.settle(ALONE)
    assert [kept.due(items, epoch).tolist() for epoch in (5, 7, 8)] == [[True, False], [True, False], [True, True]]


def test_of_two_visits_in_one_update_the_later_counts() -> None:
    kept = cache()
    early, late = candidates([2], seed=1), candidates([2], seed=2)
    kept.add(np.array([2]), 4, late)
    kept.add(np.array([2]), 3, early)
    kept.settle(ALONE)
    assert torch.equal(kept.get(np.array([2])).score, late.score)
    assert not kept.due(np.array([2]), 5)[0]


def test_the_state_is_small_and_comes_back() -> None:
    kept = cache()
    assert kept.state() == {}
    kept.add(np.array([4, 2]), 3, candidates([4, 2]))
    kept.settle(ALONE)
    state = {name: tensor.clone() for name, tensor in kept.state().items()}
    assert {name: tensor.dtype for name, tensor in state.items()} == {
        "search.orders": torch.int16,
        "search.scores": torch.float32,
        "search.searched": torch.int32,
    }
    other = cache()
    other.restore({})
    assert other.due(np.arange(5), 4).all()
    other.restore(state)
    assert other.due(np.arange(5), 4).tolist() == [True, True, False, True, False]
    assert torch.equal(other.get(np.array([2, 4])).orders, kept.get(np.array([2, 4])).orders)


def test_long_targets_need_wider_numbers() -> None:
    long = OrderCache(np.array([40_000]), num_orders=1, refresh=2)
    order = torch.arange(40_000).flip(0)[None, None]
    long.add(np.array([0]), 0, Candidates(order, torch.zeros(1, 1)))
    long.settle(ALONE)
    assert torch.equal(long.get(np.array([0])).orders, order)


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_update_that_searched_nothing_changes_nothing(epoch: int) -> None:
    kept = cache()
    kept.settle(ALONE)
    assert kept.due(np.array([0]), epoch)[0] and kept.state() == {}
