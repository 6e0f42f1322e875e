"""Rare pieces are split as subword-nmt does, and words still come back."""

import io
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from subword_nmt import apply_bpe

from indigo_cli.core.bpe import BPE, join, learn, num_merges, split_all
from indigo_cli.core.rare_pieces import origins, split_rare

WORDS = st.text(alphabet="abc", min_size=1, max_size=8)


@given(st.lists(WORDS, min_size=1), st.lists(WORDS), st.integers(1, 6), st.integers(0, 12))
def test_pieces_are_those_of_subword_nmt(train: list[str], later: list[str], threshold: int, merges: int) -> None:
    codes = learn(Counter(train), merges)
    counts = Counter(split_all(BPE(codes), train))
    kept = {piece for piece, count in counts.items() if count >= threshold}
    if not kept or num_merges(codes) == 0:
        return  # subword-nmt takes an empty vocabulary for none, and no codes for a fault
    theirs = apply_bpe.BPE(io.StringIO(codes), vocab=kept)
    ours = BPE(codes, pieces=kept)
    for word in [*train, *later]:
        assert list(ours.split(word)) == theirs.segment_tokens([word])


@given(st.lists(st.text(alphabet="a@\\</w>b", min_size=1, max_size=7), min_size=1), st.integers(1, 9))
def test_words_come_back_and_no_piece_is_empty(words: list[str], threshold: int) -> None:
    codes = learn(Counter(words * 3), 20)
    counts = Counter(split_all(BPE(codes), words))
    bpe = BPE(codes, pieces=[piece for piece, count in counts.items() if count >= threshold])
    for word in words:
        assert "" not in bpe.split(word) and "@@" not in bpe.split(word)
        assert join(bpe.split(word)) == [word]


def test_what_stays_is_known_or_was_never_merged() -> None:
    merges = [("a", "b"), ("ab", "c</w>"), ("a", "bc</w>")]
    origin = origins(merges)
    assert split_rare(["abc</w>"], origin, {"ab"}.__contains__) == ["ab", "c</w>"]
    assert split_rare(["ab", "abc</w>"], origin, set[str]().__contains__) == ["a", "b", "a", "b", "c</w>"]


def test_a_word_of_many_merges_needs_no_deep_recursion() -> None:
    word = "a" * 3000
    codes = "#version: 0.2\n" + "".join(f"{'a' * n} a\n" for n in range(1, 2999))
    assert len(BPE(codes, pieces=[]).split(word)) == 3000
