"""Vocabulary: order of ids, specials that text cannot spell, and files that notice when they were changed."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.vocab import BOS, EOD, EOS, FIRST_WORD, NUM_SPECIALS, PAD, SPECIAL_NAMES, UNK, Vocabulary
from indigo_cli.errors import DataError

COUNTS = {"b": 2, "a": 2, "c": 5, "<unk>": 1}


def test_most_frequent_first_and_ties_by_code_point() -> None:
    for items in (COUNTS.items(), reversed(COUNTS.items())):
        assert Vocabulary.from_counts(items).tokens == ("c", "a", "b", "<unk>")


def test_size_and_count_limits() -> None:
    assert Vocabulary.from_counts(COUNTS.items(), max_size=2).tokens == ("c", "a")
    assert Vocabulary.from_counts(COUNTS.items(), min_count=2).tokens == ("c", "a", "b")


def test_specials_are_the_first_ids_and_words_begin_with_end_of_decoding() -> None:
    assert sorted([PAD, BOS, EOS, EOD, UNK]) == list(range(NUM_SPECIALS))
    assert min(EOD, UNK) == FIRST_WORD > max(PAD, BOS, EOS)


def test_text_never_spells_a_special_symbol() -> None:
    line = "a <unk> b <s> c </s> d".split()
    vocabulary = Vocabulary.from_counts((token, 1) for token in line)
    ids = vocabulary.encode(line)
    assert len(ids) == 7 and min(ids) >= NUM_SPECIALS
    assert vocabulary.decode(ids) == line
    assert Vocabulary.from_counts([("a", 1)]).encode(SPECIAL_NAMES) == [UNK] * NUM_SPECIALS


@given(st.dictionaries(st.text(min_size=1), st.integers(1, 9)))
def test_file_round_trip(counts: dict[str, int]) -> None:
    vocabulary = Vocabulary.from_counts(counts.items())
    read = Vocabulary.from_json(vocabulary.to_json(), where="v")
    assert read == vocabulary and read.digest == vocabulary.digest
    assert read.decode(read.encode(counts)) == list(counts)


def test_digest_depends_on_the_order() -> None:
    assert Vocabulary(("a", "b"), (1, 1)).digest != Vocabulary(("b", "a"), (1, 1)).digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"a"', '"x"'), "digest"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "newer"),
        (lambda text: text.replace("indigo-vocabulary", "other"), "not an indigo-vocabulary"),
        (lambda text: text[:40], "not an indigo vocabulary"),
        (lambda text: json.dumps([1]), "not an indigo vocabulary"),
    ],
)
def test_changed_files_are_refused(change, message: str) -> None:  # type: ignore[no-untyped-def]
    text = Vocabulary.from_counts(COUNTS.items()).to_json()
    with pytest.raises(DataError, match=re.escape(message)):
        Vocabulary.from_json(change(text), where="v.json")
