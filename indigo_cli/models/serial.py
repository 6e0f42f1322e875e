"""What the serial systems share: gold words of teacher forcing, and the places of hypotheses in decoding.

Shape letters: S sentences, N sequences, T words, B hypotheses a sentence; place = sentence * B + hypothesis.
"""

import torch
from torch import Tensor

from indigo_cli.core.vocab import EOD, FIRST_WORD


def check_width(model_dim: int, num_heads: int) -> None:
    """Refuse a width that heads or sinusoids cannot share."""
    if model_dim % num_heads or model_dim % 2:
        raise ValueError(f"model_dim ({model_dim}) must be even and a multiple of num_heads ({num_heads})")


def with_eod(words_NT: Tensor, lengths_N: Tensor) -> tuple[Tensor, Tensor]:
    """Return (N, T + 1) words with `<eod>` behind the last one of each row, and (N, T + 1) bool: at or before it."""
    step = torch.arange(words_NT.shape[1] + 1, device=words_NT.device)
    longer = torch.cat((words_NT, words_NT.new_zeros(len(words_NT), 1)), dim=1)
    return torch.where(step == lengths_N[:, None], EOD, longer), step <= lengths_N[:, None]


def gold_words(generated_NT: Tensor, lengths_N: Tensor, num_predictions: int) -> tuple[Tensor, Tensor]:
    """Return the word column of every real prediction, `<eod>` closing each row, and its index among N * (T + 1)."""
    words, real = with_eod(generated_NT, lengths_N)
    index = torch.nonzero_static(real.flatten(), size=num_predictions)[:, 0]
    return words.flatten()[index] - FIRST_WORD, index


def places(parent_SB: Tensor, old_places: int) -> tuple[Tensor, bool]:
    """Turn parents within a sentence into place numbers; tell whether anything can have moved at all."""
    sentences, beam = parent_SB.shape
    old_beam = old_places // sentences
    base = torch.arange(sentences, device=parent_SB.device)[:, None] * old_beam
    return (parent_SB + base).flatten(), not (beam == old_beam == 1)


def places_of(sentence_index: Tensor, beam: int) -> Tensor:
    """Return the places of whole sentences."""
    return (sentence_index[:, None] * beam + torch.arange(beam, device=sentence_index.device)).flatten()
