"""Comparing tensors. `torch.testing` would load SymPy for it, which takes longer than most tests."""

import numpy as np
from torch import Tensor


def assert_close(got: Tensor, wanted: Tensor, *, rtol: float = 1e-5, atol: float = 1e-6, what: str = "") -> None:
    """Make sure that two tensors have one shape and |got - wanted| <= atol + rtol * |wanted|; infinities must agree."""
    assert got.shape == wanted.shape, f"{what}: {tuple(got.shape)} instead of {tuple(wanted.shape)}"
    np.testing.assert_allclose(
        got.detach().double().numpy(), wanted.detach().double().numpy(), rtol=rtol, atol=atol, err_msg=what
    )
