"""Hard limits of length in rounds: each inserts no more than fits, and all that stood before one can be closed there.

Between any two open slots a word stands, so what the words of a round add to the text can be summed up.

Shape letters: S sentences, B hypotheses a sentence, G open slots (the most of any), L words that stand, V words of the
softmax, K kinds of words (see `room.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from indigo_cli.core.vocab import EOD, FIRST_WORD, PAD
from indigo_cli.decoding.canvas import of_parents
from indigo_cli.decoding.closed import Ends
from indigo_cli.decoding.config import ranking_score
from indigo_cli.decoding.places import GivenWords, Sentence
from indigo_cli.decoding.room import CLOSE, Joints, Limited

NOTHING = GivenWords((), (True,))


@dataclass(frozen=True)
class Surface:
    """What stands in every place.

    Args:
        words: (S, B, L) int64 ids from left to right, PAD behind them.
        slots: (S, B, G) int64 words to the left of each open slot, from left to right; what pads them means nothing.
    """

    words: Tensor
    slots: Tensor

    @classmethod
    def start(cls, sentences: Sequence[Sentence], device: torch.device) -> "Surface":
        """Return the canvases."""
        canvases = [sentence.canvas or NOTHING for sentence in sentences]
        slots = [[gap for gap, is_open in enumerate(canvas.open) if is_open] for canvas in canvases]
        return cls(_table([canvas.words for canvas in canvases], device), _table(slots, device))

    def keep(self, index: Tensor) -> "Surface":
        """Go on with these sentences only."""
        return Surface(self.words[index], self.slots[index])

    def grow(self, parent_SB: Tensor, word_SBG: Tensor) -> "Surface":
        """Insert the words of a round; `<eod>` and PAD insert nothing."""
        words, slots = of_parents(self.words, parent_SB), of_parents(self.slots, parent_SB)[..., : word_SBG.shape[2]]
        filled = (word_SBG != EOD) & (word_SBG != PAD)
        before = filled.cumsum(dim=2)
        place = torch.where(filled, slots + before - 1, 0)
        most = int(before[..., -1].max())
        old = torch.arange(words.shape[2], device=words.device)
        moved = old + (filled[..., None] & (slots[..., None] <= old)).sum(dim=2)
        grown = words.new_full((*words.shape[:2], words.shape[2] + most + 1), PAD)
        grown = grown.scatter(2, moved, words)
        grown = grown.scatter(2, torch.where(filled, place, grown.shape[2] - 1), word_SBG)[..., :-1]
        first = (~filled).to(torch.uint8).argsort(dim=2, stable=True)[..., :most]
        place = place.gather(2, first)
        return Surface(grown, torch.stack((place, place + 1), dim=3).flatten(2))


def _table(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Return (S, 1, the longest) rows, zeros behind them."""
    most = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (most - len(row))] for row in rows], dtype=torch.int64, device=device).view(
        len(rows), 1, most
    )


@dataclass(frozen=True)
class Budget:
    """What the words of a round may add to every hypothesis.

    Args:
        left: (S, B) int64 units.
        cost: (S, B, G, K) int64: what a word of each kind adds in a slot, beside its own count.
        joints: Says the kind of a word, and its count.
        rows: (S,) numbers of the sentences.
        short: (all sentences,) bool: where to note that there was no room for something.
    """

    left: Tensor
    cost: Tensor
    joints: Joints
    rows: Tensor
    short: Tensor

    def note(self, squeezed: Tensor) -> None:
        """Note sentences with something that would rather have come in; (S, ...) bool."""
        self.short[self.rows] |= squeezed.flatten(1).any(dim=1)

    def expand(self, width: int) -> "Budget":
        """Give every one of so many places a copy of the only one."""
        return replace(self, left=self.left.expand(-1, width), cost=self.cost.expand(-1, width, -1, -1))

    def of_columns(self, column_SBGn: Tensor) -> Tensor:
        """Return (S, B, G, n): what words add, by their columns of the softmax."""
        word = column_SBGn + FIRST_WORD
        return self.cost.gather(3, self.joints.kind[word]) + self.joints.own[word]

    def of_all(self) -> Tensor:
        """Return (S, B, G, V)."""
        return self.cost[..., self.joints.kind[FIRST_WORD:]] + self.joints.own[FIRST_WORD:]

    def over(self, filled: Tensor, column: Tensor, gain: Tensor) -> Tensor:
        """Return (S, B, G) bool: words that there is no room for when those with the most gain come first."""
        cost = self.of_columns(column[..., None])[..., 0]
        order = gain.masked_fill(~filled, -torch.inf).argsort(dim=2, descending=True, stable=True)
        left = self.left.clone()
        over = torch.zeros_like(filled)
        for slot in order.unbind(dim=2):
            index = slot[..., None]
            asked = filled.gather(2, index)[..., 0]
            price = cost.gather(2, index)[..., 0]
            fits = asked & (price <= left)
            left = left - price * fits
            over.scatter_(2, index, (asked & ~fits)[..., None])
        self.note(over)
        return over


