"""Hard limits of length: what surely makes a text too long is banned, and what could be closed on the way is kept.

The search counts by the table of `core/units.py`: what stands exactly, what a word would add at least (a closing quote
may save a blank). The caller knows the text itself and says what truly fits. See docs/decisions/033-hard-length.md.

Shape letters: S sentences, B hypotheses a sentence, V words of the softmax, C candidates, A anchors, L words placed, K
kinds of words: all that are written alike beside others.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional

from indigo_cli.core.trace import GenerationTrace, Hypothesis
from indigo_cli.core.units import NO_QUOTE, Joint
from indigo_cli.core.vocab import EOD, FIRST_WORD, NUM_SPECIALS, PAD, UNK
from indigo_cli.decoding.closed import Ends, Way, best_within, samples_within
from indigo_cli.decoding.config import DecodeConfig, ranking_score
from indigo_cli.decoding.places import Places, Sentence
from indigo_cli.models.protocol import SerialDecoder, WordScores
from indigo_cli.nn.units import UnitCounter

NO_LIMIT = 1 << 40
CLOSE = EOD - FIRST_WORD


class Joints:
    """What words of each kind add to a text beside what they count themselves.

    Args:
        counter: Of the target's vocabulary.
        continuing: Ids of pieces whose word goes on: no text may end with one.
    """

    def __init__(self, counter: UnitCounter, continuing: Sequence[int], device: torch.device) -> None:
        self.counter = counter.to(device)
        joints = self.counter.joints
        self.goes_on = torch.zeros(len(joints), dtype=torch.bool, device=device)
        self.goes_on[torch.tensor(continuing, dtype=torch.int64, device=device)] = True
        self.own = self.counter.own
        last = torch.arange(len(joints), device=device)[~self.goes_on]
        self.finish = int(self.own[last[last >= UNK]].min()) if int(last.max()) >= UNK else NO_LIMIT
        self.largest = int(self.own[NUM_SPECIALS - 1 :].max()) + 2 + (self.finish if len(continuing) else 0)
        quote = self.counter.quotes != NO_QUOTE
        kinds: Tensor
        kinds, self.kind = torch.unique(joints * 4 + self.goes_on * 2 + quote, return_inverse=True)
        self._of_kind, self.kind_goes_on, self._kind_saves = kinds // 4, (kinds // 2 % 2).bool(), kinds % 2
        # Words are counted from the first one on; in other units there is no blank before it.
        self._start = Joint.BLANK if counter.unit == "word" else Joint.RIGHT
        self._end = Joint.BLANK

    def cost(self, surface_SBL: Tensor, slot_SBA: Tensor) -> Tensor:
        """Return (S, B, A, K) int64: the least that a word adds in a slot, beside its own count.

        Where the text would then end in the middle of a word, the least that completes it is added.

        Args:
            surface_SBL: Words from left to right, PAD behind them, which reads like the end.
            slot_SBA: Numbers of slots, 0 = left of all.
        """
        joints = self.counter.joints[surface_SBL]
        ends = (*joints.shape[:2], 1)
        left = torch.cat((joints.new_full(ends, self._start), joints), dim=2).gather(2, slot_SBA)[..., None]
        right = torch.cat((joints, joints.new_full(ends, self._end)), dim=2).gather(2, slot_SBA)[..., None]
        extra: Tensor = (
            _apart(left, self._of_kind) + _apart(self._of_kind, right) - _apart(left, right) - self._kind_saves
        )
        at_end = (slot_SBA == _lengths(surface_SBL)[..., None])[..., None]
        unfinished = torch.where(at_end, self.kind_goes_on, self.ends_inside(surface_SBL)[..., None, None])
        return extra + self.finish * unfinished

    def ends_inside(self, surface_SBL: Tensor) -> Tensor:
        """Return (S, B) bool: the last word goes on."""
        padded = functional.pad(surface_SBL, (0, 1), value=PAD)
        last = (_lengths(surface_SBL) - 1).clamp(min=0)
        return self.goes_on[padded.gather(2, last[..., None])[..., 0]]

    def count(self, surface_SBL: Tensor) -> Tensor:
        """Return (S, B) int64: the units that stand."""
        return self.counter.lengths(surface_SBL.flatten(0, 1)).view(surface_SBL.shape[:2])


def _lengths(surface_SBL: Tensor) -> Tensor:
    return (surface_SBL != PAD).sum(dim=2)


def _apart(left: Tensor, right: Tensor) -> Tensor:
    """Return 1 where a blank stands between two words of these joints, quotes left out; see `UnitTable.add`."""
    joined = ((left & (Joint.RIGHT | Joint.GOES_ON)) > 0) | ((right & Joint.LEFT) > 0)
    joined = joined | (((left & Joint.LAST_DENSE) > 0) & ((right & Joint.FIRST_DENSE) > 0))
    apart = ((right & Joint.BLANK) == 0) & (((left & Joint.BLANK) > 0) | ~joined)
    return apart.long()


class Limited:
    """What a search in steps and one in rounds know of the limits of their sentences.

    Args:
        config: How hypotheses are ranked.
        counter: Of the units.
        sentences: With their limits.
        continuing: Ids of pieces whose word goes on.
    """

    def __init__(
        self,
        config: DecodeConfig,
        counter: UnitCounter,
        sentences: Sequence[Sentence],
        continuing: Sequence[int],
        device: torch.device,
    ) -> None:
        self.config, self.sentences = config, sentences
        self.joints = Joints(counter, continuing, device)
        limits = [NO_LIMIT if sentence.limit is None else sentence.limit.units for sentence in sentences]
        self.limits = torch.tensor(limits, device=device)
        self.short = torch.zeros(len(sentences), dtype=torch.bool, device=device)
        """(S,) of all sentences: some hypothesis would rather have gone on than there was room for."""
        self._begin(device)

    def _begin(self, device: torch.device) -> None:
        """Set up what only one of the two searches needs."""
        raise NotImplementedError

    @classmethod
    def where_needed(
        cls,
        config: DecodeConfig,
        counter: UnitCounter | None,
        sentences: Sequence[Sentence],
        continuing: Sequence[int],
        device: torch.device,
    ) -> Self | None:
        """Make it if any sentence has a limit.

        Raises:
            ValueError: one has, and nothing counts its units.
        """
        if all(sentence.limit is None for sentence in sentences):
            return None
        if counter is None:
            raise ValueError("a hard limit needs a counter of its units")
        return cls(config, counter, sentences, continuing, device)

    def hold(
        self,
        results: list[list[Hypothesis]],
        rows: Iterable[int],
        noted: Sequence[Ends | None],
        close: Callable[[int, int, int, Any], GenerationTrace],
        *,
        most: int,
    ) -> None:
        """Hold what the search found for some sentences against their limits, in place.

        Args:
            results: By sentence.
            rows: The sentences that have just ended.
            noted: Before each step, of these sentences alone; None = nothing could be closed then.
            close: As in `Way`, the place in `rows` first.
            most: See `best_within`.
        """
        short = self.short.tolist()
        on_host = [ends and ends.numpy() for ends in noted]
        for i, row in enumerate(rows):
            limit = self.sentences[row].limit
            if limit is None:
                continue
            way, found = Way(on_host, i, partial(close, i), limit), results[row]
            if self.config.search == "sample":
                results[row] = samples_within(found, way)
            else:
                results[row] = best_within(found, way, short=short[row], most=most)


class Room(Limited):
    """Bans what cannot fit any more, and notes how each hypothesis could be closed at every step.

    A piece whose word goes on needs room for an end of the word, too, so no hypothesis runs out of room inside one.
    """

    def _begin(self, device: torch.device) -> None:
        given = [0 if sentence.canvas is None else len(sentence.canvas.words) for sentence in self.sentences]
        self.given = torch.tensor(given, device=device)
        self._left = torch.empty(0)
        self._inside = torch.empty(0)
        self._cost: Tensor | None = None
        self._ends: Ends | None = None

    def taken(self) -> Ends | None:
        """Return what was noted since the last call; None if nobody asked the model."""
        ends, self._ends = self._ends, None
        return ends

    def look(self, decoder: SerialDecoder, state: Any, scores: WordScores, places: Places) -> None:
        """Measure what stands, and note what `<eod>` costs, before any rule has changed the scores."""
        assert places.canvas is not None
        surface = places.canvas.surface
        self._left = self.limits[places.rows][:, None] - self.joints.count(surface)
        self._inside = self.joints.ends_inside(surface)
        self._cost = None
        beam = places.total.shape[1]
        slot_log_prob = torch.zeros_like(places.total)
        if not places.append_only:
            parent = torch.arange(beam, device=surface.device).expand(len(surface), -1)
            asked = decoder.slots(state, parent, torch.full_like(parent, EOD))
            assert asked is not None
            slot_log_prob = asked[..., 0]
        end = scores.logits[..., CLOSE] - scores.log_z
        complete = (self.given[places.rows] <= places.length)[:, None]
        possible = places.live & ~self._inside & (self._left >= 0) & complete & (end + slot_log_prob > -torch.inf)
        score = ranking_score(places.total + end + slot_log_prob, places.length, True, self.config)
        self._ends = Ends(possible, possible, score, end + slot_log_prob)

    def words(self, logits: Tensor, places: Places) -> None:
        """See `WordRule`; this one comes last."""
        assert places.canvas is not None and self._ends is not None
        allowed = self._ends.possible & (logits[..., CLOSE] > -torch.inf)
        self._ends = self._ends._replace(allowed=allowed)
        if bool((places.live & (self._left < self.joints.largest)).any()):
            self._ban(logits, places)
        logits[..., CLOSE].masked_fill_(self._inside | (self._left < 0), -torch.inf)

    def _ban(self, logits: Tensor, places: Places) -> None:
        assert places.canvas is not None
        anchors = places.canvas.slot_of_anchor[..., -1:] if places.append_only else places.canvas.slot_of_anchor
        self._cost = self.joints.cost(places.canvas.surface, anchors)
        least = self._cost
        if places.gaps is not None:
            gaps = slice(-anchors.shape[2], None)
            no_slot = places.gaps.glued[..., gaps, None] & self.joints.kind_goes_on
            least = least.masked_fill(no_slot | places.gaps.closed[..., gaps, None], NO_LIMIT)
        cost = least.amin(dim=2)[..., self.joints.kind[FIRST_WORD:]] + self.joints.own[FIRST_WORD:]
        banned = cost > self._left[..., None]
        banned[..., CLOSE] = False
        squeezed = banned.gather(2, logits.argmax(dim=2, keepdim=True))[..., 0] & places.live
        logits.masked_fill_(banned, -torch.inf)
        self.short[places.rows] |= squeezed.any(dim=1)
        if not places.length:  # nothing stands: rather a short word than none
            other = logits[..., CLOSE + 1 :].amax(dim=2) > -torch.inf
            logits[..., CLOSE].masked_fill_(squeezed & other, -torch.inf)

    def slots(self, slots: Tensor, places: Places, parent: Tensor, word: Tensor) -> None:
        """See `SlotRule`."""
        if self._cost is None:
            return
        sentence = torch.arange(len(slots), device=slots.device)[:, None]
        cost = self._cost[sentence, parent, :, self.joints.kind[word]] + self.joints.own[word][..., None]
        over = (cost > self._left[sentence, parent][..., None]) & (word != EOD)[..., None]
        squeezed = over.gather(2, slots.argmax(dim=2, keepdim=True))[..., 0] & places.live[sentence, parent]
        self.short[places.rows] |= squeezed.any(dim=1)
        slots.masked_fill_(over, -torch.inf)
