"""LDPE and LRPE: the values of PAPERS.md part D, the formulas, and lengths past the end."""

import math

import pytest
import torch

from indigo_cli.nn.positions.appended import APPENDED
from indigo_cli.nn.positions.length import length_difference, length_ratio
from indigo_cli.nn.positions.sinusoidal import sinusoid
from tests.tensors import assert_near

WRITTEN, WANTED = torch.tensor([[0, 3, 9, 10, 12], [0, 1, 2, 3, 4]]), torch.tensor([[10], [1]])


def halves(position: float, base: float, dim: int) -> torch.Tensor:
    """As control-length computes it: exponents k / (d/2 - 1), sines first."""
    angles = [position / base ** (k / (dim // 2 - 1)) for k in range(dim // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles])


def test_check_values() -> None:
    """PAPERS.md D: d = 4, interleaved, 3 written of 10."""
    assert_near(
        length_difference(torch.tensor([3]), torch.tensor([10]), 4)[0], [0.6570, 0.7539, 0.0699, 0.9976], atol=5e-5
    )
    assert_near(length_ratio(torch.tensor([3]), torch.tensor([10]), 4)[0], [0.1411, -0.9900, 0.8126, 0.5828], atol=5e-5)


@pytest.mark.parametrize("dim", [2, 4, 10])
def test_formulas_and_what_comes_past_the_end(dim: int) -> None:
    """Nothing is left there, and no more is written than was wanted; each row has its own length, 2 or more as base."""
    difference, ratio = length_difference(WRITTEN, WANTED, dim), length_ratio(WRITTEN, WANTED, dim)
    assert difference.shape == ratio.shape == (2, 5, dim)
    for row, wanted in enumerate(WANTED[:, 0].tolist()):
        for place, written in enumerate(WRITTEN[row].tolist()):
            for k in range(dim // 2):
                left = max(wanted - written, 0) / 10000 ** (2 * k / dim)
                done = min(written, wanted) / max(wanted, 2) ** (2 * k / dim)
                assert_near(difference[row, place, 2 * k : 2 * k + 2], [math.sin(left), math.cos(left)], atol=1e-5)
                assert_near(ratio[row, place, 2 * k : 2 * k + 2], [math.sin(done), math.cos(done)], atol=1e-5)


def test_the_layout_of_the_original() -> None:
    assert_near(sinusoid(torch.tensor(7), 6, layout="halves"), halves(7, 10000, 6), atol=1e-5)
    assert_near(
        length_difference(torch.tensor([3]), torch.tensor([10]), 6, layout="halves")[0], halves(7, 10000, 6), atol=1e-5
    )
    ratio = length_ratio(torch.tensor([3]), torch.tensor([10]), 6, layout="halves")[0]
    assert_near(ratio, halves(3, 10, 6), atol=1e-5)
    assert_near(ratio[2], math.sin(3 / 10), atol=1e-6)  # the last frequency: written / wanted
    assert_near(sinusoid(torch.tensor(7), 2, layout="halves"), [math.sin(7), math.cos(7)], atol=1e-5)


def test_a_row_does_not_depend_on_others() -> None:
    """The original took the positions of the first row for all."""
    for code in (length_difference, length_ratio):
        together = code(WRITTEN, WANTED, 8)
        for row in range(2):
            assert torch.equal(code(WRITTEN[row : row + 1], WANTED[row : row + 1], 8)[0], together[row])


def test_the_table_names_functions() -> None:
    assert {name: scheme.length_code() for name, scheme in APPENDED.items()} == {
        "sinusoidal": None,
        "ldpe": length_difference,
        "ldpe+pe": length_difference,
        "lrpe": length_ratio,
        "lrpe+pe": length_ratio,
    }
    assert [name for name, scheme in APPENDED.items() if scheme.place] == ["sinusoidal", "ldpe+pe", "lrpe+pe"]
