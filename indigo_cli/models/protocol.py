"""What a system offers to training and to search. Search knows these Protocols, never a model.

Shape letters: S sentences, B hypotheses a sentence (beam), V words of the softmax, C candidates, A slots.

Words are columns of the softmax: column c is the word with id `FIRST_WORD + c`, so PAD, `<s>` and `</s>` cannot be
chosen. A slot is named by its anchor, the generation index of its LEFT NEIGHBOUR: 0 = `<s>`, i = the i-th word
generated. An anchor keeps its meaning while other slots fill; slot numbers exist in files only (core/order.py).
"""

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from indigo_cli.data.batch import Batch, Source


@dataclass(frozen=True)
class Losses:
    """Loss of one micro-batch, summed and not yet averaged.

    Args:
        objective: Smoothed sum to backpropagate, a scalar in nats.
        parts: For each of `word` and `position`: the plain sum in nats (0-d tensor) and the number of its terms.
        weight: What to divide the objective by, T + 1 a sentence.
    """

    objective: Tensor
    parts: dict[str, tuple[Tensor, float]]
    weight: float


@dataclass(frozen=True)
class StepLogProbs:
    """What each step of given targets in given orders costs. K orders of each of S sentences, T steps and `<eod>`.

    Args:
        words: (S, K, T + 1) float32 nats: log p of each word in the order of generation, `<eod>` behind the last one
            (with all that ending costs, see `SerialDecoder.slots`); 0 on padding.
        slots: (S, K, T) float32 nats: log p of each slot; 0 on padding, and where a system has no choice.
    """

    words: Tensor
    slots: Tensor


@dataclass(frozen=True)
class WordScores:
    """Scores of the next word.

    Args:
        logits: (S, B, V) float32; fresh, so that search may write its bans into them.
        log_z: (S, B) float32; log p(word) = logits - log_z.
    """

    logits: Tensor
    log_z: Tensor


class System(Protocol):
    """Training entry: DDP, FSDP2 and compile hook into `__call__`."""

    def __call__(self, batch: Batch) -> Losses:
        """Return the losses of a batch under its plan."""
        ...

    def log_probs(self, batch: Batch) -> StepLogProbs:
        """Return the terms of the losses one by one, without smoothing; the weights of the plan do not matter."""
        ...


class SerialDecoder(Protocol):
    """One insertion a step. States are opaque; the one given to `advance` or `keep` is dead afterwards."""

    @property
    def greedy_only(self) -> bool:
        """Whether a hypothesis shows the words of one slot only, so that nothing but a beam of 1 is a search."""
        ...

    def start(self, source: Source) -> Any:
        """Encode the sources; one empty hypothesis a sentence."""
        ...

    def words(self, state: Any) -> WordScores:
        """Score the next word of every hypothesis; `<eod>` is a word."""
        ...

    def slots(self, state: Any, parent_SC: Tensor, word_SC: Tensor) -> Tensor | None:
        """Return (S, C, A) float32 log p(slot | word) for words put to the given hypotheses; None = always the last.

        The row of an `<eod>` is -inf but at anchor 0, where it holds what ending costs beside its word: 0 for a system
        that chooses the word first. Fresh like the logits.
        """
        ...

    def advance(self, state: Any, parent_SB: Tensor, word_SB: Tensor, anchor_SB: Tensor) -> Any:
        """Insert a word at an anchor of each parent; the number of hypotheses may change. Words are vocabulary ids."""
        ...

    def keep(self, state: Any, sentence_index: Tensor) -> Any:
        """Go on with these sentences only."""
        ...
