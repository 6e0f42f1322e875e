"""Rounds that are decided as those of a known hypothesis were, to find what it costs.

Shape letters: S sentences, G open slots (the most of any).
"""

from collections import defaultdict
from collections.abc import Sequence

import torch

from indigo_cli.core.order import Order
from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.decoding.rounds import CLOSED, Decision, Growing, RoundScores, fit

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
    coming: defaultdict[int, list[int]] = defaultdict(list)
    for index, number in zip(order, rounds, strict=True):
        coming[number].append(index)
    bounds = [-1, *sorted(coming[-1]), len(target)]
    slots = [(bounds[gap], bounds[gap + 1]) for gap in open_gaps]
    decided: list[list[int]] = []
    done = len(coming[-1])
    while slots:
        row: list[int] = []
        following: list[tuple[int, int]] = []
        for left, right in slots:
            inside = next((index for index in coming[len(decided)] if left < index < right), None)
            if inside is None:
                row.append(EOD)
                continue
            row.append(target[inside])
            following += (left, inside), (inside, right)
        done += len(following) // 2
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
        column = torch.full(scores.open.shape, CLOSED)
        for i, row in enumerate(growing.rows.tolist()):
            if growing.number < len(self.decisions[row]):
                decided = self.decisions[row][growing.number]
                column[i, 0, : len(decided)] = torch.tensor(decided) - FIRST_WORD
        column = column.to(scores.open.device)
        log_prob = scores.logits.gather(3, column[..., None])[..., 0] - scores.log_z
        return fit(scores, torch.zeros_like(scores.room), column, log_prob)
