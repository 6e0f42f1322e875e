"""ROUGE beside the package rouge-score, beside values by hand, and cut as DUC cuts."""

import builtins
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from indigo_cli.errors import UsageError
from indigo_cli.metrics import METRICS, build_metrics
from indigo_cli.metrics.metric import MetricOptions, corpus_score, corpus_statistics
from indigo_cli.metrics.rouge import longest_common_subsequence
from indigo_cli.metrics.tokenize import load_word_tokenizer

NAMES = ["rouge1", "rouge2", "rougeL"]
WORDS = ["the", "cats", "running", "ran", "U.S.", "2-4", "happily,", "don't", "a_b", "Cat's", "—", "generations"]
line = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
ascii_line = st.text(alphabet=st.characters(max_codepoint=127, exclude_characters="\n"), max_size=30)


class SplitAtBlanks:
    """A tokeniser as rouge-score takes it."""

    def tokenize(self, text: str) -> list[str]:
        return text.split()


def figures(
    name: str, hypothesis: str, references: Sequence[str], options: MetricOptions, tokenize: str
) -> list[float]:
    """Precision, recall and F1 of a line, the figure among its parts."""
    metric = METRICS[name](tokenize=tokenize, options=options)
    statistics = corpus_statistics(metric, [hypothesis], [[text] for text in references])
    found = {part: corpus_score(value, statistics) for part, value in metric.parts.items()}
    found["recall" if options.rouge_bytes else "f1"] = corpus_score(metric, statistics)
    return [found[part] for part in ("precision", "recall", "f1")]


@pytest.mark.parametrize("stemming", [False, True])
@given(hypothesis=st.one_of(line, ascii_line), references=st.lists(st.one_of(line, ascii_line), min_size=1, max_size=3))
def test_it_equals_rouge_score_on_ascii_text(stemming: bool, hypothesis: str, references: list[str]) -> None:
    expected = RougeScorer(NAMES, use_stemmer=stemming).score_multi(references, hypothesis)
    for name in NAMES:
        ours = figures(name, hypothesis, references, MetricOptions(stemming=stemming), "13a")
        assert ours == pytest.approx(list(expected[name]), abs=1e-12)


@given(
    hypothesis=st.lists(st.sampled_from("быстрый кот 猫 é".split()), max_size=9).map(" ".join),
    references=st.lists(st.lists(st.sampled_from("быстрый кот 猫 é".split()), max_size=9).map(" ".join), min_size=1),
)
def test_it_equals_rouge_score_on_equal_tokens_of_any_script(hypothesis: str, references: list[str]) -> None:
    expected = RougeScorer(NAMES, tokenizer=SplitAtBlanks()).score_multi(references, hypothesis)
    for name in NAMES:
        for tokenize in ("none", "13a"):
            ours = figures(name, hypothesis, references, MetricOptions(), tokenize)
            assert ours == pytest.approx(list(expected[name]), abs=1e-12)


def by_hand(first: Sequence[str], second: Sequence[str]) -> int:
    """The longest subsequence of one text that is one of the other, by trying all."""

    def subsequences(words: Sequence[str], size: int) -> set[tuple[str, ...]]:
        return set(combinations(words, size))

    sizes = range(min(len(first), len(second)), -1, -1)
    return next(size for size in sizes if subsequences(first, size) & subsequences(second, size))


@given(first=st.lists(st.sampled_from("abc"), max_size=8), second=st.lists(st.sampled_from("abcd"), max_size=8))
def test_longest_common_subsequence_is_that_of_all_subsequences(first: list[str], second: list[str]) -> None:
    assert longest_common_subsequence(first, second) == by_hand(first, second)


