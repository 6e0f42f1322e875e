"""Fractional positions: a word's code is a learned map of its neighbours' codes when it is inserted, and stays.

p_new = Linear([p_left; p_right]) (Zhang, Zhang & Dolan, EACL 2023; PAPERS.md B2), from learned codes of `<s>` and
`</s>`; plain linear as printed (the authors' code has an ELU and dropout behind it). Codes are computed in full
precision: those of deep words are long products.

Shape letters: N sequences, R rows, D width, M words of all sequences in the order of their stages.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from indigo_cli.nn.attention import SelfAttention
from indigo_cli.nn.positions.canvas import GrownCanvas


def build(model_dim: int, *, max_distance: int) -> "Fractional":
    """Make the scheme; it knows no greatest distance."""
    return Fractional(model_dim)


class _Grow(torch.autograd.Function):
    """Computes the codes of all rows in place, a stage at a time, and their gradients the other way round."""

    @staticmethod
    def forward(
        ctx: Any,
        ends_2D: Tensor,
        weight: Tensor,
        bias: Tensor,
        ends: tuple[Tensor, Tensor],
        rows: tuple[Tensor, Tensor, Tensor],
        counts: Sequence[int],
        size: int,
    ) -> Tensor:
        codes = ends_2D.new_zeros(size, ends_2D.shape[1])
        codes[ends[0]], codes[ends[1]] = ends_2D[0], ends_2D[1]
        for row, left, right in zip(*(index.split(counts) for index in rows), strict=True):
            codes.index_copy_(0, row, functional.linear(torch.cat((codes[left], codes[right]), dim=1), weight, bias))
        ctx.save_for_backward(codes, weight, *ends, *rows)
        ctx.counts = counts
        return codes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_codes: Tensor) -> tuple[Tensor | None, ...]:
        codes, weight, first, last, *rows = ctx.saved_tensors
        grad, model_dim = grad_codes.clone(), codes.shape[1]
        for row, left, right in reversed(list(zip(*(index.split(ctx.counts) for index in rows), strict=True))):
            of_both = grad[row] @ weight
            grad.index_add_(0, left, of_both[:, :model_dim])
            grad.index_add_(0, right, of_both[:, model_dim:])
        row, left, right = rows
        of_words = grad[row]
        grad_weight = torch.cat((of_words.T @ codes[left], of_words.T @ codes[right]), dim=1)
        grad_ends = torch.stack((grad[first].sum(dim=0), grad[last].sum(dim=0)))
        return grad_ends, grad_weight, of_words.sum(dim=0), None, None, None, None


class Fractional(nn.Module):
    """See `CanvasPositions`.

    Args:
        model_dim: D.
    """

    def __init__(self, model_dim: int) -> None:
        super().__init__()
        self.model_dim = model_dim
        self.ends = nn.Parameter(torch.empty(2, model_dim))
        self.weight = nn.Parameter(torch.empty(model_dim, 2 * model_dim))
        self.bias = nn.Parameter(torch.zeros(model_dim))
        # As large as scaled word embeddings, and no larger or smaller from stage to stage.
        nn.init.normal_(self.ends)
        nn.init.normal_(self.weight, std=(2 * model_dim) ** -0.5)

    def attention(self, num_heads: int) -> SelfAttention:
        """See `CanvasPositions`."""
        return SelfAttention(self.model_dim, num_heads, scale="head", relations="none")

    def codes(self, canvas: GrownCanvas) -> Tensor:
        """See `CanvasPositions`; 0 on padding. The host waits for the sizes of the stages."""
        stage = canvas.stage_NR.flatten()
        num, rows = canvas.stage_NR.shape
        counts = torch.bincount(stage, minlength=rows)[1 : rows - 1].tolist()  # padding comes at rows - 1
        while counts and not counts[-1]:
            counts.pop()
        start = torch.arange(0, num * rows, rows, device=stage.device)
        row = stage.argsort(stable=True)[2 * num : 2 * num + sum(counts)]
        near = [(index + start[:, None]).flatten()[row] for index in (canvas.left_NR, canvas.right_NR)]
        ends = (start, start + canvas.last_N)
        with torch.autocast(stage.device.type, enabled=False):
            codes: Tensor = _Grow.apply(  # type: ignore[no-untyped-call]
                self.ends, self.weight, self.bias, ends, (row, *near), counts, num * rows
            )
        return codes.view(num, rows, -1)

    def left(self, canvas: GrownCanvas) -> None:
        """See `CanvasPositions`."""
        return None

    def first_codes(self) -> Tensor:
        """See `CanvasPositions`."""
        return self.ends

    def code_between(self, left_PnD: Tensor, right_PnD: Tensor) -> Tensor:
        """See `CanvasPositions`."""
        with torch.autocast(left_PnD.device.type, enabled=False):
            return functional.linear(torch.cat((left_PnD, right_PnD), dim=2), self.weight, self.bias)

    def new_left(self, new_rank_Pn: Tensor, rank_PR: Tensor) -> None:
        """See `CanvasPositions`."""
        return None