class RoundRoom(Limited):
    """Bans what cannot fit, and notes what each hypothesis would be if its open slots were closed.

    A last piece whose word goes on must get a right neighbour, and the least that ends its word is kept free for it.
    """

    def _begin(self, device: torch.device) -> None:
        self.surface = Surface.start(self.sentences, device)
        self._ends: Ends | None = None

    def taken(self) -> Ends:
        """Return what was noted last."""
        assert self._ends is not None
        return self._ends

    def keep(self, index: Tensor) -> None:
        """Go on with these sentences only."""
        self.surface = self.surface.keep(index)

    def grow(self, parent_SB: Tensor, word_SBG: Tensor) -> None:
        """Go on to the next round."""
        self.surface = self.surface.grow(parent_SB, word_SBG)

    def ban(self, logits: Tensor, close: Tensor, opened: Tensor, growing: Any) -> Budget | None:
        """Write bans into the logits of a round, after all other rules, and return what its words may add together.

        Args:
            logits: (S, B, G, V).
            close: (S, B, G) log p(no insertion) of the model.
            opened: (S, B, G) bool.
            growing: The hypotheses.
        """
        words = self.surface.words
        inside = self.joints.ends_inside(words)
        left = self.limits[growing.rows][:, None] - self.joints.count(words)
        closed = torch.where(opened, close, 0.0)
        possible = growing.live & ~inside & (left >= 0)
        allowed = possible & ((logits[..., CLOSE] > -torch.inf) | ~opened).all(dim=2)
        total = growing.total + closed.sum(dim=2, dtype=torch.float64)
        score = ranking_score(total, growing.count, False, self.config)
        self._ends = Ends(possible, allowed, score, closed)

        slots = functional.pad(self.surface.slots, (0, max(0, opened.shape[2] - self.surface.slots.shape[2])))
        slots = slots[..., : opened.shape[2]]
        num_open = opened.sum(dim=2)
        budget = None
        if bool((growing.live & (left < num_open * self.joints.largest)).any()):
            budget = self._ban_alone(logits, opened, growing.rows, words, slots, left, inside)
        dangling = inside[..., None] & opened & (slots == (words != PAD).sum(dim=2)[..., None])
        logits[..., CLOSE].masked_fill_(dangling, -torch.inf)
        return budget

    def _ban_alone(
        self,
        logits: Tensor,
        opened: Tensor,
        rows: Tensor,
        words: Tensor,
        slots: Tensor,
        left: Tensor,
        inside: Tensor,
    ) -> Budget:
        """Ban each word that would not fit if it was the only one of its round."""
        reserved = self.joints.finish * inside
        cost = self.joints.cost(words, slots) - reserved[..., None, None]
        budget = Budget(left - reserved, cost, self.joints, rows, self.short)
        banned = budget.of_all() > budget.left[..., None, None]
        banned[..., CLOSE] = False
        squeezed = banned.gather(3, logits.argmax(dim=3, keepdim=True))[..., 0] & opened
        logits.masked_fill_(banned, -torch.inf)
        budget.note(squeezed)
        other = logits[..., CLOSE + 1 :].amax(dim=3) > -torch.inf
        nothing = ~(words != PAD).any(dim=2)  # then rather a short word than none
        logits[..., CLOSE].masked_fill_(squeezed & other & nothing[..., None], -torch.inf)
        return budget