def test_values_by_hand() -> None:
    """police kill the gunman: words police, the, gunman of 4 and 4; no pair; in order police, the (or: the, gunman)."""
    hypothesis, reference = "the gunman police kill", "Police killed the gunman."
    expected = {"rouge1": (3 / 4, 3 / 4, 3 / 4), "rouge2": (1 / 3, 1 / 3, 1 / 3), "rougeL": (1 / 2, 1 / 2, 1 / 2)}
    for name, values in expected.items():
        assert figures(name, hypothesis, [reference], MetricOptions(), "13a") == pytest.approx(values)
    stemmed = figures("rouge1", hypothesis, [reference], MetricOptions(stemming=True), "13a")
    assert stemmed == pytest.approx((1.0, 1.0, 1.0))  # killed, kill


def test_a_corpus_has_the_mean_of_its_lines() -> None:
    metric = METRICS["rouge1"](tokenize="13a")
    assert corpus_score(metric, corpus_statistics(metric, ["a b", "c"], [["a x", "c"]])) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("text", "limit", "reference", "recall"),
    [
        ("aa bb cc", 8, "aa bb cc dd", 3 / 4),
        ("aa bb cc", 5, "aa bb cc dd", 2 / 4),
        ("aa bb cc", 4, "aa bb cc dd", 1 / 4),  # "aa b": a part of a word is another word
        ("aa bb cc", 4, "aa b", 1.0),
        ("aa bb cc", 75, "aa bb cc dd", 3 / 4),
        ("éé bb cc", 4, "éé bb cc dd", 1 / 4),  # two bytes a letter
        ("éé bb cc", 3, "éé bb cc dd", 0.0),  # never half of a letter
        ("", 75, "aa", 0.0),
        ("aa", 75, "aa " * 50, 1 / 50),  # references are not cut
    ],
)
def test_outputs_are_cut_at_bytes_and_recall_is_the_figure(
    text: str, limit: int, reference: str, recall: float
) -> None:
    metric = METRICS["rouge1"](tokenize="13a", options=MetricOptions(rouge_bytes=limit))
    assert corpus_score(metric, corpus_statistics(metric, [text], [[reference]])) == pytest.approx(recall)
    assert set(metric.parts) == {"precision", "f1"}
    assert f"bytes:{limit}|figure:recall" in metric.signature(num_references=1, resamples=5, seed=1)


def test_cut_outputs_take_the_reference_of_best_recall() -> None:
    """F1 would take the long reference: 4 of 4 and 4 of 8 words, against 1 of 4 and 1 of 1."""
    references = ["aa bb cc dd e f g h", "aa"]
    assert figures("rouge1", "aa bb cc dd", references, MetricOptions(), "13a") == pytest.approx([1, 0.5, 2 / 3])
    cut = figures("rouge1", "aa bb cc dd", references, MetricOptions(rouge_bytes=75), "13a")
    assert cut == pytest.approx([1 / 4, 1, 2 / 5])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("13a", "Don't use foo_bar-2, café!", ["don", "t", "use", "foo", "bar", "2", "café"]),
        ("13a", "cafe\u0301 न\u092fी", ["cafe\u0301", "न\u092fी"]),
        ("13a", "I \u2764\ufe0f it", ["i", "it"]),
        ("13a", "\u0130stanbul", ["i\u0307stanbul"]),
        ("char", "小猫\uff0cAb", ["小", "猫", "a", "b"]),
        ("zh", "小猫\uff0cAb。", ["小", "猫", "ab"]),
        ("none", "A , b", ["a", ",", "b"]),
        ("13a", " \u3000", []),
    ],
)
def test_words_keep_all_letters_and_no_punctuation(name: str, text: str, words: list[str]) -> None:
    assert load_word_tokenizer(name)(text) == words


def test_stemming_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("nltk"):
            raise ImportError(name)
        return original(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError, match="nltk") as caught:
        build_metrics(["rouge1"], tokenize="13a", options=MetricOptions(stemming=True))
    assert caught.value.where == "evaluate.stemming" and "indigo-cli[rouge]" in caught.value.fix
    assert build_metrics(["rouge1"], tokenize="13a")


def test_the_signature_names_words_stems_and_figure() -> None:
    metric = METRICS["rougeL"](tokenize="13a", options=MetricOptions(stemming=True))
    assert "tok:words|stem:porter|figure:f1" in metric.signature(num_references=1, resamples=5, seed=1)
