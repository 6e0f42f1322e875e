"""Tokenizers: what Moses users expect, white space of all kinds, and lines that come back as they were."""

import re
import unicodedata

import pytest
import sacremoses
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.tokenizer import (
    SPACE_TOKEN,
    TOKENIZERS,
    MosesTokenizer,
    Tokenizer,
    language_warning,
    make_tokenizer,
    moses_language,
)
from indigo_cli.errors import UsageError

EN = make_tokenizer("moses", "en")
ALL: list[Tokenizer] = [make_tokenizer(name, "en") for name in TOKENIZERS]
NASTY = "aZ é\u0301ß漢.,!?'\"`()[]{}<>&|@#%:;-–—„“”‘’…«»´º 0129\u00a0\u2028\u3000\u200b\ufeff\x85\r\t\x00"  # noqa: RUF001
texts = st.text() | st.text(alphabet=NASTY)


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("the red\u2028cat sat", ["the", "red", "cat", "sat"]),
        ("the red\rcat sat", ["the", "red", "cat", "sat"]),
        ("red\u00a0cat", ["red", "cat"]),
        ("red\u3000cat", ["red", "cat"]),
        ("red\u202fcat", ["red", "cat"]),
        ("red\x0b\x0c\x85cat", ["red", "cat"]),
        ("\u00a0", []),
        ("", []),
        ("red\u200bcat", ["red", "\u200b", "cat"]),
        ("\u200b", ["\u200b"]),
        ("...", ["..."]),
        ("?!", ["?", "!"]),
        (".", ["."]),
        ("cafe\u0301 noir", ["café", "noir"]),
        ("a | b", ["a", "&#124;", "b"]),
        ("[1] & [2]", ["&#91;", "1", "&#93;", "&amp;", "&#91;", "2", "&#93;"]),
        ("it's", ["it", "&apos;s"]),
        ("5 < 6", ["5", "&lt;", "6"]),
        ('say "hi"', ["say", "&quot;", "hi", "&quot;"]),
    ],
)
def test_moses_tokens(line: str, tokens: list[str]) -> None:
    assert EN.tokenize(line) == tokens


@pytest.mark.parametrize("line", ["a | b", "[1] & [2]", "it's", "5 < 6", 'say "hi"', "...", "?!", "."])
def test_moses_round_trip(line: str) -> None:
    assert EN.detokenize(EN.tokenize(line)) == line


def test_moses_normalises_typographic_quotes() -> None:
    tokens = EN.tokenize("\u201cSee this!\u201d she said. \u201cIt\u2019s big.\u201d")
    expected = "&quot; See this ! &quot; she said . &quot; It &apos;s big . &quot;"
    assert tokens == expected.split()
    assert EN.detokenize(tokens) == '"See this!" she said. "It\'s big."'


def test_romanian_cedillas_are_left_alone() -> None:
    line = "şi ţara e mare ŞI ŢARA"
    assert make_tokenizer("moses", "ro").tokenize(line) == line.split()


@given(texts)
def test_no_token_is_empty_or_holds_white_space(line: str) -> None:
    for tokenizer in ALL:
        for token in tokenizer.tokenize(line):
            assert token.split() == [token]


@given(st.text(alphabet=" \t\r\u00a0\u2028\u3000\x85\x1c"))
def test_white_space_alone_is_empty(line: str) -> None:
    assert all(tokenizer.tokenize(line) == [] for tokenizer in ALL)


@pytest.mark.parametrize("lang", ["en", "de", "fr", "cs"])
@given(line=texts)
def test_normaliser_is_the_one_of_sacremoses(lang: str, line: str) -> None:
    """The short cut around it and the compiled rules change nothing."""
    ours = MosesTokenizer(lang)
    plain = re.sub(r"[^\S\u00a0]", " ", unicodedata.normalize("NFC", line))
    assert ours.normalize(line) == sacremoses.MosesPunctNormalizer(lang=lang).normalize(plain)


@given(st.lists(st.sampled_from(["U.S.", "e.g.", "Mr.", "end.", "no.", "No.", "5", "x", "Éa.", "a.b", "..", "Ab"])))
def test_full_stops_are_treated_as_by_sacremoses(words: list[str]) -> None:
    """The sets that we build once give the same abbreviation rule as those it builds each time."""
    line = " ".join(words)
    assert EN.tokenize(line) == sacremoses.MosesTokenizer(lang="en").tokenize(line)


@given(texts)
def test_white_space_tokenizer_keeps_the_text(line: str) -> None:
    tokenizer = make_tokenizer("none", "")
    assert tokenizer.detokenize(tokenizer.tokenize(line)) == " ".join(line.split())


@given(texts)
def test_character_tokenizer_keeps_the_text(line: str) -> None:
    tokenizer = make_tokenizer("char", "")
    tokens = tokenizer.tokenize(line)
    assert tokenizer.detokenize(tokens) == " ".join(line.split())
    assert all(len(token) == 1 or token == SPACE_TOKEN for token in tokens)


def test_text_that_looks_like_the_space_token() -> None:
    tokenizer = make_tokenizer("char", "")
    assert tokenizer.tokenize("a <space>").count(SPACE_TOKEN) == 1
    assert tokenizer.detokenize(tokenizer.tokenize("a <space>")) == "a <space>"


@pytest.mark.parametrize("code", ["EN", "en-GB", "en_us", " en "])
def test_case_and_region_of_a_code_do_not_matter(code: str) -> None:
    assert moses_language(code) == "en"
    assert not language_warning("moses", code)


@pytest.mark.parametrize("code", ["xx", "engl"])
def test_unknown_codes_are_never_silent(code: str) -> None:
    warning = language_warning("moses", code)
    assert repr(code) in warning and "English" in warning
    assert make_tokenizer("moses", code).tokenize("Mr. X ran.") == ["Mr.", "X", "ran", "."]


def test_a_missing_code_is_said_but_only_where_it_matters() -> None:
    assert "English" in language_warning("moses", "")
    assert not language_warning("none", "xx")


def test_unknown_tokenizer() -> None:
    with pytest.raises(UsageError, match="unknown tokenizer 'mozes'"):
        make_tokenizer("mozes", "en")
