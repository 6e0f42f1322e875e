"""Sinusoids against the values of PAPERS.md part D and the formula."""

import math

import pytest
import torch

from indigo_cli.nn.positions.sinusoidal import sinusoid
from tests import reference
from tests.tensors import assert_close


def test_check_values() -> None:
    """PAPERS.md D: d = 4, interleaved; PE at 3, and LDPE, which is PE at 10 - 3."""
    got = sinusoid(torch.tensor([3, 10 - 3]), 4)
    assert_close(got[0], torch.tensor([0.1411, -0.9900, 0.0300, 0.9996]), atol=5e-5)
    assert_close(got[1], torch.tensor([0.6570, 0.7539, 0.0699, 0.9976]), atol=5e-5)


@pytest.mark.parametrize("model_dim", [2, 6, 32])
def test_the_formula(model_dim: int) -> None:
    """Angles are float32, so that far positions lose some digits."""
    positions = torch.tensor([[0, 1, 2], [31, 250, 1000]])
    wanted = [[reference.sinusoid(at, model_dim) for at in row] for row in positions.tolist()]
    assert_close(sinusoid(positions, model_dim), torch.stack([torch.stack(row) for row in wanted]), atol=2e-4)
    assert sinusoid(positions, model_dim).dtype == torch.float32


def test_another_base() -> None:
    got = sinusoid(torch.tensor(3), 4, base=10.0)
    wanted = [f(3 / 10 ** (k / 2)) for k in (0, 1) for f in (math.sin, math.cos)]
    assert_close(got, torch.tensor(wanted))


def test_an_odd_width() -> None:
    with pytest.raises(ValueError, match=r"must be even.*got 5"):
        sinusoid(torch.tensor([0]), 5)
