"""The demo's sentences: what passes the filter, and that nothing leaks from training into the held-out sets."""

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from indigo_cli.demo import sentences
from indigo_cli.demo.sentences import KNOWN, filter_sentences, load_sentences, read_texts, split_sentences
from indigo_cli.errors import RunError


@pytest.fixture
def every_word_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch rule 3 off."""
    monkeypatch.setattr(sentences, "RARE", 0)


@pytest.mark.usefixtures("every_word_known")
class TestFilter:
    @pytest.mark.parametrize(
        "sentence",
        [
            "Return the number of lines.",
            "A small, red, well-known cat sat here.",
            "Does the caller's buffer hold it?",
            "This isn't an error!",
            "Return the CPU time of a call.",
            "An HTTP request is sent.",
        ],
    )
    def test_plain_sentences_pass(self, sentence: str) -> None:
        assert filter_sentences([sentence]) == [sentence]

    @pytest.mark.parametrize(
        "text",
        [
            "return the number of lines.",  # no capital
            "Return the number of lines",  # no end
            "Return it now.",  # three words
            "Return " + "the very " * 8 + "end.",  # eighteen
            "Return the num_lines of it.",
            "Return the file.name of it.",
            "Return the numLines of it.",
            "Return the IOError to the caller.",
            "Return the first 10 lines of it.",
            "Return lines[0] of the text.",
            "Return f(x) of the value.",
            "Return the value: it is red.",
            "Return the value; it is red.",
            'Return the "old name" of it.',
            "Return the `file.name` of it.",
            "Return `the old name of it.",
            "Return the value - it is red.",
            "Return n of the values.",
            "Return the cats, the dogs, etc.",
            "Return the page of fig.",
            "Return the naïve value of it.",
            "Return the value ...",
            ">>> Return the value of it.",
            "Return  ,the value of it.",
            "Return the value of it..",
            "",
            "   \n\n  ",
        ],
    )
    def test_all_else_does_not(self, text: str) -> None:
        assert filter_sentences([text]) == []

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Return the value.  It is red\nall over the place.", ["It is red all over the place."]),
            ("Sort the list.\n\n    It is never copied here.\n", ["It is never copied here."]),
            (
                "- The first item is red.\n- The second item is blue.",
                ["The first item is red.", "The second item is blue."],
            ),
            ("Args:\n    size (int, optional): The size of the window.\n", ["The size of the window."]),
            ("Return ``x`` if the :class:`Cat` is *very* 'red'.", []),
            ("Return nothing if the :class:`Cat` is *very* 'red'.", ["Return nothing if the Cat is very red."]),
            ("Wait for it (one second by default) and return.", ["Wait for it and return."]),
            ("It is used as follows:\n\n    Call it with this thing.", ["Call it with this thing."]),
        ],
    )
    def test_markup_comes_off(self, text: str, expected: list[str]) -> None:
        assert filter_sentences([text]) == expected

    def test_same_bag_stays_once(self) -> None:
        same = ["Return the red cat now.", "Returns a red cat now.", "Now return the red cats.", "return the red cat."]
        assert len(filter_sentences(same)) == 1
        assert len(filter_sentences([*same, "Return the blue cat now."])) == 2


def test_one_rare_word_is_allowed() -> None:
    common = [
        f"{first} the red cat {last}." for first in ("Return", "Take", "Give") for last in ("now", "here", "there")
    ]
    assert set(filter_sentences([*common, "Return the purple cat now."])) == {*common, "Return the purple cat now."}
    assert set(filter_sentences([*common, "Return the purple dog now."])) == set(common)


def test_order_of_the_texts_does_not_matter() -> None:
    texts = _random_sentences(400, seed=1)
    shuffled = texts.copy()
    random.Random(2).shuffle(shuffled)
    first, second = (split_sentences(filter_sentences(t), num_valid=20, num_test=20) for t in (texts, shuffled))
    assert first == second
    assert len(first.test) == len(first.valid) == 20
    assert first.train


@pytest.mark.slow
def test_held_out_sentences_are_two_words_away_from_all_others() -> None:
    """Against a slow count: how many words must change to turn one bag into the other."""
    split = split_sentences(filter_sentences(_random_sentences(800, seed=3)), num_valid=20, num_test=20)

    def near(one: str, two: str) -> bool:
        a, b = Counter(_bag(one)), Counter(_bag(two))
        return (a - b).total() <= 1 and (b - a).total() <= 1

    assert len(split.train) > 100
    for held_out, others in ((split.test, split.valid + split.train), (split.valid, split.train)):
        assert not [(one, two) for one in held_out for two in others if near(one, two)]


def test_held_out_sentences_hold_words_that_others_hold_too() -> None:
    """Also as they are spelt: a word that begins every sentence it is in is another one in the middle."""
    texts = _random_sentences(300, seed=5)
    texts += [
        f"Return the {word} to the {noun} of a barn." for noun in ("cat", "dog", "mat") for word in ("pot", "kit")
    ]
    texts += ["Green file of a cat.", "Green name of a dog.", "Return a green mat to the line."]
    split = split_sentences(texts, num_valid=100, num_test=100)
    sentences = [re.findall(r"[A-Za-z]+", sentence) for sentence in texts]
    counts = Counter(word for sentence in sentences for word in set(sentence))
    assert {"pot", "kit", "green", "Green"} <= {word for word, count in counts.items() if count < KNOWN}
    held_out = split.test + split.valid
    assert min(counts[word] for sentence in held_out for word in re.findall(r"[A-Za-z]+", sentence)) >= 5
    assert {word for sentence in split.train for word in re.findall(r"[A-Za-z]+", sentence)} >= {"pot", "kit"}


def test_a_new_sentence_moves_hardly_any_other() -> None:
    texts = filter_sentences(_random_sentences(600, seed=4))
    before, after = (split_sentences(t, num_valid=30, num_test=30) for t in (texts[1:], texts))
    assert len(set(before.test) & set(after.test)) >= 29
    assert len(set(before.valid) - set(after.valid)) <= 3


class TestFiles:
    def test_docstrings_and_attached_texts_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub" / "code.py").write_text(
            '"""module"""\n'
            "class A:\n    '''class'''\n    async def f(self):\n        '''method'''\n        return 'no docstring'\n"
            "def outer():\n    '''outer'''\n    def inner():\n        '''inner'''\n"
            "f = _add_docstr(f, r'''attached text {x}'''.format(x=1))\n",
            encoding="utf-8",
        )
        found = [text.strip() for text in read_texts([tmp_path])]
        assert sorted(found) == sorted(["module", "class", "method", "outer", "inner", "attached text {x}"])

    def test_literals_of_topic_files_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "topics.py").write_text("topics = {'if': 'The text of it.'}\n", encoding="utf-8")
        assert list(read_texts([tmp_path])) == ["The text of it."]

    def test_no_file_is_imported_and_bad_ones_are_passed_over(self, tmp_path: Path) -> None:
        marker = tmp_path / "marker"
        code = f'"""A docstring."""\nopen({str(marker)!r}, "w")\n"\\d"\n'
        for name, content in {
            "runs.py": code.encode(),
            "broken.py": b'"""x"""\nprint "old"\n',
            "bytes.py": b'"""\xff"""\n',
            "null.py": b'"""x"""\x00',
        }.items():
            (tmp_path / name).write_bytes(content)
        assert list(read_texts([tmp_path])) == ["A docstring."]
        assert not marker.exists()

    def test_folders_of_tests_and_other_packages_are_left_out(self, tmp_path: Path) -> None:
        for folder in ("test", "tests", "site-packages", "real"):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "code.py").write_text(f'"""{folder}"""\n', encoding="utf-8")
        assert list(read_texts([tmp_path, tmp_path / "missing"])) == ["real"]


def test_python_without_sources_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "source_folders", lambda: [tmp_path])
    with pytest.raises(RunError, match="too few sentences"):
        load_sentences()


@pytest.mark.slow
def test_installed_files_hold_clean_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard library only: with torch it takes half a minute, which the demo's own test spends anyway."""
    monkeypatch.setattr(sentences, "PACKAGES", ("rich", "no_such_package"))
    split = load_sentences()
    assert len(split.train) >= 4_000
    assert len(split.valid) == len(split.test) == 500
    everything = split.train + split.valid + split.test
    assert len({" ".join(_bag(sentence)) for sentence in everything}) == len(everything)
    assert all(re.fullmatch(r"[A-Z][A-Za-z',-]*(?: [A-Za-z',-]+){3,15}[.!?]", sentence) for sentence in everything)
    frequent = {word for word, count in Counter(word for s in everything for word in _words(s)).items() if count >= 3}
    assert sum(word in frequent for s in everything for word in _words(s)) > 0.95 * sum(
        len(_words(s)) for s in everything
    )


def _words(sentence: str) -> list[str]:
    return re.findall(r"[a-z'-]+", sentence.lower())


def _bag(sentence: str) -> list[str]:
    return sorted(word.removesuffix("s") for word in _words(sentence) if word not in {"a", "an", "the"})


def _random_sentences(count: int, *, seed: int) -> list[str]:
    """Return sentences of few words, so that near duplicates are common."""
    draw = random.Random(seed)
    words = "return take give red blue cat dog mat barn old new file line name of in on to and".split()
    return [" ".join(draw.choices(words, k=draw.randint(4, 9))).capitalize() + "." for _ in range(count)]
