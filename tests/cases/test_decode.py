"""Searches with few words or no end, and lines that no decoder expects."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.vocab import FIRST_WORD
from tests.conftest import Indigo
from tests.decoding.tables import A, by_hand, random_table, search
from tests.tiny import MAX_LENGTH, Tiny


@given(seed=st.integers(0, 99), words=st.integers(1, 5), width=st.integers(1, 9), limit=st.integers(1, 3))
def test_case_83_a_beam_wider_than_the_vocabulary(seed: int, words: int, width: int, limit: int) -> None:
    """It holds what there is: no padding, nothing twice, nothing impossible; one place suffices for the best."""
    (found,) = search(random_table(seed, num_words=words), width=width, limits=[limit])
    assert 1 <= len(found) <= width
    traces = [(tuple(h.trace.tokens()), h.trace.slots(), h.finished) for h in found]
    assert len(set(traces)) == len(traces)
    for hypothesis in found:
        assert all(FIRST_WORD < token < FIRST_WORD + words for token in hypothesis.trace.tokens())
        assert hypothesis.trace.log_prob > -1e6
    if limit == 1:  # the end, or each of the other words
        assert len(found) <= words


@given(width=st.integers(1, 5), limits=st.lists(st.integers(0, 7), min_size=1, max_size=4))
def test_case_87_an_end_that_never_comes_is_cut_at_any_length(width: int, limits: list[int]) -> None:
    """Every sentence has a hypothesis as long as it may be, marked as not finished, whatever its neighbours have."""
    lists = search(by_hand({}, otherwise=[0, 0.2, 0.5, 0.3]), width=width, limits=limits)
    assert len(lists) == len(limits)
    for found, limit in zip(lists, limits, strict=True):
        assert found[0].trace.tokens() == [A] * limit
        assert not any(h.finished for h in found) and {len(h.trace) for h in found} == {limit}


@pytest.mark.slow
def test_case_01_03_05_11_white_space_and_marks_of_the_input_change_nothing(indigo: Indigo, tiny: Tiny) -> None:
    """Whatever separates its words, a line has one answer, and a blank one an empty answer."""
    plain = indigo("decode", tiny.run, stdin=b"bee ant\n\nhen\n")
    answer, empty, other = plain.out.split("\n")[:3]
    assert plain.status == 0 and answer and other and not empty
    marked = indigo("decode", tiny.run, stdin="\ufeffbee ant\r\n\r\nhen\r\n".encode())
    assert (marked.status, marked.out) == (0, plain.out)
    blanks = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace() and chr(code) != "\n"]
    lines = [line for blank in blanks for line in (f"bee{blank}ant", blank + " ")]
    done = indigo("decode", tiny.run, stdin="".join(f"{line}\n" for line in lines).encode())
    assert (done.status, done.out) == (0, f"{answer}\n\n" * len(blanks))


def test_case_13_an_invisible_character_is_no_blank(indigo: Indigo, tiny: Tiny) -> None:
    """One between two words makes one word of them, and a line of one is not empty: it is said to be unknown."""
    done = indigo("decode", tiny.run, "--set", "decode.max_length=2", stdin="bee\u200bant\n\u200b\n\n".encode())
    assert done.status == 0 and len(done.out.split("\n")) == 4
    assert "warning: 2 lines were without any known word: line 1, 2" in done.err


def test_case_47_07_lines_that_were_cut_are_named_though_a_later_one_ends_it(
    indigo: Indigo, tiny: Tiny, tmp_path: Path
) -> None:
    """Decoding answers the lines before a bad byte, so what it did to them is said, too; so does scoring."""
    text = b"bee\n" + b"ant " * (MAX_LENGTH + 1) + b"\nhen\nkoi \xff\nbee\n"
    done = indigo("decode", tiny.run, stdin=text)
    assert done.status == 2 and len(done.out.splitlines()) == 3
    assert "warning: 1 line was longer than preprocess.max_length and cut: line 2\n" in done.err
    assert "error: byte 0xFF is not valid UTF-8\nat: -:4\n" in done.err
    (tmp_path / "s").write_bytes(text)
    (tmp_path / "t").write_bytes(b"bee\n" * 5)
    done = indigo("score", tiny.run, "--input", tmp_path / "s", "--target", tmp_path / "t", "-o", tmp_path / "out")
    assert done.status == 2 and f"at: {tmp_path / 's'}:4\n" in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("size", [MAX_LENGTH, MAX_LENGTH + 1, 10 * MAX_LENGTH])
def test_case_47_a_line_is_cut_where_training_would_have_dropped_it(indigo: Indigo, tiny: Tiny, size: int) -> None:
    lines = ["bee", " ".join(["ant", "bee"] * size)[: 4 * size - 1], "cat"]
    done = indigo("decode", tiny.run, "--quiet", stdin="".join(f"{line}\n" for line in lines).encode())
    assert done.status == 0 and len(done.out.splitlines()) == 3
    assert ("cut: line 2" in done.err) == (size > MAX_LENGTH)
    short = indigo("decode", tiny.run, stdin="".join(f"{line[: 4 * MAX_LENGTH - 1]}\n" for line in lines).encode())
    assert short.out == done.out
