"""What a search keeps of its hypotheses from step to step. Searches, rules and choosers share these types.

Shape letters: S sentences, B hypotheses a sentence, V words of the softmax, C candidates, A slots.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from indigo_cli.core.order import Order
from indigo_cli.core.trace import Hypothesis
from indigo_cli.decoding.canvas import Canvas

if TYPE_CHECKING:
    from indigo_cli.decoding.given import Gaps

CARRIED = -1
"""In place of a word: the hypothesis had ended before and was carried along."""


@dataclass(frozen=True)
class GivenWords:
    """Words that must stand in the output, in this order.

    Args:
        words: K vocabulary ids.
        open: K + 1: whether words may be inserted left of each, and right of them all.
        pieces: How text spells them; the ids of unknown ones cannot tell. Empty = as the vocabulary does.
        order: In which a search that inserts one by one is fed them. Empty = from left to right.
    """

    words: tuple[int, ...]
    open: tuple[bool, ...]
    pieces: tuple[str, ...] = ()
    order: Order = ()

    @property
    def steps(self) -> Order:
        """Their order, written out."""
        return self.order or tuple(range(len(self.words)))


@dataclass(frozen=True)
class HardLimit:
    """How long the text of a sentence may be at most; no word is cut for it.

    Args:
        units: By the table that the search counts with.
        fits: Whether the text that a hypothesis spells truly is no longer, and holds whole words.
    """

    units: int
    fits: Callable[[Hypothesis], bool]


@dataclass(frozen=True)
class Sentence:
    """What the search knows of a sentence beside its source.

    Args:
        line: Key of its draws: samples depend on it and on the seed, not on where the sentence stands in a batch.
        min_length: Fewest insertions before `<eod>`.
        max_length: Most insertions; a hypothesis that has as many is cut, unfinished.
        bag: The only words it may write (vocabulary ids), each as often as it stands here; None = any.
        canvas: What stands before the first round; its words are counted in both lengths. None = nothing.
        limit: Of its text. None = none.
    """

    line: int
    min_length: int
    max_length: int
    bag: tuple[int, ...] | None = None
    canvas: GivenWords | None = None
    limit: HardLimit | None = None


class Step(NamedTuple):
    """What was chosen at one step, each (S, B): where from, what, where to, at which price of the model's own."""

    parent: Any
    word: Any
    anchor: Any
    word_log_prob: Any
    slot_log_prob: Any


@dataclass
class Places:
    """The hypotheses of the sentences in the batch. All that are live have the same number of words.

    Args:
        rows: (S,) int64: number of each sentence in what was given to the search; others are done and gone.
        length: Insertions of every live hypothesis.
        total: (S, B) log-probability.
        rank: (S, B) score of those that ended, -inf elsewhere.
        live: (S, B) bool: still growing.
        cut: (S, B) bool: ended without `<eod>`.
        canvas: The words of each, where something asks for them.
        append_only: The system puts every word at the right end. Known where there is a canvas.
        gaps: Where words may come in, where some were given.
    """

    rows: Tensor
    length: int
    total: Tensor
    rank: Tensor
    live: Tensor
    cut: Tensor
    canvas: Canvas | None
    append_only: bool
    gaps: "Gaps | None" = None

    @classmethod
    def start(cls, sentences: int, device: torch.device, *, canvas: Canvas | None, append_only: bool) -> "Places":
        """One empty hypothesis a sentence."""
        shape = (sentences, 1)
        return cls(
            rows=torch.arange(sentences, device=device),
            length=0,
            total=torch.zeros(shape, device=device),
            rank=torch.full(shape, -torch.inf, device=device),
            live=torch.ones(shape, dtype=torch.bool, device=device),
            cut=torch.zeros(shape, dtype=torch.bool, device=device),
            canvas=canvas,
            append_only=append_only,
        )

    def keep(self, index: Tensor) -> None:
        """Go on with these sentences only."""
        self.rows, self.total, self.rank = self.rows[index], self.total[index], self.rank[index]
        self.live, self.cut = self.live[index], self.cut[index]
        self.canvas = self.canvas and self.canvas.keep(index)
        self.gaps = self.gaps and self.gaps.keep(index)


class Chooser(Protocol):
    """One way to go on from a step to the next."""

    def choose(self, state: Any, places: Places) -> Step:
        """Pick the continuations, and update `total`, `rank`, `live` and `cut` of the places to theirs."""
        ...
