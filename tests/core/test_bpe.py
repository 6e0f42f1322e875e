"""BPE against subword-nmt, and pieces that join to exactly the words they came from."""

import io
from collections import Counter
from contextlib import redirect_stderr
from itertools import pairwise
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from subword_nmt.apply_bpe import BPE as ReferenceBPE
from subword_nmt.learn_bpe import learn_bpe

from indigo_cli.core import bpe_learner
from indigo_cli.core.bpe import BPE, HEADER, join, learn, num_merges, split_all
from indigo_cli.errors import DataError, UsageError

words = st.text(alphabet="ab@\\</w>é", min_size=1, max_size=8)
counts = st.dictionaries(words, st.integers(1, 5), min_size=1, max_size=30)


def reference_codes(word_counts: dict[str, int], merges: int) -> str:
    """Codes of subword-nmt itself."""
    codes = io.StringIO()
    with redirect_stderr(io.StringIO()):
        learn_bpe([f"{word} {count}" for word, count in word_counts.items()], codes, merges, is_dict=True)
    return codes.getvalue()


@given(counts.filter(lambda c: any(len(word) > 1 for word in c)), st.integers(1, 40))
@example({"aaaa": 2, "aaa": 1, "abab": 3}, 9)
def test_merges_are_those_of_subword_nmt(word_counts: dict[str, int], merges: int) -> None:
    assert learn(word_counts, merges) == reference_codes(word_counts, merges)


@given(counts, st.integers(0, 40), words)
def test_pieces_are_those_of_subword_nmt(word_counts: dict[str, int], merges: int, new: str) -> None:
    codes = learn(word_counts, merges)
    bpe = BPE(codes)
    if num_merges(codes) == 0:  # subword-nmt exits on such a file
        codes += "zz zz\n"
    reference = ReferenceBPE(io.StringIO(codes))
    for word in [*word_counts, new]:
        expected = reference.segment_tokens([word])
        pieces = list(bpe.split(word))
        assert pieces[:-1] == expected[:-1]
        assert pieces[-1].rstrip("\\") == expected[-1].rstrip("\\")  # ours may escape


@given(counts, st.integers(0, 40), st.lists(words | st.text(min_size=1).filter(lambda t: t.split() == [t])))
@example({"foo@@": 5, "bar": 5, "a": 5, "@@": 5, "b": 5}, 30, ["foo@@", "bar", "@@", "@@\\", "@@@@", "\\"])
def test_joining_is_exact(word_counts: dict[str, int], merges: int, line: list[str]) -> None:
    bpe = BPE(learn(word_counts, merges))
    assert join(split_all(bpe, [*line, *word_counts])) == [*line, *word_counts]


def test_words_that_end_in_the_separator_survive_a_vocabulary_that_knows_them() -> None:
    training = ["foo@@ bar", "a @@ b"]
    bpe = BPE(learn(Counter(" ".join(training * 5).split()), 30))
    assert len(bpe.split("foo@@")) == 1
    for line in training:
        assert " ".join(join(split_all(bpe, line.split()))) == line


def test_no_pair_gives_a_file_with_its_header_only() -> None:
    codes = learn({"a": 1, "b": 1, "c": 1}, 5)
    assert codes == HEADER + "\n" and num_merges(codes) == 0
    assert BPE(codes).split("abc") == ("a@@", "b@@", "c")


def test_it_stops_when_no_pair_occurs_twice() -> None:
    assert learn({"ab": 2}, 5) == HEADER + "\na b</w>\n"
    assert num_merges(learn({"ab": 1}, 5)) == 0


def test_among_equals_the_last_pair_by_code_points_comes_first() -> None:
    pairs = {"ab": 2, "cd": 2, "c\U0001f600": 2}
    expected = HEADER + "\nc \U0001f600</w>\nc d</w>\na b</w>\n"
    assert learn(pairs, 9) == learn(dict(reversed(pairs.items())), 9) == expected


