"""Transformer-InDIGO (Gu, Liu, Cho; TACL 2019): every step decides what to insert, then where.

Shape letters: S sentences, K orders of a target, N = S * K sequences, T words, R = T + 2 rows in generation order
(`<s>`, `</s>`, words), P places (hypotheses) in decoding, B hypotheses a sentence, C candidates, A slots, D width.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from indigo_cli.core.settings import Count, Rate
from indigo_cli.core.vocab import BOS, EOS
from indigo_cli.data.batch import Batch, Source
from indigo_cli.models.protocol import Losses, WordScores
from indigo_cli.models.serial import check_width, gold_words, places, places_of, with_eod
from indigo_cli.nn.attention import Scale
from indigo_cli.nn.blocks import Decoder, DecoderState, Encoder, initialise
from indigo_cli.nn.embedding import Embeddings
from indigo_cli.nn.losses import word_loss
from indigo_cli.nn.positions.ternary import (
    FIRST_ROW,
    LEFT_END,
    RIGHT_END,
    left_matrix,
    neighbours,
    row_positions,
    standing,
)


@dataclass(frozen=True)
class IndigoConfig:
    """The `[model]` section with `system = "indigo"`. Where paper and code differ, PAPERS.md section F has the reasons.

    Args:
        source_positions: `auto` is `ternary` (the same three relations as the decoder), or `none` for a bag.
        positions: Of the target; `auto` is `ternary`.
        attention_scale: Divisor of attention logits: `model` = sqrt(model_dim), Eq. 7 and the authors' code; `head` =
            sqrt of a head's width, as in other Transformers.
        relation_table: A of Eq. 7: `slices` = R^(3 x model_dim), each head its own slice, no bias, as printed;
            `shared` = one R^(3 x head_dim) with bias for all heads of a layer, as in the authors' code.
        pointer_query: `scaled` = (h E + sqrt(model_dim) W[y]) sqrt(1/2), the authors' code; `plain` = Eq. 9.
        pointer_scale: `model` = pointer logits divided by sqrt(model_dim), the authors' code; `none` = Eq. 9.
        eod_position: Train a position for `<eod>` too (the slot left of `</s>`), as the authors' code; the paper: no.
    """

    system: Literal["indigo"] = "indigo"
    model_dim: Count = 256
    ff_dim: Count = 1024
    num_heads: Count = 4
    encoder_layers: Count = 3
    decoder_layers: Count = 3
    dropout: Rate = 0.1
    share_embeddings: bool = True
    source_positions: Literal["auto", "ternary", "sinusoidal", "none"] = "auto"
    positions: Literal["auto", "ternary"] = "auto"
    attention_scale: Scale = "model"
    relation_table: Literal["slices", "shared"] = "slices"
    pointer_query: Literal["scaled", "plain"] = "scaled"
    pointer_scale: Literal["model", "none"] = "model"
    eod_position: bool = False

    def __post_init__(self) -> None:
        check_width(self.model_dim, self.num_heads)


def build(config: IndigoConfig, *, source_size: int, target_size: int, ordered_source: bool) -> "Indigo":
    """Build the system for two vocabulary sizes; `ordered_source` is False where the source is a bag."""
    source_positions = config.source_positions
    if source_positions == "auto":
        source_positions = "ternary" if ordered_source else "none"
    return Indigo(
        source_size=source_size,
        target_size=target_size,
        model_dim=config.model_dim,
        ff_dim=config.ff_dim,
        num_heads=config.num_heads,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        dropout=config.dropout,
        share_embeddings=config.share_embeddings,
        source_positions=source_positions,
        attention_scale=config.attention_scale,
        relation_table=config.relation_table,
        scaled_query=config.pointer_query == "scaled",
        scaled_pointer=config.pointer_scale == "model",
        eod_position=config.eod_position,
    )


@dataclass
class IndigoState:
    """Cached decoding.

    Args:
        decoder: Keys and values; its records end with the left and the right pointer key (2 D).
        query_PD: h E of the newest row.
        word_PD: h F of the newest row.
        rank_PR: Present absolute position of each row, 0 = `<s>`.
        right_PR: Row of the right neighbour of each row (of `</s>`: itself).
    """

    decoder: DecoderState
    query_PD: Tensor
    word_PD: Tensor
    rank_PR: Tensor
    right_PR: Tensor


class Indigo(nn.Module):
    """Encoder-decoder that knows order by relations only. Those among standing tokens never change: states are kept."""

    def __init__(
        self,
        *,
        source_size: int,
        target_size: int,
        model_dim: int,
        ff_dim: int,
        num_heads: int,
        encoder_layers: int,
        decoder_layers: int,
        dropout: float,
        share_embeddings: bool,
        source_positions: Literal["ternary", "sinusoidal", "none"],
        attention_scale: Scale,
        relation_table: Literal["slices", "shared"],
        scaled_query: bool,
        scaled_pointer: bool,
        eod_position: bool,
    ) -> None:
        super().__init__()
        self.embeddings = Embeddings(source_size, target_size, model_dim, shared=share_embeddings, dropout=dropout)
        self.encoder = Encoder(
            encoder_layers,
            model_dim,
            ff_dim,
            num_heads,
            dropout,
            scale=attention_scale,
            relations=relation_table if source_positions == "ternary" else "none",
        )
        self.decoder = Decoder(
            decoder_layers, model_dim, ff_dim, num_heads, dropout, scale=attention_scale, relations=relation_table
        )
        self.heads = nn.Linear(model_dim, 4 * model_dim, bias=False)  # E, F, C, D of Eqs. 8 and 9, in this order
        self.sinusoidal_source = source_positions == "sinusoidal"
        self.word_scale = self.embeddings.scale if scaled_query else 1.0
        self.query_scale = math.sqrt(0.5) if scaled_query else 1.0
        self.pointer_scale = model_dim**-0.5 if scaled_pointer else 1.0
        self.eod_position = eod_position
        initialise(self)

    def forward(self, batch: Batch, smoothing: float = 0.0) -> Losses:
        """Return Eq. 10's T + 1 word and T position terms, averaged over the orders of the plan.

        Smoothing touches words only. Position terms use one probability a slot (Eq. 11).
        """
        num_orders = batch.plan.orders.shape[1]
        orders_NT = batch.plan.orders.flatten(0, 1)
        lengths_N = batch.lengths.repeat_interleave(num_orders)
        weights_N = batch.plan.weights.flatten()
        words_NT = batch.target.repeat_interleave(num_orders, dim=0).gather(1, orders_NT)
        ends = words_NT.new_tensor([BOS, EOS]).expand(len(words_NT), 2)
        z_NR = row_positions(orders_NT)
        hidden = self.decoder(
            self.embeddings.embed_target(torch.cat((ends, words_NT), dim=1)),
            self._encode(batch.source),
            batch.source.mask,
            left=left_matrix(z_NR),
        )
        query, word, left_keys, right_keys = self.heads(hidden).chunk(4, dim=-1)

        gold, index = gold_words(words_NT, lengths_N, batch.num_predictions * num_orders)
        word_weight = weights_N.repeat_interleave(lengths_N + 1, output_size=len(index))
        objective, nll = word_loss(
            word[:, RIGHT_END:].flatten(0, 1)[index], self.embeddings.words, gold, word_weight, smoothing=smoothing
        )
        position_nll = self._position_nll(query, left_keys, right_keys, words_NT, z_NR, lengths_N)
        position = (position_nll.sum(dim=1) * weights_N).sum()
        num_positions = batch.num_predictions if self.eod_position else batch.num_tokens
        parts = {
            "word": (nll @ word_weight, float(batch.num_predictions)),
            "position": (position.detach(), float(num_positions)),
        }
        return Losses(objective + position, parts, float(batch.num_predictions))

    def _position_nll(
        self, query_NRD: Tensor, left_NRD: Tensor, right_NRD: Tensor, words_NT: Tensor, z_NR: Tensor, lengths_N: Tensor
    ) -> Tensor:
        """Return (N, T) or, with `eod_position`, (N, T + 1) negative log p(slot), 0 on padding (Eqs. 9 and 11)."""
        words, real = with_eod(words_NT, lengths_N)
        new, z = z_NR[:, FIRST_ROW:], z_NR
        if self.eod_position:  # it goes left of `</s>`: half a position behind the last word
            z = 2 * z_NR
            is_eod = torch.arange(words.shape[1], device=z.device) == lengths_N[:, None]
            new = torch.where(
                is_eod, 2 * lengths_N[:, None] - 1, torch.cat((2 * new, 2 * new.new_zeros(len(new), 1)), dim=1)
            )
        else:
            words, real = words_NT, real[:, 1:]
        predictions, rows = new.shape[1], z.shape[1]
        left_neighbour, right_neighbour = neighbours(z, new)
        query = self._pointer_query(query_NRD[:, RIGHT_END : RIGHT_END + predictions], words)
        banned = torch.full((predictions, rows), -torch.inf, device=z.device)
        banned.masked_fill_(standing(predictions, rows, z.device), 0.0)
        left_banned, right_banned = banned, banned.clone()
        left_banned[:, LEFT_END] = -torch.inf
        right_banned[:, RIGHT_END] = -torch.inf
        to_left = (query @ left_NRD.transpose(1, 2)).float()
        to_right = (query @ right_NRD.transpose(1, 2)).float()
        everything = torch.cat((to_right + right_banned, to_left + left_banned), dim=2).logsumexp(dim=2)
        slot = torch.logaddexp(
            to_right.gather(2, left_neighbour[..., None]), to_left.gather(2, right_neighbour[..., None])
        )
        return torch.where(real, everything - slot[..., 0], 0.0)

    def _pointer_query(self, query: Tensor, word: Tensor) -> Tensor:
        """Mix h E with the embedding of the chosen word (Eq. 9), and scale."""
        embedded: Tensor = self.embeddings.target(word)
        return (query + embedded * self.word_scale) * (self.query_scale * self.pointer_scale)

    def _encode(self, source: Source) -> Tensor:
        embedded = self.embeddings.embed_source(source, sinusoidal=self.sinusoidal_source)
        memory: Tensor = self.encoder(embedded, source.mask)
        return memory

    def start(self, source: Source) -> IndigoState:
        """See `SerialDecoder`. Both boundaries stand."""
        memory = self._encode(source)
        state = self.decoder.start(memory, source.mask, extra=2 * memory.shape[2])
        ends = source.values.new_tensor([BOS, EOS]).expand(len(source.values), 2)
        left = memory.new_tensor([[0.0, 0.0], [1.0, 0.0]]).expand(len(ends), 2, 2)
        rank = ends.new_tensor([0, 1]).expand(len(ends), 2)
        right = ends.new_tensor([RIGHT_END, RIGHT_END]).expand(len(ends), 2)
        return self._extend(state, ends, left, rank, right)

    def _extend(
        self, state: DecoderState, words_Pn: Tensor, left_PnR: Tensor, rank_PR: Tensor, right_PR: Tensor
    ) -> IndigoState:
        hidden, record = self.decoder.extend(self.embeddings.embed_target(words_Pn), state, left_PnR=left_PnR)
        model_dim = hidden.shape[2]
        query, word, keys = self.heads(hidden).split([model_dim, model_dim, 2 * model_dim], dim=-1)
        record[:] = keys.transpose(0, 1)
        return IndigoState(state, query[:, -1], word[:, -1], rank_PR, right_PR)

    def words(self, state: IndigoState) -> WordScores:
        """See `SerialDecoder` (Eq. 8)."""
        logits, log_z = self.embeddings.scores(state.word_PD)
        shape = (state.decoder.sentences, -1)
        return WordScores(logits.unflatten(0, shape), log_z.unflatten(0, shape))

    def slots(self, state: IndigoState, parent_SC: Tensor, word_SC: Tensor) -> Tensor:
        """See `SerialDecoder`; the two keys of a slot are added before anything ranks them (Eqs. 9 and 11)."""
        place, _ = places(parent_SC, len(state.query_PD))
        model_dim = state.query_PD.shape[1]
        query = self._pointer_query(state.query_PD[place], word_SC.flatten()).unflatten(0, parent_SC.shape)
        keys = state.decoder.cache.rows()[:, :, -2 * model_dim :].transpose(0, 1)
        to_left = _parent_products(keys[:, :, :model_dim], query, parent_SC).float()
        to_right = _parent_products(keys[:, :, model_dim:], query, parent_SC).float()
        right_neighbour = state.right_PR[place]
        slots = torch.logaddexp(to_right, to_left.gather(1, right_neighbour))
        slots = torch.cat((slots[:, :RIGHT_END], slots[:, FIRST_ROW:]), dim=1)  # there is none right of `</s>`
        log_probs: Tensor = slots.log_softmax(dim=1).unflatten(0, parent_SC.shape)
        return log_probs

    def advance(self, state: IndigoState, parent_SB: Tensor, word_SB: Tensor, anchor_SB: Tensor) -> IndigoState:
        """See `SerialDecoder`: Eqs. 5 and 6 without a matrix, since only the new row of R is ever needed."""
        place, moved = places(parent_SB, len(state.query_PD))
        rank, right = state.rank_PR, state.right_PR
        if moved:
            state.decoder.cache.reorder(place)
            rank, right = rank[place], right[place]
        neighbour = anchor_SB.reshape(-1, 1)
        neighbour = neighbour + (neighbour > LEFT_END)  # row 1 is `</s>`
        at = rank.gather(1, neighbour)
        left = rank <= at
        rank = torch.cat((rank + ~left, at + 1), dim=1)
        new_row = torch.full_like(at, right.shape[1])
        right = torch.cat((right.scatter(1, neighbour, new_row), right.gather(1, neighbour)), dim=1)
        left_PnR = torch.cat((left, torch.zeros_like(at, dtype=torch.bool)), dim=1)[:, None]
        return self._extend(state.decoder, word_SB.reshape(-1, 1), left_PnR, rank, right)

    def keep(self, state: IndigoState, sentence_index: Tensor) -> IndigoState:
        """See `SerialDecoder`."""
        place = places_of(sentence_index, len(state.query_PD) // state.decoder.sentences)
        decoder = state.decoder.keep(sentence_index, place)
        return IndigoState(
            decoder, state.query_PD[place], state.word_PD[place], state.rank_PR[place], state.right_PR[place]
        )


def _parent_products(keys_PRD: Tensor, query_SCD: Tensor, parent_SC: Tensor) -> Tensor:
    """Return (S * C, R) products of each candidate's query with the keys of its parent.

    All hypotheses of a sentence are multiplied with all its candidates, and one product in B is kept: that reads the
    keys where they lie, which costs less than copying those of each parent.
    """
    sentences, candidates, model_dim = query_SCD.shape
    beam = len(keys_PRD) // sentences
    queries = query_SCD[:, None].expand(sentences, beam, candidates, model_dim).reshape(-1, candidates, model_dim)
    products: Tensor = torch.bmm(keys_PRD, queries.transpose(1, 2)).unflatten(0, (sentences, beam))  # (S, B, R, C)
    if beam == 1:
        return products[:, 0].transpose(1, 2).flatten(0, 1)
    sentence = torch.arange(sentences, device=parent_SC.device)[:, None]
    candidate = torch.arange(candidates, device=parent_SC.device)[None]
    return products[sentence, parent_SC, :, candidate].flatten(0, 1)
