"""What a system offers to training and to search. Search knows these Protocols, never a model.

Shape letters: S sentences, B hypotheses a sentence (beam), V words of the softmax, C candidates, A slots, G open slots
of a round, L words of a canvas.

Words are columns of the softmax: column c is the word with id `FIRST_WORD + c`, so PAD, `<s>` and `</s>` cannot be
chosen. A slot is named by its anchor, the generation index of its LEFT NEIGHBOUR: 0 = `<s>`, i = the i-th word
generated. An anchor keeps its meaning while other slots fill; slot numbers exist in files only (core/order.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from indigo_cli.data.batch import Batch, Plan, Source
from indigo_cli.nn.sentence_dropout import SentenceDropout


@dataclass(frozen=True)
class Losses:
    """Loss of one micro-batch, summed and not yet averaged.

    Args:
        objective: Smoothed sum to backpropagate, a scalar in nats.
        parts: For each of `word`, `position` and `close` that a system has: the plain sum in nats (0-d tensor) and the
            number of its terms.
        weight: What to divide the objective by: T + 1 a sentence, 2 T + 1 where slots are closed one by one.
        num_nodes, num_steps: Of prefix trees: their nodes, and the steps of all their orders; 0 where there are none.
    """

    objective: Tensor
    parts: Mapping[str, tuple[Tensor, float | Tensor]]
    weight: float
    num_nodes: int = 0
    num_steps: int = 0


@dataclass(frozen=True)
class StepLogProbs:
    """What each step of given targets in given orders costs. K orders of each of S sentences, T steps and `<eod>`.

    Args:
        words: (S, K, T + 1) float32 nats: log p of each word in the order of generation, `<eod>` behind the last one
            (with all that ending costs, see `SerialDecoder.slots`; of a parallel system: the sum of `closes`); 0 on
            padding.
        slots: (S, K, T) float32 nats: log p of each slot; 0 on padding, and where a system has no choice.
        closes: Of a parallel system, (S, K, T + 1) float32 nats: log p(no insertion) of each gap of the whole target,
            from left to right; 0 on padding.
    """

    words: Tensor
    slots: Tensor
    closes: Tensor | None = None


@dataclass(frozen=True)
class WordScores:
    """Scores of the next word.

    Args:
        logits: (S, B, V) float32; fresh, so that search may write its bans into them.
        log_z: (S, B) float32; log p(word) = logits - log_z.
    """

    logits: Tensor
    log_z: Tensor


@dataclass(frozen=True)
class SlotScores:
    """Scores of every open slot of every hypothesis.

    The open slots of a hypothesis come first, from left to right; G is the largest number of them, and may be 0.

    Args:
        logits: (S, B, G, V) float32; fresh, so that search may write its bans into them. The column of `<eod>` is "no
            insertion".
        log_z: (S, B, G) float32; log p(word | slot) = logits - log_z.
        open: (S, B, G) bool; False is padding, whose other numbers mean nothing.
        slots: (S, B, G) float32 log p(slot) among the open ones, where one slot is chosen at a time; None where a
            system has no such choice.
    """

    logits: Tensor
    log_z: Tensor
    open: Tensor
    slots: Tensor | None = None


@dataclass(frozen=True)
class Canvas:
    """Words that stand before the first round, and where more may be inserted.

    Args:
        words: (S, L) int64 ids, padded on the right.
        lengths: (S,) int64.
        open: (S, L + 1) bool: gap g is left of word g, the last one right of them all; False on padding.
    """

    words: Tensor
    lengths: Tensor
    open: Tensor


@dataclass(frozen=True)
class Known:
    """What the words of a known target would cost next.

    Args:
        word: (S, B, T) float32 log p(word) of each word of the target, whether it stands already or not.
        slot: (S, B, T) float32 log p(slot | word) of the slot asked for.
        end: (S, B) float32 log p(`<eod>`).
    """

    word: Tensor
    slot: Tensor
    end: Tensor


class Planner(Protocol):
    """Finds the orders of a batch while it is trained on: the encoder runs once for both."""

    def dropout(self, batch: Batch) -> SentenceDropout | None:
        """Return the masks under which the encoder's output serves search and training; None = its usual dropout."""
        ...

    def __call__(self, system: Any, memory_SXD: Tensor, batch: Batch) -> Plan:
        """Return the plan to train on; `memory_SXD` is the encoder's output, without gradient."""
        ...


class System(Protocol):
    """Training entry: DDP, FSDP2 and compile hook into `__call__`."""

    def __call__(self, batch: Batch, smoothing: float = 0.0, planner: Planner | None = None) -> Losses:
        """Return the losses of a batch under its plan, or under the planner's."""
        ...

    def log_probs(self, batch: Batch) -> StepLogProbs:
        """Return the terms of the losses one by one, without smoothing; the weights of the plan do not matter."""
        ...


class KnownDecoder(Protocol):
    """What the search for the orders of known targets asks. The state given to `advance_known` is dead.

    Nothing is dropped but what a `SentenceDropout` says.
    """

    def encode(self, source: Source, dropout: SentenceDropout | None) -> Tensor:
        """Return the encoder's output (S, X, D), under one mask a sentence and layer if asked."""
        ...

    def start_known(
        self, memory_SXD: Tensor, source_mask_SX: Tensor, target_ST: Tensor, dropout: SentenceDropout | None
    ) -> Any:
        """Begin with one empty hypothesis a sentence; targets (S, T) are padded on the right."""
        ...

    def known(self, state: Any, anchor_SBT: Tensor) -> Known:
        """Score every word of the target for every hypothesis, in the slots of the given anchors."""
        ...

    def advance_known(self, state: Any, parent_SB: Tensor, index_SB: Tensor, anchor_SB: Tensor) -> Any:
        """Insert the word at an index of the target at an anchor of each parent; the beam may change."""
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


class ParallelDecoder(Protocol):
    """Every open slot decides at once: a word, or no insertion (`<eod>`), which closes it for good.

    One call of `slots` and `insert` is a round. States are opaque; the one given to `insert` or `keep` is dead
    afterwards. Systems that keep the states of standing words have been trained to see every slot decided in the first
    round it is open; where all states are made anew each round, a slot may also wait.
    """

    @property
    def can_wait(self) -> bool:
        """Whether a slot may stay open undecided, so that one slot a round can be filled (serial decoding)."""
        ...

    @property
    def ends_at_once(self) -> bool:
        """Whether `<eod>` in any slot ends the whole hypothesis (sequence termination), not just that slot."""
        ...

    @property
    def chooses_slots(self) -> bool:
        """Whether it says how likely a slot is to be the one that is filled."""
        ...

    def start(self, source: Source, canvas: Canvas | None = None) -> Any:
        """Encode the sources; one hypothesis a sentence: the canvas, or nothing but one open slot."""
        ...

    def slots(self, state: Any) -> SlotScores:
        """Score the open slots of every hypothesis."""
        ...

    def insert(self, state: Any, parent_SB: Tensor, word_SBG: Tensor) -> Any:
        """Decide the slots of a round; the number of hypotheses may change.

        Args:
            parent_SB: Whose slots are decided.
            word_SBG: For each slot that `slots` gave for the parent a vocabulary id, `<eod>` = it is closed, or PAD =
                it waits, which is for systems that `can_wait`. What stands at slots that are not open is ignored.

        The open slots are then the two sides of every word just inserted, and those that wait, from left to right.
        """
        ...

    def keep(self, state: Any, sentence_index: Tensor) -> Any:
        """Go on with these sentences only."""
        ...
