"""The one serial search: words first, then slots; a beam of 1 is greedy. It knows the protocol, never a model.

Shape letters: S sentences, B hypotheses a sentence, V words of the softmax, C candidates, A slots.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from indigo_cli.core.order import anchors_to_slots
from indigo_cli.core.settings import Count, NonNegativeFloat, PositiveFloat
from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.data.batch import Source
from indigo_cli.decoding.topk import top_words
from indigo_cli.models.protocol import SerialDecoder

EMPTY_SHARE = 0.25
"""Finished sentences are dropped from the batch when they are at least this share of it."""
CARRIED = -1
"""In place of a word: the hypothesis had ended before and was carried along."""


@dataclass(frozen=True)
class DecodeConfig:
    """The recipe's [decode] section.

    Args:
        beam_size: Hypotheses kept at each step; 1 = greedy.
        length_penalty: alpha of log_prob / (insertions + 1)^alpha, by which hypotheses are ranked.
        merge_strings: Hypotheses that spell the same string add their probabilities.
        max_length_ratio: Most insertions, as a multiple of the source length.
        max_length: Most insertions.
        canvas_order: How given words are ordered.
        batch_tokens: Source tokens times beam of a batch, padding counted.
    """

    beam_size: Count = 5
    length_penalty: NonNegativeFloat = 1.0
    merge_strings: bool = True
    max_length_ratio: PositiveFloat = 3.0
    max_length: Count = 250
    canvas_order: Literal["l2r", "best"] = "l2r"
    batch_tokens: Count = 4096


def normalised(log_prob: float, insertions: int, length_penalty: float) -> float:
    """Return what ranks a hypothesis: log_prob / (insertions + 1)^alpha; the one more is `<eod>`."""
    return float(log_prob / (insertions + 1) ** length_penalty)


class _Step(NamedTuple):
    """What was chosen at one step, each (S, B): where from, what, where to, at which price."""

    parent: Any
    word: Any
    anchor: Any
    word_log_prob: Any
    slot_log_prob: Any


@torch.inference_mode()
def beam_search(
    decoder: SerialDecoder, source: Source, *, beam_size: int, length_penalty: float, max_lengths: Sequence[int]
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each sentence, best first: those that ended, then those that ran out of steps.

    Each step takes the best `beam_size` words over all hypotheses, then, for these only, all slots, and keeps the best
    `beam_size` of both together (PAPERS.md A5, with the two keys of a slot merged first). `<eod>` has no slot. A
    hypothesis that ended pays nothing any more and holds its place as long as its normalised score is among the best;
    partial ones compete by the same formula. A sentence is done when no live hypothesis is left, whatever its
    neighbours in the batch do.

    Args:
        decoder: A serial system in evaluation mode.
        source: S sources.
        beam_size: Most hypotheses kept.
        length_penalty: See `normalised`.
        max_lengths: Most insertions of each sentence; hypotheses that reach it are returned unfinished.
    """
    search = _Search(decoder, source, beam_size=beam_size, length_penalty=length_penalty, max_lengths=max_lengths)
    return search.run()


