"""A batch knows what its losses are divided by."""

import torch

from indigo_cli.data.collate import collate


def test_predictions_are_words_and_one_end_a_sentence() -> None:
    batch = collate(["a:0", "a:1", "a:2"], [[5], [6], []], [[7, 8], [], [9]], [[[0, 1]], [[]], [[0]]])
    assert batch.num_tokens == 3 == int(batch.lengths.sum())
    assert batch.num_predictions == 6


def test_a_copy_to_another_device_moves_every_tensor() -> None:
    batch = collate(["a:0"], [[5]], [[7, 8]], [[[1, 0]]])
    assert batch.to(torch.device("cpu")) is batch
    moved = batch.to(torch.device("meta"))
    tensors = (
        moved.source.values, moved.source.mask, moved.target, moved.lengths, moved.plan.orders, moved.plan.weights
    )  # fmt: skip
    assert all(tensor.device.type == "meta" for tensor in tensors)
    assert moved.target.shape == (1, 2) and moved.ids == ("a:0",) and moved.num_tokens == 2
