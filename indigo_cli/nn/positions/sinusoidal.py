"""Sinusoidal absolute positions of the Transformer (Vaswani et al. 2017)."""

import math
from typing import Literal

import torch
from torch import Tensor

Layout = Literal["interleaved", "halves"]


def sinusoid(
    positions: Tensor, model_dim: int, base: float | Tensor = 10000.0, *, layout: Layout = "interleaved"
) -> Tensor:
    """Encode positions by sines and cosines of falling frequency.

    Args:
        positions: Any shape, integer.
        model_dim: D, even.
        base: 10000 in the paper; a tensor that broadcasts to `positions` has one of its own for each.
        layout: `interleaved`: sines in even columns, cosines in odd ones, exponents 2k/D. `halves`: all sines, then all
            cosines, exponents k/(D/2 - 1), as in tensor2tensor, fairseq and the code of LDPE.
    Returns: (..., D) float32.
    Raises: ValueError if `model_dim` is odd.
    Source: Vaswani et al. 2017, section 3.5; PAPERS.md part D.
    """
    if model_dim % 2:
        raise ValueError(f"model_dim must be even to pair sines with cosines, got {model_dim}")
    half = model_dim // 2
    step = 1.0 / max(half - 1, 1) if layout == "halves" else 2.0 / model_dim
    if isinstance(base, Tensor):
        exponents = torch.arange(half, device=positions.device) * -step
        rates = torch.exp(base.float().log()[..., None] * exponents)
    elif layout == "halves":
        rates = torch.exp(torch.arange(half, device=positions.device) * (-math.log(base) * step))
    else:
        rates = torch.exp(torch.arange(0, model_dim, 2, device=positions.device) * (-math.log(base) / model_dim))
    angles = positions.float()[..., None] * rates
    if layout == "halves":
        return torch.cat((angles.sin(), angles.cos()), dim=-1)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
