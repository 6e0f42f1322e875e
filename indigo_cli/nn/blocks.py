"""Encoder and decoder stacks, pre-norm, for teacher forcing and for cached decoding.

Shape letters: S sentences, X source length, N sequences, R rows (tokens), P places (hypotheses), B hypotheses a
sentence, H heads, D model width, d = D / H. G groups of hypotheses that share nodes (see `NodeCache`), Q new rows of a
group.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from indigo_cli.nn.attention import CrossAttention, RelationTable, Scale, SelfAttention, attend
from indigo_cli.nn.cache import NodeCache
from indigo_cli.nn.clipped_attention import ClippedAttention
from indigo_cli.nn.source_memory import SourceMemory

OwnAttention = SelfAttention | ClippedAttention


class FeedForward(nn.Module):
    """Linear, ReLU, Linear."""

    def __init__(self, model_dim: int, ff_dim: int) -> None:
        super().__init__()
        self.inner = nn.Linear(model_dim, ff_dim)
        self.outer = nn.Linear(ff_dim, model_dim)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        y: Tensor = self.outer(functional.relu(self.inner(x), inplace=True))
        return y


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each as `x + dropout(f(norm(x)))`."""

    def __init__(
        self, model_dim: int, ff_dim: int, num_heads: int, dropout: float, *, scale: Scale, relations: RelationTable
    ) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(model_dim)
        self.attention = SelfAttention(model_dim, num_heads, scale=scale, relations=relations)
        self.ff_norm = nn.LayerNorm(model_dim)
        self.ff = FeedForward(model_dim, ff_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_SXD: Tensor, mask: Tensor, left: Tensor | None, drop: Tensor | None = None) -> Tensor:
        """See `SelfAttention.forward` for `mask` and `left`; `drop` (2, S, 1, D) takes the place of dropout."""
        after_attention, after_ff = (self.dropout, self.dropout) if drop is None else (drop[0].mul, drop[1].mul)
        x_SXD = x_SXD + after_attention(self.attention(self.attention_norm(x_SXD), mask=mask, left=left))
        changed: Tensor = x_SXD + after_ff(self.ff(self.ff_norm(x_SXD)))
        return changed


