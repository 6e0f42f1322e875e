"""Histories of parallel insertion by recursion: the word of a span that comes first in an order splits it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.data.collate import collate_source


@dataclass
class Grown:
    """Rows are 0 = `<s>`, 1 + i = word i, T + 1 = `</s>`.

    Args:
        stage: Of each row.
        taken: (round, left row, right row, word, first and last + 1 of its span) of each slot that takes a word.
        closed: (round, left row, right row) of each slot that is closed.
    """

    stage: list[int]
    taken: list[tuple[int, int, int, int, tuple[int, int]]] = field(default_factory=list)
    closed: list[tuple[int, int, int]] = field(default_factory=list)


def grow(order: Sequence[int]) -> Grown:
    """Return the history of an order."""
    grown = Grown([0] * (len(order) + 2))

    def fill(low: int, high: int, made: int) -> None:
        if low == high:
            grown.closed.append((made, low, high + 1))
            return
        word = min(range(low, high), key=list(order).index)
        grown.taken.append((made, low, high + 1, word, (low, high)))
        grown.stage[word + 1] = made + 1
        fill(low, word, made + 1)
        fill(word + 1, high, made + 1)

    fill(0, len(order), 0)
    return grown


@torch.inference_mode()
def play_history(
    model: Any, source: Sequence[int], target: Sequence[int], order: Sequence[int], wishes: Sequence[int] = ()
) -> tuple[list[float], list[float]]:
    """Decode along the history of an order and return log p of each word, and of no insertion in each gap.

    Args:
        wishes: That of the source, where it has one.
    """
    words, closes = [0.0] * len(target), [0.0] * (len(target) + 1)
    state, spans = model.start(collate_source([source], wishes)), [(0, len(target))]
    while spans:
        log_probs = open_log_probs(model, state)
        assert len(log_probs) == len(spans)
        chosen, parts = [], []
        for (low, high), log_prob in zip(spans, log_probs, strict=True):
            word = min(range(low, high), key=list(order).index, default=None)
            chosen.append(EOD if word is None else target[word])
            number = float(log_prob[chosen[-1] - FIRST_WORD])
            if word is None:
                closes[low] = number
            else:
                words[word] = number
                parts += [(low, word), (word + 1, high)]
        state, spans = model.insert(state, torch.tensor([[0]]), torch.tensor([[chosen]])), parts
    assert model.slots(state).open.shape == (1, 1, 0)
    return words, closes


def open_log_probs(model: Any, state: Any, sentence: int = 0, hypothesis: int = 0) -> list[Tensor]:
    """Return the log-probabilities (V,) of each open slot of a hypothesis, from left to right."""
    scores = model.slots(state)
    opened = scores.open[sentence, hypothesis]
    assert opened.tolist() == sorted(opened.tolist(), reverse=True), "open slots come first"
    log_probs = scores.logits[sentence, hypothesis] - scores.log_z[sentence, hypothesis, :, None]
    return list(log_probs[opened])
