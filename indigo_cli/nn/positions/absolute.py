"""Sinusoids of the places on the present canvas: every insertion changes those right of it, so no state can be kept."""

import torch
from torch import Tensor

from indigo_cli.nn.attention import SelfAttention
from indigo_cli.nn.positions.canvas import GrownCanvas
from indigo_cli.nn.positions.sinusoidal import sinusoid


def build(model_dim: int, *, max_distance: int) -> "Absolute":
    """Make the scheme; it knows no greatest distance."""
    return Absolute(model_dim)


class Absolute:
    """See `CanvasPositions`, but for what keeping states needs.

    Args:
        model_dim: D.
    """

    def __init__(self, model_dim: int) -> None:
        self.model_dim = model_dim

    def attention(self, num_heads: int) -> SelfAttention:
        """See `CanvasPositions`."""
        return SelfAttention(self.model_dim, num_heads, scale="head", relations="none")

    def codes(self, canvas: GrownCanvas) -> Tensor:
        """Return the codes of the rows that stand (stage 0), by their places among each other."""
        stands = canvas.stage_NR == 0
        rank_NR = (stands.cumsum(dim=1) - 1) * stands
        return self.first_codes(stands.shape[1], stands.device)[rank_NR]

    def first_codes(self, count: int, device: torch.device) -> Tensor:
        """Return (count, D) the codes of the first places."""
        return sinusoid(torch.arange(count, device=device), self.model_dim)

    def left(self, canvas: GrownCanvas) -> None:
        """See `CanvasPositions`."""
        return None
