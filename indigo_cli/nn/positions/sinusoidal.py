"""Sinusoidal absolute positions of the Transformer (Vaswani et al. 2017)."""

import math

import torch
from torch import Tensor


def sinusoid(positions: Tensor, model_dim: int, base: float = 10000.0) -> Tensor:
    """Encode positions by sines and cosines of falling frequency.

    Args:
        positions: Any shape, integer.
        model_dim: D, even.
        base: 10000 in the paper.
    Returns: (..., D) float32, sines in even columns, cosines in odd ones.
    Raises: ValueError if `model_dim` is odd.
    Source: Vaswani et al. 2017, section 3.5; PAPERS.md part D.
    """
    if model_dim % 2:
        raise ValueError(f"model_dim must be even to pair sines with cosines, got {model_dim}")
    rates = torch.exp(torch.arange(0, model_dim, 2, device=positions.device) * (-math.log(base) / model_dim))
    angles = positions.float()[..., None] * rates
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
