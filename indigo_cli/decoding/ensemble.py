"""Several systems of one kind decode as one: their probabilities are averaged."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from indigo_cli.data.batch import Source
from indigo_cli.models.protocol import Canvas, ParallelDecoder, SerialDecoder, SlotScores, WordScores


class Ensemble:
    """A `SerialDecoder` whose p(word) and p(slot | word) are the means of its members'. Its state is a tuple of theirs.

    Args:
        members: At least one; all with the same vocabulary, and all or none of them with a choice of slots. None is
            `greedy_only`: each would show the words of a slot of its own.
    """

    greedy_only = False

    def __init__(self, members: Sequence[SerialDecoder]) -> None:
        if not members:
            raise ValueError("an ensemble needs at least one member, got none")
        if any(member.greedy_only for member in members):
            raise ValueError("the members of an ensemble would show the words of different slots")
        self.members = tuple(members)

    def start(self, source: Source) -> tuple[Any, ...]:
        """See `SerialDecoder`."""
        return tuple(member.start(source) for member in self.members)

    def words(self, state: tuple[Any, ...]) -> WordScores:
        """See `SerialDecoder`."""
        scores = [member.words(part) for member, part in zip(self.members, state, strict=True)]
        log_probs = _mean([one.logits - one.log_z[..., None] for one in scores])
        return WordScores(log_probs, torch.zeros_like(scores[0].log_z))

    def slots(self, state: tuple[Any, ...], parent_SC: Tensor, word_SC: Tensor) -> Tensor | None:
        """See `SerialDecoder`."""
        slots = [member.slots(part, parent_SC, word_SC) for member, part in zip(self.members, state, strict=True)]
        chosen = [part for part in slots if part is not None]
        if not chosen:
            return None
        if len(chosen) < len(slots):
            raise ValueError("an ensemble mixes systems that choose slots with systems that do not")
        return _mean(chosen)

    def advance(self, state: tuple[Any, ...], parent_SB: Tensor, word_SB: Tensor, anchor_SB: Tensor) -> tuple[Any, ...]:
        """See `SerialDecoder`."""
        return tuple(
            member.advance(part, parent_SB, word_SB, anchor_SB)
            for member, part in zip(self.members, state, strict=True)
        )

    def keep(self, state: tuple[Any, ...], sentence_index: Tensor) -> tuple[Any, ...]:
        """See `SerialDecoder`."""
        return tuple(member.keep(part, sentence_index) for member, part in zip(self.members, state, strict=True))


class RoundEnsemble:
    """A `ParallelDecoder` whose p(word | slot), closing among them, and p(slot) are the means of its members'.

    Args:
        members: At least one; all with the same vocabulary, and slots that end alike.
    """

    def __init__(self, members: Sequence[ParallelDecoder]) -> None:
        if not members:
            raise ValueError("an ensemble needs at least one member, got none")
        if len({member.ends_at_once for member in members}) > 1:
            raise ValueError("the slots of the members of an ensemble do not end alike")
        self.members = tuple(members)
        self.ends_at_once = members[0].ends_at_once
        self.can_wait = all(member.can_wait for member in members)
        self.chooses_slots = all(member.chooses_slots for member in members)

    def start(self, source: Source, canvas: Canvas | None = None) -> tuple[Any, ...]:
        """See `ParallelDecoder`."""
        return tuple(member.start(source, canvas) for member in self.members)

    def slots(self, state: tuple[Any, ...]) -> SlotScores:
        """See `ParallelDecoder`."""
        scores = [member.slots(part) for member, part in zip(self.members, state, strict=True)]
        log_probs = _mean([one.logits - one.log_z[..., None] for one in scores])
        slots = [one.slots for one in scores if one.slots is not None]
        chosen = _mean(slots) if len(slots) == len(scores) else None
        return SlotScores(log_probs, torch.zeros_like(scores[0].log_z), scores[0].open, chosen)

    def insert(self, state: tuple[Any, ...], parent_SB: Tensor, word_SBG: Tensor) -> tuple[Any, ...]:
        """See `ParallelDecoder`."""
        return tuple(member.insert(part, parent_SB, word_SBG) for member, part in zip(self.members, state, strict=True))

    def keep(self, state: tuple[Any, ...], sentence_index: Tensor) -> tuple[Any, ...]:
        """See `ParallelDecoder`."""
        return tuple(member.keep(part, sentence_index) for member, part in zip(self.members, state, strict=True))


def _mean(log_probs: Sequence[Tensor]) -> Tensor:
    """Return the logarithm of the mean of probabilities."""
    return torch.stack(list(log_probs)).logsumexp(dim=0) - math.log(len(log_probs))
