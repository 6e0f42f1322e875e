"""LSTM encoder-decoder with attention, and with adaptive control of attention (Lin et al. 2018, PAPERS.md C).

Shape letters: S sentences, X source length, T target length, B hypotheses a sentence, P = S * B places, L decoder
layers, D width, V words of the softmax, C candidates.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from indigo_cli.core.vocab import BOS
from indigo_cli.data.batch import Batch, Source
from indigo_cli.models.lstm_config import LstmConfig
from indigo_cli.models.protocol import Losses, StepLogProbs, WordScores
from indigo_cli.models.serial import Terms, gold_words, places, places_of, step_log_probs
from indigo_cli.nn.adaptive_control import AdaptiveControl, Mlp
from indigo_cli.nn.blocks import initialise
from indigo_cli.nn.embedding import Embeddings
from indigo_cli.nn.losses import word_loss
from indigo_cli.nn.recurrent import GlobalAttention, LstmDecoder, LstmEncoder, Reading, States


def build(config: LstmConfig, *, source_size: int, target_size: int, ordered_source: bool) -> "Lstm":
    """Build the system for two vocabulary sizes; a bag (`ordered_source` False) is sorted and read as it stands."""
    return Lstm(
        source_size=source_size,
        target_size=target_size,
        model_dim=config.model_dim,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        dropout=config.dropout,
        share_embeddings=config.share_embeddings,
        aca=config.aca,
    )


@dataclass(frozen=True)
class LstmState:
    """Cached decoding.

    Args:
        reading: The sources, once a sentence.
        states: Of all layers, (L, P, D) each.
        memory: (P, D) m_t; of an LSTM without adaptive control it stays as it was.
        features: (P, D) what the softmax sees next.
    """

    reading: Reading
    states: States
    memory: Tensor
    features: Tensor

    @property
    def sentences(self) -> int:
        """S."""
        return len(self.reading.keys)

    def choose(self, place: Tensor) -> "LstmState":
        """Return other places of the same sentences: the memory follows its hypothesis as the states do."""
        states = (self.states[0].index_select(1, place), self.states[1].index_select(1, place))
        return LstmState(self.reading, states, self.memory[place], self.features[place])


class Lstm(nn.Module):
    """Encoder-decoder that appends one word a step. `<eod>` ends a sentence."""

    def __init__(
        self,
        *,
        source_size: int,
        target_size: int,
        model_dim: int,
        encoder_layers: int,
        decoder_layers: int,
        dropout: float,
        share_embeddings: bool,
        aca: bool,
    ) -> None:
        super().__init__()
        self.embeddings = Embeddings(source_size, target_size, model_dim, shared=share_embeddings, dropout=dropout)
        self.encoder = LstmEncoder(encoder_layers, model_dim, dropout)
        self.attention = GlobalAttention(model_dim)
        self.decoder = LstmDecoder(decoder_layers, model_dim, model_dim, dropout)
        self.control = AdaptiveControl(model_dim, dropout) if aca else None
        self.output = Mlp(2 * model_dim, model_dim, dropout)
        initialise(self)

    @property
    def greedy_only(self) -> bool:
        """See `SerialDecoder`."""
        return False

    def forward(self, batch: Batch, smoothing: float = 0.0) -> Losses:
        """Return the losses of the targets, left to right (Eq. 16), whatever the plan says."""
        terms = self._terms(batch, smoothing)
        return Losses(terms.objective, {"word": (terms.word_nll.sum(), batch.num_predictions)}, batch.num_predictions)

    @torch.no_grad()
    def log_probs(self, batch: Batch) -> StepLogProbs:
        """See `System`; every order of the plan is left to right."""
        sentences, num_orders, length = batch.plan.orders.shape
        one = step_log_probs(self._terms(batch, 0.0), batch.lengths, (sentences, 1, length))
        return StepLogProbs(one.words.expand(-1, num_orders, -1), one.slots.expand(-1, num_orders, -1))

    def _terms(self, batch: Batch, smoothing: float) -> Terms:
        target, lengths = batch.target, batch.lengths
        reading, states = self._read(batch.source)
        rows = torch.cat((target.new_full((len(target), 1), BOS), target), dim=1)
        top = self.decoder(self.embeddings.embed_target(rows), states)
        context = self.attention(top, reading)
        if self.control is not None:
            context = self.control(top, context, states[0][-1])
        gold, index = gold_words(target, lengths, batch.num_predictions)
        features = self._features(top.flatten(0, 1)[index], context.flatten(0, 1)[index])
        weight = torch.ones(len(gold), device=features.device)
        objective, word_nll = word_loss(features, self.embeddings.words, gold, weight, smoothing=smoothing)
        return Terms(objective, word_nll, weight, index, torch.zeros(target.shape, device=target.device))

    def _features(self, top_ND: Tensor, context_ND: Tensor) -> Tensor:
        """Return (N, D) v_t (Eqs. 11, 22): what the softmax sees."""
        features: Tensor = self.output(torch.cat((top_ND, context_ND), dim=1)).tanh()
        return features

    def _read(self, source: Source) -> tuple[Reading, States]:
        """Encode sources; return them and the decoder's first states, those of the encoder's upper layers."""
        encoded, (hidden, cell) = self.encoder(self.embeddings.embed_source(source, sinusoidal=False), source.mask)
        layers = self.decoder.num_layers
        return self.attention.read(encoded, source.mask), (hidden[-layers:], cell[-layers:])

    def start(self, source: Source) -> LstmState:
        """See `SerialDecoder`."""
        reading, states = self._read(source)
        state = LstmState(reading, states, states[0][-1], states[0][-1])
        return self._append(state, source.values.new_full((len(source.values),), BOS))

    def _append(self, state: LstmState, word_P: Tensor) -> LstmState:
        states, memory = self.decoder.step(self.embeddings.embed_target(word_P), state.states), state.memory
        top = states[0][-1]
        context = self.attention(top.unflatten(0, (state.sentences, -1)), state.reading).flatten(0, 1)
        if self.control is not None:
            context, memory = self.control.step(top, context, memory)
        return LstmState(state.reading, states, memory, self._features(top, context))

    def words(self, state: LstmState) -> WordScores:
        """See `SerialDecoder`."""
        logits, log_z = self.embeddings.scores(state.features)
        shape = (state.sentences, -1)
        return WordScores(logits.unflatten(0, shape), log_z.unflatten(0, shape))

    def slots(self, state: LstmState, parent_SC: Tensor, word_SC: Tensor) -> None:
        """Always the last slot."""
        return None

    def advance(self, state: LstmState, parent_SB: Tensor, word_SB: Tensor, anchor_SB: Tensor) -> LstmState:
        """See `SerialDecoder`."""
        place, moved = places(parent_SB, len(state.features))
        return self._append(state.choose(place) if moved else state, word_SB.flatten())

    def keep(self, state: LstmState, sentence_index: Tensor) -> LstmState:
        """See `SerialDecoder`."""
        place = places_of(sentence_index, len(state.features) // state.sentences)
        return replace(state.choose(place), reading=state.reading.keep(sentence_index))
