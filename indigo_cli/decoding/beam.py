"""The beam search: words first, then slots, or both ranked together; a beam of 1 is greedy.

Shape letters: S sentences, B hypotheses a sentence, V words of the softmax, C candidates, A slots, N ways to go on.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.decoding.config import DecodeConfig, ranking_score
from indigo_cli.decoding.places import CARRIED, Places, Step
from indigo_cli.decoding.rules import Rules
from indigo_cli.decoding.topk import top_words
from indigo_cli.models.protocol import SerialDecoder, WordScores

WIDER = 4
"""Words looked at for each place of the beam, where only one of those that spell one string is kept."""


class Words(NamedTuple):
    """The best words of each sentence put to its hypotheses, best first, each (S, C).

    Args:
        parent, word: What is put to whom.
        log_prob: Of the word.
        totals: Log-probability of the hypothesis with the word in it, less the penalty of `<eod>`.
    """

    parent: Tensor
    word: Tensor
    log_prob: Tensor
    totals: Tensor


class Slots(NamedTuple):
    """Where these words may go.

    Args:
        log_probs: (S, C, A), by anchor from `first_anchor` on.
        totals: (S, C, A) as of the words, with the slot.
    """

    log_probs: Tensor
    first_anchor: int
    totals: Tensor


class Beam:
    """Keeps the best `width` hypotheses of each sentence at each step.

    Takes the best `width` words over all hypotheses, then, for these only, all slots, and keeps the best `width` of
    both together (PAPERS.md A5, with the two keys of a slot merged first). A hypothesis that ended pays nothing any
    more and holds its place as long as its score is among the best; live ones compete by the same formula. One that is
    left without any way to go on is dropped; where all of a sentence are, they are what it has, unfinished.

    Args:
        decoder: A serial system.
        config: How hypotheses are ranked.
        rules: What they must not do.
        width: Most hypotheses of a sentence.
        joint: Keep the best of all words with all slots. The chance of a slot is at most 1, so only words are looked at
            that alone are better than the worst that is kept.
        distinct: Of those that spell one string so far (finished or not), keep the best. Looks at more words, at all of
            them at worst, to fill the beam.
    """

    def __init__(
        self,
        decoder: SerialDecoder,
        config: DecodeConfig,
        rules: Rules,
        *,
        width: int,
        joint: bool = False,
        distinct: bool = False,
    ) -> None:
        self.decoder, self.config, self.rules = decoder, config, rules
        self.width, self.joint, self.distinct = width, joint, distinct

    def choose(self, state: Any, places: Places) -> Step:
        """See `Chooser`."""
        scores = self.rules.score_words(self.decoder, state, places)
        end_log_prob = None
        if self.config.eod_penalty:
            end_log_prob = scores.logits[..., EOD - FIRST_WORD] - scores.log_z
            scores.logits[..., EOD - FIRST_WORD] -= self.config.eod_penalty
        distinct = self.distinct and not places.append_only  # else no two words make one string
        if distinct or self.joint:
            words, slots, rank, chosen = self._look_on(state, places, scores, distinct=distinct)
        else:
            words = _best_words(places, scores, self.width)
            slots = self._slots(state, places, words)
            rank, chosen = self._ranks(places, slots).topk(self._size(places, slots), dim=1)
        return self._keep(places, words, slots, rank, chosen, end_log_prob)

    def _look_on(
        self, state: Any, places: Places, scores: WordScores, *, distinct: bool
    ) -> tuple[Words, Slots, Tensor, Tensor]:
        """Look at twice as many words until a sentence has enough, each for itself."""
        start = self.width * WIDER if distinct else self.width
        counts = torch.full((len(places.rows), 1), start, device=places.total.device)
        while True:
            words = _best_words(places, scores, int(counts.max()) + 1)
            total = functional.pad(words.totals, (0, 1), value=-torch.inf)
            following = total.gather(1, counts.clamp(max=total.shape[1] - 1))  # the best word that is not looked at
            beyond = torch.arange(words.totals.shape[1], device=counts.device) >= counts
            words = words._replace(totals=words.totals.masked_fill(beyond, -torch.inf))
            slots = self._slots(state, places, words)
            if distinct:  # those that ended before are shorter than any that ends or lives on now
                assert places.canvas is not None
                keys = places.canvas.inserted_keys(words.parent, words.word)
                slots = slots._replace(totals=without_copies(slots.totals, keys))
            ranks = self._ranks(places, slots)
            rank, chosen = ranks.topk(self._size(places, slots), dim=1)
            worst = rank[:, -1:] if rank.shape[1] == self.width else torch.full_like(following, -torch.inf)
            if self.joint:
                enough = worst >= ranking_score(following, places.length, False, self.config)
            else:
                enough = worst > -torch.inf
            enough |= following == -torch.inf
            if bool(enough.all()):
                return words, slots, rank, chosen
            counts = torch.where(enough, counts, 2 * counts)

    def _slots(self, state: Any, places: Places, words: Words) -> Slots:
        """Score the slots of the words; `<eod>` has one."""
        log_probs = self.decoder.slots(state, words.parent, words.word)
        if log_probs is None:
            return Slots(torch.zeros_like(words.totals)[..., None], places.length, words.totals[..., None])
        for rule in self.rules.slots:
            rule(log_probs, places, words.parent, words.word)
        return Slots(log_probs, 0, words.totals[..., None] + log_probs)

    def _ranks(self, places: Places, slots: Slots) -> Tensor:
        """Return (S, N) scores: hypotheses that had ended, then word by word each slot."""
        growing = ranking_score(slots.totals.flatten(1), places.length, False, self.config)  # the penalty is in already
        return torch.cat((places.rank, growing), dim=1)

    def _size(self, places: Places, slots: Slots) -> int:
        return min(self.width, places.rank.shape[1] + slots.totals[0].numel())

    def _keep(
        self,
        places: Places,
        words: Words,
        slots: Slots,
        rank: Tensor,
        chosen: Tensor,
        end_log_prob: Tensor | None,
    ) -> Step:
        """Make places of the chosen ones."""
        beam, num_slots = places.total.shape[1], slots.totals.shape[2]
        stuck = rank[:, :1] == -torch.inf  # none had ended, none can go on: they end here
        unfinished = ranking_score(places.total, places.length, False, self.config)
        unfinished = functional.pad(
            torch.where(places.live, unfinished, -torch.inf), (0, rank.shape[1] - beam), value=-torch.inf
        )
        rank = torch.where(stuck, unfinished, rank)
        chosen = torch.where(stuck, torch.arange(rank.shape[1], device=rank.device), chosen)

        carried = chosen < beam
        index = (chosen - beam).clamp(min=0)
        candidate = index // num_slots
        parent = torch.where(carried, chosen, words.parent.gather(1, candidate))
        word = torch.where(carried, CARRIED, words.word.gather(1, candidate))
        word_log_prob = words.log_prob.gather(1, candidate)
        if end_log_prob is not None:
            word_log_prob = torch.where(word == EOD, end_log_prob.gather(1, parent), word_log_prob)
        step = Step(
            parent=parent,
            word=word,
            anchor=torch.where(carried, 0, index % num_slots + slots.first_anchor),
            word_log_prob=word_log_prob,
            slot_log_prob=slots.log_probs.flatten(1).gather(1, index),
        )
        places.total = torch.where(carried, places.total.gather(1, parent), slots.totals.flatten(1).gather(1, index))
        places.cut = places.cut.gather(1, parent) | stuck
        places.live = (rank > -torch.inf) & ~carried & (word != EOD)
        places.rank = torch.where(places.live, -torch.inf, rank)
        return step


def _best_words(places: Places, scores: WordScores, count: int) -> Words:
    """Take the best `count` words of each sentence over all of its live hypotheses."""
    values, columns = top_words(scores.logits, count)
    log_probs = values - scores.log_z[..., None]
    totals = (torch.where(places.live, places.total, -torch.inf)[..., None] + log_probs).flatten(1)
    totals, best = totals.topk(min(count, totals.shape[1]), dim=1)
    word = columns.flatten(1).gather(1, best) + FIRST_WORD
    return Words(best // columns.shape[2], word, log_probs.flatten(1).gather(1, best), totals)


def without_copies(totals: Tensor, keys: Tensor) -> Tensor:
    """Return (S, C, A) totals with -inf for all but the best of a sentence's that have one key."""
    flat = totals.flatten(1)
    order = flat.argsort(dim=1, descending=True, stable=True)
    ordered, index = keys.flatten(1).gather(1, order).sort(dim=1, stable=True)
    again = torch.zeros_like(flat, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    again = torch.zeros_like(again).scatter_(1, order.gather(1, index), again)
    return totals.masked_fill(again.view_as(totals), -torch.inf)
