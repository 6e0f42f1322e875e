"""Rules against slow ones that rebuild every string, for hypotheses of any place in a batch."""

import math
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.vocab import UNK
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.places import Sentence
from indigo_cli.decoding.rules import first_equal, make_rules, repeats
from tests.decoding.tables import (
    PLAIN,
    A,
    B,
    C,
    History,
    assert_same,
    by_hand,
    history_of,
    random_table,
    search,
    slow_search,
    surface,
)

kinds = st.sampled_from(["beam", "joint"])


def has_repeat(words: Any, size: int) -> bool:
    """Tell whether a run of `size` words stands twice."""
    runs = [tuple(words[i : i + size]) for i in range(len(words) - size + 1)]
    return len(set(runs)) < len(runs)


class TestRepeats:
    @given(words=st.lists(st.integers(5, 7), max_size=9), size=st.integers(1, 4), append_only=st.booleans())
    def test_it_is_what_the_grown_strings_say(self, words: list[int], size: int, append_only: bool) -> None:
        """For strings without a repeat, as a search has them; the old ones that the new word breaks do not count."""
        while has_repeat(words, size):
            words = words[1:]
        other = [random.Random(0).randint(5, 7) for _ in words]  # a neighbour in the batch
        first = first_equal(torch.tensor([words, other], dtype=torch.int64))
        table = repeats(first, size, append_only=append_only)[0]
        slots = [len(words)] if append_only else range(len(words) + 1)
        assert table.shape == (len(slots), len(words) + 1)
        for row, slot in zip(table, slots, strict=True):
            for i, word in enumerate(words):
                if words.index(word) == i:
                    assert bool(row[i]) == has_repeat([*words[:slot], word, *words[slot:]], size)
            assert not row[-1]
            assert not has_repeat([*words[:slot], 99, *words[slot:]], size)

    def test_first_equal(self) -> None:
        assert first_equal(torch.tensor([[7, 5, 7, 5, 6]])).tolist() == [[0, 1, 0, 1, 4]]
        assert first_equal(torch.zeros(2, 0, dtype=torch.int64)).shape == (2, 0)


class TestAgainstTheSlowSearch:
    @given(
        seed=st.integers(0, 10**6),
        kind=kinds,
        width=st.integers(1, 5),
        size=st.integers(1, 3),
        limits=st.lists(st.integers(1, 6), min_size=1, max_size=3),
        with_slots=st.booleans(),
        distinct=st.booleans(),
    )
    def test_ngrams(
        self, seed: int, kind: Any, width: int, size: int, limits: list[int], with_slots: bool, distinct: bool
    ) -> None:
        config = DecodeConfig(search=kind, block_ngrams=size)
        decoder = random_table(seed, num_words=4, with_slots=with_slots, end=0.2)
        found = search(decoder, config, width=width, limits=limits, distinct=distinct)
        for i, limit in enumerate(limits):
            wanted = slow_search(
                decoder,
                A + i,
                config,
                width=width,
                limit=limit,
                may=lambda history: history[-1][0] != UNK and not has_repeat(surface(history), size),
                distinct=distinct,
            )
            assert_same(found[i], wanted)

    @given(
        seed=st.integers(0, 10**6),
        kind=kinds,
        width=st.integers(1, 5),
        bags=st.lists(st.lists(st.sampled_from([UNK, A, B, C]), max_size=4), min_size=1, max_size=3),
        extra=st.integers(0, 2),
        with_slots=st.booleans(),
    )
    def test_bags(self, seed: int, kind: Any, width: int, bags: list[list[int]], extra: int, with_slots: bool) -> None:
        """Repeated words, unknown ones, an empty bag, and bags that must stay unfinished."""
        config = DecodeConfig(search=kind, restrict_to_bag=True)
        decoder = random_table(seed, num_words=5, with_slots=with_slots)
        limits = [len(bag) + extra for bag in bags]
        found = search(decoder, config, width=width, limits=limits, bags=[tuple(bag) for bag in bags])
        for i, bag in enumerate(bags):
            wanted = slow_search(
                decoder,
                A + i,
                config,
                width=width,
                limit=limits[i],
                may=lambda history, bag=bag: Counter(surface(history)) <= Counter(bag),  # type: ignore[misc]
                may_end=lambda history, bag=bag: sorted(surface(history)) == sorted(bag),  # type: ignore[misc]
            )
            assert_same(found[i], wanted)
            assert all(sorted(h.trace.tokens()) == sorted(bag) for h in found[i])
            assert all(h.finished == (extra > 0) for h in found[i])

    @given(
        seed=st.integers(0, 10**6),
        kind=kinds,
        width=st.integers(1, 5),
        lengths=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=4),
        with_slots=st.booleans(),
    )
    def test_fewest_words(
        self, seed: int, kind: Any, width: int, lengths: list[tuple[int, int]], with_slots: bool
    ) -> None:
        config = replace(PLAIN, search=kind)
        decoder = random_table(seed, num_words=4, with_slots=with_slots, end=3.0)
        fewest, limits = [least for least, _ in lengths], [least + more for least, more in lengths]
        found = search(decoder, config, width=width, limits=limits, fewest=fewest)
        for i, (least, limit) in enumerate(zip(fewest, limits, strict=True)):

            def may_end(history: History, least: int = least) -> bool:
                return len(history) >= least

            assert_same(found[i], slow_search(decoder, A + i, config, width=width, limit=limit, may_end=may_end))
            assert all(least <= len(h.trace) <= limit for h in found[i])

    def test_a_given_number_of_words(self) -> None:
        """A hypothesis with the most words it may have is never asked for its end."""
        for kind in ("beam", "joint", "sample"):
            config = DecodeConfig(search=kind)
            (found,) = search(random_table(0, num_words=5, end=9.0), config, width=4, limits=[6], fewest=[6])
            assert len(found) == 4
            assert all(len(h.trace) == 6 and not h.finished for h in found)


