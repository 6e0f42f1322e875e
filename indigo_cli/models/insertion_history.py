"""How a canvas grows in training when every open slot takes a word at once, and what its slots are to learn.

Any order of a target is such a history: an open slot takes the word of its span that comes first in the order, so that
the words are the nodes of the order's Cartesian tree, and a word's stage is its depth. Each slot is decided once, in
the first round it is open: T slots take a word, T + 1 are closed, whatever the order.

Shape letters: N sequences, T words, R = T + 2 rows in surface order (`<s>`, words, `</s>`, padding), G slots.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from indigo_cli.core.vocab import BOS, EOS, PAD
from indigo_cli.nn.positions.canvas import GrownCanvas

Aim = Literal["tree", "uniform", "first"]
"""What a slot is to learn: words near the middle of its span, every word of it alike, or the one that comes first."""


def aim_of(order: str, temperature: float) -> Aim:
    """Return what slots learn with an order of the recipe and the temperature of its trees."""
    if order == "rnd":
        return "uniform"
    return "tree" if order == "blt" and temperature else "first"


@dataclass(frozen=True)
class History:
    """Some targets and how each grows.

    Args:
        words_NR: Ids of the rows.
        canvas: When each row comes, and between which rows; padding in stage T + 1, behind all others.
        step_NT: The step at which each word comes in the order that this is the history of.
        lengths_N: Words of each.
    """

    words_NR: Tensor
    canvas: GrownCanvas
    step_NT: Tensor
    lengths_N: Tensor

    @property
    def stage_NT(self) -> Tensor:
        """(N, T) stage of each word, from 1; T + 1 on padding, and on `</s>` where that stands in its place: 0."""
        return self.canvas.stage_NR[:, 1:-1]

    @property
    def real_NT(self) -> Tensor:
        """(N, T) bool: words, not padding."""
        return torch.arange(self.step_NT.shape[1], device=self.step_NT.device) < self.lengths_N[:, None]


def history_of(target_NT: Tensor, orders_NT: Tensor, lengths_N: Tensor) -> History:
    """Return the history of an order of each target; padded entries of an order hold their own index."""
    num, length = target_NT.shape
    index = torch.arange(length, device=target_NT.device)
    step = torch.empty_like(orders_NT).scatter_(1, orders_NT, index.expand(num, -1))
    earlier = step[:, None, :] < step[:, :, None]  # word j comes before word i
    row, last = index + 1, lengths_N + 1
    is_left = earlier & (index < index[:, None])
    left = functional.pad(torch.where(is_left, row, 0), (1, 0)).amax(dim=2)
    right = functional.pad(torch.where(earlier & ~is_left, row, length + 1), (0, 1), value=length + 1).amin(dim=2)
    right = torch.minimum(right, last[:, None])
    inside = (left[:, :, None] < row) & (row < right[:, :, None])  # word j is in the span of word i's slot
    real = index < lengths_N[:, None]
    stage = torch.where(real, inside.sum(dim=1), length + 1)
    stage = functional.pad(functional.pad(stage, (1, 0)), (0, 1), value=length + 1).scatter(1, last[:, None], 0)
    words = functional.pad(functional.pad(target_NT, (1, 0), value=BOS), (0, 1), value=PAD)
    canvas = GrownCanvas(stage, functional.pad(left, (1, 1)), functional.pad(right, (1, 1)), last)
    return History(words.scatter(1, last[:, None], EOS), canvas, step, lengths_N)


@dataclass(frozen=True)
class Slots:
    """Slots of several sequences, each between two rows that stand next to each other.

    Args:
        left, right: (M,) int64 rows, numbered through all sequences: sequence * R + row.
        pool: (M,) int64: slots of one number are open together, in one round of one sequence; below N * R.
    """

    left: Tensor
    right: Tensor
    pool: Tensor


def word_slots(history: History, num_words: int) -> tuple[Slots, Tensor]:
    """Return the slots that take a word, sequence by sequence from left to right, and which words (among N * T)."""
    canvas, (num, rows) = history.canvas, history.words_NR.shape
    index = torch.nonzero_static(history.real_NT.flatten(), size=num_words)[:, 0]
    start = torch.arange(0, num * rows, rows, device=index.device)[:, None]
    stage = start + canvas.stage_NR - 1
    parts = (start + canvas.left_NR, start + canvas.right_NR, stage)
    return Slots(*(part[:, 1:-1].flatten()[index] for part in parts)), index


def closed_slots(history: History, num_gaps: int) -> tuple[Slots, Tensor]:
    """Return the slots that are closed, in the same way, and which gaps of the target (among N * (T + 1))."""
    stage_NR, (num, rows) = history.canvas.stage_NR, history.words_NR.shape
    row = torch.arange(rows - 1, device=stage_NR.device)
    index = torch.nonzero_static((row <= history.lengths_N[:, None]).flatten(), size=num_gaps)[:, 0]
    start = torch.arange(0, num * rows, rows, device=index.device)[:, None]
    left = (start + row).flatten()[index]
    last_border = start + torch.maximum(stage_NR[:, :-1], stage_NR[:, 1:])
    return Slots(left, left + 1, last_border.flatten()[index]), index


def shares(aim: Aim, left_NG: Tensor, right_NG: Tensor, step_NT: Tensor, temperature: float) -> Tensor:
    """Return (N, G, T) float32 what part of each slot's loss each word of the target is; sums of 1 where there is any.

    `tree`: softmax of -|c - i| / tau over the span, c being its centre; `uniform`: the same for tau to infinity (Stern
    et al. 2019; PAPERS.md B1).

    Args:
        left_NG, right_NG: Rows between which the span of each slot lies.
        step_NT: When words come, for `first`.
        temperature: tau > 0, for `tree`.
    """
    length = step_NT.shape[1]
    row = torch.arange(1, length + 1, device=step_NT.device)
    inside = (left_NG[..., None] < row) & (row < right_NG[..., None])
    if aim == "first":
        steps = torch.where(inside, step_NT[:, None], length)
        weight = (inside & (steps == functional.pad(steps, (0, 1), value=length).amin(dim=2, keepdim=True))).float()
    elif aim == "tree":
        away = (row - 0.5 * (left_NG + right_NG)[..., None]).abs()
        nearest = 0.5 * ((left_NG + right_NG) % 2)[..., None]  # taken off, so that no weight is too small to divide by
        weight = torch.exp((nearest - away) / temperature) * inside
    else:
        weight = inside.float()
    return weight / weight.sum(dim=2, keepdim=True).clamp(min=1.0)
