"""Relative positions of Shaw, Uszkoreit and Vaswani (2018) on a canvas that grows: clipped distances.

A distance is taken on the canvas after the round of the querying word and stays: later insertions do not change what
the words that stand said of each other, so their states can be kept (PAPERS.md B2, the REL baseline).
"""

from torch import Tensor

from indigo_cli.nn.clipped_attention import ClippedAttention
from indigo_cli.nn.positions.canvas import GrownCanvas


def build(model_dim: int, *, max_distance: int) -> "Clipped":
    """Make the scheme."""
    return Clipped(model_dim, max_distance)


class Clipped:
    """See `CanvasPositions`.

    Args:
        model_dim: D.
        max_distance: k; farther rows count as k away.
    """

    def __init__(self, model_dim: int, max_distance: int) -> None:
        self.model_dim, self.max_distance = model_dim, max_distance

    def attention(self, num_heads: int) -> ClippedAttention:
        """See `CanvasPositions`."""
        return ClippedAttention(self.model_dim, num_heads, max_distance=self.max_distance)

    def codes(self, canvas: GrownCanvas) -> None:
        """See `CanvasPositions`."""
        return None

    def left(self, canvas: GrownCanvas) -> Tensor:
        """Return (N, R, R) int64 in 0..2 k: the clipped distance from query to key plus k.

        Between two rows lie those that stand after the query's stage, one count over what it sees.
        """
        place_NRR = canvas.visible_NRR.cumsum(dim=2)
        return self._clip(place_NRR - place_NRR.diagonal(dim1=1, dim2=2)[..., None])

    def first_codes(self) -> None:
        """See `CanvasPositions`."""
        return None

    def code_between(self, left_PnD: Tensor, right_PnD: Tensor) -> Tensor:
        """See `CanvasPositions`: there are no codes."""
        raise NotImplementedError

    def new_left(self, new_rank_Pn: Tensor, rank_PR: Tensor) -> Tensor:
        """See `CanvasPositions`."""
        return self._clip(rank_PR[:, None, :] - new_rank_Pn[:, :, None])

    def _clip(self, distance: Tensor) -> Tensor:
        return distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
