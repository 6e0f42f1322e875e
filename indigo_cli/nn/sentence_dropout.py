"""Dropout whose masks belong to a sentence: drawn from its key alone, held for all its tokens and through a search.

Masks of the usual kind depend on where a sentence stands in its batch and are new for every token, so hypotheses of a
search would be compared under different noise. The paper says no more than that dropout stays on (PAPERS.md A4); one
mask a sentence and layer is the choice of this program.

Shape letters: S sentences, D model width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

GOLDEN = -7046029254386353131  # 2^64 / golden ratio, odd; int64 products wrap around as uint64 ones do
FIRST, SECOND = -4658895280553007687, -7723592293110705685
SITE_STRIDE = 1 << 32
"""Numbers of a sentence between two places where masks are drawn: more than any width."""


@dataclass(frozen=True)
class SentenceDropout:
    """The masks of some sentences, drawn where they are asked for.

    Args:
        keys: (S,) int64, see `sentence_keys`.
        rate: Share of features that are dropped, 0 < rate < 1.
    """

    keys: Tensor
    rate: float

    def masks(self, first_site: int, count: int, model_dim: int) -> Tensor:
        """Return (count, S, 1, D) float32 factors, 0 or 1 / (1 - rate), of the sites from `first_site` on."""
        device = self.keys.device
        site = torch.arange(first_site, first_site + count, device=device)[:, None, None] * SITE_STRIDE
        number = site + torch.arange(model_dim, device=device)
        kept = uniform(self.keys[:, None], number) >= self.rate
        return (kept.float() / (1.0 - self.rate))[:, :, None]


def sentence_keys(seed: int, visit: int, lines: Sequence[int]) -> Tensor:
    """Return (S,) int64 keys: hashes of the seed, of which visit of the sentence this is, and of its raw line."""
    key = torch.zeros(len(lines), dtype=torch.int64)
    line = torch.tensor(lines, dtype=torch.int64)
    for part in (seed % (1 << 63), visit, line):
        key = _mix(key + GOLDEN + part)
    return key


def uniform(key: Tensor, number: Tensor) -> Tensor:
    """Return float32 numbers in [0, 1): the `number`-th ones (int64) of each key; both broadcast.

    Source: splitmix64 (Steele, Lea & Flood 2014), which jumps to any of its numbers; the upper 24 bits are taken.
    """
    bits = _right(_mix(key + (number + 1) * GOLDEN), 40)
    return bits.float() * 2.0**-24


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _right(x, 30)) * FIRST
    x = (x ^ _right(x, 27)) * SECOND
    return x ^ _right(x, 31)


def _right(x: Tensor, count: int) -> Tensor:
    """Shift right, zeros coming in."""
    return (x >> count) & ((1 << (64 - count)) - 1)
