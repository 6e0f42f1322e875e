"""BPE dropout against the whole tree of what can be dropped, and against subword-nmt's own."""

import math
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise, product
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from subword_nmt import apply_bpe

from indigo_cli.core.bpe import BPE, characters, join, learn
from indigo_cli.core.bpe_dropout import Drops, count_pairs, split_dropped

Symbols = tuple[str, ...]
WORD = "abaababa"
CODES = learn({"abaababa": 3, "aba": 9, "ab": 20, "baa": 2, "aaba": 4}, 9)
RATE = 0.3
SAMPLES = 3000

words = st.text(alphabet="ab", min_size=1, max_size=12)


def outcomes(symbols: Symbols, ranks: dict[tuple[str, str], int], rate: float) -> dict[Symbols, float]:
    """The probability of every split, by going through every set of dropped pairs of every round."""
    pairs = [(ranks[pair], i) for i, pair in enumerate(pairwise(symbols)) if pair in ranks]
    if not pairs:
        return {symbols: 1.0}
    found: dict[Symbols, float] = {}
    for kept in product((True, False), repeat=len(pairs)):
        chance = math.prod(1 - rate if keep else rate for keep in kept)
        left = [pair for pair, keep in zip(pairs, kept, strict=True) if keep]
        if not left:
            rest = {symbols: 1.0}
        else:
            places = {i for rank, i in left if rank == min(left)[0]}
            merged: list[str] = []
            i = 0
            while i < len(symbols):
                width = 2 if i in places else 1
                merged.append("".join(symbols[i : i + width]))
                i += width
            rest = outcomes(tuple(merged), ranks, rate)
        for split, share in rest.items():
            found[split] = found.get(split, 0.0) + chance * share
    return found


def ours() -> Callable[[], Symbols]:
    ranks, drops = BPE(CODES).ranks, Drops(RATE, Random(5))
    return lambda: tuple(split_dropped(characters(WORD), ranks, drops))


def subword_nmt() -> Callable[[], Symbols]:
    codes = {tuple(line.split()): i for i, line in enumerate(CODES.splitlines()[1:])}

    def sample() -> Symbols:
        pieces = apply_bpe.encode(WORD, codes, {}, None, "@@", (0, 2), {}, dropout=RATE)
        return (*pieces[:-1], pieces[-1] + "</w>")

    return sample


@pytest.mark.parametrize("make", [ours, subword_nmt])
def test_splits_are_as_frequent_as_the_tree_of_drops_says(make: Callable[[], Callable[[], Symbols]]) -> None:
    sample = make()
    with patch.object(apply_bpe, "random", random.Random(5)):
        seen = Counter(sample() for _ in range(SAMPLES))
    expected = outcomes(tuple(characters(WORD)), BPE(CODES).ranks, RATE)
    assert math.isclose(sum(expected.values()), 1)
    assert seen.keys() <= expected.keys()
    common = {split for split, chance in expected.items() if chance * SAMPLES >= 5}
    assert len(common) > 10
    rare = 1 - sum(expected[split] for split in common)
    cells = [(seen[split], expected[split] * SAMPLES) for split in common]
    cells.append((SAMPLES - sum(count for count, _ in cells), rare * SAMPLES))
    chi_square = sum((count - mean) ** 2 / mean for count, mean in cells)
    freedom = len(cells) - 1
    assert chi_square < freedom + 4 * math.sqrt(2 * freedom)  # four deviations


@given(st.dictionaries(words, st.integers(1, 9), min_size=1), st.integers(0, 20), words)
def test_the_ends_are_plain_bpe_and_characters(counts: dict[str, int], merges: int, word: str) -> None:
    bpe = BPE(learn(counts, merges))
    symbols = characters(word)
    assert bpe.spell(split_dropped(symbols, bpe.ranks, Drops(0, Random(1)))) == bpe.split(word)
    assert split_dropped(symbols, bpe.ranks, Drops(1, Random(1))) == symbols


@given(
    st.dictionaries(st.text("ab@\\</w>", min_size=1), st.integers(1, 9), min_size=1),
    st.text("ab@\\</w>", min_size=1),
    st.floats(0, 1),
    st.integers(0, 99),
)
def test_the_pieces_join_to_the_word(counts: dict[str, int], word: str, rate: float, seed: int) -> None:
    bpe = BPE(learn(counts, 20))
    for text in (word, *counts):
        assert join(bpe.spell(split_dropped(characters(text), bpe.ranks, Drops(rate, Random(seed))))) == [text]


@given(words, st.floats(0.01, 0.5), st.integers(0, 99))
def test_a_word_without_a_drop_uses_up_what_was_counted(word: str, rate: float, seed: int) -> None:
    """So a caller may skip the merges of a word whose next drop lies behind it."""
    bpe = BPE(CODES)
    drops = Drops(rate, Random(seed))
    passes, num_pairs = drops.passes, count_pairs(characters(word), bpe.ranks)
    split = split_dropped(characters(word), bpe.ranks, drops)
    if passes >= num_pairs:
        assert bpe.spell(split) == bpe.split(word)
        assert drops.passes == passes - num_pairs


def test_a_rate_is_a_share() -> None:
    with pytest.raises(ValueError, match=r"got 1\.5"):
        Drops(1.5, Random(1))
