"""LSTM encoder-decoder with attention, and with adaptive control of attention (Lin et al. 2018, PAPERS.md C).

It can be told a length (Kikuchi et al. 2016, `nn/length_inputs.py`).

Shape letters: S sentences, X source length, T target length, B hypotheses a sentence, P = S * B places, L decoder
layers, D width, V words of the softmax, C candidates.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from indigo_cli.core.units import UnitTable
from indigo_cli.core.vocab import BOS
from indigo_cli.data.batch import Batch, Source
from indigo_cli.models.lstm_config import LstmConfig
from indigo_cli.models.protocol import WordScores
from indigo_cli.models.serial import Appending, Terms, gold_words, places, places_of
from indigo_cli.nn.adaptive_control import AdaptiveControl, Mlp
from indigo_cli.nn.blocks import initialise
from indigo_cli.nn.embedding import Embeddings
from indigo_cli.nn.length_inputs import LengthCell, RemainingLength
from indigo_cli.nn.losses import word_loss
from indigo_cli.nn.recurrent import GlobalAttention, LstmDecoder, LstmEncoder, Reading, States
from indigo_cli.nn.units import Progress, UnitCounter, wished


def build(
    config: LstmConfig, *, source_size: int, target_size: int, ordered_source: bool, units: UnitTable | None = None
) -> "Lstm":
    """Build the system for two vocabulary sizes.

    Args:
        ordered_source: False where the source is a bag, which is sorted and read as it stands.
        units: Of the target, where lengths are controlled.
    """
    return Lstm(
        source_size=source_size,
        target_size=target_size,
        model_dim=config.model_dim,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        dropout=config.dropout,
        share_embeddings=config.share_embeddings,
        aca=config.aca,
        length_control=config.length_control,
        units=units,
    )


@dataclass(frozen=True)
class LstmState:
    """Cached decoding.

    Args:
        reading: The sources, once a sentence.
        states: Of all layers, (L, P, D) each.
        memory: (P, D) m_t; of an LSTM without adaptive control it stays as it was.
        features: (P, D) what the softmax sees next.
        written: What stands in each place; None where steps are not told how much is left.
        wish: (P,) int64 the length that each place is to reach; None as above.
    """

    reading: Reading
    states: States
    memory: Tensor
    features: Tensor
    written: Progress | None = None
    wish: Tensor | None = None

    @property
    def sentences(self) -> int:
        """S."""
        return len(self.reading.keys)

    def choose(self, place: Tensor) -> "LstmState":
        """Return other places of the same sentences: the memory follows its hypothesis as the states do."""
        states = (self.states[0].index_select(1, place), self.states[1].index_select(1, place))
        return LstmState(
            self.reading,
            states,
            self.memory[place],
            self.features[place],
            None if self.written is None else self.written.choose(place),
            None if self.wish is None else self.wish[place],
        )


class Lstm(Appending):
    """Encoder-decoder that appends one word a step (Eq. 16). `<eod>` ends a sentence."""

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
        length_control: str = "none",
        units: UnitTable | None = None,
    ) -> None:
        super().__init__()
        self.embeddings = Embeddings(source_size, target_size, model_dim, shared=share_embeddings, dropout=dropout)
        self.encoder = LstmEncoder(encoder_layers, model_dim, dropout)
        self.attention = GlobalAttention(model_dim)
        self.remaining = RemainingLength(model_dim // 2) if length_control == "lenemb" else None
        self.first_cell = LengthCell(decoder_layers, model_dim) if length_control == "leninit" else None
        if length_control != "none" and units is None:
            raise ValueError("length control needs a table of units")
        self.counter = UnitCounter(units) if length_control != "none" and units is not None else None
        input_dim = model_dim + (0 if self.remaining is None else self.remaining.dim)
        self.decoder = LstmDecoder(decoder_layers, input_dim, model_dim, dropout)
        self.control = AdaptiveControl(model_dim, dropout) if aca else None
        self.output = Mlp(2 * model_dim, model_dim, dropout)
        initialise(self)
        if self.control is not None:
            self.control.feeds.initialise()  # or maps that share a product would start as one wide one

    def _terms(self, batch: Batch, smoothing: float) -> Terms:
        target, lengths = batch.target, batch.lengths
        written, wish = None, batch.source.wish
        if self.counter is not None:
            written = functional.pad(self.counter(target), (1, 0))
            wish = wished(wish, written[:, -1])
        reading, states = self._read(batch.source, wish)
        rows = torch.cat((target.new_full((len(target), 1), BOS), target), dim=1)
        top = self.decoder(self._inputs(rows, written, None if wish is None else wish[:, None]), states)
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

    def _read(self, source: Source, wish_S: Tensor | None) -> tuple[Reading, States]:
        """Encode sources; return them and the decoder's first states.

        These are the last ones of the encoder's upper layers, but for the cells where a length makes them.
        """
        encoded, (hidden, cell) = self.encoder(self.embeddings.embed_source(source, sinusoidal=False), source.mask)
        layers = self.decoder.num_layers
        hidden, cell = hidden[-layers:], cell[-layers:]
        if self.first_cell is not None and wish_S is not None:
            cell = self.first_cell(wish_S)
        return self.attention.read(encoded, source.mask), (hidden, cell)

    def _inputs(self, words: Tensor, written: Tensor | None, wish: Tensor | None) -> Tensor:
        """Return (..., input width) for ids (...): words, and how much of the wish is left where steps are told."""
        embedded = self.embeddings.embed_target(words)
        if self.remaining is None or written is None or wish is None:
            return embedded
        told: Tensor = self.remaining(embedded, written, wish)
        return told

    def start(self, source: Source) -> LstmState:
        """See `SerialDecoder`; a system that counts lengths needs the wishes of the source."""
        if self.counter is not None and source.wish is None:
            raise ValueError("this system is told how long each target is to be, and the source has no wishes")
        reading, states = self._read(source, source.wish)
        first = source.values.new_full((len(source.values),), BOS)
        state = LstmState(reading, states, states[0][-1], states[0][-1])
        if self.counter is not None and self.remaining is not None:
            state = replace(state, written=self.counter.start(len(first)), wish=source.wish)
        return self._append(state, first)

    def _append(self, state: LstmState, word_P: Tensor) -> LstmState:
        """Go on by a word in each place, which `state.written` counts already."""
        count = None if state.written is None else state.written.count
        states = self.decoder.step(self._inputs(word_P, count, state.wish), state.states)
        memory = state.memory
        top = states[0][-1]
        context = self.attention(top.unflatten(0, (state.sentences, -1)), state.reading).flatten(0, 1)
        if self.control is not None:
            context, memory = self.control.step(top, context, memory)
        return replace(state, states=states, memory=memory, features=self._features(top, context))

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
        state, word_P = state.choose(place) if moved else state, word_SB.flatten()
        if self.counter is not None and state.written is not None:
            state = replace(state, written=self.counter.extend(state.written, word_P))
        return self._append(state, word_P)

    def keep(self, state: LstmState, sentence_index: Tensor) -> LstmState:
        """See `SerialDecoder`."""
        place = places_of(sentence_index, len(state.features) // state.sentences)
        return replace(state.choose(place), reading=state.reading.keep(sentence_index))
