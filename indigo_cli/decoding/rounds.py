"""What the search in rounds keeps of its hypotheses, and one way to decide a round: the best word of every slot.

Shape letters: S sentences, B hypotheses a sentence, G open slots (the most of any), V words of the softmax.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from indigo_cli.core.vocab import EOD, FIRST_WORD, PAD, UNK
from indigo_cli.decoding.canvas import of_parents
from indigo_cli.decoding.config import DecodeConfig, ranking_score
from indigo_cli.decoding.places import Sentence
from indigo_cli.decoding.round_room import Budget, RoundRoom
from indigo_cli.models.protocol import SlotScores

CLOSED = EOD - FIRST_WORD
"""Column of "no insertion"."""


class Decision(NamedTuple):
    """What was decided in one round.

    Args:
        parent: (S, B) whose slots these are.
        word: (S, B, G) vocabulary ids; `<eod>` = closed, PAD = there is no such slot.
        log_prob: (S, B, G) of the model, nats; 0 where there is no slot.
        forced: (S, B) bool: slots that would have taken a word were closed, as there was no room.
        real: (S, B) bool; False: a place that holds no hypothesis. None = all do.
    """

    parent: Any
    word: Any
    log_prob: Any
    forced: Any
    real: Any = None


@dataclass
class Growing:
    """The hypotheses of the sentences in the batch.

    Args:
        rows: (S,) int64: number of each sentence in what was given to the search; others are done and gone.
        number: Of the round.
        total: (S, B) float64 log-probability of all words and closings.
        count: (S, B) int64 words that stand.
        live: (S, B) bool: some slot is open.
        forced: (S, B) bool: a slot was closed, because there was no room, that would have taken a word.
        rank: (S, B) float64 score of those that ended, -inf elsewhere.
        before_given: (S, B, G) bool: the word right of an open slot was given; None without canvases.
    """

    rows: Tensor
    number: int
    total: Tensor
    count: Tensor
    live: Tensor
    forced: Tensor
    rank: Tensor
    before_given: Tensor | None

    @classmethod
    def start(cls, sentences: Sequence[Sentence], device: torch.device) -> "Growing":
        """One hypothesis a sentence: its canvas, or nothing but one open slot."""
        canvases = [sentence.canvas for sentence in sentences]
        count = torch.tensor([0 if canvas is None else len(canvas.words) for canvas in canvases], device=device)
        live = torch.tensor([canvas is None or any(canvas.open) for canvas in canvases], device=device)
        before_given = None
        if any(canvas is not None for canvas in canvases):
            flags = [
                [False]
                if canvas is None
                else [gap < len(canvas.words) for gap, is_open in enumerate(canvas.open) if is_open]
                for canvas in canvases
            ]
            most = max(map(len, flags))
            before_given = torch.tensor([[row + [False] * (most - len(row))] for row in flags], device=device)
        shape = (len(sentences), 1)
        total = torch.zeros(shape, dtype=torch.float64, device=device)
        return cls(
            rows=torch.arange(len(sentences), device=device),
            number=0,
            total=total,
            count=count[:, None],
            live=live[:, None],
            forced=torch.zeros(shape, dtype=torch.bool, device=device),
            rank=torch.where(live[:, None], -torch.inf, total),
            before_given=before_given,
        )

    def keep(self, index: Tensor) -> None:
        """Go on with these sentences only."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                setattr(self, field.name, value[index])

    def grow(self, decision: Decision, config: DecodeConfig) -> None:
        """Become what a round makes of the parents; those that had ended have no slot, and stay as they are."""
        parent = decision.parent
        filled = (decision.word != EOD) & (decision.word != PAD)
        ended = self.live.gather(1, parent) & ~filled.any(dim=2)
        self.total = self.total.gather(1, parent) + decision.log_prob.sum(dim=2, dtype=torch.float64)
        self.count = self.count.gather(1, parent) + filled.sum(dim=2)
        self.forced = self.forced.gather(1, parent) | decision.forced
        score = ranking_score(self.total, self.count, False, config)
        self.rank = torch.where(ended, score, self.rank.gather(1, parent))
        if decision.real is not None:
            self.rank = self.rank.masked_fill(~decision.real, -torch.inf)
        self.live = filled.any(dim=2)
        if self.before_given is not None:
            before = of_parents(self.before_given, parent)
            width = int(filled.sum(dim=2).max())
            first = (~filled).to(torch.uint8).argsort(dim=2, stable=True)[..., :width]
            before = before.gather(2, first)
            self.before_given = torch.stack((torch.zeros_like(before), before), dim=3).flatten(2)
        self.number += 1


