"""The search loop on models whose probabilities stand in a table, against brute force and a search with plain lists."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.vocab import EOD, FIRST_WORD, UNK
from indigo_cli.data.collate import collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.search import Sentence, search_batch
from indigo_cli.models.protocol import WordScores
from tests.decoding.tables import (
    PLAIN,
    A,
    B,
    History,
    Partial,
    State,
    TableDecoder,
    assert_same,
    by_hand,
    history_of,
    options,
    random_table,
    score,
    search,
    slow_search,
)

LOG_PROB = replace(PLAIN, length_penalty=0.0)


@given(
    seed=st.integers(0, 10**6),
    width=st.integers(1, 6),
    limits=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    formula=st.sampled_from(["power", "gnmt"]),
    penalty=st.sampled_from([0.0, 0.0, 1.5, -1.5]),
    kind=st.sampled_from(["beam", "joint"]),
    distinct=st.booleans(),
    num_words=st.integers(2, 5),
    with_slots=st.booleans(),
    end=st.sampled_from([0.1, 1.0, 4.0]),
    end_cost=st.sampled_from([0.0, 0.4]),
)
def test_it_is_the_slow_search_for_each_sentence_alone(
    seed: int,
    width: int,
    limits: list[int],
    alpha: float,
    formula: str,
    penalty: float,
    kind: str,
    distinct: bool,
    num_words: int,
    with_slots: bool,
    end: float,
    end_cost: float,
) -> None:
    """Whatever other sentences stand in the batch, how long they may be, and when they leave it."""
    config = DecodeConfig(
        search=kind,  # type: ignore[arg-type]
        length_penalty=alpha,
        length_formula=formula,  # type: ignore[arg-type]
        eod_penalty=penalty,
        ban_unk=False,
    )
    decoder = random_table(seed, num_words=num_words, with_slots=with_slots, end=end, end_cost=end_cost)
    found = search(decoder, config, width=width, limits=limits, distinct=distinct)
    for i, limit in enumerate(limits):
        assert_same(found[i], slow_search(decoder, A + i, config, width=width, limit=limit, distinct=distinct))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("with_slots", [True, False])
@pytest.mark.parametrize("kind", ["beam", "joint"])
def test_a_beam_as_wide_as_the_space_is_brute_force(alpha: float, with_slots: bool, kind: str) -> None:
    decoder, limit = random_table(1, num_words=3, with_slots=with_slots), 3
    config = DecodeConfig(search=kind, length_penalty=alpha, ban_unk=False)  # type: ignore[arg-type]
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
            finished = length < limit
            rank = score(log_prob, length, config, finished=finished)
            wanted.append(Partial(log_prob, history, rank, finished=finished))
    wanted.sort(key=lambda p: (p.finished, p.rank), reverse=True)
    (found,) = search(decoder, config, width=100, limits=[limit])
    assert_same(found, wanted)
    assert math.fsum(math.exp(h.trace.log_prob) for h in found) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_a_beam_of_one_is_greedy(seed: int) -> None:
    decoder = random_table(seed, num_words=6, end=0.3)
    ((hypothesis,),) = search(decoder, width=1, limits=[8])
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


def test_a_wider_beam_finds_what_greed_misses() -> None:
    """A looks best at first; but all of its continuations are poor."""
    decoder = by_hand({"": [0, 0, 0.6, 0.4], "A": [0.3, 0, 0.4, 0.3], "B": [0.9, 0, 0.1, 0]}, otherwise=[1, 0, 0, 0])
    ((greedy,),) = search(decoder, LOG_PROB, width=1, limits=[5])
    assert greedy.trace.tokens() == [A, A]
    assert greedy.score == pytest.approx(math.log(0.6 * 0.4))
    ((best, second),) = search(decoder, LOG_PROB, width=2, limits=[5])
    assert (best.trace.tokens(), second.trace.tokens()) == ([B], [A, A])
    assert best.score == pytest.approx(math.log(0.4 * 0.9))


def test_what_ended_pays_nothing_later() -> None:
    """The empty sentence ends at once while the other goes on for five words of probability one."""
    decoder = by_hand({"": [0.4, 0, 0.6, 0], "AAAAA": [1, 0, 0, 0]}, otherwise=[0, 0, 1, 0])
    ((long, empty),) = search(decoder, LOG_PROB, width=2, limits=[9])
    assert (long.trace.tokens(), empty.trace.tokens()) == ([A] * 5, [])
    assert empty.score == empty.trace.log_prob == empty.trace.end_log_prob == pytest.approx(math.log(0.4))
    assert long.score == pytest.approx(math.log(0.6))
    assert long.finished and empty.finished


@pytest.mark.parametrize(("alpha", "first"), [(0.0, []), (1.0, [A, A])])
def test_the_length_penalty_decides(alpha: float, first: list[int]) -> None:
    """log .4 = -.92 against log(.6 .6 .6) = -1.53, which three insertions with `<eod>` share: -.51."""
    decoder = by_hand({"AA": [0.6, 0, 0.4, 0]}, otherwise=[0.4, 0, 0.6, 0])
    ((best, *_),) = search(decoder, replace(PLAIN, length_penalty=alpha), width=4, limits=[2 + 1])
    assert best.trace.tokens() == first
    assert best.score == pytest.approx(best.trace.log_prob / (len(first) + 1) ** alpha)


@pytest.mark.parametrize(
    ("penalty", "tokens", "probability"),
    [(-1.0, [], 0.5), (0.0, [], 0.5), (0.5, [A], 0.4 * 0.6), (2.5, [A, B], 0.4 * 0.28)],
)
def test_the_end_penalty_ranks_and_leaves_log_probs_alone(
    penalty: float, tokens: list[int], probability: float
) -> None:
    """The end is less probable than the best word from a penalty of log(.5 / .4) = .22, then log(.6 / .28) = .76."""
    decoder = by_hand({"": [0.5, 0, 0.4, 0.1], "A": [0.6, 0, 0.12, 0.28]}, otherwise=[1, 0, 0, 0])
    ((best,),) = search(decoder, replace(LOG_PROB, eod_penalty=penalty), width=1, limits=[5])
    assert best.trace.tokens() == tokens
    assert best.trace.log_prob == pytest.approx(math.log(probability))
    assert best.score == pytest.approx(math.log(probability) - penalty)


def test_case_87_an_end_that_never_comes() -> None:
    decoder = by_hand({}, otherwise=[0, 0.2, 0.5, 0.3])
    for width in (1, 3):
        (found, other) = search(decoder, width=width, limits=[7, 2])
        assert len(found) == len(other) == width
        assert [len(h.trace) for h in found] == [7] * width
        assert [len(h.trace) for h in other] == [2] * width
        for h in (*found, *other):
            assert not h.finished and h.trace.end_log_prob is None
        assert found[0].trace.tokens() == [A] * 7
        assert found[0].trace.log_prob == pytest.approx(7 * math.log(0.5))


def test_what_ended_stands_before_what_ran_out_of_steps() -> None:
    decoder = by_hand({}, otherwise=[0.01, 0, 0.99, 0])
    ((first, second),) = search(decoder, width=2, limits=[3])
    assert first.finished and not second.finished
    assert first.score < second.score


@pytest.mark.parametrize(("kind", "count"), [("beam", 1), ("joint", 1), ("sample", 4)])
def test_no_step_is_allowed(kind: str, count: int) -> None:
    config = DecodeConfig(search=kind)  # type: ignore[arg-type]
    (found,) = search(random_table(0, num_words=4), config, width=4, limits=[0])
    assert len(found) == count
    for hypothesis in found:
        assert hypothesis.trace.tokens() == [] and not hypothesis.finished
        assert hypothesis.score == hypothesis.trace.log_prob == 0.0


def test_case_83_five_words_and_eight_places() -> None:
    (found,) = search(random_table(3, num_words=5), width=8, limits=[4])
    assert 0 < len(found) <= 8
    assert len({(history_of(h), h.finished) for h in found}) == len(found)
    assert all(FIRST_WORD < word < FIRST_WORD + 5 for h in found for word, _ in history_of(h))


def test_impossible_continuations_do_not_fill_the_beam() -> None:
    """One word, one end: there are two hypotheses at each step, however many places."""
    decoder = by_hand({"A": [1, 0, 0, 0]}, otherwise=[0.5, 0, 0.5, 0])
    (found,) = search(decoder, width=6, limits=[4])
    assert sorted(h.trace.tokens() for h in found) == [[], [A]]


def test_slots_of_one_word_compete_with_those_of_others() -> None:
    """Two places, both go to the two good slots of the better word: .5 * .5 > .3 * 1."""
    decoder = TableDecoder(
        lambda _, history: [1, 0, 0, 0] if len(history) == 2 else [0, 0, 0.7, 0.3] if history else [0, 0, 1, 0],
        lambda _, history, word: [1.0] if not history else [0.5, 0.5] if word == A else [1.0, 0.0],
    )
    (found,) = search(decoder, LOG_PROB, width=2, limits=[5])
    assert {history_of(h) for h in found} == {((A, 0), (A, 0)), ((A, 0), (A, 1))}
    assert all(h.trace.insertions[1].slot_log_prob == pytest.approx(math.log(0.5)) for h in found)


@pytest.mark.parametrize("kind", ["beam", "joint", "sample"])
def test_the_trace_holds_each_part(kind: str) -> None:
    decoder = TableDecoder(
        lambda _, history: [[0.1, 0.1, 0.8], [0.2, 0.2, 0.6], [0.7, 0.1, 0.2]][len(history)],
        lambda _, history, word: [[1.0], [0.75, 0.25], [0.5, 0.25, 0.25]][len(history)],
        end_cost=0.5,
    )
    config = DecodeConfig(search=kind, top_k=1)  # type: ignore[arg-type]
    ((h,),) = search(decoder, config, width=1, limits=[5])
    assert [i.token for i in h.trace.insertions] == [A, A]
    assert h.trace.slots() == (0, 0) and h.trace.rounds() == (0, 1)
    assert [i.word_log_prob for i in h.trace.insertions] == pytest.approx([math.log(0.8), math.log(0.6)])
    assert [i.slot_log_prob for i in h.trace.insertions] == pytest.approx([0.0, math.log(0.75)])
    assert h.trace.end_log_prob == pytest.approx(math.log(0.7) - 0.5)
    assert h.trace.log_prob == pytest.approx(math.log(0.8 * 0.6 * 0.75 * 0.7) - 0.5)
    assert h.score == pytest.approx(h.trace.log_prob / 3)


def test_the_batch_shrinks_when_sentences_are_done() -> None:
    """A sentence of a thousand words must not pay for those that ended."""
    sizes = []

    class Counting(TableDecoder):
        def words(self, state: State) -> WordScores:
            sizes.append(len(state))
            return super().words(state)

    table = random_table(0, num_words=4, end=0.0)
    lengths = [1, 12, 3, 3, 2, 6]
    found = search(Counting(table.word_table, table.slot_table), width=2, limits=lengths)
    assert [len(row[0].trace) for row in found] == lengths
    assert sizes[0] == 6 and sizes[-1] == 1
    assert sizes == sorted(sizes, reverse=True)


def test_order_of_sentences_is_kept() -> None:
    decoder, choose = random_table(5, num_words=4, end=0.5), random.Random(1)
    limits = [choose.randint(1, 7) for _ in range(9)]
    keys = list(range(A, A + 9))
    straight = search(decoder, width=2, limits=limits, keys=keys)
    turned = search(decoder, width=2, limits=limits[::-1], keys=keys[::-1])[::-1]
    for one, two in zip(straight, turned, strict=True):
        assert [history_of(h) for h in one] == [history_of(h) for h in two]


@pytest.mark.parametrize(("kind", "width"), [("beam", 2), ("sample", 1)])
def test_a_system_that_shows_one_slot_is_decoded_greedily(kind: str, width: int) -> None:
    decoder = replace(random_table(0, num_words=4), greedy_only=True)
    assert search(decoder, width=1, limits=[4])
    with pytest.raises(ValueError, match="beam of 1"):
        search(decoder, DecodeConfig(search=kind), width=width, limits=[4])  # type: ignore[arg-type]


def test_nothing_is_computed_for_rules_that_are_off() -> None:
    """The default search asks for slots once a step, and never before the first."""
    asked: list[Sequence[int]] = []

    class Counting(TableDecoder):
        def slots(self, state, parent_SC, word_SC):  # type: ignore[no-untyped-def]
            asked.append(tuple(parent_SC.shape))
            return super().slots(state, parent_SC, word_SC)

    table = random_table(0, num_words=6, end=0.0)
    sentences = [Sentence(line=0, min_length=0, max_length=3)]
    decoder = Counting(table.word_table, table.slot_table)
    search_batch(decoder, collate_source([[A]]), DecodeConfig(), sentences, width=3, seed=1)
    assert asked == [(1, 3)] * 3


def test_unk_is_not_written_by_default() -> None:
    decoder = by_hand({"": [0.1, 0.6, 0.3, 0]}, otherwise=[0.3, 0.7, 0, 0])
    ((best,),) = search(decoder, DecodeConfig(), width=1, limits=[3])
    assert best.trace.tokens() == [A]
    assert best.trace.log_prob == pytest.approx(math.log(0.3 * 0.3))  # the model's own, although only they were left
    ((best,),) = search(decoder, PLAIN, width=1, limits=[3])
    assert best.trace.tokens() == [UNK] * 3