class Encoder(nn.Module):
    """A stack of encoder layers and a last norm. With relations it knows order only by left / self / right."""

    def __init__(
        self,
        num_layers: int,
        model_dim: int,
        ff_dim: int,
        num_heads: int,
        dropout: float,
        *,
        scale: Scale = "head",
        relations: RelationTable = "none",
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderLayer(model_dim, ff_dim, num_heads, dropout, scale=scale, relations=relations)
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(model_dim)
        self.has_relations = relations != "none"

    @property
    def num_drops(self) -> int:
        """Places of dropout: two a layer."""
        return 2 * len(self.layers)

    def forward(self, x_SXD: Tensor, mask_SX: Tensor, drop: Tensor | None = None) -> Tensor:
        """Encode embedded sources.

        Args:
            x_SXD: (S, X, D).
            mask_SX: True for real tokens.
            drop: (num_drops, S, 1, D) factors that take the place of dropout.
        """
        mask, left = mask_SX[:, None, None, :], None
        if self.has_relations:
            length = x_SXD.shape[1]
            mask = torch.zeros_like(mask, dtype=x_SXD.dtype).masked_fill_(~mask, -torch.inf)
            left = torch.ones(length, length, dtype=x_SXD.dtype, device=x_SXD.device).tril_(-1)
        for index, layer in enumerate(self.layers):
            x_SXD = layer(x_SXD, mask, left, None if drop is None else drop[2 * index : 2 * index + 2])
        encoded: Tensor = self.norm(x_SXD)
        return encoded


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the source, feed-forward; each as `x + dropout(f(norm(x)))`."""

    def __init__(self, model_dim: int, ff_dim: int, num_heads: int, dropout: float, *, attention: OwnAttention) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(model_dim)
        self.attention = attention
        self.cross_norm = nn.LayerNorm(model_dim)
        self.cross = CrossAttention(model_dim, num_heads)
        self.ff_norm = nn.LayerNorm(model_dim)
        self.ff = FeedForward(model_dim, ff_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x_NRD: Tensor,
        memory_SXD: Tensor,
        memory_mask: Tensor,
        mask: Tensor | None,
        left: Tensor | None,
    ) -> Tensor:
        """Teacher forcing over whole sequences; N is a multiple of S where a source has several orders."""
        attended = self.attention(self.attention_norm(x_NRD), mask=mask, causal=mask is None, left=left)
        x_NRD = x_NRD + self.dropout(attended)
        orders = x_NRD.shape[0] // memory_SXD.shape[0]
        key, value = (repeat_rows(x, orders) for x in self.cross.memory(memory_SXD))
        x_NRD = x_NRD + self.dropout(self.cross(self.cross_norm(x_NRD), (key, value), memory_mask))
        changed: Tensor = x_NRD + self.dropout(self.ff(self.ff_norm(x_NRD)))
        return changed


@dataclass
class DecoderState:
    """What cached decoding keeps: the source of each sentence once, the rows of each hypothesis.

    Args:
        memory: The sources.
        projections: Joint self-attention projection of each layer, folded once.
        cache: Keys and values of the rows, and what the system itself keeps of them.
        drop: (num_drops, S, 1, D) factors in the place of dropout; None = no dropout.
    """

    memory: SourceMemory
    projections: list[tuple[Tensor, Tensor | None]]
    cache: NodeCache
    drop: Tensor | None = None

    @property
    def sentences(self) -> int:
        """S."""
        return self.memory.sentences

    def keep(self, sentence_index: Tensor, place_index: Tensor) -> "DecoderState":
        """Drop the other sentences and places."""
        self.cache.keep(sentence_index, place_index)
        return replace(
            self,
            memory=self.memory.keep(sentence_index),
            drop=None if self.drop is None else self.drop.index_select(1, sentence_index),
        )

    def dropped(self, x_GQD: Tensor, site: int) -> Tensor:
        """Multiply with the factors of a place of dropout, where there are any."""
        if self.drop is None:
            return x_GQD
        return (x_GQD.reshape(self.sentences, -1, x_GQD.shape[2]) * self.drop[site]).view(x_GQD.shape)


class Decoder(nn.Module):
    """A stack of decoder layers and a last norm.

    Args:
        num_layers, model_dim, ff_dim, num_heads, dropout: Sizes, and the rate.
        scale, relations: Of self-attention, see there.
        attention: Makes the self-attention of each layer, in place of the usual one.
    """

    def __init__(
        self,
        num_layers: int,
        model_dim: int,
        ff_dim: int,
        num_heads: int,
        dropout: float,
        *,
        scale: Scale = "head",
        relations: RelationTable = "none",
        attention: Callable[[], OwnAttention] | None = None,
    ) -> None:
        super().__init__()
        make = attention or partial(SelfAttention, model_dim, num_heads, scale=scale, relations=relations)
        self.layers = nn.ModuleList(
            DecoderLayer(model_dim, ff_dim, num_heads, dropout, attention=make()) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(model_dim)
        self.has_relations = any(layer.attention.has_relations for layer in self.typed_layers())

    @property
    def num_drops(self) -> int:
        """Places of dropout: three a layer."""
        return 3 * len(self.layers)

    def forward(
        self,
        x_NRD: Tensor,
        memory_SXD: Tensor,
        memory_mask_SX: Tensor,
        *,
        left: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Decode whole sequences.

        Args:
            x_NRD: Embedded rows in generation order; N is a multiple of S where a source has several orders.
            memory_SXD: Encoder output.
            memory_mask_SX: True for real source tokens.
            left: With relations, see `SelfAttention.forward`.
            mask: Which rows a row sees: additive float (0 or -inf), see there; None = itself and all earlier ones.
        """
        if self.has_relations and mask is None:
            rows = x_NRD.shape[1]
            mask = torch.full((rows, rows), -torch.inf, dtype=x_NRD.dtype, device=x_NRD.device).triu_(1)
        memory_mask = repeat_rows(memory_mask_SX, x_NRD.shape[0] // memory_SXD.shape[0])[:, None, None, :]
        for layer in self.layers:
            x_NRD = layer(x_NRD, memory_SXD, memory_mask, mask, left)
        decoded: Tensor = self.norm(x_NRD)
        return decoded

    def typed_layers(self) -> Iterator[DecoderLayer]:
        """Yield the layers."""
        for layer in self.layers:
            assert isinstance(layer, DecoderLayer)
            yield layer

    def start(
        self,
        memory_SXD: Tensor,
        memory_mask_SX: Tensor,
        *,
        own: int = 0,
        drop: Tensor | None = None,
        waits: bool = True,
    ) -> DecoderState:
        """Prepare cached decoding with one hypothesis a sentence.

        Args:
            own: So many floats of each row are the system's.
            drop: See `DecoderState`.
            waits: See `NodeCache`.
        """
        layers = list(self.typed_layers())
        return DecoderState(
            memory=SourceMemory.of((layer.cross for layer in layers), memory_SXD, memory_mask_SX),
            projections=[layer.attention.step_projection() for layer in layers],
            cache=NodeCache(
                len(layers),
                layers[0].attention.num_heads,
                layers[0].attention.head_dim,
                own=own,
                groups=len(memory_SXD),
                like=memory_SXD,
                waits=waits,
            ),
            drop=drop,
        )

    def extend(self, x_PnD: Tensor, state: DecoderState, *, left_PnR: Tensor | None = None) -> Tensor:
        """Append n rows to every hypothesis.

        Args:
            x_PnD: Embedded new rows of each place; P = S * B, hypotheses of a sentence side by side.
            state: Its cache grows in place.
            left_PnR: With relations, (P, n, R): 1 where a row (R counts old and new ones) stands left of the new.
        Returns: (P, n, D) features.
        """
        cache, model_dim = state.cache, x_PnD.shape[2]
        cache.grow(x_PnD.shape[1])
        mask = cache.mask(x_PnD.shape[1])
        left = None if left_PnR is None else cache.spread(left_PnR)
        if left is None and mask is not None and len(mask) > 1:
            mask = mask.repeat_interleave(state.memory.num_heads, dim=0)  # of every head
        x_GQD = x_PnD.reshape(cache.groups, -1, model_dim)
        for index, layer in enumerate(self.typed_layers()):
            attention = layer.attention
            assert isinstance(attention, SelfAttention), "others are for rounds, see nn/rounds.py"
            joint = functional.linear(layer.attention_norm(x_GQD), *state.projections[index])
            new = joint[:, :, : 3 * model_dim].unflatten(2, (3, attention.num_heads, -1)).permute(2, 0, 3, 1, 4)
            keys, values = cache.write(index, new[1:])
            bias = mask if left is None else attention.step_bias(joint[:, :, 3 * model_dim :], left, mask)
            x_GQD = x_GQD + state.dropped(attention.out(attend(new[0], keys, values, bias)), 3 * index)
            x_SQD = x_GQD.reshape(state.sentences, -1, model_dim)  # hypotheses of a sentence are queries of one source
            attended = layer.cross.step(layer.cross_norm(x_SQD), state.memory.layers[index], state.memory.mask)
            x_SQD = x_SQD + state.dropped(attended, 3 * index + 1)
            x_SQD = x_SQD + state.dropped(layer.ff(layer.ff_norm(x_SQD)), 3 * index + 2)
            x_GQD = x_SQD.reshape(cache.groups, -1, model_dim)
        decoded: Tensor = self.norm(x_GQD)
        return decoded.reshape(x_PnD.shape)


def repeat_rows(x: Tensor, times: int) -> Tensor:
    """Repeat each entry of the first dimension, without a copy where it is once."""
    return x if times == 1 else x.repeat_interleave(times, dim=0)


def initialise(system: nn.Module) -> None:
    """Xavier for every linear map, N(0, 1/sqrt(D)) for embeddings (PAPERS.md A2)."""
    for part in system.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=part.embedding_dim**-0.5)
