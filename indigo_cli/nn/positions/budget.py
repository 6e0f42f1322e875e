"""What is left of a wished length, for words that are inserted in any order.

Each row of the decoder is told what is left when its word stands, and with it those of its round: the rows see no later
word, so that is one number a row for good, and the state of a word that stands never changes. Where all states are made
anew in every round, all rows are told what is left now. Words are weighed without their neighbours
(`UnitTable.weights`); in training the wish is the weight of the whole target, so that nothing is left when `<eod>` is
due.

Shape letters: S sentences, P places, N rows, R rows of a sequence, D width.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from indigo_cli.core.units import UnitTable
from indigo_cli.data.batch import Source
from indigo_cli.nn.positions.appended import APPENDED
from indigo_cli.nn.units import UnitCounter, wished


@dataclass(frozen=True)
class Spending:
    """What stands in the places of hypotheses, and what they are to reach.

    Args:
        budget: Says what words weigh.
        weight_P: (P,) int64 the weight of the words that stand.
        wish_P: (P,) int64.
    """

    budget: "Budget"
    weight_P: Tensor
    wish_P: Tensor

    def choose(self, place: Tensor) -> "Spending":
        """Return that of other places."""
        return replace(self, weight_P=self.weight_P[place], wish_P=self.wish_P[place])

    def spend(self, words_Pn: Tensor) -> "Spending":
        """Return it when new words stand too."""
        return replace(self, weight_P=self.weight_P + self.budget.weigh(words_Pn).sum(dim=1))

    def before(self, words_PL: Tensor, coming_Pn: Tensor) -> "Spending":
        """Return it when some words stand, but not yet those of them that come next."""
        weigh = self.budget.weigh
        return replace(self, weight_P=weigh(words_PL).sum(dim=1) - weigh(coming_Pn).sum(dim=1))

    def told(self) -> Tensor:
        """Return (P, 1, D): the code of rows that come now."""
        return self.budget.code(self.weight_P, self.wish_P)[:, None]


def with_told(codes: Tensor | None, told: Tensor | None) -> Tensor | None:
    """Return position codes and what rows are told of lengths, added up; either may be missing."""
    if codes is None or told is None:
        return told if codes is None else codes
    return codes + told


class Budget(nn.Module):
    """Encodes budgets; it has no weights.

    Args:
        units: Of the target's vocabulary.
        scheme: `ldpe` or `lrpe`, see `nn/positions/length.py`.
        model_dim: D.
    """

    def __init__(self, units: UnitTable, scheme: str, model_dim: int) -> None:
        super().__init__()
        self.counter, self.model_dim = UnitCounter(units), model_dim
        code = APPENDED[scheme].length_code()
        assert code is not None
        self.length_code: Callable[..., Tensor] = code

    def wish(self, source: Source, target_ST: Tensor) -> Tensor:
        """Return (S,) int64: the wishes of the sources; where nobody wishes, what the targets weigh."""
        return wished(source.wish, self.counter.bag_lengths(target_ST))

    def start(self, wish_S: Tensor | None) -> Spending:
        """Return what empty hypotheses have spent, one a sentence.

        Raises:
            ValueError: there are no wishes.
        """
        if wish_S is None:
            raise ValueError("this system is told how long each target is to be, and the source has no wishes")
        return Spending(self, torch.zeros_like(wish_S), wish_S)

    def weigh(self, words: Tensor) -> Tensor:
        """Return the weight of each word, int64; boundaries and padding have none."""
        return self.counter.weights[words]

    def code(self, weight: Tensor, wish: Tensor) -> Tensor:
        """Return (..., D) codes where words of such a weight stand; the wish broadcasts to it."""
        written = (weight - self.counter.weight_offset).clamp(min=0)
        return self.length_code(written, wish.expand_as(written), self.model_dim)

    def along(self, words_NR: Tensor, wish_N: Tensor) -> Tensor:
        """Return (N, R, D): the codes of words, each inserted when those before it stand."""
        return self.code(self.weigh(words_NR).cumsum(dim=1), wish_N[:, None])

    def seen(self, words_SN: Tensor, seen_SNN: Tensor, wish_S: Tensor) -> Tensor:
        """Return (S, N, D): the codes of nodes, of trees or canvases, that see the words which stand when they do."""
        weight_SN = (seen_SNN * self.weigh(words_SN)[:, None]).sum(dim=2)
        return self.code(weight_SN, wish_S[:, None])
