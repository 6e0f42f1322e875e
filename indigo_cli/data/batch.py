"""What a model is given: a batch of sources, targets and generation orders, as tensors.

Shape letters: S sentences, X source length, T target length, K orders of a target.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

NO_WISH = -1


@dataclass(frozen=True)
class Source:
    """Sources of a batch, each closed by `</s>`, so that an empty line is one token and no row is fully masked.

    Args:
        values: (S, X) int64 ids, padded on the right.
        mask: (S, X) bool, True = real.
        wish: (S,) int64: the length that each target is to have, in the recipe's `length_unit`; heeded by systems that
            count lengths. `NO_WISH` = its own, which only training and scoring know; None = so it is for all.
    """

    values: Tensor
    mask: Tensor
    wish: Tensor | None = None

    def to(self, device: torch.device) -> "Source":
        """Copy to a device, without waiting for the copy."""
        wish = None if self.wish is None else self.wish.to(device, non_blocking=True)
        return Source(self.values.to(device, non_blocking=True), self.mask.to(device, non_blocking=True), wish)


@dataclass(frozen=True)
class Plan:
    """In which orders the targets are to be generated.

    Args:
        orders: (S, K, T) int64; `orders[s, k, t]` is the surface index of the word generated at step t. Entries
            beyond a target's length hold their own index t, so that every row is a permutation of 0..T-1.
        weights: (S, K) float32, summing to 1 over K.
        given: (S,) int64: so many first words of each order stand before anything is predicted, and carry no loss.
            None = none of any.
    """

    orders: Tensor
    weights: Tensor
    given: Tensor | None = None

    def to(self, device: torch.device) -> "Plan":
        """Copy to a device, without waiting for the copy."""
        given = None if self.given is None else self.given.to(device, non_blocking=True)
        return Plan(self.orders.to(device, non_blocking=True), self.weights.to(device, non_blocking=True), given)


@dataclass(frozen=True)
class Batch:
    """One micro-batch of training or scoring.

    Args:
        ids: Names of the examples, like `train:1042`, for messages.
        source: The sources.
        target: (S, T) int64 ids in surface order, PAD on the right.
        lengths: (S,) int64 target lengths, without `<eod>`.
        plan: Orders and their weights.
        num_tokens: Real target tokens, known on the host so that nobody waits for the device.
        num_given: How many of them are given.
    """

    ids: tuple[str, ...]
    source: Source
    target: Tensor
    lengths: Tensor
    plan: Plan
    num_tokens: int
    num_given: int = 0

    @property
    def num_words(self) -> int:
        """T a sentence, less what is given."""
        return self.num_tokens - self.num_given

    @property
    def num_predictions(self) -> int:
        """One a sentence more: every word that is not given, and `<eod>`."""
        return self.num_words + len(self.ids)

    def to(self, device: torch.device) -> "Batch":
        """Copy to a device, without waiting for the copy."""
        if device.type == "cpu":
            return self
        return replace(
            self,
            source=self.source.to(device),
            target=self.target.to(device, non_blocking=True),
            lengths=self.lengths.to(device, non_blocking=True),
            plan=self.plan.to(device),
        )


@dataclass(frozen=True)
class MicroBatch:
    """A place in the stream of training batches, and how to load what stands there.

    Of several processes each loads its own places only, but all see the same stream.

    Args:
        epoch, position: The place.
        load: Makes the batch, in the orders of the stream.
        items: (S,) int64 which items of the split it is made of.
    """

    epoch: int
    position: int
    load: Callable[[], Batch]
    items: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
