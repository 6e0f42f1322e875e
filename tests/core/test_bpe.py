"""BPE against subword-nmt, and pieces that join to exactly the words they came from."""

import io
from collections import Counter
from contextlib import redirect_stderr

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from subword_nmt.apply_bpe import BPE as ReferenceBPE
from subword_nmt.learn_bpe import learn_bpe

from indigo_cli.core.bpe import BPE, HEADER, join, learn, num_merges, split_all
from indigo_cli.errors import DataError

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
