"""InDIGO's three relations on a canvas that grows: whether a row stands left of another never changes."""

import torch
from torch import Tensor

from indigo_cli.nn.attention import SelfAttention
from indigo_cli.nn.positions.canvas import GrownCanvas


def build(model_dim: int, *, max_distance: int) -> "Ternary":
    """Make the scheme; it knows no distances."""
    return Ternary(model_dim)


class Ternary:
    """See `CanvasPositions`.

    Args:
        model_dim: D.
    """

    def __init__(self, model_dim: int) -> None:
        self.model_dim = model_dim

    def attention(self, num_heads: int) -> SelfAttention:
        """See `CanvasPositions`."""
        return SelfAttention(self.model_dim, num_heads, scale="head", relations="slices")

    def codes(self, canvas: GrownCanvas) -> None:
        """See `CanvasPositions`."""
        return None

    def left(self, canvas: GrownCanvas) -> Tensor:
        """Return (R, R): 1 where the key stands left of the query, as rows of a grown canvas lie."""
        rows = canvas.stage_NR.shape[1]
        return torch.ones(rows, rows, device=canvas.stage_NR.device).tril_(-1)

    def first_codes(self) -> None:
        """See `CanvasPositions`."""
        return None

    def code_between(self, left_PnD: Tensor, right_PnD: Tensor) -> Tensor:
        """See `CanvasPositions`: there are no codes."""
        raise NotImplementedError

    def new_left(self, new_rank_Pn: Tensor, rank_PR: Tensor) -> Tensor:
        """See `CanvasPositions`."""
        return rank_PR[:, None, :] < new_rank_Pn[:, :, None]