@dataclass(frozen=True)
class RoundScores:
    """Scores of a round under the rules of the search.

    Args:
        logits: (S, B, G, V): -inf = banned; that of closing is less its penalty.
        log_z: (S, B, G).
        close: (S, B, G) log p(no insertion) of the model.
        open: (S, B, G) bool.
        room: (S, B) how many words may still come in.
        budget: What they may add to a text whose length is limited; None where all have room.
    """

    logits: Tensor
    log_z: Tensor
    close: Tensor
    open: Tensor
    room: Tensor
    budget: Budget | None = None

    def expand(self, width: int) -> "RoundScores":
        """Give every one of so many places a copy of the only one."""

        def wide(part: Tensor) -> Tensor:
            return part.expand(-1, width, *part.shape[2:])

        budget = None if self.budget is None else self.budget.expand(width)
        return RoundScores(
            wide(self.logits), wide(self.log_z), wide(self.close), wide(self.open), wide(self.room), budget
        )


class RoundRules:
    """What a round must not do, written into its scores.

    Args:
        config: `ban_unk` and `close_penalty`.
        sentences: Their fewest and most words.
        continuing: Ids of pieces whose word goes on; they may not come right before a given word.
        limited: Where lengths have a hard limit.
    """

    def __init__(
        self,
        config: DecodeConfig,
        sentences: Sequence[Sentence],
        continuing: Sequence[int],
        device: torch.device,
        limited: RoundRoom | None = None,
    ) -> None:
        self.config, self.limited = config, limited
        self.fewest = torch.tensor([sentence.min_length for sentence in sentences], device=device)
        self.most = torch.tensor([sentence.max_length for sentence in sentences], device=device)
        self.any_fewest = any(sentence.min_length for sentence in sentences)
        self.continuing = torch.tensor(continuing, dtype=torch.int64, device=device) - FIRST_WORD

    def __call__(self, scores: SlotScores, growing: Growing) -> RoundScores:
        """Apply them."""
        logits = scores.logits
        close = logits[..., CLOSED] - scores.log_z
        if self.config.ban_unk:
            logits[..., UNK - FIRST_WORD] = -torch.inf
        if growing.before_given is not None and len(self.continuing):
            banned = torch.zeros_like(logits[0, 0, 0], dtype=torch.bool).index_fill_(0, self.continuing, True)
            logits.masked_fill_(growing.before_given[..., None] & banned, -torch.inf)
        if self.config.close_penalty:
            logits[..., CLOSED] -= self.config.close_penalty
        room = self.most[growing.rows][:, None] - growing.count
        if self.any_fewest:
            self._ask_for_a_word(logits, scores, growing, room)
        budget = None if self.limited is None else self.limited.ban(logits, close, scores.open, growing)
        return RoundScores(logits, scores.log_z, close, scores.open, room, budget)

    def _ask_for_a_word(self, logits: Tensor, scores: SlotScores, growing: Growing, room: Tensor) -> None:
        """Of a hypothesis that is too short, the slot that would rather take a word than any other must take one."""
        short = (self.fewest[growing.rows][:, None] > growing.count) & (room > 0)
        gain = logits[..., CLOSED + 1 :].amax(dim=3) - logits[..., CLOSED]
        gain = torch.where(scores.open, gain, -torch.inf)
        best, slot = gain.max(dim=2)
        asked = functional.one_hot(slot, gain.shape[2]).bool() & (short & (best > -torch.inf))[..., None]
        logits[..., CLOSED].masked_fill_(asked, -torch.inf)


class RoundChooser(Protocol):
    """One way to decide a round."""

    def choose(self, scores: RoundScores, growing: Growing) -> Decision:
        """Decide every open slot."""
        ...


class Greedy:
    """The best word of every slot, or none; of a text with a limit, the surest words come in first, else the left."""

    def choose(self, scores: RoundScores, growing: Growing) -> Decision:
        """See `RoundChooser`."""
        value, column = scores.logits.max(dim=3)
        return fit(scores, torch.zeros_like(scores.room), column, value - scores.log_z)


def fit(scores: RoundScores, parent_SB: Tensor, column_SBG: Tensor, log_prob_SBG: Tensor) -> Decision:
    """Close the slots that there is no room for; those that a limit of length closes leave a hypothesis finished.

    Args:
        scores: Of the hypotheses of `parent_SB`, place by place.
        column_SBG: What each slot takes of the softmax.
        log_prob_SBG: log p of it; that of closing is looked up.
    """
    filled = scores.open & (column_SBG != CLOSED)
    closed = column_SBG == CLOSED
    if scores.budget is not None:
        may_close = scores.logits[..., CLOSED] > -torch.inf
        gain = torch.where(may_close, log_prob_SBG - scores.close, torch.inf)
        too_long = scores.budget.over(filled, column_SBG, gain)
        filled, closed = filled & ~too_long, closed | too_long
    over = filled & (filled.cumsum(dim=2) > scores.room[..., None])
    closed = over | closed
    word = torch.where(scores.open, torch.where(closed, EOD, column_SBG + FIRST_WORD), PAD)
    log_prob = torch.where(scores.open, torch.where(closed, scores.close, log_prob_SBG), 0.0)
    return Decision(parent_SB, word, log_prob, forced=over.any(dim=2))