class _Search:
    """State of one search. `rows` are the sentences still in the batch, by their number in `source`."""

    def __init__(
        self,
        decoder: SerialDecoder,
        source: Source,
        *,
        beam_size: int,
        length_penalty: float,
        max_lengths: Sequence[int],
    ) -> None:
        device = source.values.device
        self.decoder, self.beam_size, self.length_penalty = decoder, beam_size, length_penalty
        self.state = decoder.start(source)
        num = len(max_lengths)
        self.rows = np.arange(num)
        self.limits = torch.tensor(list(max_lengths), device=device)
        self.total = torch.zeros(num, 1, device=device)  # log-probability of each hypothesis
        self.rank = torch.full((num, 1), -torch.inf, device=device)  # normalised score of those that ended
        self.live = torch.ones(num, 1, dtype=torch.bool, device=device)
        self.cut = torch.zeros(num, 1, dtype=torch.bool, device=device)  # ran out of steps
        self.steps: list[_Step] = []
        self.results: list[list[Hypothesis]] = [[] for _ in range(num)]

    def run(self) -> list[list[Hypothesis]]:
        """Search until no sentence has a live hypothesis."""
        length = 0
        while True:
            self._stop_at_limit(length)
            alive = self.live.any(dim=1)
            num_alive = int(alive.sum())
            if num_alive == 0:
                break
            if num_alive <= (1.0 - EMPTY_SHARE) * len(alive):
                self._drop_done(alive)
            chosen = self._choose(length)
            self.steps.append(chosen)
            length += 1
            if bool(self.live.any()):
                word = chosen.word.clamp(min=EOD)  # ended places compute something harmless
                self.state = self.decoder.advance(self.state, chosen.parent, word, chosen.anchor)
        self._collect(range(len(self.rows)))
        return self.results

    def _stop_at_limit(self, length: int) -> None:
        """End the hypotheses that may not grow any more, without `<eod>`."""
        over = self.live & (self.limits <= length)[:, None]
        self.rank = torch.where(over, self.total / (length + 1) ** self.length_penalty, self.rank)
        self.cut |= over
        self.live &= ~over

    def _choose(self, length: int) -> _Step:
        """Pick the best continuations and update the scores of all places."""
        beam = self.total.shape[1]
        scores = self.decoder.words(self.state)
        values, columns = top_words(scores.logits, self.beam_size)
        word_log_probs = values - scores.log_z[..., None]
        totals = torch.where(self.live, self.total, -torch.inf)[..., None] + word_log_probs
        per_row = columns.shape[2]
        totals, best = totals.flatten(1).topk(min(self.beam_size, beam * per_row), dim=1)
        parent = best // per_row
        word = columns.flatten(1).gather(1, best) + FIRST_WORD
        word_log_prob = word_log_probs.flatten(1).gather(1, best)

        slots = self.decoder.slots(self.state, parent, word)
        if slots is None:
            slots = torch.zeros(*parent.shape, 1, device=totals.device)
            first_anchor = length
        else:
            ends = torch.full_like(slots[:1, :1], -torch.inf)
            ends[..., 0] = 0.0  # `<eod>` has one dummy slot
            slots = torch.where((word == EOD)[..., None], ends, slots)
            first_anchor = 0
        num_slots = slots.shape[2]
        joint = (totals[..., None] + slots).flatten(1)
        ranks = torch.cat((self.rank, joint / (length + 1) ** self.length_penalty), dim=1)
        rank, chosen = ranks.topk(min(self.beam_size, ranks.shape[1]), dim=1)

        carried = chosen < beam
        index = (chosen - beam).clamp(min=0)
        candidate = index // num_slots
        step = _Step(
            parent=torch.where(carried, chosen, parent.gather(1, candidate)),
            word=torch.where(carried, CARRIED, word.gather(1, candidate)),
            anchor=torch.where(carried, 0, index % num_slots + first_anchor),
            word_log_prob=word_log_prob.gather(1, candidate),
            slot_log_prob=slots.flatten(1).gather(1, index),
        )
        possible = rank > -torch.inf
        self.total = torch.where(carried, self.total.gather(1, step.parent), joint.gather(1, index))
        self.cut = carried & self.cut.gather(1, step.parent)
        self.live = possible & ~carried & (step.word != EOD)
        self.rank = torch.where(self.live, -torch.inf, rank)
        return step

    def _drop_done(self, alive: Tensor) -> None:
        """Collect the sentences that are done and take them out of the batch."""
        self._collect((~alive).nonzero()[:, 0].tolist())
        keep = alive.nonzero()[:, 0]
        self.rows = self.rows[keep.cpu().numpy()]
        self.state = self.decoder.keep(self.state, keep)
        self.limits, self.total, self.rank = self.limits[keep], self.total[keep], self.rank[keep]
        self.live, self.cut = self.live[keep], self.cut[keep]
        self.steps = [_Step(*(part[keep] for part in step)) for step in self.steps]

    def _collect(self, places: Sequence[int] | range) -> None:
        """Read the hypotheses of some sentences off the steps."""
        index = torch.tensor(list(places), dtype=torch.int64, device=self.total.device)
        steps = [_Step(*(part[index].cpu().numpy() for part in step)) for step in self.steps]
        rank, cut = self.rank[index].cpu().numpy(), self.cut[index].cpu().numpy()
        for i, place in enumerate(places):
            found = [
                Hypothesis(_trace_back(steps, i, b), score=float(rank[i, b]), finished=not cut[i, b])
                for b in range(rank.shape[1])
                if rank[i, b] > -np.inf
            ]
            found.sort(key=lambda hypothesis: (hypothesis.finished, hypothesis.score), reverse=True)
            self.results[self.rows[place]] = found


def _trace_back(steps: Sequence[_Step], sentence: int, place: int) -> GenerationTrace:
    """Follow the parents of one hypothesis back to the empty canvas."""
    end_log_prob = None
    insertions: list[tuple[int, int, float, float]] = []
    for step in reversed(steps):
        word = int(step.word[sentence, place])
        log_prob = float(step.word_log_prob[sentence, place])
        if word == EOD:
            end_log_prob = log_prob
        elif word != CARRIED:
            anchor, slot_log_prob = int(step.anchor[sentence, place]), float(step.slot_log_prob[sentence, place])
            insertions.append((word, anchor, log_prob, slot_log_prob))
        place = int(step.parent[sentence, place])
    insertions.reverse()
    slots = anchors_to_slots([anchor for _, anchor, _, _ in insertions])
    return GenerationTrace(
        tuple(
            Insertion(token=word, slot=slot, round=round_, word_log_prob=log_prob, slot_log_prob=slot_log_prob)
            for round_, ((word, _, log_prob, slot_log_prob), slot) in enumerate(zip(insertions, slots, strict=True))
        ),
        end_log_prob=end_log_prob,
    )
