"""Given words in a serial search: they are fed first, one a step, and say where anything else may go.

Shape letters: S sentences, B hypotheses a sentence, L words placed, A = L + 1 anchors, C candidates, V words of the
softmax, K given words (the most of any).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from indigo_cli.core.order import order_to_slots, slots_to_anchors
from indigo_cli.core.vocab import EOD, FIRST_WORD, PAD
from indigo_cli.decoding.canvas import of_parents
from indigo_cli.decoding.places import CARRIED, Chooser, GivenWords, Places, Sentence, Step

NOTHING = GivenWords((), (True,))


class GivenFirst:
    """A chooser that another one follows: as long as a sentence has given words, its next one is all there is.

    So all hypotheses of a batch stay equally long, and a sentence with less to begin with goes on meanwhile.

    Args:
        chooser: Takes over.
        sentences: All have their canvas, or none.
        copies: Every place is a draw of its own, so all hold the given words; else the first one does.
    """

    def __init__(self, chooser: Chooser, sentences: Sequence[Sentence], device: torch.device, *, copies: bool) -> None:
        self.chooser, self.copies = chooser, copies
        canvases = [sentence.canvas or NOTHING for sentence in sentences]
        words = [[canvas.words[index] for index in canvas.steps] for canvas in canvases]
        anchors = [slots_to_anchors(order_to_slots(canvas.steps)) for canvas in canvases]
        self.most = max(map(len, words))
        self.counts = torch.tensor([len(row) for row in words], device=device)
        self.words = torch.tensor([[*row, *[PAD] * (self.most - len(row))] for row in words], device=device)
        self.anchors = torch.tensor([[*row, *[0] * (self.most - len(row))] for row in anchors], device=device)

    def choose(self, state: Any, places: Places) -> Step:
        """See `Chooser`."""
        length = places.length
        if length >= self.most:
            return self.chooser.choose(state, places)
        beam = places.total.shape[1]
        due = (self.counts[places.rows] > length)[:, None]
        step = None if bool(due.all()) else self.chooser.choose(state, places)
        place = torch.arange(places.total.shape[1], device=due.device).expand(len(due), -1)
        live = torch.ones_like(place, dtype=torch.bool) if self.copies else place == 0
        zeros = torch.zeros_like(places.total)
        places.total = torch.where(due, zeros, places.total)
        places.rank = torch.where(due, -torch.inf, places.rank)
        places.live = torch.where(due, live, places.live)
        places.cut = places.cut & ~due
        word, anchor = (table[places.rows, length, None] for table in (self.words, self.anchors))
        given = Step(
            parent=place.clamp(max=beam - 1),
            word=torch.where(live, word, CARRIED),
            anchor=torch.where(live, anchor, 0),
            word_log_prob=zeros,
            slot_log_prob=zeros,
        )
        if step is None:
            return given
        return Step(*(torch.where(due, of_given, own) for of_given, own in zip(given, step, strict=True)))


@dataclass(frozen=True)
class Gaps:
    """Where words may come in, by anchor.

    Args:
        counts: (S,) given words.
        closed_SK: (S, K + 1) bool: the gap right of each given word, by anchor, takes nothing. All others are open.
        glued_SK: (S, K + 1) bool: another given word follows, once all stand.
        glued: (S, B, A) bool: the right neighbour of each slot is a given word.
        continuing: Ids of pieces whose word goes on: none may come right before a given word.
    """

    counts: Tensor
    closed_SK: Tensor
    glued_SK: Tensor
    glued: Tensor
    continuing: Tensor

    @classmethod
    def start(cls, sentences: Sequence[Sentence], continuing: Sequence[int], device: torch.device) -> "Gaps":
        """Return the gaps of the canvases of a batch."""
        canvases = [sentence.canvas or NOTHING for sentence in sentences]
        most = max(len(canvas.words) for canvas in canvases)
        gaps = [[0, *(index + 1 for index in canvas.steps)] for canvas in canvases]  # by anchor
        closed = [[not canvas.open[gap] for gap in row] for canvas, row in zip(canvases, gaps, strict=True)]
        glued = [[gap < len(row) - 1 for gap in row] for row in gaps]
        closed_SK, glued_SK = (
            torch.tensor([[*row, *[False] * (most + 1 - len(row))] for row in table], device=device)
            for table in (closed, glued)
        )
        counts = torch.tensor([len(canvas.words) for canvas in canvases], device=device)
        glued_S11 = torch.zeros(len(canvases), 1, 1, dtype=torch.bool, device=device)
        return cls(counts, closed_SK, glued_SK, glued_S11, torch.tensor(continuing, dtype=torch.int64, device=device))

    def keep(self, index: Tensor) -> "Gaps":
        """Go on with these sentences only."""
        return Gaps(self.counts[index], self.closed_SK[index], self.glued_SK[index], self.glued[index], self.continuing)

    def advance(self, parent_SB: Tensor, anchor_SB: Tensor) -> "Gaps":
        """Insert a word at an anchor of each parent: it stands between the slot and what was on its right."""
        glued, anchor = of_parents(self.glued, parent_SB), anchor_SB[..., None]
        glued = torch.cat((glued.scatter(2, anchor, False), glued.gather(2, anchor)), dim=2)
        anchors = glued.shape[2]
        table = _cut(self.glued_SK, anchors)[:, None]
        return replace(self, glued=torch.where((self.counts >= anchors - 1)[:, None, None], table, glued))

    @property
    def closed(self) -> Tensor:
        """(S, 1, A) bool."""
        return _cut(self.closed_SK, self.glued.shape[2])[:, None]

    def blocked(self, parent_SC: Tensor, word_SC: Tensor) -> Tensor:
        """Return (S, C, A) bool: the slots of given hypotheses where these words may not go."""
        goes_on = torch.isin(word_SC, self.continuing)[..., None]
        return self.closed | (of_parents(self.glued, parent_SC) & goes_on)


def _cut(of_given_SK: Tensor, anchors: int) -> Tensor:
    """Return (S, A) bool: the first columns, False where there are too few."""
    return functional.pad(of_given_SK, (0, anchors - of_given_SK.shape[1]), value=False)


def keep_gaps_closed(logits: Tensor, places: Places) -> None:
    """No word that has nowhere to go, so that where all gaps are closed nothing but `<eod>` is left.

    Nothing at all while given words are still to come, so that nobody looks for more.
    """
    gaps = places.gaps
    assert gaps is not None
    end = logits[..., EOD - FIRST_WORD].clone()
    logits.masked_fill_(gaps.closed.all(dim=2)[..., None], -torch.inf)
    logits[..., EOD - FIRST_WORD] = end
    if len(gaps.continuing):
        column, nowhere = gaps.continuing - FIRST_WORD, (gaps.closed | gaps.glued).all(dim=2)
        logits[..., column] = logits[..., column].masked_fill(nowhere[..., None], -torch.inf)
    logits.masked_fill_((gaps.counts > places.length)[:, None, None], -torch.inf)


def keep_slots_closed(slots: Tensor, places: Places, parent: Tensor, word: Tensor) -> None:
    """No word in a closed gap, and none that goes on right before a given one. `<eod>` goes nowhere."""
    assert places.gaps is not None
    slots.masked_fill_(places.gaps.blocked(parent, word) & (word != EOD)[..., None], -torch.inf)
