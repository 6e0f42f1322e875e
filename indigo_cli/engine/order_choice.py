"""Of the orders that compete for a target: which may be trained on, and which are.

Shape letters: S sentences, K orders of each, T words.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from indigo_cli.data.batch import Plan
from indigo_cli.decoding.order_search import FoundOrders
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.nn.sentence_dropout import sentence_keys, uniform

DRAW_SALT, NOISE_SALT = 0x5A0D, 0x5A0E
"""Mixed into the seed, so that draws, noise and dropout masks of a sentence have nothing to do with each other."""


@dataclass(frozen=True)
class Candidates:
    """Orders that targets may be trained on.

    Args:
        orders: (S, K, T) int64, see `Plan`; where there is none, a copy of the first.
        score: (S, K) float32 log-probabilities, -inf where there is no order.
    """

    orders: Tensor
    score: Tensor

    def __len__(self) -> int:
        return len(self.orders)

    def to(self, device: torch.device) -> "Candidates":
        """Copy to a device, without waiting for the copy."""
        return Candidates(self.orders.to(device, non_blocking=True), self.score.to(device, non_blocking=True))

    def but(self, rows: Tensor, others: "Candidates") -> "Candidates":
        """Return the same with those of some sentences replaced; the others may be fewer a sentence."""
        few = others.score.shape[1]
        orders, score = self.orders.clone(), self.score.clone()
        orders[rows] = others.orders[:, :1]
        score[rows] = -torch.inf
        orders[rows, :few] = others.orders
        score[rows, :few] = others.score
        return Candidates(orders, score)


def num_kept(config: SearchConfig) -> int:
    """Return the largest K of `candidates_of`."""
    if config.train_on == "sample":
        return config.beam_size + config.has_reference
    return 1 if config.train_on == "best" else config.beam_size


def candidates_of(found: FoundOrders, config: SearchConfig) -> Candidates:
    """Return what may still be trained on, a reference competing with what was found.

    For `average` it takes the place of the worst order where it is better than that.
    """
    score = torch.where(found.alive, found.score, -torch.inf)
    kept = min(num_kept(config), score.shape[1])
    if kept == score.shape[1]:
        return Candidates(found.orders, score)
    score, place = (x[:, :kept] for x in score.sort(dim=1, descending=True, stable=True))
    return Candidates(found.orders.gather(1, place[..., None].expand(-1, -1, found.orders.shape[2])), score)


def plan_of(candidates: Candidates, config: SearchConfig, chance_S: Tensor) -> Plan:
    """Return what is trained on.

    Args:
        candidates: Of `best` the first one is taken.
        chance_S: For `sample`, see `chances`.
    """
    orders, score = candidates.orders, candidates.score
    if config.train_on == "average":
        weights = score.isfinite().float()
        return Plan(orders, weights / weights.sum(dim=1, keepdim=True))
    chosen = orders[:, :1]
    if config.train_on == "sample":
        upto = torch.softmax(score / config.temperature, dim=1).cumsum(dim=1)
        index = (upto <= chance_S[:, None] * upto[:, -1:]).sum(dim=1).clamp(max=score.shape[1] - 1)
        chosen = orders.gather(1, index[:, None, None].expand(-1, 1, orders.shape[2]))
    return Plan(chosen, torch.ones_like(score[:, :1]))


def noise_keys(seed: int, visit: int, lines: Sequence[int]) -> Tensor:
    """Return (S,) int64 keys of the Gumbel noise of sentences; see `sentence_keys`."""
    return sentence_keys(seed ^ NOISE_SALT, visit, lines)


def chances(seed: int, epoch: int, lines: Sequence[int]) -> Tensor:
    """Return (S,) float32 in [0, 1): draws of sentences, by raw line and visit alone."""
    keys = sentence_keys(seed ^ DRAW_SALT, epoch, lines)
    return uniform(keys, torch.zeros_like(keys))
