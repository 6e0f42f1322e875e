"""Left-to-right Transformer (Vaswani et al. 2017): the baseline of everything.

Shape letters: S sentences, X source length, T target length, B hypotheses a sentence, P = S * B places, D width,
V words of the softmax, C candidates.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from indigo_cli.core.units import UnitTable
from indigo_cli.core.vocab import BOS
from indigo_cli.data.batch import Batch, Source
from indigo_cli.models.protocol import WordScores
from indigo_cli.models.serial import Appending, Terms, gold_words, places, places_of
from indigo_cli.models.transformer_config import TransformerConfig
from indigo_cli.nn.blocks import Decoder, DecoderState, Encoder, initialise
from indigo_cli.nn.embedding import Embeddings
from indigo_cli.nn.losses import word_loss
from indigo_cli.nn.positions.appended import APPENDED, AppendedScheme
from indigo_cli.nn.positions.sinusoidal import Layout, sinusoid
from indigo_cli.nn.units import Progress, UnitCounter, wished

MORE_POSITIONS = 64
"""Codes of positions that decoding computes at a time."""


def build(
    config: TransformerConfig,
    *,
    source_size: int,
    target_size: int,
    ordered_source: bool,
    units: UnitTable | None = None,
) -> "Transformer":
    """Build the system for two vocabulary sizes.

    Args:
        ordered_source: False where the source is a bag.
        units: Of the target, where the positions need lengths.
    """
    return Transformer(
        source_size=source_size,
        target_size=target_size,
        model_dim=config.model_dim,
        ff_dim=config.ff_dim,
        num_heads=config.num_heads,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        dropout=config.dropout,
        share_embeddings=config.share_embeddings,
        sinusoidal_source=ordered_source
        if config.source_positions == "auto"
        else config.source_positions == "sinusoidal",
        scheme=APPENDED[config.scheme],
        layout=config.position_layout,
        units=units,
    )


@dataclass
class TransformerState:
    """Cached decoding.

    Args:
        decoder: The cache.
        hidden_PD: Features of the newest row of each place.
        positions_RD: Codes of the first positions.
        written: What stands in each place; None where lengths do not matter.
        wish_P: The length that each place is to reach.
    """

    decoder: DecoderState
    hidden_PD: Tensor
    positions_RD: Tensor
    written: Progress | None = None
    wish_P: Tensor | None = None


class Transformer(Appending):
    """Encoder-decoder that appends one word a step (Eq. 1). `<eod>` ends a sentence."""

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
        sinusoidal_source: bool,
        scheme: AppendedScheme = APPENDED["sinusoidal"],
        layout: Layout = "interleaved",
        units: UnitTable | None = None,
    ) -> None:
        super().__init__()
        self.embeddings = Embeddings(source_size, target_size, model_dim, shared=share_embeddings, dropout=dropout)
        self.encoder = Encoder(encoder_layers, model_dim, ff_dim, num_heads, dropout)
        self.decoder = Decoder(decoder_layers, model_dim, ff_dim, num_heads, dropout)
        self.sinusoidal_source = sinusoidal_source
        self.has_places, self.layout = scheme.place, layout
        self.length_code = scheme.length_code()
        if self.length_code is not None and units is None:
            raise ValueError("positions that encode lengths need a table of units")
        self.counter = None if self.length_code is None or units is None else UnitCounter(units)
        initialise(self)

    def _terms(self, batch: Batch, smoothing: float) -> Terms:
        memory = self._encode(batch.source)
        target, lengths = batch.target, batch.lengths
        first = target.new_full((len(target), 1), BOS)
        rows = torch.cat((first, target), dim=1)
        written_SR, wish_S1 = None, None
        if self.counter is not None:
            written_SR = functional.pad(self.counter(target), (1, 0))
            wish_S1 = wished(batch.source.wish, written_SR[:, -1])[:, None]
        hidden = self.decoder(
            self._embed(rows, self._positions(rows.shape[1], rows.device), written_SR, wish_S1),
            memory,
            batch.source.mask,
        )
        gold, index = gold_words(target, lengths, batch.num_predictions)
        weight = hidden.new_ones(len(gold), dtype=torch.float32)
        objective, word_nll = word_loss(
            hidden.flatten(0, 1)[index], self.embeddings.words, gold, weight, smoothing=smoothing
        )
        return Terms(objective, word_nll, weight, index, torch.zeros(target.shape, device=target.device))

    def _encode(self, source: Source) -> Tensor:
        embedded = self.embeddings.embed_source(source, sinusoidal=self.sinusoidal_source)
        memory: Tensor = self.encoder(embedded, source.mask)
        return memory

    def start(self, source: Source) -> TransformerState:
        """See `SerialDecoder`; a system that counts lengths needs the wishes of the source."""
        state = self.decoder.start(self._encode(source), source.mask)
        first = source.values.new_full((len(source.values), 1), BOS)
        positions_RD = self._positions(MORE_POSITIONS, first.device)
        if self.counter is None:
            return self._append(state, first, positions_RD, None, None)
        if source.wish is None:
            raise ValueError("this system is told how long each target is to be, and the source has no wishes")
        return self._append(state, first, positions_RD, self.counter.start(len(first)), source.wish)

    def _positions(self, count: int, device: torch.device) -> Tensor:
        return sinusoid(torch.arange(count, device=device), self.embeddings.model_dim, layout=self.layout)

    def _embed(self, rows: Tensor, position: Tensor, written: Tensor | None, wish: Tensor | None) -> Tensor:
        """Return (..., D) of rows (...): words, their places, and the lengths written before the next one."""
        if self.length_code is not None:
            length = self.length_code(written, wish, self.embeddings.model_dim, layout=self.layout)
            position = position + length if self.has_places else length
        return self.embeddings.embed_target(rows, position)

    def _append(
        self,
        state: DecoderState,
        word_P1: Tensor,
        positions_RD: Tensor,
        written: Progress | None,
        wish_P: Tensor | None,
    ) -> TransformerState:
        position = state.cache.num_rows
        if position == len(positions_RD):
            positions_RD = self._positions(position + MORE_POSITIONS, word_P1.device)
        count_P1 = None if written is None else written.count[:, None]
        wish_P1 = None if wish_P is None else wish_P[:, None]
        hidden = self.decoder.extend(self._embed(word_P1, positions_RD[position], count_P1, wish_P1), state)
        return TransformerState(state, hidden[:, 0], positions_RD, written, wish_P)

    def words(self, state: TransformerState) -> WordScores:
        """See `SerialDecoder`."""
        logits, log_z = self.embeddings.scores(state.hidden_PD)
        shape = (state.decoder.sentences, -1)
        return WordScores(logits.unflatten(0, shape), log_z.unflatten(0, shape))

    def slots(self, state: TransformerState, parent_SC: Tensor, word_SC: Tensor) -> None:
        """Always the last slot."""
        return None

    def advance(
        self, state: TransformerState, parent_SB: Tensor, word_SB: Tensor, anchor_SB: Tensor
    ) -> TransformerState:
        """See `SerialDecoder`."""
        state.decoder.cache.choose(parent_SB)
        written, wish_P = state.written, state.wish_P
        if self.counter is not None and written is not None and wish_P is not None:
            place, _ = places(parent_SB, len(state.hidden_PD))
            written, wish_P = self.counter.extend(written.choose(place), word_SB.flatten()), wish_P[place]
        return self._append(state.decoder, word_SB.reshape(-1, 1), state.positions_RD, written, wish_P)

    def keep(self, state: TransformerState, sentence_index: Tensor) -> TransformerState:
        """See `SerialDecoder`."""
        place = places_of(sentence_index, len(state.hidden_PD) // state.decoder.sentences)
        return TransformerState(
            state.decoder.keep(sentence_index, place),
            state.hidden_PD[place],
            state.positions_RD,
            None if state.written is None else state.written.choose(place),
            None if state.wish_P is None else state.wish_P[place],
        )
