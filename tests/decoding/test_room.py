"""Hard limits of length in the serial search: against every text that there is, spelt out by the detokenizer."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from indigo_cli.core.trace import Hypothesis
from indigo_cli.core.units import LengthUnit
from indigo_cli.core.vocab import EOD, UNK
from indigo_cli.data.collate import collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.places import GivenWords, Sentence
from indigo_cli.decoding.room import Joints
from indigo_cli.decoding.search import search_batch
from indigo_cli.models.protocol import SerialDecoder
from tests.decoding.measure import CHARACTERS, D, Measure
from tests.decoding.tables import (
    PLAIN,
    A,
    B,
    C,
    History,
    Partial,
    TableDecoder,
    history_of,
    options,
    random_table,
    score,
    search,
    surface,
)

SAMPLE = DecodeConfig(search="sample", ban_unk=False)


def within(
    decoder: SerialDecoder,
    config: DecodeConfig = PLAIN,
    *,
    width: int,
    wishes: Sequence[int | None],
    most: int = 9,
    measure: Measure = CHARACTERS,
    keys: Sequence[int] | None = None,
    lines: Sequence[int] | None = None,
    canvases: Sequence[GivenWords] | None = None,
    distinct: bool = False,
) -> list[list[Hypothesis]]:
    """Search sentences with these limits of length."""
    sentences = measure.sentences(wishes, most=most, lines=lines, canvases=canvases)
    source = collate_source([[key] for key in keys or range(A, A + len(wishes))])
    return search_batch(
        decoder,
        source,
        config,
        sentences,
        width=width,
        seed=1,
        distinct=distinct,
        continuing=measure.codec.continuing,
        counter=measure.counter(),
    )


def closed_texts(
    decoder: TableDecoder, key: int, config: DecodeConfig, most: int, measure: Measure, wish: int
) -> list[Partial]:
    """Return whatever can be closed with fewer than `most` insertions, holds whole words and fits."""
    found: list[Partial] = []
    level = [Partial()]
    for length in range(most):
        grown = []
        for p in level:
            for column, q in enumerate(decoder.word_table(key, p.history)):
                word, total = EOD + column, p.log_prob + float(torch.tensor(q).log())
                if word != EOD:
                    grown += [
                        Partial(total + more, (*p.history, (word, anchor)))
                        for anchor, more in options(decoder, key, p.history, word)
                    ]
                elif measure.fits(surface(p.history), wish):
                    rank = score(total, length, config, finished=True)
                    found.append(Partial(total, p.history, rank, finished=True))
        level = grown
    return found


def wanted(closed: Sequence[Partial], decoder: TableDecoder, key: int) -> Partial:
    """Return the best, which is no empty one where the best first word has no room but another one has."""
    table = decoder.word_table(key, ())
    first = EOD + max(range(len(table)), key=table.__getitem__)
    with_words = [p for p in closed if p.history]
    if with_words and first != EOD and not any(surface(p.history)[0] == first for p in closed if len(p.history) > 0):
        closed = with_words
    return max(closed, key=lambda p: p.rank)  # type: ignore[arg-type, return-value]


class TestJoints:
    @given(
        words=st.lists(st.sampled_from([UNK, A, B, C, D]), max_size=6),
        word=st.sampled_from([UNK, A, B, C, D]),
        unit=st.sampled_from(["token", "word", "character", "byte"]),
    )
    def test_what_a_word_adds_is_what_the_text_says(self, words: list[int], word: int, unit: LengthUnit) -> None:
        """In every slot, and with the least that completes the last word: one token, or one more letter."""
        measure = Measure(unit)
        joints = Joints(measure.counter(), measure.codec.continuing, torch.device("cpu"))
        tensor = torch.tensor(words, dtype=torch.int64).view(1, 1, -1)
        cost = joints.cost(tensor, torch.arange(len(words) + 1)[None, None])
        for slot in range(len(words) + 1):
            grown = [*words[:slot], word, *words[slot:]]
            completed = [*grown, C] if grown[-1] == A else grown
            found = int(joints.count(tensor)) + int(cost[0, 0, slot, joints.kind[word]]) + int(joints.own[word])
            if words[-1:] == [A] and slot < len(words):  # what stands is counted as it would be completed
                assert found == int(joints.count(tensor)) - measure.size([*words]) + measure.size(completed)
            else:
                assert found == measure.size(completed)


class TestBeam:
    @given(st.integers(0, 10**6), st.integers(0, 12), st.sampled_from(["character", "word", "token"]))
    @settings(max_examples=40)
    def test_a_wide_beam_finds_the_best_whole_words_that_fit(self, seed: int, wish: int, unit: LengthUnit) -> None:
        decoder, measure = random_table(seed, num_words=6, with_slots=False), Measure(unit)
        (found,) = within(decoder, width=700, wishes=[wish], most=4, measure=measure)
        best = wanted(closed_texts(decoder, A, PLAIN, 4, measure, wish), decoder, A)
        assert found[0].finished
        assert history_of(found[0]) == best.history
        assert found[0].score == pytest.approx(best.rank, rel=1e-5)
        assert found[0].trace.log_prob == pytest.approx(best.log_prob, rel=1e-5)

    @given(st.integers(0, 10**6), st.integers(0, 12), st.sampled_from(["beam", "joint"]))
    @settings(max_examples=10)
    def test_so_it_does_where_words_go_anywhere(self, seed: int, wish: int, kind: Literal["beam", "joint"]) -> None:
        decoder, measure = random_table(seed, num_words=6, end_cost=0.3), Measure()
        config = replace(PLAIN, search=kind)
        (found,) = within(decoder, config, width=1500, wishes=[wish], most=4)
        closed = [replace(p, log_prob=p.log_prob - 0.3) for p in closed_texts(decoder, A, config, 4, measure, wish)]
        closed = [replace(p, rank=score(p.log_prob, len(p.history), config, finished=True)) for p in closed]
        best = wanted(closed, decoder, A)
        assert history_of(found[0]) == best.history
        assert found[0].score == pytest.approx(best.rank, rel=1e-5)

    @given(
        st.integers(0, 10**6),
        st.lists(st.integers(0, 20), min_size=1, max_size=4),
        st.integers(1, 4),
        st.booleans(),
        st.booleans(),
        st.sampled_from(["character", "word", "token", "byte"]),
    )
    @settings(max_examples=60)
    def test_all_fit_and_cost_what_the_model_says(
        self, seed: int, wishes: list[int], width: int, with_slots: bool, distinct: bool, unit: LengthUnit
    ) -> None:
        decoder, measure = random_table(seed, num_words=6, with_slots=with_slots, end=0.3), Measure(unit)
        together = within(decoder, width=width, wishes=wishes, measure=measure, distinct=distinct)
        for key, wish, found in zip(range(A, A + 4), wishes, together, strict=False):
            assert found
            for hypothesis in found:
                assert measure.fits(hypothesis.trace.tokens(), wish)
                assert hypothesis.trace.log_prob == pytest.approx(price(decoder, key, hypothesis), rel=1e-5, abs=1e-6)
            assert len({(history_of(h), h.finished) for h in found}) == len(found)
            (alone,) = within(decoder, width=width, wishes=[wish], keys=[key], measure=measure, distinct=distinct)
            assert alone == found

    @given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.booleans())
    def test_a_long_wish_changes_nothing(self, seed: int, width: int, with_slots: bool, sample: bool) -> None:
        """Of texts that hold whole words: here no word goes on."""
        measure = Measure(tokens=("a", "bbb", "c", "."))
        decoder = random_table(seed, num_words=6, with_slots=with_slots)
        config = SAMPLE if sample else PLAIN
        assert within(decoder, config, width=width, wishes=[1000, 1000], measure=measure) == search(
            decoder, config, width=width, limits=[9, 9]
        )

    def test_a_limit_is_of_its_own_sentence(self) -> None:
        decoder = random_table(3, num_words=6, with_slots=False, end=0.1)
        first, second = within(decoder, width=3, wishes=[None, 5], keys=[A, A])
        assert [first] == search(decoder, width=3, limits=[9], keys=[A])
        assert first != second

    def test_a_counter_is_needed(self) -> None:
        sentence = Sentence(0, 0, 9, limit=Measure().limit(3))
        with pytest.raises(ValueError, match="counter"):
            search_batch(random_table(1, num_words=4), collate_source([[A]]), PLAIN, [sentence], width=1, seed=1)


class TestFallback:
    """By hand, greedy, from left to right. Columns: <eod>, <unk>, a@@, bbb, c, `.`"""

    def test_what_fell_off_the_beam_is_kept_where_there_was_no_room_for_better(self) -> None:
        table = {
            (): [0.01, 0, 0, 0.9, 0.05, 0.04],
            (B,): [0.3, 0, 0, 0.6, 0.05, 0.05],  # "bbb": closing is second
            (B, B): [0.001, 0, 0, 0.989, 0.006, 0.004],  # "bbb bbb": one more has no room, "bbb bbb c" has
            (B, B, C): [0.1, 0, 0, 0.8, 0.05, 0.05],
        }
        decoder = TableDecoder(lambda _, history: table[tuple(word for word, _ in history)], None)
        config = replace(PLAIN, length_penalty=0.0)
        ((found, *_),) = within(decoder, config, width=1, wishes=[9], most=4)
        # bbb 0.9 * 0.3 = 0.27; bbb bbb c: 0.9 * 0.6 * 0.006 * 0.1
        assert surface(history_of(found)) == (B,) and found.finished
        assert found.trace.log_prob == pytest.approx(float(torch.tensor(0.27).log()))

    def test_a_word_is_never_begun_that_cannot_end(self) -> None:
        decoder = TableDecoder(lambda _, history: [0.01, 0, 0.9, 0.03, 0.03, 0.03], None)
        for wish, text in ((0, ""), (1, "c"), (2, "ac"), (3, "aac"), (5, "aaaac")):
            ((found, *_),) = within(decoder, width=1, wishes=[wish], most=9)
            assert len(Measure().text(found.trace.tokens())) == len(text), wish
            assert Measure().fits(found.trace.tokens(), wish)

    def test_where_nothing_fits_the_text_is_empty(self) -> None:
        measure = Measure(tokens=("aa@@", "bbb", "cc", ",.."))
        decoder = random_table(5, num_words=6)
        for wish in (0, 1):
            ((found, *_),) = within(decoder, width=3, wishes=[wish], measure=measure)
            assert found.trace.tokens() == [] and found.finished
            assert found.trace.end_log_prob == pytest.approx(float(torch.tensor(decoder.word_table(A, ())[0]).log()))


class TestSamples:
    @given(st.integers(0, 10**6), st.lists(st.integers(0, 12), min_size=1, max_size=3), st.booleans())
    @settings(max_examples=40)
    def test_all_fit_and_none_depends_on_others(self, seed: int, wishes: list[int], with_slots: bool) -> None:
        decoder, measure = random_table(seed, num_words=6, with_slots=with_slots, end=0.3), Measure()
        for i, (found, wish) in enumerate(
            zip(within(decoder, SAMPLE, width=5, wishes=wishes, most=6), wishes, strict=True)
        ):
            assert len(found) == 5
            for hypothesis in found:
                assert measure.fits(hypothesis.trace.tokens(), wish)
                assert hypothesis.trace.log_prob == pytest.approx(price(decoder, A + i, hypothesis), rel=1e-5, abs=1e-6)
            (fewer,) = within(decoder, SAMPLE, width=2, wishes=[wish], keys=[A + i], lines=[i], most=6)
            assert fewer == found[:2]

    def test_draws_follow_the_model_among_what_fits(self) -> None:
        """One word of one letter, `.` or c, or none; the others have no room."""
        decoder = TableDecoder(
            lambda _, history: [0.2, 0, 0, 0.4, 0.3, 0.1] if not history else [1, 0, 0, 0, 0, 0], None
        )
        (found,) = within(decoder, SAMPLE, width=4000, wishes=[1])
        counts = Counter(surface(history_of(h)) for h in found)
        assert set(counts) == {(C,), (D,)} or set(counts) == {(C,), (D,), ()}
        assert counts[(C,)] / counts[(D,)] == pytest.approx(3, rel=0.15)


class TestGiven:
    @given(st.integers(0, 10**6), st.integers(4, 14), st.integers(1, 3), st.booleans())
    @settings(max_examples=40)
    def test_given_words_count_too(self, seed: int, wish: int, width: int, sample: bool) -> None:
        canvas = GivenWords((B, D), (True, False, True))
        decoder, measure = random_table(seed, num_words=6, end=0.3), Measure()
        config = SAMPLE if sample else PLAIN
        (found,) = within(decoder, config, width=width, wishes=[wish], canvases=[canvas])
        for hypothesis in found:
            words = hypothesis.trace.tokens()
            assert measure.fits(words, wish)
            assert (B, D) in set(pairwise(words))
        if wish == 4:
            assert {tuple(h.trace.tokens()) for h in found} == {(B, D)} and found[0].finished


def price(decoder: TableDecoder, key: int, hypothesis: Hypothesis) -> float:
    """Return what the tables say."""
    history: History = ()
    total = 0.0
    for word, anchor in history_of(hypothesis):
        total += float(torch.tensor(decoder.word_table(key, history)[word - EOD]).log())
        total += dict(options(decoder, key, history, word))[anchor]
        history = (*history, (word, anchor))
    end = float(torch.tensor(decoder.word_table(key, history)[0]).log())
    return total + (end if hypothesis.finished else 0.0)
