"""The search on models whose probabilities stand in a table, against brute force and a search with plain lists."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from indigo_cli.core.order import slots_to_anchors
from indigo_cli.core.trace import Hypothesis
from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.data.batch import Source
from indigo_cli.data.collate import collate_source
from indigo_cli.decoding.beam import beam_search, normalised
from indigo_cli.models.protocol import WordScores

A, B = 5, 6
History = tuple[tuple[int, int], ...]
"""(word, anchor) of each insertion."""
Table = Callable[[int, History], Sequence[float]]
"""Probabilities of the words from `<eod>` on, for a source (its first id) and a history."""
SlotTable = Callable[[int, History, int], Sequence[float]]
"""Probabilities of the slots by anchor, for a source, a history and a word."""


@dataclass(frozen=True)
class TableDecoder:
    """A `SerialDecoder` that looks everything up; `slots` is None for a left-to-right system.

    A state is the history of every place. It checks that the search asks for what exists.
    """

    word_table: Table
    slot_table: SlotTable | None

    def start(self, source: Source) -> list[tuple[int, list[History]]]:
        return [(int(key), [()]) for key in source.values[:, 0]]

    def words(self, state: list[tuple[int, list[History]]]) -> WordScores:
        table = torch.tensor([[self.word_table(key, history) for history in row] for key, row in state])
        shift = torch.full(table.shape[:2], 0.7)  # logits need not be normalised
        return WordScores(table.log() + shift[..., None], shift)

    def slots(self, state: list[tuple[int, list[History]]], parent_SC: Tensor, word_SC: Tensor) -> Tensor | None:
        assert (word_SC >= FIRST_WORD).all()
        if self.slot_table is None:
            return None
        rows = [
            [self.slot_table(key, row[p], w) for p, w in zip(parents, words, strict=True)]
            for (key, row), parents, words in zip(state, parent_SC.tolist(), word_SC.tolist(), strict=True)
        ]
        return torch.tensor(rows).log()

    def advance(
        self, state: list[tuple[int, list[History]]], parent_SB: Tensor, word_SB: Tensor, anchor_SB: Tensor
    ) -> list[tuple[int, list[History]]]:
        assert parent_SB.shape == word_SB.shape == anchor_SB.shape
        assert (word_SB >= FIRST_WORD).all() and (anchor_SB >= 0).all()
        assert (anchor_SB <= len(state[0][1][0])).all()
        return [
            (key, [(*row[p], (w, a)) for p, w, a in zip(parents, words, anchors, strict=True)])
            for (key, row), parents, words, anchors in zip(
                state, parent_SB.tolist(), word_SB.tolist(), anchor_SB.tolist(), strict=True
            )
        ]

    def keep(self, state: list[tuple[int, list[History]]], sentence_index: Tensor) -> list[tuple[int, list[History]]]:
        return [state[i] for i in sentence_index.tolist()]


def random_table(seed: int, *, num_words: int, with_slots: bool = True, end: float = 1.0) -> TableDecoder:
    """Return a decoder with its own random distribution for every history; `end` makes `<eod>` more or less likely."""

    def draw(size: int, *key: object) -> np.ndarray:
        return np.random.default_rng(abs(hash((seed, *key)))).exponential(size=size) ** 2

    def word_table(source: int, history: History) -> list[float]:
        weights = draw(num_words, source, history)
        weights[0] *= end
        return (weights / weights.sum()).tolist()  # type: ignore[no-any-return]

    def slot_table(source: int, history: History, word: int) -> list[float]:
        weights = draw(len(history) + 1, source, history, word)
        return (weights / weights.sum()).tolist()  # type: ignore[no-any-return]

    return TableDecoder(word_table, slot_table if with_slots else None)


def search(
    decoder: TableDecoder, *, beam: int, limits: Sequence[int], alpha: float = 1.0, keys: Sequence[int] | None = None
) -> list[list[Hypothesis]]:
    source = collate_source([[key] for key in keys or range(A, A + len(limits))])
    return beam_search(decoder, source, beam_size=beam, length_penalty=alpha, max_lengths=limits)


@dataclass(frozen=True)
class Partial:
    """A hypothesis of the slow search."""

    log_prob: float = 0.0
    history: History = ()
    rank: float | None = None
    finished: bool = False


def options(decoder: TableDecoder, key: int, history: History, word: int) -> list[tuple[int, float]]:
    """Return (anchor, log-probability) of every slot."""
    if decoder.slot_table is None:
        return [(len(history), 0.0)]
    return [(a, math.log(p)) for a, p in enumerate(decoder.slot_table(key, history, word)) if p > 0]


def slow_search(decoder: TableDecoder, key: int, *, beam: int, limit: int, alpha: float) -> list[Partial]:
    """The two-step beam of PAPERS.md A5 with lists: best words first, then the slots of these only."""
    places = [Partial()]
    for length in count():
        if length == limit:
            places = [p if p.rank is not None else replace(p, rank=p.log_prob / (length + 1) ** alpha) for p in places]
        live = [p for p in places if p.rank is None]
        if not live:
            break
        words = [
            (p.log_prob + math.log(q), p, FIRST_WORD + column)
            for p in live
            for column, q in enumerate(decoder.word_table(key, p.history))
            if q > 0
        ]
        candidates = [p for p in places if p.rank is not None]
        for log_prob, parent, word in sorted(words, key=lambda c: -c[0])[:beam]:
            if word == EOD:
                rank = log_prob / (length + 1) ** alpha
                candidates.append(Partial(log_prob, parent.history, rank, finished=True))
            else:
                for anchor, more in options(decoder, key, parent.history, word):
                    candidates.append(Partial(log_prob + more, (*parent.history, (word, anchor))))

        def score(p: Partial, length: int = length) -> float:
            return p.log_prob / (length + 1) ** alpha if p.rank is None else p.rank

        places = sorted(candidates, key=score, reverse=True)[:beam]
    return sorted(places, key=lambda p: (p.finished, p.rank), reverse=True)


def history_of(hypothesis: Hypothesis) -> History:
    words = [insertion.token for insertion in hypothesis.trace.insertions]
    return tuple(zip(words, slots_to_anchors(hypothesis.trace.slots()), strict=True))


def assert_same(found: Sequence[Hypothesis], wanted: Sequence[Partial]) -> None:
    assert [(history_of(h), h.finished) for h in found] == [(p.history, p.finished) for p in wanted]
    assert [h.score for h in found] == pytest.approx([p.rank for p in wanted], rel=1e-5, abs=1e-6)
    assert [h.trace.log_prob for h in found] == pytest.approx([p.log_prob for p in wanted], rel=1e-5, abs=1e-6)


@given(
    seed=st.integers(0, 10**6),
    beam=st.integers(1, 6),
    limits=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    num_words=st.integers(2, 5),
    with_slots=st.booleans(),
    end=st.sampled_from([0.1, 1.0, 4.0]),
)
def test_it_is_the_slow_search_for_each_sentence_alone(
    seed: int, beam: int, limits: list[int], alpha: float, num_words: int, with_slots: bool, end: float
) -> None:
    """Whatever other sentences stand in the batch, how long they may be, and when they leave it."""
    decoder = random_table(seed, num_words=num_words, with_slots=with_slots, end=end)
    found = search(decoder, beam=beam, limits=limits, alpha=alpha)
    for i, limit in enumerate(limits):
        assert_same(found[i], slow_search(decoder, A + i, beam=beam, limit=limit, alpha=alpha))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("with_slots", [True, False])
def test_a_beam_as_wide_as_the_space_is_brute_force(alpha: float, with_slots: bool) -> None:
    decoder, limit = random_table(1, num_words=3, with_slots=with_slots), 3
    wanted = []
    for length in range(limit + 1):
        anchors = [range(step + 1) if with_slots else [step] for step in range(length)]
        for words, places in product(product((EOD + 1, A), repeat=length), product(*anchors)):
            history = tuple(zip(words, places, strict=True))
            log_prob = 0.0
            for step, (word, anchor) in enumerate(history):
                log_prob += math.log(decoder.word_table(A, history[:step])[word - FIRST_WORD])
                log_prob += dict(options(decoder, A, history[:step], word))[anchor]
            if length < limit:
                log_prob += math.log(decoder.word_table(A, history)[0])
            wanted.append(Partial(log_prob, history, normalised(log_prob, length, alpha), finished=length < limit))
    wanted.sort(key=lambda p: (p.finished, p.rank), reverse=True)
    (found,) = search(decoder, beam=100, limits=[limit], alpha=alpha)
    assert_same(found, wanted)
    assert math.fsum(math.exp(h.trace.log_prob) for h in found) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_a_beam_of_one_is_greedy(seed: int) -> None:
    decoder = random_table(seed, num_words=6, end=0.3)
    ((hypothesis,),) = search(decoder, beam=1, limits=[8])
    history: History = ()
    while len(history) < 8:
        words = decoder.word_table(A, history)
        word = FIRST_WORD + words.index(max(words))
        if word == EOD:
            break
        slots = dict(options(decoder, A, history, word))
        history = (*history, (word, max(slots, key=lambda anchor: slots[anchor])))
    assert history_of(hypothesis) == history
    assert hypothesis.finished == (len(history) < 8)


def by_hand(words: Mapping[str, Sequence[float]], otherwise: Sequence[float]) -> TableDecoder:
    """Return a left-to-right decoder over `<eod>`, UNK, A and B; keys spell the history, like "AB"."""
    letters = {A: "A", B: "B", EOD: "?", EOD + 1: "U"}
    return TableDecoder(
        lambda _, history: words.get("".join(letters[word] for word, _ in history), otherwise), slot_table=None
    )


def test_a_wider_beam_finds_what_greed_misses() -> None:
    """A looks best at first; but all of its continuations are poor."""
    decoder = by_hand({"": [0, 0, 0.6, 0.4], "A": [0.3, 0, 0.4, 0.3], "B": [0.9, 0, 0.1, 0]}, otherwise=[1, 0, 0, 0])
    ((greedy,),) = search(decoder, beam=1, limits=[5], alpha=0.0)
    assert greedy.trace.tokens() == [A, A]
    assert greedy.score == pytest.approx(math.log(0.6 * 0.4))
    ((best, second),) = search(decoder, beam=2, limits=[5], alpha=0.0)
    assert (best.trace.tokens(), second.trace.tokens()) == ([B], [A, A])
    assert best.score == pytest.approx(math.log(0.4 * 0.9))


def test_what_ended_pays_nothing_later() -> None:
    """The empty sentence ends at once while the other goes on for five words of probability one."""
    decoder = by_hand({"": [0.4, 0, 0.6, 0], "AAAAA": [1, 0, 0, 0]}, otherwise=[0, 0, 1, 0])
    ((long, empty),) = search(decoder, beam=2, limits=[9], alpha=0.0)
    assert (long.trace.tokens(), empty.trace.tokens()) == ([A] * 5, [])
    assert empty.score == empty.trace.log_prob == empty.trace.end_log_prob == pytest.approx(math.log(0.4))
    assert long.score == pytest.approx(math.log(0.6))
    assert long.finished and empty.finished


@pytest.mark.parametrize(("alpha", "first"), [(0.0, []), (1.0, [A, A])])
def test_the_length_penalty_decides(alpha: float, first: list[int]) -> None:
    """log .4 = -.92 against log(.6 .6 .6) = -1.53, which three insertions with `<eod>` share: -.51."""
    decoder = by_hand({"AA": [0.6, 0, 0.4, 0]}, otherwise=[0.4, 0, 0.6, 0])
    ((best, *_),) = search(decoder, beam=4, limits=[2 + 1], alpha=alpha)
    assert best.trace.tokens() == first
    assert best.score == pytest.approx(normalised(best.trace.log_prob, len(first), alpha))


def test_normalised() -> None:
    assert normalised(-6.0, 2, 1.0) == pytest.approx(-2.0)
    assert normalised(-6.0, 3, 0.5) == pytest.approx(-3.0)
    assert normalised(-6.0, 9, 0.0) == -6.0
    assert normalised(-6.0, 0, 1.0) == -6.0


def test_case_87_an_end_that_never_comes() -> None:
    decoder = by_hand({}, otherwise=[0, 0.2, 0.5, 0.3])
    for beam in (1, 3):
        (found, other) = search(decoder, beam=beam, limits=[7, 2])
        assert len(found) == len(other) == beam
        assert [len(h.trace) for h in found] == [7] * beam
        assert [len(h.trace) for h in other] == [2] * beam
        for h in (*found, *other):
            assert not h.finished and h.trace.end_log_prob is None
        assert found[0].trace.tokens() == [A] * 7
        assert found[0].trace.log_prob == pytest.approx(7 * math.log(0.5))


def test_what_ended_stands_before_what_ran_out_of_steps() -> None:
    decoder = by_hand({}, otherwise=[0.01, 0, 0.99, 0])
    ((first, second),) = search(decoder, beam=2, limits=[3])
    assert first.finished and not second.finished
    assert first.score < second.score


def test_no_step_is_allowed() -> None:
    ((hypothesis,),) = search(random_table(0, num_words=4), beam=4, limits=[0])
    assert hypothesis.trace.tokens() == [] and not hypothesis.finished
    assert hypothesis.score == hypothesis.trace.log_prob == 0.0


def test_case_83_five_words_and_eight_places() -> None:
    (found,) = search(random_table(3, num_words=5), beam=8, limits=[4])
    assert 0 < len(found) <= 8
    assert len({(history_of(h), h.finished) for h in found}) == len(found)
    assert all(FIRST_WORD < word < FIRST_WORD + 5 for h in found for word, _ in history_of(h))


def test_impossible_continuations_do_not_fill_the_beam() -> None:
    """One word, one end: there are two hypotheses at each step, however many places."""
    decoder = by_hand({"A": [1, 0, 0, 0]}, otherwise=[0.5, 0, 0.5, 0])
    (found,) = search(decoder, beam=6, limits=[4])
    assert sorted(h.trace.tokens() for h in found) == [[], [A]]


def test_slots_of_one_word_compete_with_those_of_others() -> None:
    """Two places, both go to the two good slots of the better word: .5 * .5 > .3 * 1."""
    decoder = TableDecoder(
        lambda _, history: [1, 0, 0, 0] if len(history) == 2 else [0, 0, 0.7, 0.3] if history else [0, 0, 1, 0],
        lambda _, history, word: [1.0] if not history else [0.5, 0.5] if word == A else [1.0, 0.0],
    )
    (found,) = search(decoder, beam=2, limits=[5], alpha=0.0)
    assert {history_of(h) for h in found} == {((A, 0), (A, 0)), ((A, 0), (A, 1))}
    assert all(h.trace.insertions[1].slot_log_prob == pytest.approx(math.log(0.5)) for h in found)


def test_the_trace_holds_each_part() -> None:
    decoder = TableDecoder(
        lambda _, history: [[0.1, 0.1, 0.8], [0.2, 0.2, 0.6], [0.7, 0.1, 0.2]][len(history)],
        lambda _, history, word: [1.0] if not history else [0.75, 0.25],
    )
    ((h,),) = search(decoder, beam=1, limits=[5])
    assert [i.token for i in h.trace.insertions] == [A, A]
    assert h.trace.slots() == (0, 0) and h.trace.rounds() == (0, 1)
    assert [i.word_log_prob for i in h.trace.insertions] == pytest.approx([math.log(0.8), math.log(0.6)])
    assert [i.slot_log_prob for i in h.trace.insertions] == pytest.approx([0.0, math.log(0.75)])
    assert h.trace.end_log_prob == pytest.approx(math.log(0.7))
    assert h.trace.log_prob == pytest.approx(math.log(0.8 * 0.6 * 0.75 * 0.7))


def test_the_batch_shrinks_when_sentences_are_done() -> None:
    """A sentence of a thousand words must not pay for those that ended."""
    sizes = []

    class Counting(TableDecoder):
        def words(self, state: list[tuple[int, list[History]]]) -> WordScores:
            sizes.append(len(state))
            return super().words(state)

    table = random_table(0, num_words=4, end=0.0)
    lengths = [1, 12, 3, 3, 2, 6]
    found = search(Counting(table.word_table, table.slot_table), beam=2, limits=lengths)
    assert [len(row[0].trace) for row in found] == lengths
    assert sizes[0] == 6 and sizes[-1] == 1
    assert sizes == sorted(sizes, reverse=True)


def test_order_of_sentences_is_kept() -> None:
    decoder, choose = random_table(5, num_words=4, end=0.5), random.Random(1)
    limits = [choose.randint(1, 7) for _ in range(9)]
    keys = list(range(A, A + 9))
    straight = search(decoder, beam=2, limits=limits, keys=keys)
    turned = search(decoder, beam=2, limits=limits[::-1], keys=keys[::-1])[::-1]
    for one, two in zip(straight, turned, strict=True):
        assert [history_of(h) for h in one] == [history_of(h) for h in two]
