"""Training in one pass: the decoder runs once over the finished target, each word seeing what stood in its round.

Every slot of every round is scored from the states of its two borders, as decoding scores it (PAPERS.md B2): 2 T + 1
slots a target, which is what the loss is averaged over.

Shape letters: S sentences, K orders of a target, N = S * K sequences, T words, R = T + 2 rows, M slots, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.data.batch import Batch
from indigo_cli.models.insertion_history import (
    Aim,
    History,
    Slots,
    closed_slots,
    history_of,
    shares,
    word_slots,
)
from indigo_cli.models.protocol import Losses, StepLogProbs
from indigo_cli.models.serial import log_probs_of
from indigo_cli.nn.losses import word_loss

if TYPE_CHECKING:
    from indigo_cli.models.insertion import Insertion


@dataclass(frozen=True)
class HistorySlots:
    """All slots of some histories.

    Args:
        history: The histories.
        taken, closed: Slots that take a word, and those that are closed.
        word: Which word each of the first takes, among N * T.
        gap: Which gap of its target each of the others is, among N * (T + 1).
    """

    history: History
    taken: Slots
    closed: Slots
    word: Tensor
    gap: Tensor

    @property
    def all(self) -> Slots:
        """Both, those that take a word first."""
        taken, closed = self.taken, self.closed
        pairs = ((taken.left, closed.left), (taken.right, closed.right), (taken.pool, closed.pool))
        return Slots(*map(torch.cat, pairs))


def histories_of(batch: Batch) -> History:
    """Return the histories of a batch, each order of a target on its own."""
    num_orders = batch.plan.orders.shape[1]
    target_NT = batch.target.repeat_interleave(num_orders, dim=0)
    lengths_N = batch.lengths.repeat_interleave(num_orders)
    return history_of(target_NT, batch.plan.orders.flatten(0, 1), lengths_N)


def slots_of(batch: Batch) -> HistorySlots:
    """Return the slots of the histories of a batch."""
    history, num_orders = histories_of(batch), batch.plan.orders.shape[1]
    taken, word = word_slots(history, batch.num_tokens * num_orders)
    closed, gap = closed_slots(history, batch.num_predictions * num_orders)
    return HistorySlots(history, taken, closed, word, gap)


def losses(system: "Insertion", batch: Batch, memory: Tensor, smoothing: float) -> Losses:
    """Return the losses of all slots; several orders of a target by their weights."""
    slots = slots_of(batch)
    length = batch.target.shape[1]
    features, of_closed = _features(system, slots, memory, batch).split([len(slots.word), len(slots.gap)])
    weight_N = batch.plan.weights.flatten()
    weight = weight_N[slots.word // max(length, 1)]
    gold, share = golds(slots.history, system.aim, system.temperature, slots.word)
    words = system.embeddings.words
    taken, word_nll = word_loss(features, words, gold, weight, share_NJ=share, smoothing=smoothing)
    weight_closed = weight_N[slots.gap // (length + 1)]
    closed, closed_nll = close_loss(of_closed, words, weight_closed, smoothing=smoothing)
    parts = {
        "word": (word_nll @ weight, float(batch.num_tokens)),
        "close": (closed_nll @ weight_closed, float(batch.num_predictions)),
    }
    return Losses(taken + closed, parts, float(batch.num_tokens + batch.num_predictions))


def golds(history: History, aim: Aim, temperature: float, word_M: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the gold columns of the slots of some words (among N * T), and the shares of several.

    Returns: (M,) and None where each has one; else (M, T) all words of its target, and (M, T) shares.
    """
    columns_NT = history.words_NR[:, 1:-1] - FIRST_WORD
    if aim == "first":
        return columns_NT.flatten()[word_M], None
    canvas, length = history.canvas, history.step_NT.shape[1]
    share_NTT = shares(aim, canvas.left_NR[:, 1:-1], canvas.right_NR[:, 1:-1], history.step_NT, temperature)
    columns = columns_NT.clamp(min=0)[word_M // max(length, 1)]  # padding has no column, and no share
    return columns, share_NTT.flatten(0, 1)[word_M]


def close_loss(features_MD: Tensor, words_VD: Tensor, weight_M: Tensor, *, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return the loss of slots that take nothing; see `word_loss`."""
    gold = torch.full_like(weight_M, EOD - FIRST_WORD, dtype=torch.int64)
    return word_loss(features_MD, words_VD, gold, weight_M, smoothing=smoothing)


def log_probs(system: "Insertion", batch: Batch, memory: Tensor) -> StepLogProbs:
    """Return log p of each word and of each closing."""
    slots = slots_of(batch)
    return step_log_probs(system, slots, _features(system, slots, memory, batch), batch)


def _features(system: "Insertion", slots: HistorySlots, memory: Tensor, batch: Batch) -> Tensor:
    """Return (M, D) features of all slots: first of those that take a word."""
    words_NR = slots.history.words_NR
    sides = system.sides(words_NR, slots.history.canvas, memory, batch).flatten(0, 1)
    to_right, to_left = sides.chunk(2, dim=1)
    every = slots.all
    features = to_right.index_select(0, every.left) + to_left.index_select(0, every.right)
    return system.biased_by_pool(features, every.pool, words_NR.numel())


def step_log_probs(system: "Insertion", slots: HistorySlots, features_MD: Tensor, batch: Batch) -> StepLogProbs:
    """Sort log-probabilities of words and closings by step and by gap.

    Args:
        features_MD: Of `slots.all`.
        batch: Whose histories they are.
    """
    shape, length = batch.plan.orders.shape, batch.target.shape[1]
    ones = torch.ones_like(slots.all.left, dtype=torch.float32)
    gold, _ = golds(slots.history, "first", 0.0, slots.word)
    gold = torch.cat((gold, torch.full_like(slots.gap, EOD - FIRST_WORD)))
    _, nll = word_loss(features_MD, system.embeddings.words, gold, ones)
    log_prob, closed = log_probs_of(nll).split([len(slots.word), len(slots.gap)])
    words = _spread(log_prob, slots.word, (*shape[:2], length)).gather(2, batch.plan.orders)
    closes = _spread(closed, slots.gap, (*shape[:2], length + 1))
    words = torch.cat((words, torch.zeros_like(closes[:, :, :1])), dim=2)
    end = batch.lengths[:, None, None].expand(-1, shape[1], 1)
    return StepLogProbs(
        words.scatter(2, end, closes.sum(dim=2, keepdim=True)), torch.zeros_like(words[:, :, :-1]), closes
    )


def _spread(of_some: Tensor, index: Tensor, shape: Sequence[int]) -> Tensor:
    """Put numbers where they belong, 0 elsewhere."""
    everywhere = of_some.new_zeros(shape)
    everywhere.view(-1)[index] = of_some
    return everywhere
