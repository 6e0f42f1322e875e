"""Truecasing: what Moses does with sentence starts, and capitals that come back."""

from collections import Counter

import pytest
import sacremoses
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.truecase import Truecaser, recase, sentence_starts
from indigo_cli.errors import DataError

WORDS = st.sampled_from("the The THE cat Cat Paris paris I i 5 a-b A-b Ünal über , ; &apos;s".split())
SENTENCES = st.tuples(
    st.lists(st.sampled_from(["&quot;", "(", "&#91;"]), max_size=2), st.lists(WORDS, min_size=1), st.sampled_from(".?!")
).map(lambda parts: [*parts[0], *parts[1], parts[2]])
LINES = st.lists(SENTENCES, min_size=1, max_size=3).map(lambda sentences: [word for s in sentences for word in s])


@pytest.mark.parametrize(
    ("line", "starts"),
    [
        ("The cat . It sat", [0, 3]),
        ("&quot; The &quot; cat", [1]),
        ("( 5 cats ) . . . ( They", [1, 8]),
        ("he said : The cat", [0]),
        ("What ? ! No", [0, 3]),
        (". !", []),
        ("", []),
    ],
)
def test_where_sentences_start(line: str, starts: list[int]) -> None:
    assert list(sentence_starts(line.split())) == starts


def learn(lines: list[list[str]]) -> Truecaser:
    inside: Counter[str] = Counter()
    for line in lines:
        starts = set(sentence_starts(line))
        inside.update(word for place, word in enumerate(line) if place not in starts)
    return Truecaser.from_counts(inside.items())


@given(st.lists(LINES, min_size=1, max_size=4))
def test_sentence_starts_are_written_as_by_sacremoses(lines: list[list[str]]) -> None:
    """Where one spelling of a word is the most frequent; equally frequent ones sacremoses takes as they come."""
    ours, theirs = learn(lines), sacremoses.MosesTruecaser()
    theirs.train(lines)
    best, counts = theirs.model["best"], theirs.model["casing"]
    clear = {small for small, of in counts.items() if sorted(of.values())[-1] > sum(sorted(of.values())[-2:-1])}
    for line in lines:
        changed = theirs.truecase(" ".join(line), use_known=True)
        for place, word in enumerate(ours.truecase(line)):
            if word.lower() in clear or word.lower() not in best:
                assert word == changed[place]


@given(st.lists(LINES, min_size=1, max_size=4))
def test_the_words_stay_the_same_but_for_their_case(lines: list[list[str]]) -> None:
    truecaser = learn(lines)
    for line in lines:
        changed = truecaser.truecase(line)
        assert [word.lower() for word in changed] == [word.lower() for word in line]
        assert truecaser.truecase(changed) == changed
        starts = set(sentence_starts(line))
        assert all(word == changed[place] for place, word in enumerate(line) if place not in starts)


@given(LINES)
def test_output_is_capitalised_as_by_sacremoses(line: list[str]) -> None:
    assert recase(line) == sacremoses.MosesDetruecaser().detruecase(" ".join(line))


@given(st.lists(LINES, min_size=1, max_size=4))
def test_lines_that_began_with_capitals_come_back(lines: list[list[str]]) -> None:
    truecaser = learn([recase(line) for line in lines])
    for line in map(recase, lines):
        restored = recase(truecaser.truecase(line))
        for place, word in enumerate(line):  # unless its usual case differs behind the first letter
            assert restored[place] == word or truecaser.word(word)[1:] != word[1:]


def test_the_usual_case_is_the_most_frequent_and_the_last_in_order_of_equals() -> None:
    counts = [("The", 2), ("the", 3), ("US", 1), ("us", 1), ("NATO", 2), ("5", 9), ("never", 0)]
    truecaser = Truecaser.from_counts(counts)
    assert truecaser.usual == {"the": "the", "us": "us", "nato": "NATO"}
    assert truecaser == Truecaser.from_counts(reversed(counts))
    assert truecaser.truecase("Us Us . THE".split()) == "us Us . the".split()
    assert truecaser.truecase(["New"]) == ["New"]


def test_kept_tokens_keep_their_case() -> None:
    truecaser = Truecaser({"www.a": "WWW.A"})
    assert truecaser.truecase(["Www.a"]) == ["WWW.A"]
    assert truecaser.truecase(["Www.a"], keep=lambda token: True) == ["Www.a"]
    assert recase(["www.a"], keep=lambda token: True) == ["www.a"]


def test_a_capital_is_what_its_script_begins_a_sentence_with() -> None:
    assert recase(["\u10d0\u10d1"]) == ["\u10d0\u10d1"]  # Georgian: capitals are for whole words alone
    assert recase(["\u01c6a"]) == ["\u01c5a"]  # Croatian: one letter of two parts


@given(st.dictionaries(st.text(min_size=1), st.integers(1, 5)))
def test_file_round_trip(counts: dict[str, int]) -> None:
    truecaser = Truecaser.from_counts(counts.items())
    assert Truecaser.from_json(truecaser.to_json(), where="x") == truecaser


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"header": {"format": "indigo-truecase", "version": 1}}', "\xff"])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(DataError) as caught:
        Truecaser.from_json(text, where="here")
    assert caught.value.where == "here"
