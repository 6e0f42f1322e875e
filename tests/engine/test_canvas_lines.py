"""Lines of a canvas file: given words, marks, what is escaped."""

import pytest

from indigo_cli.core.bpe import BPE, learn
from indigo_cli.core.text import SideCodec
from indigo_cli.core.vocab import NUM_SPECIALS, UNK, Vocabulary
from indigo_cli.decoding.places import GivenWords
from indigo_cli.engine.canvas_lines import CanvasReader
from indigo_cli.errors import DataError

WORDS = ["a", "red", "cat", "[gap]", "\\[gap]", "[gap]s", "."]
READ = CanvasReader(SideCodec("none", "en", False, None, Vocabulary(tuple(WORDS), (1,) * len(WORDS))), 4)


def given(words: str, gaps: str) -> GivenWords:
    """`o` is an open gap, `.` a closed one."""
    ids = tuple(NUM_SPECIALS + WORDS.index(word) for word in words.split())
    return GivenWords(ids, tuple(gap == "o" for gap in gaps), tuple(words.split()))


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("", given("", "o")),
        ("  ", given("", "o")),
        ("[gap]", given("", "o")),
        ("a red", given("a red", "ooo")),
        ("[gap] a red", given("a red", "o..")),
        ("a [gap] red [gap]", given("a red", ".oo")),
        ("a [gap] [gap] red", given("a red", ".o.")),
        ("a \\[gap] red", given("a [gap] red", "oooo")),
        ("a \\\\[gap] [gap]", given("a \\[gap]", "..o")),
        ("a \\[gap]s", given("a [gap]s", "ooo")),
        ("a [gap]. [gap]", given("a .", ".oo")),
        ("[gap][gap]a[gap]red", given("a red", "oo.")),
    ],
)
def test_marks_say_where_words_may_come_in(line: str, wanted: GivenWords) -> None:
    assert READ(line, "c:1") == wanted


@pytest.mark.parametrize(("line", "what"), [("a a a a a", "5 tokens")])
def test_what_cannot_be_given(line: str, what: str) -> None:
    with pytest.raises(DataError, match=what) as error:
        READ(line, "c:7")
    assert error.value.where == "c:7"


def test_unknown_words_are_written_as_they_are_given() -> None:
    found = READ("a dog", "c:1")
    assert (found.words, found.pieces) == ((NUM_SPECIALS, UNK), ("a", "dog"))


def test_nothing_comes_inside_a_word() -> None:
    bpe = BPE(learn({"ab": 2}, 0))
    pieces = sorted({piece for word in ("ab", "c") for piece in bpe.split(word)})
    codec = SideCodec("none", "en", False, bpe, Vocabulary(tuple(pieces), (1,) * len(pieces)))
    assert CanvasReader(codec, 9)("ab c", "c:1").open == (True, False, True, True)
    assert CanvasReader(codec, 9)("ab [gap] c", "c:1").open == (False, False, True, False)
