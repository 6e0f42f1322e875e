"""Tokenizers: white space of all kinds, and lines that come back as they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.tokenizer import (
    SPACE_TOKEN,
    TOKENIZERS,
    Tokenizer,
    language_warning,
    make_tokenizer,
)
from indigo_cli.errors import UsageError

ALL: list[Tokenizer] = [make_tokenizer(name, "en") for name in TOKENIZERS]
NASTY = "aZ é\u0301ß漢.,!?'\"`()[]{}<>&|@#%:;-–—„“”‘’…«»´º 0129\u00a0\u2028\u3000\u200b\ufeff\x85\r\t\x00"  # noqa: RUF001
texts = st.text() | st.text(alphabet=NASTY)


@given(texts)
def test_no_token_is_empty_or_holds_white_space(line: str) -> None:
    for tokenizer in ALL:
        for token in tokenizer.tokenize(line):
            assert token.split() == [token]


@given(st.text(alphabet=" \t\r\u00a0\u2028\u3000\x85\x1c"))
def test_white_space_alone_is_empty(line: str) -> None:
    assert all(tokenizer.tokenize(line) == [] for tokenizer in ALL)


@given(texts)
def test_white_space_tokenizer_keeps_the_text(line: str) -> None:
    tokenizer = make_tokenizer("none", "")
    assert tokenizer.detokenize(tokenizer.tokenize(line)) == " ".join(line.split())


@given(texts | st.text(alphabet=" \t\r\u2028\u3000\u2581_9.ab="))
def test_exact_tokenizer_keeps_every_character(line: str) -> None:
    """Case 107: also blanks at both ends, and text that looks like the tokens that stand for blanks."""
    line = line.replace("\n", "")
    tokenizer = make_tokenizer("exact", "")
    assert tokenizer.detokenize(tokenizer.tokenize(line)) == (line if line.strip() else "")


@given(st.lists(st.text(alphabet="\u2581_9a.x", min_size=1)))
def test_exact_tokenizer_takes_any_tokens(tokens: list[str]) -> None:
    """A model may write any of them in any order; a line stays a line."""
    assert "\n" not in make_tokenizer("exact", "").detokenize(tokens)


def test_tokens_of_blanks() -> None:
    tokens = make_tokenizer("exact", "").tokenize('  x = "a  b"\t# \u2581c ')
    assert tokens == ["\u2581__", "x", "=", '"a', "\u2581__", 'b"', "\u25819.", "#", "\u2581\u2581c", "\u2581_"]


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


@pytest.mark.parametrize(
    ("lang", "line", "text"),
    [
        ("en", "it &apos;s 5 &lt; 6 , &quot; so &quot; !", 'it\'s 5 < 6, "so"!'),
        ("de", "zwei hunde .", "zwei hunde."),
        ("ja", "猫 が 好き 。", "猫が好き。"),
    ],
)
def test_tokenized_text_is_read_as_it_stands_and_written_for_people(lang: str, line: str, text: str) -> None:
    tokenizer = make_tokenizer("tokenized", lang)
    assert tokenizer.tokenize(line) == line.split()
    assert tokenizer.detokenize(line.split()) == text


@given(texts)
def test_tokens_of_moses_stand_as_tokenized_text(line: str) -> None:
    named = dict(zip(TOKENIZERS, ALL, strict=True))
    tokens = named["moses"].tokenize(line)
    assert named["tokenized"].tokenize(" ".join(tokens)) == tokens


def test_a_missing_code_is_said_but_only_where_it_matters() -> None:
    assert "English" in language_warning("moses", "")
    assert not any(language_warning(name, "xx") for name in TOKENIZERS if name != "moses")


def test_unknown_tokenizer() -> None:
    with pytest.raises(UsageError, match="unknown tokenizer 'mozes'"):
        make_tokenizer("mozes", "en")
