"""Keys and values of the tokens that stand, for cached decoding.

Shape letters: P places (hypotheses of all sentences in a row), R rows (tokens), W width of a row's record.
"""

import torch
from torch import Tensor


class RowCache:
    """An append-only store of one record a row and place, in time-major order.

    One record holds everything that later steps need of a token (keys and values of every layer, pointer keys), so that
    re-ordering the hypotheses copies long contiguous runs, once a step.

    Args:
        width: W, floats a record.
        places: P at the start.
        like: A tensor whose dtype and device to use.
        capacity: Rows to make room for at first; grows by doubling.
    """

    def __init__(self, width: int, places: int, *, like: Tensor, capacity: int = 32) -> None:
        self._data = like.new_empty(capacity, places, width)
        self._spare: Tensor | None = None
        self.length = 0

    def rows(self) -> Tensor:
        """Return the (R, P, W) records written so far, as a view."""
        return self._data[: self.length]

    def grow(self, count: int) -> Tensor:
        """Make room for `count` more rows and return their (count, P, W) records, to be written in place."""
        capacity, places, width = self._data.shape
        if self.length + count > capacity:
            larger = self._data.new_empty(max(2 * capacity, self.length + count), places, width)
            larger[: self.length] = self.rows()
            self._data, self._spare = larger, None
        self.length += count
        return self._data[self.length - count : self.length]

    def reorder(self, parent_P: Tensor) -> None:
        """Replace the places by copies of the given ones; their number may change."""
        capacity, _, width = self._data.shape
        places = len(parent_P)
        if self._spare is None or self._spare.shape != (capacity, places, width):
            self._spare = self._data.new_empty(capacity, places, width)
        torch.index_select(self.rows(), 1, parent_P, out=self._spare[: self.length])
        self._data, self._spare = self._spare, self._data
