"""Sampling in rounds: every place is a draw of its own, and every slot of it, too.

Shape letters: S sentences, B samples a sentence, G open slots (the most of any), V words of the softmax.
"""

from collections.abc import Sequence

import numpy as np
import torch

from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.places import Sentence
from indigo_cli.decoding.rounds import Decision, Growing, RoundScores, fit
from indigo_cli.decoding.sampling import draw, uniform


class RoundSampler:
    """Draws a word, or none, for every open slot of every sample, whatever the others are.

    Args:
        config: Temperature, top-k and top-p, which act on each slot alone.
        sentences: Their lines are keys of the draws, beside sample, round and number of the slot.
        width: Samples of each sentence.
        seed: Key of all draws.
    """

    def __init__(self, config: DecodeConfig, sentences: Sequence[Sentence], *, width: int, seed: int) -> None:
        self.config = config
        self.lines = np.array([sentence.line for sentence in sentences], dtype=np.int64)
        self.width, self.seed = width, seed

    def choose(self, scores: RoundScores, growing: Growing) -> Decision:
        """See `RoundChooser`."""
        beam = scores.room.shape[1]
        sample = torch.arange(self.width, device=scores.room.device).expand(len(growing.rows), -1)
        parent = sample if beam == self.width else torch.zeros_like(sample)  # at first there is one place a sentence
        if beam != self.width:
            scores = scores.expand(self.width)
        slots = scores.open.shape[2]
        lines = self.lines[growing.rows.cpu().numpy()]
        numbers = np.stack(
            [uniform(self.seed, lines, self.width, step=growing.number, what=slot) for slot in range(slots)], axis=2
        )
        column, _ = draw(
            scores.logits.flatten(1, 2),
            torch.from_numpy(numbers).to(scores.logits.device).flatten(1, 2),
            temperature=self.config.temperature,
            top_k=self.config.top_k,
            top_p=self.config.top_p,
        )
        column = column.unflatten(1, (self.width, slots))
        log_prob = scores.logits.gather(3, column[..., None])[..., 0] - scores.log_z
        return fit(scores, parent, column, log_prob)
