"""Transformer-InDIGO (Gu, Liu, Cho; TACL 2019): every step decides what to insert, then where.

Shape letters: S sentences, K orders of a target, N = S * K sequences, T words, R = T + 2 rows in generation order
(`<s>`, `</s>`, words), P places (hypotheses) in decoding, B hypotheses a sentence, C candidates, A slots, D width.
"""

import math
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from indigo_cli.core.units import UnitTable
from indigo_cli.core.vocab import BOS, EOD, EOS
from indigo_cli.data.batch import Batch, Source
from indigo_cli.models.indigo_config import IndigoConfig
from indigo_cli.models.indigo_known import IndigoKnown
from indigo_cli.models.indigo_slots import IndigoState, gold_slots, open_slots, place_word, slot_nll
from indigo_cli.models.indigo_tree import tree_log_probs, tree_losses
from indigo_cli.models.position_first import PositionFirst
from indigo_cli.models.protocol import Losses, Planner, StepLogProbs, WordScores
from indigo_cli.models.serial import Terms, end_slot, gold_words, not_given, places, places_of, step_log_probs
from indigo_cli.nn.attention import Scale
from indigo_cli.nn.blocks import Decoder, DecoderState, Encoder, initialise
from indigo_cli.nn.embedding import Embeddings
from indigo_cli.nn.losses import word_loss
from indigo_cli.nn.positions.budget import Budget, Spending
from indigo_cli.nn.positions.ternary import RIGHT_END, left_matrix, row_positions


