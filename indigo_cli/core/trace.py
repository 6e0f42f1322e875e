"""Traces: how one hypothesis grew, insertion by insertion, with the model's log-probabilities in nats."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from indigo_cli.core.order import Order, Slots, replay, slots_to_order


@dataclass(frozen=True)
class Insertion:
    """One word entering one slot.

    Args:
        token: Vocabulary id.
        slot: Gap it enters, counted over all real tokens that stand, those of its own round included.
        round: The call of the decoder that inserted it, from 0; -1 for a word that stood before the first call.
        word_log_prob: log p(word), nats; 0 for a given word.
        slot_log_prob: log p(slot | word), nats; 0 where a system has no slot choice.
    """

    token: int
    slot: int
    round: int
    word_log_prob: float
    slot_log_prob: float


@dataclass(frozen=True)
class GenerationTrace:
    """All insertions of one hypothesis, in the order they were made.

    Args:
        insertions: Inside a round from left to right.
        close_log_probs: log p(no insertion) of every slot that a parallel system closed; empty for a serial one.
        end_log_prob: log p(`<eod>`) of a serial system; None if it never came, or for a parallel system.
        open_gaps: Of a parallel system that began with given words: the gaps between them (0 = left of the first) where
            words could come in. None elsewhere.
    """

    insertions: tuple[Insertion, ...]
    close_log_probs: tuple[float, ...] = ()
    end_log_prob: float | None = None
    open_gaps: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return len(self.insertions)

    def tokens(self) -> list[int]:
        """Return the vocabulary ids in surface order, by replaying the insertions."""
        return replay([insertion.token for insertion in self.insertions], self.slots())

    def slots(self) -> Slots:
        """Return the slot of each insertion."""
        return tuple(insertion.slot for insertion in self.insertions)

    def order(self) -> Order:
        """Return the surface index of each insertion."""
        return slots_to_order(self.slots())

    def rounds(self) -> tuple[int, ...]:
        """Return the round of each insertion."""
        return tuple(insertion.round for insertion in self.insertions)

    @property
    def given(self) -> int:
        """How many words stood before the first round."""
        return sum(insertion.round < 0 for insertion in self.insertions)

    @property
    def log_prob(self) -> float:
        """Sum of every log-probability in the trace, nats."""
        parts = [p for i in self.insertions for p in (i.word_log_prob, i.slot_log_prob)]
        return math.fsum([*parts, *self.close_log_probs, self.end_log_prob or 0.0])


@dataclass(frozen=True)
class Hypothesis:
    """What a search returns: a trace and how it ranks.

    Args:
        trace: The best trace of its string.
        score: What ranks it: the normalised log-probability.
        finished: False if the search ran out of steps.
        merged_log_prob: log of the added probabilities of all traces found that spell the same string; None if strings
            were not merged.
    """

    trace: GenerationTrace
    score: float
    finished: bool
    merged_log_prob: float | None = None


def log_sum(log_probs: Iterable[float]) -> float:
    """Return the log of the added probabilities."""
    values = list(log_probs)
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values))
