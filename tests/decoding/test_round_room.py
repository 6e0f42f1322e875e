"""Hard limits of length in rounds: against all outcomes, and a greedy search with lists that spells every text out."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from indigo_cli.core.trace import Hypothesis
from indigo_cli.core.units import LengthUnit
from indigo_cli.core.vocab import EOD, PAD, UNK
from indigo_cli.data.collate import collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.parallel import search_rounds
from indigo_cli.decoding.places import GivenWords, Sentence
from indigo_cli.decoding.round_room import Surface
from tests.decoding.measure import CHARACTERS, D, Measure
from tests.decoding.round_tables import (
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

CONFIG = DecodeConfig()
SAMPLE = DecodeConfig(search="sample")


def within(
    decoder: RoundTable,
    config: DecodeConfig = CONFIG,
    *,
    width: int,
    wishes: Sequence[int | None],
    most: int = 9,
    measure: Measure = CHARACTERS,
    keys: Sequence[int] | None = None,
    lines: Sequence[int] | None = None,
    canvases: Sequence[GivenWords] | None = None,
) -> list[list[Hypothesis]]:
    """Search sentences with these limits of length."""
    sentences = measure.sentences(wishes, most=most, lines=lines, canvases=canvases)
    source = collate_source([[key] for key in keys or range(A, A + len(wishes))])
    continuing, counter = measure.codec.continuing, measure.counter()
    return search_rounds(
        decoder, source, config, sentences, width=width, seed=1, continuing=continuing, counter=counter
    )


def completed(words: Sequence[int]) -> list[int]:
    """Return words with the least that ends the last one."""
    return [*words, C] if words and words[-1] == A else [*words]


def slow_greedy(decoder: RoundTable, key: int, measure: Measure, wish: int) -> Outcome:
    """Search greedily with lists: the surest words first, each if what then stands can be completed within the wish."""
    at, short, way = Outcome((), ("o",)), False, []
    while "o" in at.items:
        tables = [decoder.table(key, at.items, slot) for slot in range(at.items.count("o"))]
        closed = at_end(at, [EOD] * len(tables), tables)
        if measure.fits(words_of(at.items), wish):
            way.append(closed)
        dangling = words_of(at.items)[-1:] == (A,)
        chosen, gains = [EOD] * len(tables), []
        for slot, table in enumerate(tables):
            must = dangling and slot == len(tables) - 1
            alone = {
                word: table[word - EOD]
                for word in range(EOD, EOD + len(table))
                if word != UNK and not (word == EOD and must)
                if word == EOD or within_wish(at.items, chosen, slot, word, measure, wish)
            }
            everything = {EOD + c: p for c, p in enumerate(table) if EOD + c != UNK and not (must and not c)}
            squeezed = max(everything, key=everything.__getitem__) not in alone
            short |= max({EOD + c: p for c, p in enumerate(table) if EOD + c != UNK}.items(), key=lambda item: item[1])[
                0
            ] not in (*alone, EOD)
            if squeezed and not words_of(at.items) and len(alone) > 1:
                alone.pop(EOD, None)
            word = max(alone, key=alone.__getitem__)
            if word != EOD:
                gains.append((math.inf if EOD not in alone else math.log(table[word - EOD] / table[0]), slot, word))
        for _, slot, word in sorted(gains, key=lambda item: -item[0]):
            if within_wish(at.items, chosen, slot, word, measure, wish):
                chosen[slot] = word
            else:
                short = True
        at = at_end(at, chosen, tables)
    if not short and measure.fits(words_of(at.items), wish):
        return at
    everything_ = [one for one in [at, *way] if measure.fits(words_of(one.items), wish)]
    with_words = [one for one in everything_ if words_of(one.items)]
    return max(with_words or everything_, key=lambda one: one.score(CONFIG))


def within_wish(items: Items, chosen: Sequence[int], slot: int, word: int, measure: Measure, wish: int) -> bool:
    tried = [*chosen]
    tried[slot] = word
    return measure.size(completed(words_of(decide(items, tried)))) <= wish


def at_end(at: Outcome, words: Sequence[int], tables: Sequence[Sequence[float]]) -> Outcome:
    more = sum(math.log(table[word - EOD]) for table, word in zip(tables, words, strict=True))
    return Outcome((*at.history, tuple(words)), decide(at.items, words), at.log_prob + more)


class TestSurface:
    @given(st.data())
    def test_it_is_what_lists_make_of_the_decisions(self, data: st.DataObject) -> None:
        canvases = [
            None,
            GivenWords((), (True,)),
            GivenWords((B, D), (True, False, True)),
            GivenWords((C,), (False, True)),
        ]
        chosen = data.draw(st.lists(st.sampled_from(canvases), min_size=1, max_size=3))
        surface = Surface.start([Sentence(0, 0, 9, canvas=one) for one in chosen], torch.device("cpu"))
        rows = [[empty_or(one)] for one in chosen]
        for _ in range(3):
            beam = data.draw(st.integers(1, 3))
            parents = [[data.draw(st.integers(0, len(row) - 1)) for _ in range(beam)] for row in rows]
            rows = [[row[p] for p in parent] for row, parent in zip(rows, parents, strict=True)]
            most = max(items.count("o") for row in rows for items in row)
            if not most:
                return
            words = [
                [data.draw(st.lists(st.sampled_from([EOD, A, B]), min_size=n, max_size=n)) for n in map(_open, row)]
                for row in rows
            ]
            padded = [[[*some, *[PAD] * (most - len(some))] for some in row] for row in words]
            surface = surface.grow(torch.tensor(parents), torch.tensor(padded))
            rows = [
                [decide(i, w) for i, w in zip(row, some, strict=True)] for row, some in zip(rows, words, strict=True)
            ]
            for i, row in enumerate(rows):
                for b, items in enumerate(row):
                    standing = words_of(items)
                    assert surface.words[i, b].tolist() == [
                        *standing,
                        *[PAD] * (surface.words.shape[2] - len(standing)),
                    ]
                    slots = [len(words_of(items[:at])) for at, item in enumerate(items) if item == "o"]
                    assert surface.slots[i, b, : len(slots)].tolist() == slots


def _open(items: Items) -> int:
    return items.count("o")


class TestRounds:
    @given(st.integers(0, 10**6), st.integers(0, 3))
    @settings(max_examples=8)
    def test_a_wide_beam_finds_the_best_outcome_that_fits(self, seed: int, wish: int) -> None:
        decoder, measure = random_rounds(seed, num_words=6), Measure()
        (found,) = within(decoder, width=200, wishes=[wish])
        fitting = [
            one
            for one in outcomes(decoder, A, 3)
            if UNK not in words_of(one.items) and measure.fits(words_of(one.items), wish)
        ]
        table = decoder.table(A, ("o",), 0)
        column = max((c for c in range(6) if c != UNK - EOD), key=table.__getitem__)
        if column and wish and wish < {B - EOD: 3, A - EOD: 2}.get(column, 0):
            fitting = [one for one in fitting if words_of(one.items)]
        best = max(fitting, key=lambda one: one.score(CONFIG))
        assert history_of(found[0])[: len(best.history)] == best.history and found[0].finished
        assert found[0].score == pytest.approx(best.score(CONFIG), rel=1e-5)
        assert found[0].trace.log_prob == pytest.approx(best.log_prob, rel=1e-5)

    @given(st.integers(0, 10**6), st.integers(0, 16), st.sampled_from(["character", "byte", "token"]))
    @settings(max_examples=60)
    def test_greedy_rounds_do_what_lists_do(self, seed: int, wish: int, unit: LengthUnit) -> None:
        measure = Measure(unit)
        decoder = random_rounds(seed, num_words=6, close=0.5)
        (found,) = within(decoder, width=1, wishes=[wish], most=99, measure=measure)
        best = slow_greedy(decoder, A, measure, wish)
        (top,) = found[:1]
        assert tuple(top.trace.tokens()) == words_of(best.items)
        assert top.trace.log_prob == pytest.approx(best.log_prob, rel=1e-5) and top.finished

    @given(
        st.integers(0, 10**6),
        st.lists(st.integers(0, 20), min_size=1, max_size=4),
        st.integers(1, 4),
        st.booleans(),
        st.sampled_from(["character", "word", "token", "byte"]),
    )
    @settings(max_examples=50)
    def test_all_fit_and_cost_what_the_model_says(
        self, seed: int, wishes: list[int], width: int, sample: bool, unit: LengthUnit
    ) -> None:
        measure = Measure(unit)
        decoder, config = random_rounds(seed, num_words=6, close=0.7), SAMPLE if sample else CONFIG
        together = within(decoder, config, width=width, wishes=wishes, measure=measure)
        for i, (wish, found) in enumerate(zip(wishes, together, strict=True)):
            assert found and (len(found) == width or not sample)
            for hypothesis in found:
                assert measure.fits(hypothesis.trace.tokens(), wish)
                assert hypothesis.trace.log_prob == pytest.approx(price(decoder, A + i, hypothesis), rel=1e-5, abs=1e-6)
            (alone,) = within(decoder, config, width=width, wishes=[wish], keys=[A + i], lines=[i], measure=measure)
            assert alone == found

    @given(st.integers(0, 10**6), st.integers(1, 4), st.booleans())
    def test_a_long_wish_changes_nothing(self, seed: int, width: int, sample: bool) -> None:
        measure = Measure(tokens=("a", "bbb", "c", "."))
        decoder, config = random_rounds(seed, num_words=6, close=3.0), SAMPLE if sample else CONFIG
        assert within(decoder, config, width=width, wishes=[1000, 1000], measure=measure) == search(
            decoder, config, width=width, limits=[9, 9]
        )

    @given(st.integers(0, 10**6), st.integers(4, 14), st.integers(1, 3), st.booleans())
    @settings(max_examples=30)
    def test_given_words_count_too(self, seed: int, wish: int, width: int, sample: bool) -> None:
        canvas = GivenWords((B, D), (True, False, True))
        decoder, measure = random_rounds(seed, num_words=6, close=0.5), Measure()
        (found,) = within(decoder, SAMPLE if sample else CONFIG, width=width, wishes=[wish], canvases=[canvas])
        for hypothesis in found:
            assert measure.fits(hypothesis.trace.tokens(), wish)
            assert hypothesis.trace.log_prob == pytest.approx(
                price(decoder, A, hypothesis, empty_or(canvas)), rel=1e-5, abs=1e-6
            )
        if wish == 4:
            assert {tuple(h.trace.tokens()) for h in found} == {(B, D)} and found[0].finished

    def test_the_surest_words_come_in(self) -> None:
        """By hand: `bbb` stands, its left side would take `c` at 0.5, its right side at 0.8; there is room for one."""
        tables = {
            ("o",): [[0.1, 0, 0, 0.8, 0.1, 0]],
            ("o", B, "o"): [[0.4, 0, 0, 0.05, 0.5, 0.05], [0.15, 0, 0, 0, 0.8, 0.05]],
        }
        decoder = RoundTable(lambda _, items, slot: tables.get(items, [[1.0, 0, 0, 0, 0, 0]] * 9)[slot])
        ((found, *_),) = within(decoder, replace(CONFIG, length_penalty=2.0), width=1, wishes=[5])
        assert found.trace.tokens() == [B, C] and found.finished
        assert found.trace.log_prob == pytest.approx(math.log(0.8 * 0.4 * 0.8))

    def test_a_counter_is_needed(self) -> None:
        sentence = Sentence(0, 0, 9, limit=Measure().limit(3))
        with pytest.raises(ValueError, match="counter"):
            search_rounds(random_rounds(1, num_words=4), collate_source([[A]]), CONFIG, [sentence], width=1, seed=1)


def price(decoder: RoundTable, key: int, hypothesis: Hypothesis, start: Items = ("o",)) -> float:
    """Return what the tables say."""
    total, items = 0.0, start
    for words in history_of(hypothesis, start):
        tables = [decoder.table(key, items, slot) for slot in range(items.count("o"))]
        total += sum(math.log(table[word - EOD]) for table, word in zip(tables, words, strict=True))
        items = decide(items, words)
    return total