def test_a_piece_that_asks_for_more_may_come_last() -> None:
    assert join(["ab@@"]) == ["ab"]
    assert join([]) == []


@pytest.mark.parametrize(
    ("codes", "line"), [("a b\n", 1), ("#version: 0.1\na b\n", 1), ("#version: 0.2\na b\na b c\n", 3)]
)
def test_files_of_another_kind_are_refused_with_their_line(codes: str, line: int) -> None:
    with pytest.raises(DataError) as caught:
        BPE(codes, where="x.codes")
    assert caught.value.where == f"x.codes:{line}"


@given(st.dictionaries(st.text("ab", min_size=2, max_size=9), st.integers(1, 9), min_size=9), st.integers(40, 80))
def test_long_words_are_split_as_by_subword_nmt(word_counts: dict[str, int], merges: int) -> None:
    """Long enough that merges overlap, make pairs that rank better than their own, and pass the memory of words."""
    codes = learn(word_counts, merges)
    reference = ReferenceBPE(io.StringIO(codes if num_merges(codes) else f"{codes}zz zz\n"))
    for word in ("".join(word_counts), "".join(word_counts)[::-1] * 2, "aab" * 40):
        assert list(BPE(codes).split(word)) == reference.segment_tokens([word])


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=9), st.integers(1, 300), min_size=1, max_size=40),
    st.integers(1, 60),
    st.sampled_from([1, 3, 1000]),
)
def test_the_threshold_of_followed_pairs_never_shows(word_counts: dict[str, int], merges: int, share: int) -> None:
    """From one that no pair reaches down to 2: pairs that were not followed are found again with their counts."""
    with patch.object(bpe_learner, "FIRST_SHARE", share), patch.object(bpe_learner, "THRESHOLD_STEP", 2):
        assert learn(word_counts, merges) == counted_anew(word_counts, merges)


@given(
    st.lists(st.sampled_from(["a", "b", "</w>", "w>"]), min_size=1, max_size=6)
    .map("".join)
    .flatmap(
        lambda word: st.dictionaries(
            st.just(word) | st.text("ab", min_size=1, max_size=5), st.integers(1, 4), min_size=3
        )
    ),
    st.integers(1, 40),
)
@example({"a</w>b": 3, "ba": 3, "bba": 2, "aab": 1}, 20)
def test_text_that_spells_the_mark_is_counted_like_the_mark(word_counts: dict[str, int], merges: int) -> None:
    """Symbols are what they spell, so a last `a` and `a</w>` within a word are one, as in subword-nmt."""
    assert learn(word_counts, merges) == counted_anew(word_counts, merges)


def counted_anew(word_counts: dict[str, int], merges: int) -> str:
    """The same by the book: all pairs counted before each merge, the last one by code points among the best."""
    words = {(*word[:-1], f"{word[-1]}</w>"): count for word, count in word_counts.items()}
    codes = [HEADER]
    for _ in range(merges):
        pairs: Counter[tuple[str, str]] = Counter()
        for symbols, count in words.items():
            for pair in pairwise(symbols):
                pairs[pair] += count
        if max(pairs.values(), default=0) < 2:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        codes.append(" ".join(best))
        merged: Counter[tuple[str, ...]] = Counter()
        for symbols, count in words.items():
            done: list[str] = []
            i = 0
            while i < len(symbols):
                width = 2 if symbols[i : i + 2] == best else 1
                done.append("".join(symbols[i : i + width]))
                i += width
            merged[tuple(done)] += count
        words = merged
    return "\n".join(codes) + "\n"


def test_more_merges_than_symbols_are_refused() -> None:
    with pytest.raises(UsageError, match="1,000,001 merges"):
        learn({"ab": 2}, 1_000_001)


def test_a_word_of_many_equal_pairs_is_learnt_from_in_linear_time() -> None:
    """Every place of a pair asks for its word again: 60,000 places in one word would take minutes."""
    assert learn({"ab" * 60_000: 1}, 5) == learn({"ab" * 500: 1}, 5) == reference_codes({"ab" * 500: 1}, 5)
