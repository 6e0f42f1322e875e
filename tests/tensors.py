"""Comparing tensors. `torch.testing` would load SymPy for it, which takes longer than most tests."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def assert_close(got: Tensor, wanted: Tensor, *, rtol: float = 1e-5, atol: float = 1e-6, what: str = "") -> None:
    """Make sure that two tensors have one shape and |got - wanted| <= atol + rtol * |wanted|; infinities must agree."""
    assert got.shape == wanted.shape, f"{what}: {tuple(got.shape)} instead of {tuple(wanted.shape)}"
    np.testing.assert_allclose(
        got.detach().double().numpy(), wanted.detach().double().numpy(), rtol=rtol, atol=atol, err_msg=what
    )


def assert_near(
    got: Tensor, wanted: Tensor | float | Sequence[float], *, rtol: float = 1e-5, atol: float = 1e-6
) -> None:
    """Make sure that a tensor is close to numbers, see `assert_close`."""
    assert_close(got, torch.as_tensor(wanted), rtol=rtol, atol=atol)
