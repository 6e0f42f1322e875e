"""Protected parts: one token each, and not a character changed, whatever Moses does to the text around them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.line_tokenizer import LineSettings, LineTokenizer
from indigo_cli.core.moses import unescape
from indigo_cli.core.protect import PATTERNS, Protector, check_pattern

ALL = (*PATTERNS, r"[A-Z]{2}\d+", "Dr[.] Who")
EN = LineTokenizer(LineSettings("moses", "en", lowercase=True, protected=ALL))
PARTS = [
    "http://A.b/c?x=1&amp;b&y=2",
    "https://Ex.com",
    "HTTP://X.y/(Z",
    "www.A.b/50%25",
    "ftp://a.b/c,d;e",
    "Me.You+x@Foo-Bar.co.uk",
    '<a href="X y.z">',
    "<b>",
    "</I>",
    "<br/>",
    "<input id=x value='A b'>",
    "&nbsp;",
    "&#8212;",
    "{Name}",
    "{{x.Y}}",
    "${HOME}",
    "{0}",
    "%(Count)d",
    "%s",
    "%1$s",
    "__TAG__",
    "AB12",
    "Dr. Who",
]
PLAIN = ["it's", "A", "dog.", "(so),", '"No!"', "5.5", "…", "漢字", "l'x", "cafe\u0301", "50", "%"]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("frame", ["{}", "See {} now.", 'He said: "{}" now.', "Is it ({})?", "a {}, b", "{} {}"])
def test_a_part_is_one_token_and_comes_back(part: str, frame: str) -> None:
    line = frame.replace("{}", part)
    tokens = EN.tokenize(line)
    assert [unescape(token) for token in tokens].count(part) == frame.count("{}")
    assert EN.detokenize(tokens).count(part) == frame.count("{}")
    assert EN.detokenize(tokens).lower() == line.lower()


@given(st.lists(st.sampled_from(PARTS) | st.sampled_from(PLAIN)))
def test_parts_among_anything_come_back_in_order(words: list[str]) -> None:
    tokens = EN.tokenize(" ".join(words))
    assert all(token.split() == [token] for token in tokens)
    wanted = [word for word in words if word in PARTS]
    assert [unescape(token) for token in tokens if unescape(token) in PARTS] == wanted
    place, text = 0, EN.detokenize(tokens)
    for word in wanted:
        place = text.index(word, place) + len(word)


@given(st.text())
def test_text_without_parts_is_left_to_moses(line: str) -> None:
    tokens = EN.tokenize(line)
    if not any(EN.is_protected(token) for token in tokens):
        plain = LineTokenizer(LineSettings("moses", "en", lowercase=True))
        assert tokens == plain.tokenize(line) and EN.detokenize(tokens) == plain.detokenize(tokens)


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("see http://a.b.", ["see", "http://a.b", "."]),
        ("(http://a.b/c)!", ["(", "http://a.b/c", ")", "!"]),
        ("“http://a.b”", ["&quot;", "http://a.b", "&quot;"]),
        ("a@b.c, d", ["a@b.c", ",", "d"]),
        ("1 < 2 and 3 > 2", "1 &lt; 2 and 3 &gt; 2".split()),
        ("a<b and c>d", "a &lt; b and c &gt; d".split()),
        ("fish & chips; so", "fish &amp; chips ; so".split()),
        ("at 5% interest", "at 5 % interest".split()),
    ],
)
def test_where_parts_end_and_what_is_none(line: str, tokens: list[str]) -> None:
    assert EN.tokenize(line) == tokens


def test_the_first_of_the_list_has_what_two_patterns_match() -> None:
    taken = [Protector(patterns).take_out("xabcx abc")[2] for patterns in (["b", "abc"], ["abc", "b"])]
    assert taken == [["b", "b"], ["abc", "abc"]]
    assert Protector(["c", "a", "b"]).take_out("abcab")[2] == list("abcab")


def test_a_mark_in_the_text_is_no_part() -> None:
    marks = "\U000f0000\U000f0001"
    tokens = EN.tokenize(f"{marks} <b>")
    assert tokens == [*marks, "&lt;b&gt;"]
    assert EN.detokenize(tokens).split() == [*marks, "<b>"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a(", "nor a regular expression"),
        ("[[a]", "nested set"),
        ("a*", "empty text"),
        ("urls", "to protect that very word"),
        ("", "empty"),
    ],
)
def test_patterns_that_cannot_be_used(pattern: str, message: str) -> None:
    assert message in check_pattern(pattern) and repr(pattern) in check_pattern(pattern)
    assert not any(check_pattern(name) for name in ALL)


@pytest.mark.parametrize("long", ["a" * 200_000, "<a " * 50_000, "www." * 50_000, "_" * 200_000, "a@" * 100_000])
def test_the_named_patterns_take_linear_time(long: str) -> None:
    Protector(list(PATTERNS)).take_out(long)


def test_other_tokenizers_need_no_protection() -> None:
    for name in ("none", "char"):
        tokenizer = LineTokenizer(LineSettings(name, protected=("url",)))
        assert tokenizer.detokenize(tokenizer.tokenize("See http://A.b/?a&b now")) == "See http://A.b/?a&b now"
