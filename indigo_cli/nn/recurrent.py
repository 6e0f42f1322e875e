"""Layers of the recurrent encoder-decoder: a bidirectional LSTM encoder, an LSTM decoder, attention on its states.

Shape letters: S sentences, X source length, T steps, P places of hypotheses, B hypotheses a sentence, L decoder layers,
D width.
"""

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

States = tuple[Tensor, Tensor]
"""Hidden states and cells of all layers of a decoder, (L, rows, D) each."""


class LstmEncoder(nn.Module):
    """A bidirectional LSTM; each direction is D / 2 wide, so that a state [forward; backward] has D numbers.

    Source: PAPERS.md C, Eqs. 1-9, and F for the widths. LSTMs compute in float32 under autocast, too: a cell in bf16
    would lose what it adds up.
    """

    def __init__(self, num_layers: int, model_dim: int, dropout: float) -> None:
        super().__init__()
        self.num_layers = num_layers
        self.lstm = nn.LSTM(
            model_dim,
            model_dim // 2,
            num_layers,
            batch_first=True,
            bidirectional=True,
            dropout=dropout if num_layers > 1 else 0.0,
        )

    def forward(self, x_SXD: Tensor, mask_SX: Tensor) -> tuple[Tensor, States]:
        """Read embedded sources; no row depends on the padding of its batch.

        Args:
            x_SXD: (S, X, D).
            mask_SX: True for real tokens, which come first; at least one a row. Their numbers are read on the host.
        Returns: (S, X, D) states, 0 on padding, and the last states of each layer and direction: [forward after the
            last token; backward after the first], (encoder layers, S, D) each.
        """
        with torch.autocast(x_SXD.device.type, enabled=False):
            lengths = mask_SX.sum(dim=1).cpu()
            packed = pack_padded_sequence(x_SXD, lengths, batch_first=True, enforce_sorted=False)
            states, (hidden, cell) = self.lstm(packed)
            states_SXD, _ = pad_packed_sequence(states, batch_first=True, total_length=x_SXD.shape[1])
        return states_SXD, (self._joined(hidden), self._joined(cell))

    def _joined(self, last: Tensor) -> Tensor:
        """Put both directions of a layer side by side."""
        joined: Tensor = last.unflatten(0, (self.num_layers, 2)).transpose(1, 2).flatten(2)
        return joined


class LstmDecoder(nn.Module):
    """An LSTM that reads whole targets at once, or a word of every hypothesis.

    Args:
        num_layers, model_dim, dropout: Sizes, and the rate between layers.
        input_dim: Width of the inputs.
    """

    def __init__(self, num_layers: int, input_dim: int, model_dim: int, dropout: float) -> None:
        super().__init__()
        self.num_layers = num_layers
        self.lstm = nn.LSTM(
            input_dim, model_dim, num_layers, batch_first=True, dropout=dropout if num_layers > 1 else 0.0
        )

    def forward(self, x: Tensor, states: States) -> Tensor:
        """Return (S, T, D) states of the top layer for inputs (S, T, input_dim)."""
        hidden, cell = states
        with torch.autocast(x.device.type, enabled=False):
            top, _ = self.lstm(x.to(hidden.dtype), (hidden.contiguous(), cell.contiguous()))
        return cast(Tensor, top)

    def step(self, x_P: Tensor, states: States) -> States:
        """Return the states after one input (P, input_dim) each; without dropout."""
        hidden, cell = [], []
        with torch.autocast(x_P.device.type, enabled=False):
            below = x_P.to(states[0].dtype)
            for layer, weights in enumerate(self.lstm.all_weights):
                below, kept = torch.lstm_cell(below, (states[0][layer], states[1][layer]), *weights)
                hidden.append(below)
                cell.append(kept)
        return torch.stack(hidden), torch.stack(cell)


@dataclass(frozen=True)
class Reading:
    """Sources as attention sees them.

    Args:
        keys: (S, X, D) W_a h_i.
        values: (S, X, D) h_i.
        mask: (S, 1, X), 0 or -inf.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor

    def keep(self, sentence_index: Tensor) -> "Reading":
        """Drop the other sentences."""
        return replace(
            self,
            keys=self.keys[sentence_index],
            values=self.values[sentence_index],
            mask=self.mask[sentence_index],
        )


class GlobalAttention(nn.Module):
    """Global attention with the general score, e_ti = s_t W_a h_i (Luong et al. 2015; PAPERS.md C, Eqs. 13-15).

    The score is of s_t, as in the text of Lin et al. and in their code, where their Eq. 15 prints s_{t-1}.
    """

    def __init__(self, model_dim: int) -> None:
        super().__init__()
        self.key = nn.Linear(model_dim, model_dim, bias=False)

    def read(self, states_SXD: Tensor, mask_SX: Tensor) -> Reading:
        """Prepare the encoder's states; the mask is True for real tokens."""
        keys = self.key(states_SXD)
        mask = torch.zeros(mask_SX.shape, dtype=keys.dtype, device=keys.device).masked_fill_(~mask_SX, -torch.inf)
        return Reading(keys, states_SXD.to(keys.dtype), mask[:, None])

    def forward(self, states_SND: Tensor, reading: Reading) -> Tensor:
        """Return (S, N, D) contexts c of N states of each sentence: steps of a target, or hypotheses."""
        query = states_SND.to(reading.keys.dtype)
        scores_SNX = query @ reading.keys.transpose(1, 2) + reading.mask
        weights = functional.softmax(scores_SNX, dim=-1).to(reading.values.dtype)
        return weights @ reading.values
