"""Keys and values of the rows that stand, for decoding in rounds: each hypothesis gets as many new rows as it needs.

Every hypothesis has its rows in a block of its own, in the order they came and without gaps; behind them may lie what
was written for padding, which the next rows overwrite.

Shape letters: P places (hypotheses), n new rows (the most of any), L layers, H heads, d head width, R rows (the most of
any), C capacity, E width of the system's own part.
"""

import torch
from torch import Tensor


class RowCache:
    """Rows of hypotheses of different lengths.

    Args:
        layers, heads, head_dim: L, H and d.
        own: E, floats a row for the system's own use.
        places: P at the start.
        like: A tensor whose dtype and device to use.
        capacity: Rows to make room for at first; grows by doubling.
    """

    def __init__(
        self, layers: int, heads: int, head_dim: int, *, own: int, places: int, like: Tensor, capacity: int = 16
    ) -> None:
        # Zeros: what a mask hides is multiplied with 0, and must be finite.
        self._keys_values = like.new_zeros(layers, 2, places, heads, capacity, head_dim)
        self._own = like.new_zeros(places, capacity, own)
        self.lengths_P = torch.zeros(places, dtype=torch.int64, device=like.device)
        self.num_rows = 0
        self._new_Pn = self.lengths_P[:, None]
        self._index = self.lengths_P

    def grow(self, count_P: Tensor, most: int, num_rows: int) -> Tensor:
        """Make room for new rows, to be written, and return which rows they are: (P, n), those of padding, too.

        Args:
            count_P: How many each hypothesis gets.
            most: n, the largest of them.
            num_rows: R, the most rows that a hypothesis has then.
        """
        places, capacity = self._own.shape[:2]
        if self.num_rows + most > capacity:
            capacity = max(2 * capacity, self.num_rows + most)
            self._resize(capacity)
        heads, device = self._keys_values.shape[3], count_P.device
        self._new_Pn = self.lengths_P[:, None] + torch.arange(most, device=device)
        block = torch.arange(0, 2 * places * heads * capacity, capacity, device=device).view(2, places, heads, 1)
        self._index = (block + self._new_Pn[:, None]).flatten()
        self.lengths_P = self.lengths_P + count_P
        self.num_rows = num_rows
        return self._new_Pn

    def write(self, layer: int, keys_values_2PHnd: Tensor) -> tuple[Tensor, Tensor]:
        """Write keys and values of the new rows, and return those of all rows, each (P, H, R, d), views."""
        stored = self._keys_values[layer]
        flat = keys_values_2PHnd.reshape(-1, keys_values_2PHnd.shape[4]).to(stored.dtype)
        stored.view(-1, stored.shape[4]).index_copy_(0, self._index, flat)
        keys, values = stored.narrow(3, 0, self.num_rows).unbind()
        return keys, values

    def write_own(self, own_PnE: Tensor) -> None:
        """Write the system's own part of the new rows."""
        places, capacity, width = self._own.shape
        start = torch.arange(0, places * capacity, capacity, device=own_PnE.device)[:, None]
        index = (start + self._new_Pn).flatten()
        self._own.view(-1, width).index_copy_(0, index, own_PnE.reshape(-1, width).to(self._own.dtype))

    def own(self, row_PG: Tensor, columns: slice) -> Tensor:
        """Return some columns of the system's own part of some rows of each hypothesis, (P, G, columns)."""
        part = self._own[:, :, columns]
        return part.gather(1, row_PG[..., None].expand(-1, -1, part.shape[2]))

    def mask(self) -> Tensor | None:
        """Return (P, 1, R), 0 or -inf: which rows there are; None = everywhere all."""
        if len(self.lengths_P) == 1:
            return None
        behind = torch.arange(self.num_rows, device=self.lengths_P.device) >= self.lengths_P[:, None]
        return torch.zeros_like(behind, dtype=self._own.dtype).masked_fill_(behind, -torch.inf)[:, None]

    def choose(self, place_P: Tensor) -> None:
        """Replace the hypotheses by the given ones, some perhaps several times."""
        self._keys_values = self._keys_values.index_select(2, place_P)
        self._own = self._own.index_select(0, place_P)
        self.lengths_P = self.lengths_P[place_P]

    def clear(self, places: int) -> None:
        """Forget all rows, and make room for so many hypotheses."""
        if places != len(self.lengths_P):
            layers, two, _, *shape = self._keys_values.shape
            self._keys_values = self._keys_values.new_zeros(layers, two, places, *shape)
            self._own = self._own.new_zeros(places, *self._own.shape[1:])
        self.lengths_P = self.lengths_P.new_zeros(places)
        self.num_rows = 0

    def _resize(self, capacity: int) -> None:
        """Make room for so many rows."""
        shape, own_shape = list(self._keys_values.shape), list(self._own.shape)
        old = shape[4]
        shape[4] = own_shape[1] = capacity
        keys_values, own = self._keys_values.new_zeros(shape), self._own.new_zeros(own_shape)
        keys_values[..., :old, :] = self._keys_values
        own[:, :old] = self._own
        self._keys_values, self._own = keys_values, own
