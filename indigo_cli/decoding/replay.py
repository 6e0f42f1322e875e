"""Rounds that are decided as those of a known hypothesis were, to find what it costs.

Shape letters: S sentences, G open slots (the most of any).
"""

from collections.abc import Sequence

import torch

from indigo_cli.core.order import Order
from indigo_cli.core.vocab import EOD, FIRST_WORD, PAD
from indigo_cli.decoding.rounds import Decision, Growing, RoundScores

Rounds = Sequence[Sequence[int]]
"""For each round what its open slots took, from left to right: vocabulary ids, `<eod>` = closed."""


def rounds_of(target: Sequence[int], order: Order, rounds: Sequence[int], open_gaps: Sequence[int]) -> Rounds:
    """Return what was decided in each round.

    Args:
        target: Vocabulary ids in surface order.
        order: Surface index of each insertion.
        rounds: Round of each; -1 = given.
        open_gaps: Between given words.

    Raises:
        ValueError: a word came into a slot that was not open.
    """
    given = sorted(index for index, number in zip(order, rounds, strict=True) if number < 0)
    bounds = [-1, *given, len(target)]
    slots = [(bounds[gap], bounds[gap + 1]) for gap in open_gaps]
    decided: list[list[int]] = []
    done = len(given)
    while slots:
        coming = sorted(index for index, number in zip(order, rounds, strict=True) if number == len(decided))
        row: list[int] = []
        following: list[tuple[int, int]] = []
        for left, right in slots:
            inside = [index for index in coming if left < index < right]
            row.append(target[inside[0]] if inside else EOD)
            following += [(left, index) for index in inside[:1]] + [(index, right) for index in inside[:1]]
        done += len(row) - row.count(EOD)
        decided.append(row)
        slots = following
    if done != len(target):
        raise ValueError("a word came into a slot that was closed, or that took another one")
    return decided


class Replay:
    """Decides as known hypotheses did; see `RoundChooser`.

    Args:
        decisions: Of each sentence.
    """

    def __init__(self, decisions: Sequence[Rounds]) -> None:
        self.decisions = decisions

    def choose(self, scores: RoundScores, growing: Growing) -> Decision:
        """Take what stands for each slot of the round."""
        sentences, _, most = scores.open.shape
        word = torch.full((sentences, 1, most), PAD)
        for i, row in enumerate(growing.rows.tolist()):
            if growing.number < len(self.decisions[row]):
                decided = self.decisions[row][growing.number]
                word[i, 0, : len(decided)] = torch.tensor(decided)
        word = word.to(scores.open.device)
        column = (word - FIRST_WORD).clamp(min=0)
        log_prob = scores.logits.gather(3, column[..., None])[..., 0] - scores.log_z
        log_prob = torch.where(word == PAD, 0.0, log_prob)
        parent = torch.zeros((sentences, 1), dtype=torch.int64, device=word.device)
        return Decision(parent, word, log_prob, forced=torch.zeros_like(parent, dtype=torch.bool))