class TestSamples:
    def test_samples_obey_all_rules_together(self) -> None:
        decoder = random_table(8, num_words=6, end=2.0)
        config = DecodeConfig(search="sample", block_ngrams=2)
        (found,) = search(decoder, config, width=200, limits=[7], fewest=[3])
        lengths = {len(h.trace) for h in found}
        assert min(lengths) == 3 and max(lengths) == 7
        for h in found:
            tokens = h.trace.tokens()
            assert UNK not in tokens and not has_repeat(tokens, 2)
        plain = search(decoder, replace(config, block_ngrams=0), width=200, limits=[7], fewest=[3])[0]
        assert any(has_repeat(h.trace.tokens(), 2) for h in plain), "or the rule had nothing to do"

    def test_a_rule_that_has_nothing_to_ban_changes_no_draw(self) -> None:
        """A blocked run longer than the longest sentence."""
        decoder = random_table(8, num_words=6)
        config = DecodeConfig(search="sample")
        plain = search(decoder, config, width=50, limits=[5, 4])
        ruled = search(decoder, replace(config, block_ngrams=6), width=50, limits=[5, 4])
        assert [[history_of(h) for h in row] for row in plain] == [[history_of(h) for h in row] for row in ruled]

    def test_a_bag(self) -> None:
        bags = [(A, B, A), (), (C, UNK, B, B)]
        config = DecodeConfig(search="sample", restrict_to_bag=True)
        found = search(random_table(1, num_words=5), config, width=30, limits=[9, 9, 9], bags=bags)
        for row, bag in zip(found, bags, strict=True):
            assert all(sorted(h.trace.tokens()) == sorted(bag) and h.finished for h in row)
        assert len({tuple(h.trace.tokens()) for h in found[0]}) == 3
        assert len({tuple(h.trace.tokens()) for h in found[2]}) > 6


def test_the_slots_of_a_word_are_blocked_one_by_one() -> None:
    """A B stands; A again may go where it makes no second A B: not left of B, not left of the other A's B ... by hand.

    With runs of one word each word comes once. With runs of two, "A B" + A: A A B holds A A, A B once each: allowed.
    "A A B" + A: A A A B has A A twice: banned at the slots 0, 1 and 2, but A A B A is allowed.
    """
    decoder = random_table(5, num_words=4, end=0.0)
    (found,) = search(decoder, DecodeConfig(block_ngrams=2), width=300, limits=[4])
    strings = {tuple(h.trace.tokens()) for h in found}
    assert (A, A, B, A) in strings
    assert not any(string[i : i + 3] == (A, A, A) for string in strings for i in range(2))


def test_a_word_without_a_slot_leaves_its_place_to_others() -> None:
    """Greedy, left to right: A is best everywhere; with each word once, the next best comes, then nothing is left."""
    decoder = by_hand({}, otherwise=[0, 0.1, 0.5, 0.4])
    ((best,),) = search(decoder, DecodeConfig(block_ngrams=1), width=1, limits=[9])
    assert best.trace.tokens() == [A, B]
    assert not best.finished
    assert best.trace.log_prob == pytest.approx(math.log(0.5 * 0.4))
    assert best.score == pytest.approx(math.log(0.5 * 0.4) / 3)


def test_a_dead_end_gives_way_to_what_can_end() -> None:
    """After A there is no way on; the less likely B ends. One dead end alone is returned as it is."""
    words = {"": [0.0, 0, 0.9, 0.1], "A": [0.0, 0, 1, 0], "B": [1.0, 0, 0, 0]}
    decoder = by_hand(words, otherwise=[1, 0, 0, 0])
    config = DecodeConfig(block_ngrams=1)
    ((best,),) = search(decoder, config, width=2, limits=[9])
    assert best.trace.tokens() == [B] and best.finished
    ((cut,),) = search(decoder, config, width=1, limits=[9])
    assert cut.trace.tokens() == [A] and not cut.finished


def test_bags_of_some_sentences_only() -> None:
    sentences = [Sentence(0, 0, 5, bag=(A,)), Sentence(1, 0, 5)]
    with pytest.raises(ValueError, match="sentence 1 has none"):
        make_rules(DecodeConfig(restrict_to_bag=True), sentences, torch.device("cpu"))


def test_without_bags_the_unknown_word_is_banned() -> None:
    rules = make_rules(DecodeConfig(restrict_to_bag=True), [Sentence(0, 0, 5)], torch.device("cpu"))
    assert len(rules.words) == 1 and not rules.slots and not rules.need_canvas
    assert make_rules(PLAIN, [Sentence(0, 0, 5)], torch.device("cpu")).words == ()


def test_histories_are_read_as_strings() -> None:
    history: History = ((A, 0), (B, 0), (C, 1))
    assert surface(history) == (B, A, C)
