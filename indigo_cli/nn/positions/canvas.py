"""A canvas that grew stage by stage, all of it at once, and what a position scheme has to offer for it.

Rows are in surface order: `<s>`, the words, `</s>`, and behind it padding, which comes later than all that is real. In
decoding, rows are in the order in which they came: `<s>`, `</s>`, then the words.

Shape letters: N sequences, R rows, D width, P places (hypotheses), n new rows of a round.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from indigo_cli.nn.attention import SelfAttention
from indigo_cli.nn.clipped_attention import ClippedAttention


@dataclass(frozen=True)
class GrownCanvas:
    """When each row came, and between which rows.

    Args:
        stage_NR: int64; 0 = it stood at the start. A row that no other may see, like padding, comes last of all.
        left_NR, right_NR: Rows of its neighbours at that time, int64; what stands at rows of stage 0 means nothing.
        last_N: Row of `</s>`.
    """

    stage_NR: Tensor
    left_NR: Tensor
    right_NR: Tensor
    last_N: Tensor

    @cached_property
    def visible_NRR(self) -> Tensor:
        """(N, R, R) bool: what a row (second dimension) sees, that is all rows of its own and of earlier stages."""
        return self.stage_NR[:, None, :] <= self.stage_NR[:, :, None]

    def mask(self, dtype: torch.dtype) -> Tensor:
        """Return (N, 1, R, R) what attention adds: 0 where a row is seen, else -inf."""
        hidden = ~self.visible_NRR[:, None]
        return torch.zeros_like(hidden, dtype=dtype).masked_fill_(hidden, -torch.inf)


class CanvasPositions(Protocol):
    """What a scheme adds to embeddings, and what it tells attention; where it does nothing, None."""

    def attention(self, num_heads: int) -> SelfAttention | ClippedAttention:
        """Make the self-attention of one layer."""
        ...

    def codes(self, canvas: GrownCanvas) -> Tensor | None:
        """Return (N, R, D) what is added to the embeddings of the rows."""
        ...

    def left(self, canvas: GrownCanvas) -> Tensor | None:
        """Return what `left` of the attention says for all rows at once."""
        ...

    def first_codes(self) -> Tensor | None:
        """Return (2, D) the codes of `<s>` and `</s>`."""
        ...

    def code_between(self, left_PnD: Tensor, right_PnD: Tensor) -> Tensor:
        """Return (P, n, D) the codes of words that are inserted between words of these codes; where there are codes."""
        ...

    def new_left(self, new_rank_Pn: Tensor, rank_PR: Tensor) -> Tensor | None:
        """Return (P, n, R) what `left` of the attention says of new rows, by ranks on the canvas after their round."""
        ...
