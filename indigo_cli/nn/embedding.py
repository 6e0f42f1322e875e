"""Embeddings of both sides, with the output layer tied to the target's."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from indigo_cli.core.vocab import FIRST_WORD
from indigo_cli.data.batch import Source
from indigo_cli.nn.positions.sinusoidal import sinusoid

TILE, FEWEST_COLUMNS = 1 << 16, 512
"""Scores that are made at a time on a CPU, for so many words at least."""


class Embeddings(nn.Module):
    """Source, target and output embedding; inputs are scaled by sqrt(D), the output layer is the target's rows.

    Args:
        source_size, target_size: Vocabulary sizes.
        model_dim: D.
        shared: One table for both sides (the vocabularies must be one).
        dropout: On inputs.
    """

    def __init__(self, source_size: int, target_size: int, model_dim: int, *, shared: bool, dropout: float) -> None:
        super().__init__()
        if shared and source_size != target_size:
            raise ValueError(f"shared embeddings need one vocabulary, got sizes {source_size} and {target_size}")
        self.target = nn.Embedding(target_size, model_dim)
        self.source = None if shared else nn.Embedding(source_size, model_dim)
        self.scale = math.sqrt(model_dim)
        self.dropout = dropout

    def embed_source(self, source: Source, *, sinusoidal: bool, mask: Tensor | None = None) -> Tensor:
        """Return (S, X, D), with absolute positions added if asked; `mask` takes the place of dropout."""
        table = self.target if self.source is None else self.source
        x: Tensor = table(source.values) * self.scale
        if sinusoidal:
            x = x + sinusoid(torch.arange(x.shape[1], device=x.device), x.shape[2])
        return functional.dropout(x, self.dropout, self.training) if mask is None else x * mask

    @property
    def model_dim(self) -> int:
        """D."""
        return self.target.embedding_dim

    def embed_target(self, ids: Tensor, position: Tensor | None = None) -> Tensor:
        """Return (..., D) for ids (...); `position` are codes of theirs, to be added; they broadcast to (..., D)."""
        x: Tensor = self.target(ids) * self.scale
        if position is not None:
            x = x + position
        return functional.dropout(x, self.dropout, self.training)

    @property
    def words(self) -> Tensor:
        """(V, D): output rows of the words of the softmax; PAD, `<s>` and `</s>` have none."""
        return self.target.weight[FIRST_WORD:]

    @torch.no_grad()
    def scores(self, hidden_PD: Tensor) -> tuple[Tensor, Tensor]:
        """Return (P, V) float32 logits and their (P,) log-normalisers, without gradient: for decoding."""
        if not _in_tiles(hidden_PD):
            logits = functional.linear(hidden_PD, self.words).float()
            return logits, logits.logsumexp(-1)
        logits = hidden_PD.new_empty(len(hidden_PD), len(self.words))
        columns = _columns(hidden_PD)
        return logits.float(), self._sum_tiles(hidden_PD, logits.split(columns, dim=1), columns)

    @torch.no_grad()
    def log_z(self, hidden_PD: Tensor) -> Tensor:
        """Return the (P,) log-normalisers of `scores`; on a CPU the logits are never kept."""
        if not _in_tiles(hidden_PD):
            return self.scores(hidden_PD)[1]
        columns = _columns(hidden_PD)
        tile = hidden_PD.new_empty(len(hidden_PD), columns)
        whole, rest = divmod(len(self.words), columns)
        tiles = [tile] * whole + ([hidden_PD.new_empty(len(hidden_PD), rest)] if rest else [])
        return self._sum_tiles(hidden_PD, tiles, columns)

    def _sum_tiles(self, hidden_PD: Tensor, tiles: Sequence[Tensor], columns: int) -> Tensor:
        """Write logits tile by tile and return their (P,) log-normalisers."""
        sums = []
        for tile, some_words in zip(tiles, self.words.split(columns), strict=True):
            torch.mm(hidden_PD, some_words.T, out=tile)
            sums.append(tile.logsumexp(dim=1))
        return torch.stack(sums).logsumexp(dim=0).float()


def _in_tiles(hidden_PD: Tensor) -> bool:
    """Tell whether logits are made by tiles: one stays in the CPU's cache until it is summed up.

    With 4,773 words that takes a quarter less time for 160 rows.
    """
    return hidden_PD.device.type == "cpu" and not torch.is_autocast_enabled("cpu")


def _columns(hidden_PD: Tensor) -> int:
    return max(FEWEST_COLUMNS, TILE // max(len(hidden_PD), 1))
