"""How an LSTM decoder is told a wished length (Kikuchi et al. 2016): at every step, or once before the first.

Lengths are in the recipe's `length_unit`, by `nn/units.py`. Shape letters: S sentences, L layers, D width.
"""

import math

import torch
from torch import Tensor, nn

LONGEST = 256
"""Entries of the table of LenEmb."""
SMALL = 0.01
"""Standard deviation of the first vectors of LenInit: times a length of some tens a cell of ordinary size."""


class RemainingLength(nn.Module):
    """LenEmb: an embedding of the units that may still follow is put behind each input word.

    All lengths of `LONGEST` - 1 units and more share the last entry, so that of a longer wish the decoder only knows
    that much is left; what is left is never below 0.
    Source: Kikuchi et al. 2016 (EMNLP), LenEmb; PAPERS.md D, "Related".
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.table = nn.Embedding(LONGEST, dim)
        self.scale = math.sqrt(dim)

    @property
    def dim(self) -> int:
        """How many numbers it adds."""
        return self.table.embedding_dim

    def forward(self, words: Tensor, written: Tensor, wish: Tensor) -> Tensor:
        """Return (..., D + dim).

        Args:
            words: (..., D) embedded inputs.
            written: (...) int64, what stands before each prediction.
            wish: (...) int64, or what broadcasts to it.
        """
        remaining = self.table((wish - written).clamp(0, LONGEST - 1)) * self.scale
        return torch.cat((words, remaining), dim=-1)


class LengthCell(nn.Module):
    """LenInit: the decoder's cells start as the wished length times a vector, one for each layer.

    Source: Kikuchi et al. 2016 (EMNLP), LenInit; PAPERS.md D, "Related". Hidden states start as ever.
    """

    def __init__(self, num_layers: int, model_dim: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(num_layers, 1, model_dim) * SMALL)

    def forward(self, wish_S: Tensor) -> Tensor:
        """Return (L, S, D) cells."""
        return self.vectors * wish_S[:, None]
