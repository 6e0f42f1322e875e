"""The beam over rounds: an inner one joins the choices of the slots of a hypothesis, an outer one ranks hypotheses.

Shape letters: S sentences, B hypotheses a sentence, G open slots (the most of any), V words of the softmax, K words
looked at in a slot, M ways to decide the slots of a hypothesis so far, N ways to go on.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from indigo_cli.core.vocab import EOD, FIRST_WORD, PAD
from indigo_cli.decoding.config import DecodeConfig, ranking_score
from indigo_cli.decoding.rounds import CLOSED, Decision, Growing, RoundScores
from indigo_cli.decoding.topk import top_words


class Joined(NamedTuple):
    """The best ways to decide the slots of each hypothesis, from left to right, best first.

    Args:
        score: (S, B, M) log-probability, and for each word what a closing is to pay more; -inf = no way.
        log_prob: (S, B, M) float64.
        words: (S, B, M) how many.
        units: (S, B, M) what they add to texts whose length is limited; None where all have room.
        forced: (S, B, M) bool: a slot was closed that would have taken a word.
    """

    score: Tensor
    log_prob: Tensor
    words: Tensor
    units: Tensor | None
    forced: Tensor


class Link(NamedTuple):
    """How the ways grew by one slot, each (S, B, M): from which one, with what."""

    parent: Tensor
    word: Tensor
    log_prob: Tensor


class RoundBeam:
    """Keeps the best `width` hypotheses of each sentence (PAPERS.md B2).

    Inside a hypothesis the best `width` words of each slot, and "no insertion", are joined from left to right, and the
    best `width` of what they make are kept by log-probability. Of all hypotheses the best `width` by their scores go
    on. One whose slots are all closed pays nothing any more and holds its place as long as it is among the best.

    Args:
        config: How hypotheses are ranked.
        width: Most hypotheses of a sentence.
    """

    def __init__(self, config: DecodeConfig, *, width: int) -> None:
        self.config, self.width = config, width

    def choose(self, scores: RoundScores, growing: Growing) -> Decision:
        """See `RoundChooser`."""
        joined, links = self._join(scores)
        beam, ways = joined.score.shape[1:]
        total, count = growing.total[..., None] + joined.log_prob, growing.count[..., None] + joined.words
        rank = ranking_score(total, count, False, self.config)
        rank = rank.masked_fill(~growing.live[..., None] | (joined.score == -torch.inf), -torch.inf)
        ranks = torch.cat((growing.rank, rank.flatten(1)), dim=1)
        best, chosen = ranks.topk(min(self.width, ranks.shape[1]), dim=1)
        carried = chosen < beam
        index = (chosen - beam).clamp(min=0)
        parent = torch.where(carried, chosen, index // ways)
        decided = ~carried & (best > -torch.inf)
        flat = index[..., None].expand(-1, -1, len(links))
        word, log_prob = (part.flatten(1, 2).gather(1, flat) for part in _follow(links, joined.score))
        word = torch.where(decided[..., None], word, PAD)
        log_prob = torch.where(decided[..., None], log_prob, 0.0)
        forced = joined.forced.flatten(1).gather(1, index) & decided
        return Decision(parent, word, log_prob, forced, real=best > -torch.inf)

    def _join(self, scores: RoundScores) -> tuple[Joined, list[Link]]:
        """Run the inner beam."""
        wants = scores.logits[..., CLOSED + 1 :].amax(dim=3) > scores.logits[..., CLOSED]
        may_close = scores.logits[..., CLOSED] > -torch.inf
        bonus = self.config.close_penalty
        value, column = top_words(scores.logits[..., CLOSED + 1 :], min(self.width, scores.logits.shape[3] - 1))
        word_log_prob = value - scores.log_z[..., None]
        column = column + CLOSED + 1
        shape = scores.room.shape
        zero = torch.zeros((*shape, 1), dtype=torch.float64, device=value.device)
        none = torch.zeros_like(zero, dtype=torch.int64)
        budget = scores.budget
        joined = Joined(zero, zero, none, None if budget is None else none, none.bool())
        price = None if budget is None else budget.of_columns(column)
        links: list[Link] = []
        pairs: dict[int, tuple[Tensor, Tensor]] = {}
        for slot in range(scores.open.shape[2]):
            if (ways := joined.score.shape[2]) not in pairs:  # the host waits for them
                # Where some pairs do not fit, others count: then none is left out beforehand.
                most = self.width if budget is None else ways * value.shape[3]
                pairs[ways] = _pairs(ways, value.shape[3], most, value.device)
            rank, choice = pairs[ways]
            here = scores.open[:, :, slot, None]
            full = joined.words >= scores.room[..., None]
            way = full.to(torch.uint8).argsort(dim=2, stable=True)[..., rank]  # those without room hide no others
            word_p, close_p = word_log_prob[:, :, slot], scores.close[:, :, slot, None].expand_as(joined.score)
            filled = (joined.score.gather(2, way) + word_p[..., choice] + bonus).masked_fill(
                ~here | full.gather(2, way), -torch.inf
            )
            units = None
            if budget is not None and joined.units is not None and price is not None:
                units = joined.units.gather(2, way) + price[:, :, slot][..., choice]
                too_long = (units > budget.left[..., None]) & (filled > -torch.inf)
                others = torch.where(too_long, -torch.inf, filled).amax(dim=2)
                budget.note(torch.where(too_long, filled, -torch.inf).amax(dim=2) > others)
                filled = filled.masked_fill(too_long, -torch.inf)
            # Closing is always possible where there is no room; else a rule may ask for a word.
            closable = may_close[:, :, slot, None] | full
            closed = torch.where(here, (joined.score + close_p).masked_fill(~closable, -torch.inf), joined.score)
            everything = torch.cat((filled, closed), dim=2)
            score, best = everything.topk(min(self.width, everything.shape[2]), dim=2)
            by_word = best < len(rank)
            pair = best.clamp(max=len(rank) - 1)
            parent = torch.where(by_word, way.gather(2, pair), best - len(rank))
            word = column[:, :, slot].gather(2, choice[pair]) + FIRST_WORD
            word = torch.where(by_word, word, torch.where(here, EOD, PAD))
            log_prob = torch.where(by_word, word_p.gather(2, choice[pair]), 0.0)
            log_prob = torch.where(word == EOD, close_p.gather(2, parent), log_prob)
            pushed = (full & wants[:, :, slot, None] & here).gather(2, parent)
            if units is not None and joined.units is not None:
                units = torch.where(by_word, units.gather(2, pair), joined.units.gather(2, parent))
            joined = Joined(
                score,
                joined.log_prob.gather(2, parent) + log_prob,
                joined.words.gather(2, parent) + by_word,
                units,
                joined.forced.gather(2, parent) | pushed,
            )
            links.append(Link(parent, word, log_prob))
        return joined, links


def _pairs(ways: int, choices: int, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return which way goes on with which word: both sorted, so (i, j) has (i + 1)(j + 1) - 1 others before it."""
    i, j = torch.arange(ways, device=device)[:, None], torch.arange(choices, device=device)
    rank, choice = ((i + 1) * (j + 1) <= width).nonzero(as_tuple=True)
    return rank, choice


def _follow(links: list[Link], like_SBM: Tensor) -> tuple[Tensor, Tensor]:
    """Return (S, B, M, G) words and their log-probabilities of each way."""
    at = torch.arange(like_SBM.shape[2], device=like_SBM.device).expand_as(like_SBM)
    words, log_probs = [], []
    for link in reversed(links):
        words.append(link.word.gather(2, at))
        log_probs.append(link.log_prob.gather(2, at))
        at = link.parent.gather(2, at)
    return torch.stack(words[::-1], dim=3), torch.stack(log_probs[::-1], dim=3)
