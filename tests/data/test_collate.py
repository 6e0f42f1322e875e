"""Padding."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.vocab import EOS, PAD
from indigo_cli.data.collate import Ids, collate, collate_source, pad_rows

sentences = st.lists(st.lists(st.integers(3, 99), max_size=6), min_size=1, max_size=5)


@given(sentences, st.data())
def test_a_batch_can_be_read_back(targets: list[list[int]], data: st.DataObject) -> None:
    num_orders = data.draw(st.integers(1, 3))
    orders = [[data.draw(st.permutations(range(len(t)))) for _ in range(num_orders)] for t in targets]
    sources = [target[::-1] for target in targets]
    batch = collate([f"train:{i}" for i in range(len(targets))], sources, targets, orders)
    width = max(map(len, targets))
    assert batch.target.shape == (len(targets), width)
    assert batch.plan.orders.shape == (len(targets), num_orders, width)
    assert batch.plan.weights.sum(1).tolist() == pytest.approx([1.0] * len(targets))
    for i, target in enumerate(targets):
        length = int(batch.lengths[i])
        assert batch.target[i, :length].tolist() == target
        assert (batch.target[i, length:] == PAD).all()
        assert batch.source.values[i][batch.source.mask[i]].tolist() == [*sources[i], EOS]
        assert batch.plan.orders[i, :, :length].tolist() == orders[i]
        for row in batch.plan.orders[i]:
            assert sorted(row.tolist()) == list(range(width))
            assert row[length:].tolist() == list(range(length, width))


def test_an_empty_source_is_one_token() -> None:
    source = collate_source([[], [5, 6]])
    assert source.values.tolist() == [[EOS, PAD, PAD], [5, 6, EOS]]
    assert source.mask.tolist() == [[True, False, False], [True, True, True]]


def test_only_empty_targets() -> None:
    batch = collate(["a:0", "a:1"], [[5], []], [[], []], [[[]], [[]]])
    assert batch.target.shape == (2, 0) and batch.plan.orders.shape == (2, 1, 0)
    assert batch.num_tokens == 0 and batch.target.dtype == torch.int64


def test_rows_of_numpy_and_lists() -> None:
    rows: list[Ids] = [np.array([1, 2], dtype=np.int64), [3]]
    assert pad_rows(rows, value=9).tolist() == [[1, 2], [3, 9]]
    assert pad_rows(rows, value=9, close=7).tolist() == [[1, 2, 7], [3, 7, 9]]
    assert pad_rows([], value=9).shape == (0, 0)
