"""The search in rounds on systems whose probabilities stand in a table, against every outcome they have."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indigo_cli.core.trace import Hypothesis
from indigo_cli.core.vocab import EOD, UNK
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.places import GivenWords
from tests.decoding.round_tables import (
    PLAIN,
    A,
    B,
    C,
    Items,
    Outcome,
    RoundTable,
    decide,
    empty_or,
    history_of,
    outcomes,
    random_rounds,
    search,
    words_of,
)

few = settings(max_examples=8)


def perfect(target: Sequence[int], size: int) -> RoundTable:
    """Return a system that knows a target of different words: each slot wants the middle word of what is missing."""

    def table(source: int, items: Items, slot: int) -> list[float]:
        places = [place for place, item in enumerate(items) if item == "o"]
        left, right = words_of(items[: places[slot]]), words_of(items[places[slot] :])
        low = target.index(left[-1]) + 1 if left else 0
        high = target.index(right[0]) if right else len(target)
        best = target[(low + high) // 2] if low < high else EOD
        return [0.9 if word == best else 0.1 / (size - 1) for word in range(EOD, EOD + size)]

    return RoundTable(table)


def check(found: Hypothesis, outcome: Outcome, config: DecodeConfig, start: Items = ("o",)) -> None:
    """Compare a hypothesis, and all that its trace holds, with an outcome."""
    assert history_of(found, start) == outcome.history
    assert found.trace.log_prob == pytest.approx(outcome.log_prob, abs=1e-4)
    assert found.score == pytest.approx(outcome.score(config), abs=1e-4)
    assert found.finished == (not outcome.forced)
    assert len(found.trace.close_log_probs) == outcome.items.count("c") - start.count("c")


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 33])
def test_a_perfect_system_needs_log_rounds_and_one_that_closes(length: int) -> None:
    target = [A + i for i in range(length)]
    decoder = perfect(target, length + 3)
    ((found,),) = search(decoder, width=1, limits=[60])
    assert found.trace.tokens() == target
    assert found.finished
    inserting = math.floor(math.log2(length)) + 1 if length else 0
    assert sorted(set(found.trace.rounds())) == list(range(inserting))
    assert len(decoder.calls) == inserting + 1
    assert len(found.trace.close_log_probs) == length + 1
    for one, two in zip(found.trace.insertions, found.trace.insertions[1:], strict=False):
        assert one.round < two.round or one.slot < two.slot  # inside a round from left to right


@pytest.mark.parametrize("penalty", [0.0, 1.0, -0.7])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_beam_as_wide_as_the_space_is_brute_force(penalty: float, alpha: float, limit: int) -> None:
    decoder = random_rounds(3, num_words=3)
    config = replace(PLAIN, length_penalty=alpha, close_penalty=penalty)
    (found,) = search(decoder, config, width=400, limits=[limit])
    wanted = outcomes(decoder, A, limit, penalty=penalty)
    wanted.sort(key=lambda outcome: (not outcome.forced, outcome.score(config)), reverse=True)
    assert len(found) == len(wanted)
    for hypothesis, outcome in zip(found, wanted, strict=True):
        check(hypothesis, outcome, config)


def test_what_may_happen_adds_up_to_one() -> None:
    """Of slots that mostly close nearly all outcomes have 4 words at most."""
    decoder = random_rounds(5, num_words=3, close=300.0)
    (found,) = search(decoder, width=3000, limits=[4])
    total = math.fsum(math.exp(hypothesis.trace.log_prob) for hypothesis in found)
    assert 0.995 < total < 1.0 + 1e-5


@few
@given(seed=st.integers(0, 10**6), limit=st.integers(0, 6), penalty=st.sampled_from([0.0, 2.0, -1.0]))
def test_greedy_takes_the_best_of_each_slot(seed: int, limit: int, penalty: float) -> None:
    decoder = random_rounds(seed, num_words=4, close=1.5)
    config = replace(PLAIN, close_penalty=penalty)
    ((found,),) = search(decoder, config, width=1, limits=[limit])
    items: Items = ("o",)
    history: list[tuple[int, ...]] = []
    log_prob, forced = 0.0, False
    while "o" in items:
        room, decided = limit - len(words_of(items)), []
        for slot in range(items.count("o")):
            table = decoder.table(A, items, slot)
            values = [math.log(table[0]) - penalty, *map(math.log, table[1:])]
            best = values.index(max(values))
            forced |= best > 0 and not room
            best = best if room else 0
            room -= best > 0
            log_prob += math.log(table[best])
            decided.append(EOD + best)
        history.append(tuple(decided))
        items = decide(items, decided)
    check(found, Outcome(tuple(history), items, log_prob, forced), config)


@few
@given(seed=st.integers(0, 10**6), limits=st.lists(st.integers(0, 6), min_size=1, max_size=4), width=st.integers(1, 5))
def test_a_batch_is_its_sentences_alone(seed: int, limits: list[int], width: int) -> None:
    decoder = random_rounds(seed, num_words=4, close=2.0)
    rng = random.Random(seed)
    canvases = [random_canvas(rng) if rng.random() < 0.5 else None for _ in limits]
    config = replace(PLAIN, search=rng.choice(["beam", "sample"]), close_penalty=0.5)
    together = search(decoder, config, width=width, limits=limits, canvases=canvases)
    for i, limit in enumerate(limits):
        (alone,) = search(decoder, config, width=width, limits=[limit], canvases=[canvases[i]], keys=[A + i], lines=[i])
        assert [(h.trace, h.finished) for h in alone] == [(h.trace, h.finished) for h in together[i]]
        assert [h.score for h in alone] == pytest.approx([h.score for h in together[i]])


def test_a_wider_beam_finds_what_is_better() -> None:
    """On average over tables; the best of a beam of 1 is that of greedy rounds."""
    gains = []
    for seed in range(10):
        decoder = random_rounds(seed, num_words=4, close=2.0)
        (one,), (four,) = (search(decoder, width=width, limits=[5]) for width in (1, 4))
        gains.append(four[0].score - one[0].score)
    assert sum(gains) > 0.5


def test_finished_sentences_leave_the_batch() -> None:
    short, long = perfect([], 12), perfect([A + i for i in range(7)], 12)
    decoder = RoundTable(lambda key, items, slot: (short if key == A else long).table(key, items, slot))
    search(decoder, width=1, limits=[20] * 4, keys=[A, A, B, A])
    assert decoder.calls == [4, 1, 1, 1]


class TestRules:
    def test_unknown_words_are_banned(self) -> None:
        decoder = RoundTable(lambda *_: [0.3, 0.6, 0.1])
        ((found,),) = search(decoder, replace(PLAIN, ban_unk=True), width=1, limits=[5])
        assert found.trace.tokens() == []
        ((found,),) = search(decoder, width=1, limits=[5])
        assert found.trace.tokens() == [UNK] * 5
        assert not found.finished

    @few
    @given(seed=st.integers(0, 10**6), fewest=st.integers(0, 5), width=st.integers(1, 4))
    def test_no_hypothesis_is_shorter_than_asked(self, seed: int, fewest: int, width: int) -> None:
        decoder = random_rounds(seed, num_words=4, close=20.0)
        for search_kind in ("beam", "sample"):
            config = replace(PLAIN, search=search_kind)
            (found,) = search(decoder, config, width=width, limits=[5], fewest=[fewest])
            assert all(fewest <= len(h.trace) <= 5 for h in found)
            closed = [h.trace.close_log_probs for h in found]
            assert all(math.isfinite(p) for one in closed for p in one)

    def test_the_slot_that_wants_a_word_most_takes_it(self) -> None:
        def table(key: int, items: Items, slot: int) -> list[float]:
            if not words_of(items):
                return [0.1, 0.1, 0.8]
            return [0.9, 0.05, 0.05] if slot == 0 else [0.6, 0.1, 0.3]

        ((found,),) = search(RoundTable(table), width=1, limits=[5], fewest=[2])
        assert [(i.token, i.slot, i.round) for i in found.trace.insertions] == [(A, 0, 0), (A, 1, 1)]

    def test_nothing_is_cut_that_would_have_ended_there(self) -> None:
        target = [A, B, C]
        for limit, finished in ((3, True), (2, False), (1, False), (0, False)):
            ((found,),) = search(perfect(target, 6), width=1, limits=[limit])
            assert found.finished == finished
            assert found.trace.tokens() == [target[1], *target[2:]][:limit] if limit < 2 else True
            assert len(found.trace) == limit

    @pytest.mark.slow
    def test_a_penalty_on_closing_makes_outputs_longer(self) -> None:
        lengths = []
        for penalty in (-2.0, 0.0, 2.0):
            config = replace(PLAIN, close_penalty=penalty)
            found = [
                search(random_rounds(seed, num_words=4, close=2.0), config, width=width, limits=[8])[0][0]
                for seed in range(8)
                for width in (1, 3)
            ]
            lengths.append(sum(len(h.trace) for h in found))
        assert lengths[0] < lengths[1] < lengths[2]


class TestSamples:
    def test_frequencies_are_the_probabilities(self) -> None:
        """Chi-square over strings and histories of at most 1 word and the rest; 99.99 %."""
        decoder = random_rounds(11, num_words=3, close=3.0)
        count = 2000
        config = replace(PLAIN, search="sample")
        (found,) = search(decoder, config, width=count, limits=[9])
        seen = Counter(history_of(h) if len(h.trace) < 2 else () for h in found)
        chances = {o.history: math.exp(o.log_prob) for o in outcomes(decoder, A, 1) if not o.forced}
        exact = {o.history: math.exp(o.log_prob) for o in outcomes(decoder, A, 2) if len(words_of(o.items)) < 2}
        chances = {**exact, (): 1.0 - sum(exact.values())}
        assert set(seen) <= set(chances)
        assert sum((seen[h] - count * p) ** 2 / (count * p) for h, p in chances.items()) < 16 + 3 * len(chances)

    def test_the_nucleus_of_every_slot(self) -> None:
        decoder = RoundTable(lambda *_: [0.5, 0.3, 0.15, 0.05])
        for how, allowed in (({"top_p": 0.6}, {UNK}), ({"top_k": 3}, {UNK, A}), ({"temperature": 1e-3}, set())):
            config: Any = replace(PLAIN, search="sample", **how)
            (found,) = search(decoder, config, width=50, limits=[4])
            assert {word for h in found for word in h.trace.tokens()} == allowed

    def test_draws_depend_on_line_and_seed_alone(self) -> None:
        decoder, config = random_rounds(2, num_words=4, close=1.5), replace(PLAIN, search="sample")
        first = search(decoder, config, width=3, limits=[6], lines=[7], seed=5)
        assert first == search(decoder, config, width=3, limits=[6], lines=[7], seed=5)
        assert first[0] == search(decoder, config, width=5, limits=[6], lines=[7], seed=5)[0][:3]
        assert first != search(decoder, config, width=3, limits=[6], lines=[8], seed=5)


def random_canvas(rng: random.Random) -> GivenWords:
    words = tuple(rng.choice([A, B]) for _ in range(rng.randrange(4)))
    return GivenWords(words, tuple(rng.random() < 0.6 for _ in range(len(words) + 1)))


class TestCanvases:
    def test_every_outcome_of_a_canvas(self) -> None:
        decoder = random_rounds(4, num_words=3)
        canvas = GivenWords((A, B), (True, False, True))
        (found,) = search(decoder, width=400, limits=[4], canvases=[canvas])
        start = empty_or(canvas)
        wanted = outcomes(decoder, A, 4, start)
        wanted.sort(key=lambda outcome: (not outcome.forced, outcome.score(PLAIN)), reverse=True)
        assert len(found) == len(wanted)
        for hypothesis, outcome in zip(found, wanted, strict=True):
            check(hypothesis, outcome, PLAIN, start)
            assert hypothesis.trace.given == 2

    @few
    @given(seed=st.integers(0, 10**6), width=st.integers(1, 4))
    def test_given_words_stand_and_closed_gaps_stay_closed(self, seed: int, width: int) -> None:
        rng = random.Random(seed)
        canvases = [random_canvas(rng) for _ in range(3)]
        config = replace(PLAIN, search=rng.choice(["beam", "sample"]))
        decoder = random_rounds(seed, num_words=4)
        for canvas, found in zip(
            canvases, search(decoder, config, width=width, limits=[8] * 3, canvases=canvases), strict=True
        ):
            assert found
            for hypothesis in found:
                trace, given = hypothesis.trace, len(canvas.words)
                assert trace.rounds()[:given] == (-1,) * given
                places = trace.order()[:given]
                assert list(places) == sorted(places)
                assert tuple(trace.tokens()[place] for place in places) == canvas.words
                edges = (-1, *places, len(trace))
                for gap, is_open in enumerate(canvas.open):
                    assert is_open or edges[gap + 1] == edges[gap] + 1

    @pytest.mark.parametrize("kind", ["beam", "sample"])
    def test_the_canvas_of_nothing_is_plain_decoding(self, kind: Any) -> None:
        decoder, config = random_rounds(6, num_words=4), replace(PLAIN, search=kind)
        plain = search(decoder, config, width=3, limits=[5])
        assert search(decoder, config, width=3, limits=[5], canvases=[GivenWords((), (True,))]) == plain

    def test_a_closed_canvas_asks_nothing(self) -> None:
        decoder = random_rounds(6, num_words=4)
        canvas = GivenWords((A, B), (False, False, False))
        for config in (PLAIN, replace(PLAIN, search="sample")):
            found = search(decoder, config, width=2, limits=[5], canvases=[canvas])[0]
            assert [h.trace.tokens() for h in found] == [[A, B]] * (1 + (config.search == "sample"))
            assert all(h.finished for h in found)
        assert decoder.calls == []

    @few
    @given(seed=st.integers(0, 10**6), width=st.integers(1, 4))
    def test_nothing_is_glued_to_a_given_word(self, seed: int, width: int) -> None:
        """B is a piece whose word goes on: it never stands right before a given word."""
        decoder = random_rounds(seed, num_words=4, close=0.5)
        canvas = GivenWords((A, A), (True, True, True))
        (found,) = search(decoder, width=width, limits=[9], canvases=[canvas], continuing=[B])
        for hypothesis in found:
            tokens = hypothesis.trace.tokens()
            assert all(place == 0 or tokens[place - 1] != B for place in hypothesis.trace.order()[:2])