def build(
    config: IndigoConfig,
    *,
    source_size: int,
    target_size: int,
    ordered_source: bool,
    units: UnitTable | None = None,
) -> "Indigo":
    """Build the system for two vocabulary sizes.

    Args:
        ordered_source: False where the source is a bag.
        units: Of the target, where lengths are controlled.
    """
    if config.counts_length and units is None:
        raise ValueError("a system that is told lengths needs a table of units")
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
        position_first=config.predict == "position_first",
        budget=Budget(units, config.length_control, config.model_dim) if units is not None else None,
    )


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
        position_first: bool,
        budget: Budget | None = None,
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
        self.end_has_slot = eod_position or position_first
        self.position_first = PositionFirst(model_dim, mix=self.query_scale) if position_first else None
        self.budget = budget
        initialise(self)

    @property
    def greedy_only(self) -> bool:
        """See `SerialDecoder`."""
        return self.position_first is not None

    def forward(self, batch: Batch, smoothing: float = 0.0, planner: Planner | None = None) -> Losses:
        """Return Eq. 10's T + 1 word and T position terms, averaged over the orders of the plan.

        Smoothing touches words only. Position terms use one probability a slot (Eq. 11); those of `<eod>` are T + 1.
        Several orders are one prefix tree, which is the same but for dropout. Given words have no terms.

        Args:
            planner: Finds the plan, in place of the batch's.
        """
        if planner is None:
            memory = self.encode(batch.source)
        else:
            dropout = planner.dropout(batch)
            memory = self.encode(batch.source) if dropout is None else self.known.encode(batch.source, dropout)
            batch = replace(batch, plan=planner(self, memory.detach(), batch))
        if self._grows_tree(batch):
            return tree_losses(self, batch, memory, smoothing)
        terms = self._terms(batch, memory, smoothing)
        position = (terms.slot_nll.sum(dim=1) * batch.plan.weights.flatten()).sum()
        num_positions = batch.num_predictions if self.end_has_slot else batch.num_words
        parts = {
            "word": (terms.word_nll @ terms.word_weight, float(batch.num_predictions)),
            "position": (position.detach(), float(num_positions)),
        }
        return Losses(terms.objective + position, parts, float(batch.num_predictions))

    @torch.no_grad()
    def log_probs(self, batch: Batch) -> StepLogProbs:
        """See `System`. What `eod_position` trains for `<eod>` is no part of a trace; of `position_first` it is."""
        memory = self.encode(batch.source)
        if self._grows_tree(batch):
            return tree_log_probs(self, batch, memory)
        terms = self._terms(batch, memory, 0.0)
        return step_log_probs(
            terms, batch.lengths, batch.plan.orders.shape, end_has_slot=self.position_first is not None
        )

    def _grows_tree(self, batch: Batch) -> bool:
        several, plain = batch.plan.orders.shape[1] > 1, batch.plan.given is None
        return several and plain and self.position_first is None

    def _terms(self, batch: Batch, memory: Tensor, smoothing: float) -> Terms:
        """Teach all orders of a batch, each as a sequence of its own."""
        num_orders = batch.plan.orders.shape[1]
        orders_NT = batch.plan.orders.flatten(0, 1)
        lengths_N = batch.lengths.repeat_interleave(num_orders)
        words_NT = batch.target.repeat_interleave(num_orders, dim=0).gather(1, orders_NT)
        ends = words_NT.new_tensor([BOS, EOS]).expand(len(words_NT), 2)
        z_NR = row_positions(orders_NT)
        rows_NR, code_NRD = torch.cat((ends, words_NT), dim=1), None
        if self.budget is not None:
            wish_N = self.budget.wish(batch.source, batch.target).repeat_interleave(num_orders)
            code_NRD = self.budget.along(rows_NR, wish_N)
        hidden = self.decoder(
            self.embeddings.embed_target(rows_NR, code_NRD),
            memory,
            batch.source.mask,
            left=left_matrix(z_NR),
        )
        query, word, left_keys, right_keys = self.heads(hidden).chunk(4, dim=-1)
        slots = gold_slots(words_NT, z_NR, lengths_N, with_end=self.end_has_slot)
        query = query[:, RIGHT_END : RIGHT_END + slots.words_NQ.shape[1]]
        word = word[:, RIGHT_END:]
        steps_N, given_N = lengths_N + 1, batch.plan.given
        if given_N is not None:
            given_N = given_N.repeat_interleave(num_orders)
            steps_N = steps_N - given_N
            slots = replace(slots, real_NQ=slots.real_NQ & not_given(slots.real_NQ.shape[1], given_N))
        gold, index = gold_words(words_NT, lengths_N, batch.num_predictions * num_orders, given_N)
        weight = batch.plan.weights.flatten().repeat_interleave(steps_N, output_size=len(index))
        if self.position_first is None:
            query = self.pointer_query(query, slots.words_NQ)
            objective, word_nll = word_loss(
                word.flatten(0, 1)[index], self.embeddings.words, gold, weight, smoothing=smoothing
            )
        else:
            query = query * self.pointer_scale
            features = self.position_first.gold_features(word, left_keys, right_keys, slots).flatten(0, 1)[index]
            last = (slots.right_NQ == RIGHT_END).flatten()[index]
            objective, word_nll = self.position_first.word_loss(
                features, self.embeddings.words, gold, weight, last, smoothing=smoothing
            )
        return Terms(objective, word_nll, weight, index, slot_nll(query, left_keys, right_keys, slots))

    def pointer_query(self, query: Tensor, word: Tensor) -> Tensor:
        """Mix h E with the embedding of the chosen word (Eq. 9), and scale."""
        embedded: Tensor = self.embeddings.target(word)
        return (query + embedded * self.word_scale) * (self.query_scale * self.pointer_scale)

    def encode(self, source: Source, embedding_mask: Tensor | None = None, drop: Tensor | None = None) -> Tensor:
        """Return the encoder's output; the masks take the place of its dropout (see `Encoder.forward`)."""
        embedded = self.embeddings.embed_source(source, sinusoidal=self.sinusoidal_source, mask=embedding_mask)
        memory: Tensor = self.encoder(embedded, source.mask, drop)
        return memory

    @property
    def known(self) -> IndigoKnown:
        """What the search for orders asks; for a system that chooses the word first."""
        if self.position_first is not None:
            raise ValueError("orders are searched with a system that chooses the word first")
        return IndigoKnown(self)

    def start(self, source: Source) -> IndigoState:
        """See `SerialDecoder`. Both boundaries stand."""
        memory = self.encode(source)
        state = self.decoder.start(memory, source.mask, own=memory.shape[2])
        ends = source.values.new_tensor([BOS, EOS]).expand(len(source.values), 2)
        left = memory.new_tensor([[0.0, 0.0], [1.0, 0.0]]).expand(len(ends), 2, 2)
        rank = ends.new_tensor([0, 1]).expand(len(ends), 2)
        right = ends.new_tensor([RIGHT_END, RIGHT_END]).expand(len(ends), 2)
        spending = None if self.budget is None else self.budget.start(source.wish)
        return self._extend(state, ends, left, rank, right, spending)

    def _extend(
        self,
        state: DecoderState,
        words_Pn: Tensor,
        left_PnR: Tensor,
        rank_PR: Tensor,
        right_PR: Tensor,
        spending: Spending | None,
    ) -> IndigoState:
        spending = spending and spending.spend(words_Pn)
        embedded = self.embeddings.embed_target(words_Pn, spending.told() if spending else None)
        hidden = self.decoder.extend(embedded, state, left_PnR=left_PnR)
        state.cache.write_own(hidden)
        model_dim = hidden.shape[2]
        query, word = functional.linear(hidden[:, -1], self.heads.weight[: 2 * model_dim]).chunk(2, dim=1)
        new = IndigoState(state, query, word, rank_PR, right_PR, spending=spending)
        if self.position_first is not None:
            own_SB = torch.arange(len(rank_PR), device=rank_PR.device).unflatten(0, (state.sentences, -1))
            own_SB, place = own_SB - own_SB[:, :1], own_SB.flatten()
            scaled = (new.query_PD * self.pointer_scale).unflatten(0, own_SB.shape)
            new.open_PA = open_slots(new, own_SB, place, scaled, self._pointers).flatten(0, 1)
        return new

    @property
    def _pointers(self) -> Tensor:
        """(2, D, D): C and D of Eq. 9."""
        model_dim = self.heads.in_features
        return self.heads.weight[2 * model_dim :].view(2, model_dim, model_dim)

    def words(self, state: IndigoState) -> WordScores:
        """See `SerialDecoder` (Eq. 8)."""
        if self.position_first is not None:
            return self.position_first.words(state, self.embeddings, self._pointers)
        logits, log_z = self.embeddings.scores(state.word_PD)
        shape = (state.decoder.sentences, -1)
        return WordScores(logits.unflatten(0, shape), log_z.unflatten(0, shape))

    def slots(self, state: IndigoState, parent_SC: Tensor, word_SC: Tensor) -> Tensor:
        """See `SerialDecoder`."""
        if self.position_first is not None:
            return self.position_first.slots(state, parent_SC, word_SC)
        place, _ = places(parent_SC, len(state.query_PD))
        query = self.pointer_query(state.query_PD[place], word_SC.flatten()).unflatten(0, parent_SC.shape)
        log_probs = open_slots(state, parent_SC, place, query, self._pointers)
        return torch.where((word_SC == EOD)[..., None], end_slot(log_probs), log_probs)

    def advance(self, state: IndigoState, parent_SB: Tensor, word_SB: Tensor, anchor_SB: Tensor) -> IndigoState:
        """See `SerialDecoder`."""
        place, moved = places(parent_SB, len(state.query_PD))
        rank, right, spending = state.rank_PR, state.right_PR, state.spending
        state.decoder.cache.choose(parent_SB)
        if moved:
            rank, right, spending = rank[place], right[place], spending and spending.choose(place)
        left_PnR, rank, right = place_word(rank, right, anchor_SB.reshape(-1, 1))
        return self._extend(state.decoder, word_SB.reshape(-1, 1), left_PnR, rank, right, spending)

    def keep(self, state: IndigoState, sentence_index: Tensor) -> IndigoState:
        """See `SerialDecoder`."""
        place = places_of(sentence_index, len(state.query_PD) // state.decoder.sentences)
        return IndigoState(
            state.decoder.keep(sentence_index, place),
            state.query_PD[place],
            state.word_PD[place],
            state.rank_PR[place],
            state.right_PR[place],
            None if state.open_PA is None else state.open_PA[place],
            state.spending and state.spending.choose(place),
        )
