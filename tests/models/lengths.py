"""Sentences with wishes for systems that are told a length, and what all of these must do."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from indigo_cli.core.trace import Hypothesis
from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.data.batch import NO_WISH, Batch
from indigo_cli.data.collate import collate, collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.places import Sentence
from indigo_cli.models.protocol import StepLogProbs
from tests.models.tiny import A, B, C, D, E, word_log_probs
from tests.tensors import assert_close, assert_near

SENTENCES = [([A, B, C], [A, B, C], 25), ([D], [], 0), ([], [E], 3), ([C, C, D, E, A], [B, A, B, D, E, E], 9)]
"""Source, target and wish: the second one is met, the others are passed or missed."""


def count(words: Sequence[int]) -> int:
    """The tables of `tiny.py` by hand: a word counts its id, and a blank before it if no multiple of 3 comes first."""
    return sum(words) + sum(first % 3 != 0 for first, _ in pairwise(words))


def weight(words: Sequence[int]) -> int:
    """The same for words in any order: each pays a blank, but after a multiple of 3, and a text has one less."""
    return max(sum(word + (word % 3 != 0) for word in words) - 1, 0)


def code(scheme: str, written: int, wish: int, dim: int = 8) -> Tensor:
    """Return the code of a row that is told so much, from the formulas."""
    position, base = (max(wish - written, 0), 10000) if scheme == "ldpe" else (min(written, wish), max(wish, 2))
    angles = [position / base ** (2 * k / dim) for k in range(dim // 2)]
    return torch.tensor([f(angle) for angle in angles for f in (math.sin, math.cos)])


def check_under_wishes(
    model: Any,
    sentences: Sequence[tuple[list[int], list[int], list[int], int]],
    check: Callable[[StepLogProbs, int, list[int], list[int], list[int], int], None],
) -> tuple[StepLogProbs, StepLogProbs]:
    """Score with all wishes, with none (it is then the weight of the target), and with some: these are like the others.

    Args:
        sentences: Source, target, order and wish of each.
        check: Told log-probabilities, a row of them, its source, target and order, and the length that it was told.
    Returns: Those with wishes, and those without.
    """
    sources, targets, orders, wishes = zip(*sentences, strict=True)
    batch = partial(collate, [""] * len(sentences), sources, targets, [[order] for order in orders])
    told, own = model.log_probs(batch(wishes=wishes)), model.log_probs(batch())
    for row, (source, target, order, wish) in enumerate(sentences):
        for found, length in ((told, wish), (own, weight(target))):
            check(found, row, source, target, order, length)
    mixed = model.log_probs(batch(wishes=[NO_WISH if row % 2 else wish for row, wish in enumerate(wishes)]))
    for row in range(len(sentences)):
        assert_close(mixed.words[row], (own if row % 2 else told).words[row], atol=1e-5)
    return told, own


def without_wishes(model: Any) -> tuple[Batch, StepLogProbs]:
    """Make sure that a target without a wish is told its own length; return such a batch and its log-probabilities."""
    sources, targets, _ = zip(*SENTENCES, strict=True)
    orders = [[range(len(target))] for target in targets]
    wishes = [count(target) for target in targets]
    told = model.log_probs(collate([""] * 4, sources, targets, orders, wishes=wishes))
    batch = collate([""] * 4, sources, targets, orders)
    assert torch.equal(model.log_probs(batch).words, told.words)
    other = model.log_probs(collate([""] * 4, sources, targets, orders, wishes=[wish + 1 for wish in wishes]))
    assert not torch.allclose(other.words, told.words)
    return batch, told


def follow_a_beam(model: Any, wanted: Callable[[list[int], list[int], int], float]) -> None:
    """Compare log p(`<eod>`) of hypotheses that change places and are copied, of sentences that leave.

    Args:
        wanted: The same from scratch, of a source, what stands, and a wish.
    """
    sources, wishes = [[A, B], [C], [D, D, D]], [17, 4, 30]
    state = model.start(collate_source(sources, wishes))
    steps = [  # parents and words of each step
        ([[0, 0, 0]] * 3, [[A, B, C], [C, D, E], [E, A, B]]),
        ([[2, 1, 0], [0, 0, 0], [1, 2, 1]], [[A, A, D], [B, C, E], [D, D, A]]),
        ([[1, 0, 1], [2, 1, 0], [0, 1, 2]], [[E, E, A], [B, B, C], [A, C, C]]),
        ([[0, 2], [1, 1], [2, 0]], [[D, A], [A, D], [B, C]]),
    ]
    texts: list[list[list[int]]] = [[[]], [[]], [[]]]
    kept = [0, 1, 2]
    for number, (parents, words) in enumerate(steps):
        parent, word = torch.tensor([parents[i] for i in kept]), torch.tensor([words[i] for i in kept])
        state = model.advance(state, parent, word, torch.zeros_like(parent))
        texts = [
            [[*texts[row][p], w] for p, w in zip(ps, ws, strict=True)]
            for row, (ps, ws) in enumerate(zip(parent.tolist(), word.tolist(), strict=True))
        ]
        if number == 1:
            state, kept, texts = model.keep(state, torch.tensor([2, 0])), [2, 0], [texts[2], texts[0]]
        found = word_log_probs(model, state)
        for row, sentence in enumerate(kept):
            for place, text in enumerate(texts[row]):
                end = wanted(sources[sentence], text, wishes[sentence])
                assert_near(found[row, place, EOD - FIRST_WORD], end, atol=1e-5)


def learn_lengths(
    model: Any, lengths: Sequence[int], *, steps: int, rate: float, order: Callable[[int], Sequence[int]] = range
) -> None:
    """Train on targets that say nothing but how long they are, in tokens."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    targets, orders = [[A] * n for n in lengths], [[order(n)] for n in lengths]
    for _ in range(steps):
        losses = model(collate([str(n) for n in lengths], [[B]] * len(lengths), targets, orders))
        (losses.objective / losses.weight).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()


def check_reached(search: Callable[..., list[list[Hypothesis]]], model: Any, most: int, *, exact: int) -> None:
    """Wish each length up to the most: none is missed by more than one, and so many are met."""
    wishes = list(range(1, most + 1))
    sentences = [Sentence(i, 0, 20) for i in range(most)]
    found = search(model, collate_source([[B]] * most, wishes), DecodeConfig(), sentences, seed=1)
    missed = [len(best[0].trace.tokens()) - wish for best, wish in zip(found, wishes, strict=True)]
    assert max(map(abs, missed)) <= 1 and missed.count(0) >= exact
