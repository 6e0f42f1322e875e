"""Embeddings of both sides, with the output layer tied to the target's."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from indigo_cli.core.vocab import FIRST_WORD
from indigo_cli.data.batch import Source
from indigo_cli.nn.positions.sinusoidal import sinusoid


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

    def embed_source(self, source: Source, *, sinusoidal: bool) -> Tensor:
        """Return (S, X, D), with absolute positions added if asked."""
        table = self.target if self.source is None else self.source
        x: Tensor = table(source.values) * self.scale
        if sinusoidal:
            x = x + sinusoid(torch.arange(x.shape[1], device=x.device), x.shape[2])
        return functional.dropout(x, self.dropout, self.training)

    def embed_target(self, ids: Tensor, position: Tensor | None = None) -> Tensor:
        """Return (..., D) for ids (...); `position` broadcasts to their shape."""
        x: Tensor = self.target(ids) * self.scale
        if position is not None:
            x = x + sinusoid(position, x.shape[-1])
        return functional.dropout(x, self.dropout, self.training)

    @property
    def words(self) -> Tensor:
        """(V, D): output rows of the words of the softmax; PAD, `<s>` and `</s>` have none."""
        return self.target.weight[FIRST_WORD:]

    def scores(self, hidden_PD: Tensor) -> tuple[Tensor, Tensor]:
        """Return (P, V) float32 logits and their (P,) log-normalisers."""
        logits = functional.linear(hidden_PD, self.words).float()
        if logits.device.type != "cpu":
            return logits, logits.logsumexp(-1)
        # A few rows at a time stay in the cache: a third less time for 8,000 words.
        return logits, torch.cat([rows.logsumexp(-1) for rows in logits.split(32)])
