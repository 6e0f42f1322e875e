"""Serial decoding of a parallel system: one slot is filled at a time, as in Stern et al. (2019; PAPERS.md B1).

Shape letters: S sentences, B hypotheses a sentence, G open slots (the most of any), V words of the softmax, C
candidates, A anchors.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from indigo_cli.core.vocab import EOD, FIRST_WORD, PAD
from indigo_cli.data.batch import Source
from indigo_cli.decoding.canvas import Canvas, of_parents
from indigo_cli.models.protocol import ParallelDecoder, WordScores

CLOSED = EOD - FIRST_WORD


@dataclass
class OneSlotState:
    """What the system keeps, where its words stand, and once it was asked the scores.

    Args:
        joint: (S, B, G, V) log p(word, slot); -inf where a slot is not to be filled now.
        word: (S, B, V) log p(word), over all slots.
    """

    inner: Any
    canvas: Canvas
    joint: Tensor | None = None
    word: Tensor | None = None


class OneSlot:
    """A `SerialDecoder` made of a parallel system whose slots can wait: every search, rule and draw goes with it.

    p(word) is the sum of p(slot) p(word | slot) over all slots, and p(slot | word) what each has in it. Ending is
    `<eod>` in any slot. Where slots are closed one by one, a slot whose best word is none is left alone, and as long as
    there are others, nothing ends; where every slot may end the whole, it is an outcome like the others.

    Args:
        decoder: Chooses slots, which can wait.
        close_penalty: How much, in nats, none must be better than the best word for a slot to be left alone. For the
            end of the whole the same is a matter of `eod_penalty`.
    """

    greedy_only = False

    def __init__(self, decoder: ParallelDecoder, *, close_penalty: float = 0.0) -> None:
        if not (decoder.can_wait and decoder.chooses_slots):
            raise ValueError("this system cannot fill one slot at a time")
        self.decoder, self.close_penalty = decoder, close_penalty

    def start(self, source: Source) -> OneSlotState:
        """See `SerialDecoder`."""
        return OneSlotState(self.decoder.start(source), Canvas.start(len(source.values), source.values.device))

    def words(self, state: OneSlotState) -> WordScores:
        """See `SerialDecoder`."""
        joint, word = self._scores(state)
        allowed = word.masked_fill(joint.amax(dim=2) == -torch.inf, -torch.inf)
        return WordScores(allowed, torch.zeros_like(word[..., 0]))

    def _scores(self, state: OneSlotState) -> tuple[Tensor, Tensor]:
        if state.joint is None or state.word is None:
            scores = self.decoder.slots(state.inner)
            assert scores.slots is not None
            joint = scores.logits - scores.log_z[..., None] + scores.slots[..., None]
            joint.masked_fill_(~scores.open[..., None], -torch.inf)
            state.word = joint.logsumexp(dim=2)
            if not self.decoder.ends_at_once:
                full = joint[..., CLOSED] - self.close_penalty >= joint[..., CLOSED + 1 :].amax(dim=3)
                full = full | ~scores.open
                done = full.all(dim=2, keepdim=True)
                joint.masked_fill_((full & ~done)[..., None], -torch.inf)
                joint[..., CLOSED].masked_fill_(~done, -torch.inf)
            state.joint = joint
        return state.joint, state.word

    def slots(self, state: OneSlotState, parent_SC: Tensor, word_SC: Tensor) -> Tensor:
        """See `SerialDecoder`."""
        joint, word = self._scores(state)
        sentence = torch.arange(len(parent_SC), device=parent_SC.device)[:, None]
        column = word_SC - FIRST_WORD
        own = joint[sentence, parent_SC, :, column]
        own = torch.where(own > -torch.inf, own - word[sentence, parent_SC, column][..., None], own)
        anchors = of_parents(state.canvas.slot_of_anchor, parent_SC)
        slots = own.gather(2, anchors.clamp(max=own.shape[2] - 1))  # what ended has fewer slots
        ends = torch.full_like(slots, -torch.inf)
        ends[..., 0] = 0.0
        return torch.where((word_SC == EOD)[..., None], ends, slots)

    def advance(self, state: OneSlotState, parent_SB: Tensor, word_SB: Tensor, anchor_SB: Tensor) -> OneSlotState:
        """See `SerialDecoder`."""
        joint, _ = self._scores(state)
        number = of_parents(state.canvas.slot_of_anchor, parent_SB).gather(2, anchor_SB[..., None])
        waits = torch.full((*word_SB.shape, joint.shape[2]), PAD, device=word_SB.device)
        decided = waits.scatter(2, number, torch.where(word_SB > EOD, word_SB, PAD)[..., None])
        inner = self.decoder.insert(state.inner, parent_SB, decided)
        return OneSlotState(inner, state.canvas.advance(parent_SB, word_SB, anchor_SB))

    def keep(self, state: OneSlotState, sentence_index: Tensor) -> OneSlotState:
        """See `SerialDecoder`."""
        return OneSlotState(self.decoder.keep(state.inner, sentence_index), state.canvas.keep(sentence_index))
