"""Models whose probabilities stand in a table, and a search over them with plain lists: no network, no batch."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count

import numpy as np
import pytest
import torch
from torch import Tensor

from indigo_cli.core.order import anchors_to_slots, replay, slots_to_anchors
from indigo_cli.core.trace import Hypothesis
from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.data.batch import Source
from indigo_cli.data.collate import collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.places import GivenWords
from indigo_cli.decoding.search import Sentence, search_batch
from indigo_cli.models.protocol import SerialDecoder, WordScores

A, B, C = 5, 6, 7
PLAIN = DecodeConfig(ban_unk=False)
"""A search without rules: id 4 is a word like any other in these tables."""
History = tuple[tuple[int, int], ...]
"""(word, anchor) of each insertion."""
Table = Callable[[int, History], Sequence[float]]
"""Probabilities of the words from `<eod>` on, for a source (its first id) and a history."""
SlotTable = Callable[[int, History, int], Sequence[float]]
"""Probabilities of the slots by anchor, for a source, a history and a word."""
State = list[tuple[int, list[History]]]
"""Of each sentence its key and the history of every place."""


@dataclass(frozen=True)
class TableDecoder:
    """A `SerialDecoder` that looks everything up, and checks that the search asks for what exists.

    `slot_table` is None for a left-to-right system; `end_cost` is what ending costs beside `<eod>`, in nats.
    """

    word_table: Table
    slot_table: SlotTable | None
    end_cost: float = 0.0
    greedy_only: bool = False

    def start(self, source: Source) -> State:
        return [(int(key), [()]) for key in source.values[:, 0]]

    def words(self, state: State) -> WordScores:
        table = torch.tensor([[self.word_table(key, history) for history in row] for key, row in state])
        shift = torch.full(table.shape[:2], 0.7)  # logits need not be normalised
        return WordScores(table.log() + shift[..., None], shift)

    def slots(self, state: State, parent_SC: Tensor, word_SC: Tensor) -> Tensor | None:
        assert (word_SC >= FIRST_WORD).all()
        if self.slot_table is None:
            return None
        rows = [
            [self._slot_row(key, row[p], w) for p, w in zip(parents, words, strict=True)]
            for (key, row), parents, words in zip(state, parent_SC.tolist(), word_SC.tolist(), strict=True)
        ]
        return torch.tensor(rows).log()

    def _slot_row(self, key: int, history: History, word: int) -> Sequence[float]:
        assert self.slot_table is not None
        if word == EOD:
            return [math.exp(-self.end_cost)] + [0.0] * len(history)
        return self.slot_table(key, history, word)

    def advance(self, state: State, parent_SB: Tensor, word_SB: Tensor, anchor_SB: Tensor) -> State:
        assert parent_SB.shape == word_SB.shape == anchor_SB.shape
        assert (word_SB >= FIRST_WORD).all() and (anchor_SB >= 0).all()
        assert (anchor_SB <= len(state[0][1][0])).all()
        return [
            (key, [(*row[p], (w, a)) for p, w, a in zip(parents, words, anchors, strict=True)])
            for (key, row), parents, words, anchors in zip(
                state, parent_SB.tolist(), word_SB.tolist(), anchor_SB.tolist(), strict=True
            )
        ]

    def keep(self, state: State, sentence_index: Tensor) -> State:
        return [state[i] for i in sentence_index.tolist()]


def random_table(
    seed: int, *, num_words: int, with_slots: bool = True, end: float = 1.0, end_cost: float = 0.0
) -> TableDecoder:
    """Return a decoder with its own random distribution for every history; `end` makes `<eod>` more or less likely."""

    def draw(size: int, *key: object) -> np.ndarray:
        return np.random.default_rng(abs(hash((seed, *key)))).exponential(size=size) ** 2

    @cache
    def word_table(source: int, history: History) -> list[float]:
        weights = draw(num_words, source, history)
        weights[0] *= end
        return (weights / weights.sum()).tolist()  # type: ignore[no-any-return]

    @cache
    def slot_table(source: int, history: History, word: int) -> list[float]:
        weights = draw(len(history) + 1, source, history, word)
        return (weights / weights.sum()).tolist()  # type: ignore[no-any-return]

    return TableDecoder(word_table, slot_table if with_slots else None, end_cost=end_cost)


def by_hand(words: Mapping[str, Sequence[float]], otherwise: Sequence[float]) -> TableDecoder:
    """Return a left-to-right decoder over `<eod>`, UNK, A and B; keys spell the history, like "AB"."""
    letters = {A: "A", B: "B", C: "C", EOD: "?", EOD + 1: "U"}
    return TableDecoder(
        lambda _, history: words.get("".join(letters[word] for word, _ in history), otherwise), slot_table=None
    )


def search(
    decoder: SerialDecoder,
    config: DecodeConfig = PLAIN,
    *,
    width: int,
    limits: Sequence[int],
    fewest: Sequence[int] | None = None,
    bags: Sequence[tuple[int, ...]] | None = None,
    keys: Sequence[int] | None = None,
    lines: Sequence[int] | None = None,
    seed: int = 1,
    distinct: bool = False,
    canvases: Sequence[GivenWords | None] | None = None,
    continuing: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Search sentences with these limits; a table knows them by their keys (from A on)."""
    source = collate_source([[key] for key in keys or range(A, A + len(limits))])
    sentences = [
        Sentence(
            line=lines[i] if lines else i,
            min_length=fewest[i] if fewest else 0,
            max_length=limit,
            bag=bags[i] if bags else None,
            canvas=canvases[i] if canvases else None,
        )
        for i, limit in enumerate(limits)
    ]
    return search_batch(
        decoder, source, config, sentences, width=width, seed=seed, distinct=distinct, continuing=continuing
    )


