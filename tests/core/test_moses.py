"""Moses: the fast tokenizer against sacremoses itself, what Moses users expect, and what a round trip keeps."""

import re
import unicodedata
from functools import cache

import pytest
import sacremoses
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core import moses
from indigo_cli.core.moses import (
    WITHOUT_BLANKS,
    MosesTokenizer,
    escape,
    language_warning,
    moses_language,
    unescape,
)
from tests.marks import quick

LANGUAGES = ("en", "de", "fr", "cs", "ja")
ours = cache(MosesTokenizer)
oracle = cache(sacremoses.MosesTokenizer)
NASTY = "aZ é\u0301ß漢.,!?'\"`()[]{}<>&|@#%:;-–—„“”‘’…«»´º 0129\u00a0\u2028\u3000\u200b\ufeff\x85\r\t\x00"  # noqa: RUF001
PARTS = (
    "U.S. e.g. Mr. No. no. p. end. 5 5.5 1,000 ,5 5, a,b x Éa. .. ... a... ' "
    "'s dogs' 'n' it's l'homme '' n't s' “It’s” "  # noqa: RUF001
    'a@b.c http://a.b/c, (a) [b] <c> a|b & &amp; DOTMULTI MULTI aMULTI. -- - co-op end." "So, ?! '
    "Nr. z.B. ca. \u00a0 漢字。"
).split(" ")
texts = st.text() | st.text(alphabet=NASTY) | st.lists(st.sampled_from(PARTS)).map(" ".join)


def plain_tokens(lang: str, line: str) -> list[str]:
    """Return what sacremoses alone makes of a line."""
    line = re.sub(r"[^\S\u00a0]", " ", unicodedata.normalize("NFC", line))
    normal = sacremoses.MosesPunctNormalizer(lang=lang).normalize(line)
    tokens: list[str] = oracle(lang).tokenize(normal, escape=True)
    return tokens


@pytest.mark.parametrize("lang", quick(LANGUAGES, 4))
@given(line=texts)
def test_tokens_are_those_of_sacremoses(lang: str, line: str) -> None:
    assert ours(lang).tokenize(line) == plain_tokens(lang, line)


@pytest.mark.parametrize("lang", LANGUAGES)
@given(line=texts)
def test_normaliser_is_the_one_of_sacremoses(lang: str, line: str) -> None:
    """Leaving out the rules that have nothing to change changes nothing."""
    plain = re.sub(r"[^\S\u00a0]", " ", unicodedata.normalize("NFC", line))
    assert ours(lang).normalize(line) == sacremoses.MosesPunctNormalizer(lang=lang).normalize(plain)


@given(st.lists(st.sampled_from(["U.S.", "e.g.", "Mr.", "end.", "no.", "No.", "5", "x", "Éa.", "a.b", "..", "Ab"])))
def test_full_stops_are_treated_as_by_sacremoses(words: list[str]) -> None:
    line = " ".join(words)
    assert ours("en").tokenize(line) == oracle("en").tokenize(line)


def test_a_memory_that_is_full_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moses, "KNOWN_WORDS", 3)
    tokenizer = MosesTokenizer("en")
    for line in ["a, b c d e f. g.", "f. a, b? c!", "x" * 200 + "."]:
        for _ in range(2):
            assert tokenizer.tokenize(line) == plain_tokens("en", line)
            assert len(tokenizer._known) <= 3
    assert not any(len(word) > moses.LONGEST_WORD for word in tokenizer._known)


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
    assert ours("en").tokenize(line) == tokens


@pytest.mark.parametrize("line", ["a | b", "[1] & [2]", "it's", "5 < 6", 'say "hi"', "...", "?!", "."])
def test_moses_round_trip(line: str) -> None:
    assert ours("en").detokenize(ours("en").tokenize(line)) == line


def test_moses_normalises_typographic_quotes() -> None:
    tokens = ours("en").tokenize("\u201cSee this!\u201d she said. \u201cIt\u2019s big.\u201d")
    expected = "&quot; See this ! &quot; she said . &quot; It &apos;s big . &quot;"
    assert tokens == expected.split()
    assert ours("en").detokenize(tokens) == '"See this!" she said. "It\'s big."'


def test_romanian_cedillas_are_left_alone() -> None:
    line = "şi ţara e mare ŞI ŢARA"
    assert MosesTokenizer("ro").tokenize(line) == line.split()


@given(st.text(alphabet="the cat's (old) house, 5.5 m - so. No! Yes? Dr. Who: a/b"))
def test_what_a_round_trip_keeps_of_plain_text(line: str) -> None:
    """Not a token more or less: only blanks move. Quotes and apostrophes may change sides, so they are left out."""
    line = line.replace("'", "")
    text = ours("en").detokenize(ours("en").tokenize(line))
    assert text.replace(" ", "") == ours("en").normalize(line).replace(" ", "")


@given(st.text())
def test_escapes_come_undone(text: str) -> None:
    assert unescape(escape(text)) == text
    assert not set(escape(text)) & set("|<>'\"[] ")


@pytest.mark.parametrize("code", ["EN", "en-GB", "en_us", " en "])
def test_case_and_region_of_a_code_do_not_matter(code: str) -> None:
    assert moses_language(code) == "en"
    assert not language_warning(code)


@pytest.mark.parametrize("code", ["xx", "engl"])
def test_unknown_codes_are_never_silent(code: str) -> None:
    warning = language_warning(code)
    assert repr(code) in warning and "English" in warning
    assert MosesTokenizer(code).tokenize("Mr. X ran.") == ["Mr.", "X", "ran", "."]


@pytest.mark.parametrize("code", [*sorted(WITHOUT_BLANKS), "zh-TW", "JA"])
def test_languages_without_blanks_get_advice(code: str) -> None:
    warning = language_warning(code)
    assert repr(code) in warning and '"char"' in warning and '"none"' in warning


def test_long_text_without_blanks_takes_its_length_not_its_square() -> None:
    tokenizer = ours("ja")
    text = "漢字かな" * 25_000
    assert "".join(tokenizer.tokenize(text + "。")) == text + "。"
    assert all(len(word) <= moses.LONGEST_WORD for word in tokenizer._known)
