"""Codes of how much of a wished length is left (LDPE), or how much of it is written (LRPE).

Lengths are in the recipe's `length_unit`, by `nn/units.py`. Shape letters: D width.
"""

from torch import Tensor

from indigo_cli.nn.positions.sinusoidal import Layout, sinusoid

LEAST_BASE = 2
"""Of LRPE: a base of 1 would give every column the same frequency, and one below it rising ones."""


def length_difference(written: Tensor, wanted: Tensor, model_dim: int, *, layout: Layout = "interleaved") -> Tensor:
    """Encode how many units may still follow: LDPE.

    Args:
        written: Units that stand before each prediction, int64, any shape.
        wanted: Wished length, broadcasts to `written`; `</s>` is not counted, so that nothing is left when it is due.
        model_dim: D, even.
        layout: See `sinusoid`.
    Returns: (..., D) float32; what is left is never below 0.
    Source: Takase & Okazaki 2019 (NAACL), LDPE; PAPERS.md parts D and F for the offset, and for the original's fault
        past the end.
    """
    return sinusoid((wanted - written).clamp(min=0), model_dim, layout=layout)


def length_ratio(written: Tensor, wanted: Tensor, model_dim: int, *, layout: Layout = "interleaved") -> Tensor:
    """Encode how much is written relative to the wished length, which is the base of the frequencies: LRPE.

    Args and Returns: See `length_difference`; past the end the code stays that of the end.
    Source: Takase & Okazaki 2019 (NAACL), LRPE; PAPERS.md parts D and F.
    """
    return sinusoid(written.minimum(wanted.expand_as(written)), model_dim, wanted.clamp(min=LEAST_BASE), layout=layout)