@dataclass(frozen=True)
class Partial:
    """A hypothesis of the slow search."""

    log_prob: float = 0.0
    history: History = ()
    rank: float | None = None
    finished: bool = False


def surface(history: History) -> tuple[int, ...]:
    """Return the words from left to right."""
    return tuple(replay([word for word, _ in history], anchors_to_slots([anchor for _, anchor in history])))


def options(decoder: TableDecoder, key: int, history: History, word: int) -> list[tuple[int, float]]:
    """Return (anchor, log-probability) of every slot."""
    if decoder.slot_table is None:
        return [(len(history), 0.0)]
    return [(a, math.log(p)) for a, p in enumerate(decoder.slot_table(key, history, word)) if p > 0]


def score(log_prob: float, length: int, config: DecodeConfig, *, finished: bool) -> float:
    """Return what ranks a hypothesis, written once more."""
    if finished:
        log_prob -= config.eod_penalty
    base = length + 1 if config.length_formula == "power" else (length + 6) / 6
    return log_prob / float(base**config.length_penalty)


def slow_search(
    decoder: TableDecoder,
    key: int,
    config: DecodeConfig = PLAIN,
    *,
    width: int,
    limit: int,
    may: Callable[[History], bool] = lambda history: True,
    may_end: Callable[[History], bool] = lambda history: True,
    distinct: bool = False,
    start: History = (),
) -> list[Partial]:
    """Search with lists: best words first, then the slots of these only, or with `joint` all slots of all words.

    Args:
        may: Whether a history is allowed that has grown by its last word.
        may_end: Whether `<eod>` may follow a history.
        distinct: Keep the best of each string, and look at four words a place, or at twice as many until it is full.
        start: What stands already.
    """
    distinct = distinct and decoder.slot_table is not None
    places = [Partial(history=start)]
    for length in count(len(start)):
        live = [p for p in places if p.rank is None]
        ended = [p for p in places if p.rank is not None]
        cut = [replace(p, rank=score(p.log_prob, length, config, finished=False)) for p in live]
        if length == limit:
            places = [*ended, *cut]
            break
        words = []
        for p in live:
            for column, q in enumerate(decoder.word_table(key, p.history)):
                word = FIRST_WORD + column
                if q > 0 and (grown := _grown(decoder, key, p, word, math.log(q), config, may, may_end)):
                    penalty = config.eod_penalty if word == EOD else 0.0
                    words.append((p.log_prob + math.log(q) - penalty, grown))
        words.sort(key=lambda item: -item[0])
        looked_at = len(words) if config.search == "joint" else 4 * width if distinct else width
        while True:
            candidates = [*ended, *(p for _, grown in words[:looked_at] for p in grown)]

            def ranked(p: Partial, length: int = length) -> float:
                return score(p.log_prob, length, config, finished=False) if p.rank is None else p.rank

            candidates.sort(key=ranked, reverse=True)
            if distinct:
                candidates = list({(surface(p.history), p.finished): p for p in reversed(candidates)}.values())
                candidates.sort(key=ranked, reverse=True)
            if not distinct or len(candidates) >= width or looked_at >= len(words):
                break
            looked_at *= 2
        places = candidates[:width] if candidates else cut
        if all(p.rank is not None for p in places):
            break
    return sorted(places, key=lambda p: (p.finished, p.rank), reverse=True)


def _grown(
    decoder: TableDecoder,
    key: int,
    p: Partial,
    word: int,
    log_prob: float,
    config: DecodeConfig,
    may: Callable[[History], bool],
    may_end: Callable[[History], bool],
) -> list[Partial]:
    """Return what a hypothesis may become with a word."""
    total = p.log_prob + log_prob
    if word == EOD:
        if not may_end(p.history):
            return []
        total -= decoder.end_cost if decoder.slot_table else 0.0
        rank = score(total, len(p.history), config, finished=True)
        return [Partial(total, p.history, rank, finished=True)]
    return [
        Partial(total + more, (*p.history, (word, anchor)))
        for anchor, more in options(decoder, key, p.history, word)
        if may((*p.history, (word, anchor)))
    ]


def history_of(hypothesis: Hypothesis) -> History:
    """Return (word, anchor) of each insertion."""
    words = [insertion.token for insertion in hypothesis.trace.insertions]
    return tuple(zip(words, slots_to_anchors(hypothesis.trace.slots()), strict=True))


def assert_same(found: Sequence[Hypothesis], wanted: Sequence[Partial]) -> None:
    """Compare what a search found with what the slow one did."""
    assert [(history_of(h), h.finished) for h in found] == [(p.history, p.finished) for p in wanted]
    assert [h.score for h in found] == pytest.approx([p.rank for p in wanted], rel=1e-5, abs=2e-6)
    assert [h.trace.log_prob for h in found] == pytest.approx([p.log_prob for p in wanted], rel=1e-5, abs=2e-6)
