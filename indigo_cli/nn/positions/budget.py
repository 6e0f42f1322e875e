"""What is left of a wished length, for words that are inserted in any order.

Each row of the decoder is told what is left when its word stands: the rows see no later word, so that is one number a
row for good, and the state of a word that stands never changes. Words are weighed without their neighbours
(`UnitTable.weights`); in training the wish is the weight of the whole target, so that nothing is left when `<eod>` is
due.

Shape letters: S sentences, P places, N rows, R rows of a sequence, D width.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from indigo_cli.core.units import UnitTable
from indigo_cli.data.batch import Source
from indigo_cli.nn.positions.appended import APPENDED
from indigo_cli.nn.units import UnitCounter, wished


@dataclass(frozen=True)
class Room:
    """What stands in the places of hypotheses, and what they are to reach.

    Args:
        weight_P: (P,) int64 the weight of the words that stand.
        wish_P: (P,) int64.
    """

    weight_P: Tensor
    wish_P: Tensor

    def choose(self, place: Tensor) -> "Room":
        """Return that of other places."""
        return Room(self.weight_P[place], self.wish_P[place])


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
        """Return (S, N, D): the codes of the nodes of trees, each of which sees the words that stand when it does."""
        weight_SN = (seen_SNN * self.weigh(words_SN)[:, None]).sum(dim=2)
        return self.code(weight_SN, wish_S[:, None])
