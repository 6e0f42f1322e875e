"""The record store against plain lists."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from indigo_cli.nn.cache import RowCache

WIDTH = 3
steps = st.one_of(
    st.tuples(st.just("grow"), st.integers(1, 4)),
    st.tuples(st.just("reorder"), st.lists(st.integers(0, 99), min_size=1, max_size=5)),
)


@given(st.integers(1, 4), st.integers(1, 3), st.lists(steps, max_size=12))
def test_any_use_is_that_of_lists(places: int, capacity: int, uses: list[tuple[str, int | list[int]]]) -> None:
    cache = RowCache(WIDTH, places, like=torch.zeros(1), capacity=capacity)
    model: list[list[list[float]]] = [[] for _ in range(places)]  # place -> rows -> record
    stamp = 0.0
    for _, argument in uses:
        if isinstance(argument, int):
            record = cache.grow(argument)
            assert record.shape == (argument, len(model), WIDTH)
            for row in range(argument):
                for place in range(len(model)):
                    stamp += 1.0
                    record[row, place] = stamp
                    model[place].append([stamp] * WIDTH)
        else:
            parents = [choice % len(model) for choice in argument]
            cache.reorder(torch.tensor(parents))
            model = [list(model[parent]) for parent in parents]
        assert rows_of(cache.rows(), len(model)) == model
        assert cache.length == len(model[0])


def rows_of(rows: Tensor, places: int) -> list[list[list[float]]]:
    assert rows.shape[1] == places
    found: list[list[list[float]]] = rows.transpose(0, 1).tolist()
    return found


def test_it_takes_after_a_tensor() -> None:
    cache = RowCache(WIDTH, 2, like=torch.zeros(1, dtype=torch.float64))
    assert cache.grow(1).dtype == torch.float64
