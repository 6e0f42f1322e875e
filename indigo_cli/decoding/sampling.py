"""Sampling: every place is a draw of its own from the model, or from the more probable part of it.

Shape letters: S sentences, B samples a sentence, V words of the softmax, A slots, N things to draw from.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.decoding.config import DecodeConfig, ranking_score
from indigo_cli.decoding.places import CARRIED, Places, Sentence, Step
from indigo_cli.decoding.rules import Rules
from indigo_cli.models.protocol import SerialDecoder

WORD, SLOT = range(2)
"""What a draw is for, in its key."""
WEYL = 0x9E3779B97F4A7C15
ALL_BITS = 2**64 - 1


class Sampler:
    """Draws a word, then a slot, for every sample, whatever the others are. Bans are out before anything else.

    Args:
        decoder: A serial system.
        config: Temperature, top-k and top-p, which act on words and on slots alike, and how hypotheses are ranked.
        rules: What samples must not do; one without any word left to write ends there, unfinished.
        sentences: Their lines are keys of the draws.
        width: Samples of each sentence.
        seed: Key of all draws.
    """

    def __init__(
        self,
        decoder: SerialDecoder,
        config: DecodeConfig,
        rules: Rules,
        sentences: Sequence[Sentence],
        *,
        width: int,
        seed: int,
    ) -> None:
        self.decoder, self.config, self.rules = decoder, config, rules
        self.lines = np.array([sentence.line for sentence in sentences], dtype=np.int64)
        self.width, self.seed = width, seed

    def choose(self, state: Any, places: Places) -> Step:
        """See `Chooser`."""
        scores = self.rules.score_words(self.decoder, state, places)
        beam = places.total.shape[1]
        sample = torch.arange(self.width, device=places.total.device).expand(len(places.rows), -1)
        parent = sample if beam == self.width else torch.zeros_like(sample)  # at first there is one place a sentence
        logits = scores.logits.expand(-1, self.width, -1)
        column, any_word = self._draw(logits, places, WORD)
        word = column + FIRST_WORD
        word_log_prob = (logits.gather(2, column[..., None]) - scores.log_z.expand(-1, self.width)[..., None])[..., 0]

        slots = self.decoder.slots(state, parent, word)
        if slots is None:
            anchor, any_slot = torch.full_like(word, places.length), any_word
            slot_log_prob = torch.zeros_like(word_log_prob)
        else:
            for slot_rule in self.rules.slots:
                slot_rule(slots, places, parent, word)
            anchor, any_slot = self._draw(slots, places, SLOT)
            slot_log_prob = slots.gather(2, anchor[..., None])[..., 0]

        live = places.live.expand(-1, self.width)
        grown = live & any_word & any_slot
        stuck = live & ~grown
        total = places.total.expand(-1, self.width)
        longer = torch.where(grown, total + word_log_prob + slot_log_prob, total)
        rank = places.rank.expand(-1, self.width)
        rank = torch.where(stuck, ranking_score(total, places.length, False, self.config), rank)
        ends = grown & (word == EOD)
        places.rank = torch.where(ends, ranking_score(longer, places.length, True, self.config), rank)
        places.total, places.live = longer, grown & ~ends
        places.cut = places.cut.expand(-1, self.width) | stuck
        return Step(
            parent=parent,
            word=torch.where(grown, word, CARRIED),
            anchor=torch.where(grown, anchor, 0),
            word_log_prob=word_log_prob,
            slot_log_prob=slot_log_prob,
        )

    def _draw(self, log_weights: Tensor, places: Places, what: int) -> tuple[Tensor, Tensor]:
        lines = self.lines[places.rows.cpu().numpy()]
        numbers = uniform(self.seed, lines, self.width, step=places.length, what=what)
        return draw(
            log_weights,
            torch.from_numpy(numbers).to(log_weights.device),
            temperature=self.config.temperature,
            top_k=self.config.top_k,
            top_p=self.config.top_p,
        )


def draw(
    log_weights: Tensor, numbers: Tensor, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Turn one number of [0, 1) into one of N things, by the inverse of their cumulated probabilities.

    They stand in their own order and are added as float64, so a draw does not depend on what is computed beside it.

    Args:
        log_weights: (S, B, N) logits or log-probabilities; -inf is never drawn.
        numbers: (S, B) float64.
        temperature: Divides the logits.
        top_k: Only so many of the most probable; 0 = all.
        top_p: Then only the fewest of the most probable that hold this much of what is left.

    Returns:
        (S, B) indices, and bool: False where there is nothing to draw.
    """
    kept = None
    if 0 < top_k < log_weights.shape[2]:
        kept = log_weights.topk(top_k, dim=2).indices.sort(dim=2).values
        log_weights = log_weights.gather(2, kept)
    best = log_weights.amax(dim=2, keepdim=True)
    possible = best > -torch.inf
    weights = log_weights.to(torch.float64, copy=True)  # in place from here on: a vocabulary for each sample is much
    weights.sub_(torch.where(possible, best, 0.0)).div_(temperature).exp_()
    if top_p < 1.0:
        ordered, order = weights.sort(dim=2, descending=True, stable=True)
        before = ordered.cumsum(dim=2) - ordered
        weights = weights.scatter(2, order, ordered * (before < top_p * ordered.sum(dim=2, keepdim=True)))
    cumulated = weights.cumsum(dim=2)
    wanted = numbers[..., None] * cumulated[..., -1:]
    index = torch.searchsorted(cumulated, wanted, right=True).clamp_(max=weights.shape[2] - 1)
    # Sums that are made in parallel can fall by a last bit; then a neighbour without weight could be found.
    index = torch.where(weights.gather(2, index) > 0, index, weights.argmax(dim=2, keepdim=True))
    return (index if kept is None else kept.gather(2, index))[..., 0], possible[..., 0]


def uniform(seed: int, lines: np.ndarray, samples: int, *, step: int, what: int) -> np.ndarray:
    """Return (S, samples) float64 of [0, 1), each a function of its own key (seed, line, sample, step, what) alone.

    The key's parts go one by one into a 64-bit state whose bits are mixed after each (the finaliser of splitmix64,
    Steele et al. 2014).
    """
    state = np.full((1, 1), seed & ALL_BITS, dtype=np.uint64)
    parts = (lines[:, None], np.arange(samples)[None], np.array([[step]]), np.array([[what]]))
    for part in parts:
        state = _mixed(state) + np.asarray(part).astype(np.uint64) * np.uint64(WEYL)
    return (_mixed(state) >> np.uint64(11)) * 2.0**-53


def _mixed(state: np.ndarray) -> np.ndarray:
    state = state + np.uint64(WEYL)
    state = (state ^ state >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ state >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    return state
