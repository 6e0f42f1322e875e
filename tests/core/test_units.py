"""Units: counts of tokens against the length of the detokenised text, and the cases where the two differ."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.bpe import BPE, learn
from indigo_cli.core.text import SideCodec
from indigo_cli.core.units import UNITS, LengthUnit, UnitTable, unit_table
from indigo_cli.core.vocab import UNK, Vocabulary

ORACLES: dict[str, Callable[[str], int]] = {
    "character": len,
    "byte": lambda text: len(text.encode()),
    "word": lambda text: len(text.split()),
}
ESCAPED = (
    "...",
    "...",
    "&quot;",
    "&amp;",
    "&lt;",
    "&gt;",
    "&apos;",
    "&apos;s",
    "&#91;",
    "&#93;",
    "&#124;",
    "L&apos;",
    "qu&apos;",
    "d&apos;",
)
LINES = {
    "en": [
        'He said: "it\'s 5 < 6" & left (today), or [not]...',
        'Prices rose 3% to $5.20; "why?" asked Mr. Smith\'s aunt -- a co-op.',
        '"Yes", "no" and "maybe".',
        ", odd start. (odd end (",
        "a|b &amp; c@d, x_y @-@ z",
    ],
    "vi": [
        "Chính phủ Việt Nam nói: “Chúng tôi sẽ làm!”",
        "Ông ấy (58 tuổi) đến từ Đà Nẵng, 3/2.",
        "đi\u0300 ho\u0323c",
    ],
    "ja": ["これは ペン です 。", "私 は iPhone 7 を 買っ た", "「 東京 」 の 天気 、 雨", "がき゛ か\u3099"],
    "fr": ["L'homme d'État qu'il a vu : « non ! »"],
}


def make_codec(tokenizer: str, lang: str, merges: int | None) -> SideCodec:
    plain = SideCodec(tokenizer, lang, False, None, Vocabulary((), ()))
    words = Counter(word for line in LINES[lang] for word in plain.words(line))
    words.update(dict.fromkeys(ESCAPED, 99))  # frequent as in real text, so that BPE cuts no escape
    bpe = None if merges is None or tokenizer == "char" else BPE(learn(words, merges))
    whole = SideCodec(tokenizer, lang, False, bpe, Vocabulary((), ()))
    pieces = Counter(piece for line in LINES[lang] for piece in whole.pieces(line))
    return SideCodec(tokenizer, lang, False, bpe, Vocabulary.from_counts(pieces.items()))


def of_tokens(*tokens: str, lang: str = "en", unit: LengthUnit = "character") -> tuple[SideCodec, UnitTable, list[int]]:
    """Return a codec of just these pieces (BPE where one ends in @@), its table and their ids."""
    bpe = BPE("#version: 0.2\n") if any(token.endswith("@@") for token in tokens) else None
    codec = SideCodec("moses", lang, False, bpe, Vocabulary.from_counts(Counter(tokens).items()))
    return codec, unit_table(codec, unit), codec.vocabulary.encode(tokens)


@pytest.mark.parametrize("unit", ["character", "byte", "word"])
@pytest.mark.parametrize("merges", [None, 300])
@pytest.mark.parametrize("lang", list(LINES))
@pytest.mark.parametrize("tokenizer", ["moses", "none", "exact", "char"])
def test_the_count_is_the_length_of_the_text(tokenizer: str, lang: str, merges: int | None, unit: LengthUnit) -> None:
    codec = make_codec(tokenizer, lang, None if tokenizer == "exact" else merges)
    table = unit_table(codec, unit)
    for line in LINES[lang]:
        ids = codec.encode(line)
        assert table.count(ids) == ORACLES[unit](codec.text_of_ids(ids)), line


@pytest.mark.parametrize("unit", ["character", "byte", "word"])
def test_every_beginning_that_ends_a_word_is_counted(unit: LengthUnit) -> None:
    codec = make_codec("moses", "en", 60)
    table = unit_table(codec, unit)
    for line in LINES["en"]:
        ids = codec.encode(line)
        counts = table.cumulative(ids)
        for end, token in enumerate(ids, start=1):
            if token not in codec.continuing:
                assert counts[end - 1] == ORACLES[unit](codec.text_of_ids(ids[:end]))


def test_tokens_count_one_each_and_boundaries_none() -> None:
    codec = make_codec("moses", "en", 60)
    ids = codec.encode(LINES["en"][0])
    assert unit_table(codec, "token").cumulative(ids) == list(range(1, len(ids) + 1))
    for unit in UNITS:
        table = unit_table(codec, unit)
        assert table.count([*ids, 0, 1, 2, 3, 0]) == table.count(ids)
        assert table.count([]) == 0


def test_white_space_that_is_kept_is_counted() -> None:
    plain = SideCodec("exact", "", False, None, Vocabulary((), ()))
    line = "  if x :\ty  = 1 "
    codec = SideCodec("exact", "", False, None, Vocabulary.from_counts(Counter(plain.words(line)).items()))
    ids = codec.encode(line)
    assert codec.text_of_ids(ids) == line
    assert unit_table(codec, "character").count(ids) == len(line)
    assert unit_table(codec, "word").count(ids) == len(line.split())


def test_protected_parts_count_their_blanks_and_words() -> None:
    line = 'see <a href="x" id="y"> here'
    plain = SideCodec("moses", "en", False, None, Vocabulary((), ()), protected=("markup",))
    vocabulary = Vocabulary.from_counts(Counter(plain.words(line)).items())
    codec = SideCodec("moses", "en", False, None, vocabulary, protected=("markup",))
    ids = codec.encode(line)
    assert codec.text_of_ids(ids) == line
    assert unit_table(codec, "character").count(ids) == len(line)
    assert unit_table(codec, "word").count(ids) == len(line.split()) == 5


@pytest.mark.parametrize(
    ("tokens", "lang", "above"),
    [
        (("&ap@@", "os;", "x"), "en", 6),  # 1: an escape in two pieces counts as spelt, and opens no quote
        (("it", "&apos;@@", "s"), "en", 1),  # 1: the whole word would be joined
        (("US@@", "$", "5"), "en", 0),  # the last piece of a word does not join as it would alone
        (("dogs", "&apos;"), "en", 1),  # 2: the apostrophe of a plural
        (("dogs", "&apos;", "tails"), "en", 0),  # 2: made good behind it
        (("d&apos;", "5"), "fr", -1),  # 3: an elision before a digit
        (("&quot;", "x", "&quot;", ".", "&quot;", "y"), "en", 0),  # quotes open and close by turns
        (("x", "@-@", "y"), "en", 0),
    ],
)
def test_cases_where_count_and_text_differ(tokens: tuple[str, ...], lang: str, above: int) -> None:
    codec, table, ids = of_tokens(*tokens, lang=lang)
    assert table.count(ids) - len(codec.text_of_ids(ids)) == above


def test_unknown_words_count_as_they_are_shown() -> None:
    codec, table, (first,) = of_tokens("cat")
    assert table.count([first, UNK, first]) == len(codec.text_of_ids([first, UNK, first])) == 13


@pytest.mark.parametrize("unit", list(UNITS))
@pytest.mark.parametrize("tokenizer", ["moses", "none", "char"])
@given(data=st.data())
def test_weights_are_the_count_in_any_order(tokenizer: str, unit: LengthUnit, data: st.DataObject) -> None:
    """But for the ends, and joints that meet, which the docstring states."""
    codec = make_codec(tokenizer, "en", 60)
    table = unit_table(codec, unit)
    ids = codec.encode(data.draw(st.sampled_from(LINES["en"][:3])))
    order = data.draw(st.permutations(range(len(ids))))
    weighed = table.total_weight([ids[place] for place in order])
    meets = sum(
        codec.text_of_ids(ids[i : i + 2]).count(" ") == 0
        and _joins(table, ids[i])
        and bool(table.joints[ids[i + 1]] & 1)
        for i in range(len(ids) - 1)
    )
    assert abs(table.count(ids) - weighed) <= (0 if tokenizer != "moses" or unit == "token" else meets + 1)


def _joins(table: UnitTable, token: int) -> bool:
    return bool(table.joints[token] & 6)
