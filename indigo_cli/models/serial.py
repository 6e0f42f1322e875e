"""What the serial systems share: gold words and terms of teacher forcing, and the places of hypotheses in decoding.

Shape letters: S sentences, K orders of each, N = S * K sequences, T words, B hypotheses a sentence;
place = sentence * B + hypothesis.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.data.batch import Batch
from indigo_cli.models.protocol import Losses, StepLogProbs
from indigo_cli.nn.units import UnitCounter


def with_eod(words_NT: Tensor, lengths_N: Tensor) -> tuple[Tensor, Tensor]:
    """Return (N, T + 1) words with `<eod>` behind the last one of each row, and (N, T + 1) bool: at or before it."""
    step = torch.arange(words_NT.shape[1] + 1, device=words_NT.device)
    longer = torch.cat((words_NT, words_NT.new_zeros(len(words_NT), 1)), dim=1)
    return torch.where(step == lengths_N[:, None], EOD, longer), step <= lengths_N[:, None]


def gold_words(
    generated_NT: Tensor, lengths_N: Tensor, num_predictions: int, given_N: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the word column of every real prediction, `<eod>` closing each row, and its index among N * (T + 1).

    The first words of each row that are given are not predicted.
    """
    words, real = with_eod(generated_NT, lengths_N)
    if given_N is not None:
        real = real & not_given(words.shape[1], given_N)
    index = torch.nonzero_static(real.flatten(), size=num_predictions)[:, 0]
    return words.flatten()[index] - FIRST_WORD, index


def not_given(steps: int, given_N: Tensor) -> Tensor:
    """Return (N, steps) bool: False where a given word comes."""
    return torch.arange(steps, device=given_N.device) >= given_N[:, None]


@dataclass(frozen=True)
class Terms:
    """What teacher forcing gives, term by term, nats: `forward` weights and sums it, `log_probs` shows it.

    Args:
        objective: Smoothed and weighted sum over words, to backpropagate.
        word_nll: Plain negative log p of every word and `<eod>`, without gradient.
        word_weight: Weight of each.
        index: Place of each among N * (T + 1).
        slot_nll: (N, T), or (N, T + 1) where `<eod>` has a slot: negative log p(slot), 0 on padding.
    """

    objective: Tensor
    word_nll: Tensor
    word_weight: Tensor
    index: Tensor
    slot_nll: Tensor


def step_log_probs(
    terms: Terms, lengths_S: Tensor, shape: Sequence[int], *, end_has_slot: bool = False
) -> StepLogProbs:
    """Sort terms by step.

    Args:
        terms: Of S * K sequences.
        lengths_S: Of the targets.
        shape: (S, K, T).
        end_has_slot: The slot of `<eod>` is part of what ending costs; else, if it was trained, it is left out.
    """
    sentences, num_orders, length = shape
    words = terms.word_nll.new_zeros(sentences * num_orders * (length + 1))
    words[terms.index] = log_probs_of(terms.word_nll)
    words = words.unflatten(0, (sentences, num_orders, length + 1))
    slots = log_probs_of(terms.slot_nll).unflatten(0, (sentences, num_orders))
    before_end = torch.arange(slots.shape[2], device=slots.device) < lengths_S[:, None, None]
    if end_has_slot:
        words = words + torch.where(before_end, 0.0, slots)
    return StepLogProbs(words, torch.where(before_end, slots, 0.0)[:, :, :length])


class Appending(nn.Module):
    """What systems that only append have in common: each order is left to right, one term a word, no slot is chosen."""

    counter: UnitCounter | None
    """Of the target's units, where it is told lengths."""

    @property
    def greedy_only(self) -> bool:
        """See `SerialDecoder`."""
        return False

    def forward(self, batch: Batch, smoothing: float = 0.0) -> Losses:
        """Return the losses of the targets, left to right, whatever the plan says."""
        terms, count = self._terms(batch, smoothing), batch.num_predictions
        return Losses(terms.objective, {"word": (terms.word_nll.sum(), count)}, count)

    @torch.no_grad()
    def log_probs(self, batch: Batch) -> StepLogProbs:
        """See `System`; the terms are the same for every order of the plan."""
        sentences, num_orders, length = batch.plan.orders.shape
        one = step_log_probs(self._terms(batch, 0.0), batch.lengths, (sentences, 1, length))
        return StepLogProbs(one.words.expand(-1, num_orders, -1), one.slots.expand(-1, num_orders, -1))

    def _terms(self, batch: Batch, smoothing: float) -> Terms:
        """Return the terms of teacher forcing."""
        raise NotImplementedError


def log_probs_of(nll: Tensor) -> Tensor:
    """Turn the sign, without the -0.0 and the +6e-8 of rounding that certain things would get."""
    return (0.0 - nll).clamp(max=0.0)


def end_slot(log_probs_SCA: Tensor) -> Tensor:
    """Return (1, 1, A) the slots of `<eod>` where it costs nothing beside its word: see `SerialDecoder.slots`."""
    ends = torch.full_like(log_probs_SCA[:1, :1], -torch.inf)
    ends[..., 0] = 0.0
    return ends


def places(parent_SB: Tensor, old_places: int) -> tuple[Tensor, bool]:
    """Turn parents within a sentence into place numbers; tell whether anything can have moved at all."""
    sentences, beam = parent_SB.shape
    old_beam = old_places // sentences
    base = torch.arange(sentences, device=parent_SB.device)[:, None] * old_beam
    return (parent_SB + base).flatten(), not (beam == old_beam == 1)


def places_of(sentence_index: Tensor, beam: int) -> Tensor:
    """Return the places of whole sentences."""
    return (sentence_index[:, None] * beam + torch.arange(beam, device=sentence_index.device)).flatten()
