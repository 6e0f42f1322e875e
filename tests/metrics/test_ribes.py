"""RIBES against the authors' program, a table worked out by hand, the definition in loops, NLTK where both agree."""

import math
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indigo_cli.metrics import METRICS
from indigo_cli.metrics.metric import corpus_score, corpus_statistics
from indigo_cli.metrics.ribes import align, ordered_share, sentence_ribes

FED = "she fed the cat because she was fond of small animals"
FOND = "she was fond of small animals because she fed the cat"
WORDS = st.lists(st.sampled_from("abcd"), max_size=9)


def _score(hypotheses: list[str], references: list[list[str]], tokenize: str = "13a") -> float:
    metric = METRICS["ribes"](tokenize=tokenize)
    return corpus_score(metric, corpus_statistics(metric, hypotheses, references))


# (output, reference, places in the reference, score); the working stands beside each row
BY_HAND = [
    # Case 97, values of the authors' program. One aligned word has no pairs: NKT is 1 only where it is all there is.
    ("cat", "cat", [0], 1.0),
    ("cat sat", "cat", [0], 0.5**0.25),  # P = 1/2
    ("cat", "the cat sat", [1], 0.0),
    ("cat", "dog", [], 0.0),
    ("", "the cat", [], 0.0),
    # Isozaki et al. 2010: ascending pairs of 2 1 0 3 are those with 3: 3 of 6.
    ("Bob hit John yesterday", "John hit Bob yesterday", [2, 1, 0, 3], 3 / 6),
    # Isozaki et al. 2010: "the" is decided by "the book" and "the boy"; was and by are not in the reference: P = 5/7.
    # Ascending pairs of 3 4 2 0 1: (3 4), (0 1), 2 of 10.
    ("the book was read by the boy", "the boy read the book", [3, 4, 2, 0, 1], 2 / 10 * (5 / 7) ** 0.25),
    # Case 99: the first "she" has no left context and goes by "she fed" to 7; the second has one, "because she", which
    # leads to 7 too (the paper asks "she was" first: 0). Ascending pairs of 7 8 9 10 6 7 1 2 3 4 5: 3 + 2 + 1 of the
    # first four, (6 7), 10 of the last five; equal places do not ascend: 17 of 55.
    (FED, FOND, [7, 8, 9, 10, 6, 7, 1, 2, 3, 4, 5], 17 / 55),
    # Two contexts, "a w" and "w b", lead to one place; c is unknown: P = 4/5. Of 0 1 1 2 all pairs ascend but (1 1).
    ("a w c w b", "a w b", [0, 1, 1, 2], 5 / 6 * (4 / 5) ** 0.25),
    # All in order, half the length: BP = exp(1 - 4/2), its tenth power exp(-0.1).
    ("the cat", "the cat sat down", [0, 1], math.exp(-0.1)),
    # "cat" stands twice and no n-gram with it once.
    ("cat cat", "cat", [], 0.0),
    # "the cat" stands twice, so the outer words need two words of context, the inner ones "cat the".
    ("the cat the cat", "the cat the cat", [0, 1, 2, 3], 1.0),
    # Left and right context are equally short, and each is unique: "x a" leads to 1, "a y" to 3. The left one counts.
    # Places 0 1 4: b and the second a of the reference have no partner. P = 3/3, BP = exp(1 - 5/3).
    ("x a y", "x a b a y", [0, 1, 4], math.exp(1 - 5 / 3) ** 0.1),
]


@pytest.mark.parametrize(("hypothesis", "reference", "places", "expected"), BY_HAND)
def test_table_by_hand(hypothesis: str, reference: str, places: list[int], expected: float) -> None:
    assert align(hypothesis.split(), reference.split()) == places
    assert sentence_ribes(hypothesis.split(), reference.split()) == pytest.approx(expected, abs=1e-12)
    assert _score([hypothesis], [[reference]]) == pytest.approx(expected, abs=1e-12)


def test_values_of_the_authors_program() -> None:
    """Cases 97 and 99, as their output says them."""
    pairs = [("cat", "cat"), ("cat sat", "cat"), ("cat", "the cat sat"), ("cat", "dog"), ("", "the cat"), (FED, FOND)]
    scores = [round(_score([hypothesis], [[reference]]), 6) for hypothesis, reference in pairs]
    assert scores == [1.0, 0.840896, 0.0, 0.0, 0.0, 0.309091]


def test_the_paper_asks_the_right_context_first() -> None:
    """0.381818 by the paper and NLTK: what this code says of both lines read backwards, where left is right."""
    mirrored = [10 - place for place in align(FED.split()[::-1], FOND.split()[::-1])[::-1]]
    assert mirrored == [7, 8, 9, 10, 6, 0, 1, 2, 3, 4, 5]
    assert ordered_share(mirrored) == pytest.approx(0.381818, abs=5e-7)


def _by_definition(hypothesis: list[str], reference: list[str]) -> Iterator[int]:
    """Yield the places, found by trying every n-gram."""

    def times(ngram: list[str], words: list[str]) -> int:
        return sum(words[i : i + len(ngram)] == ngram for i in range(len(words)))

    for index, word in enumerate(hypothesis):
        for context in range(len(hypothesis)):
            left = hypothesis[index - context : index + 1] if context <= index else []
            right = hypothesis[index : index + context + 1] if index + context < len(hypothesis) else []
            found = next((n for n in (left, right) if n and times(n, hypothesis) == times(n, reference) == 1), None)
            if found is not None:
                start = next(i for i in range(len(reference)) if reference[i : i + len(found)] == found)
                yield start + (len(found) - 1 if found is left else 0)
                assert word == reference[start + (len(found) - 1 if found is left else 0)]
                break


@settings(max_examples=200, deadline=None)
@given(WORDS, WORDS)
def test_alignment_is_that_of_the_definition(hypothesis: list[str], reference: list[str]) -> None:
    assert align(hypothesis, reference) == list(_by_definition(hypothesis, reference))


@given(st.lists(st.integers(0, 9), min_size=2, max_size=12))
def test_share_counts_pairs(places: list[int]) -> None:
    pairs = [(a, b) for i, a in enumerate(places) for b in places[i + 1 :]]
    assert ordered_share(places) == sum(a < b for a, b in pairs) / len(pairs)


@settings(deadline=None)
@given(WORDS, WORDS)
def test_score_lies_in_its_range_and_same_order_is_best(hypothesis: list[str], reference: list[str]) -> None:
    score = sentence_ribes(hypothesis, reference)
    assert 0.0 <= score <= 1.0
    if hypothesis and hypothesis == reference and len(align(hypothesis, reference)) == len(reference):
        assert score == 1.0


@pytest.mark.slow
def test_nltk_agrees_where_words_are_unique_and_two_are_aligned() -> None:
    """Without a repeated word no context is asked for, which is where the two differ; NLTK gives 0 to one lone word."""
    from nltk.translate.ribes_score import corpus_ribes

    draw = random.Random(1)
    vocabulary = [f"w{number}" for number in range(14)]
    hypotheses: list[list[str]] = []
    references: list[list[str]] = []
    while len(hypotheses) < 300:
        hypothesis, reference = (draw.sample(vocabulary, draw.randint(2, 12)) for _ in range(2))
        if len(set(hypothesis) & set(reference)) >= 2:
            hypotheses.append(hypothesis)
            references.append(reference)
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        assert sentence_ribes(hypothesis, reference) == pytest.approx(corpus_ribes([[reference]], [hypothesis]))
    more = [[reference, draw.sample(reference, len(reference))] for reference in references]
    files = [[" ".join(refs[number]) for refs in more] for number in range(2)]
    ours = _score([" ".join(words) for words in hypotheses], files, "none")
    assert ours == pytest.approx(corpus_ribes(more, hypotheses))


@pytest.mark.slow
def test_nltk_agrees_on_repeated_words_where_both_contexts_say_the_same() -> None:
    """NLTK asks the right context first, so the alignment must be that of both lines read backwards. It also stops one
    word short of the whole text to the left; the first word here is in no reference, so that no such text decides."""
    from nltk.translate.ribes_score import sentence_ribes as nltk_ribes

    draw = random.Random(2)
    compared = 0
    for _ in range(3000):
        reference = [draw.choice("abcdef") for _ in range(draw.randint(2, 9))]
        kept = [word for word in reference if draw.random() < 0.9]
        hypothesis = ["z", *kept, *draw.choices("abcdef", k=draw.randint(0, 2))]
        places = align(hypothesis, reference)
        mirrored = align(hypothesis[::-1], reference[::-1])[::-1]
        if len(places) >= 2 and [len(reference) - 1 - place for place in mirrored] == places:
            assert sentence_ribes(hypothesis, reference) == pytest.approx(nltk_ribes([reference], hypothesis))
            compared += len(set(reference)) < len(reference)
    assert compared > 1000


def test_best_reference_counts() -> None:
    alone = [_score([FED], [[reference]]) for reference in (FOND, "she fed a cat", FED)]
    assert max(alone) == 1.0
    assert _score([FED], [[FOND], ["she fed a cat"], [FED]]) == 1.0
    assert _score([FED], [[FOND], ["she fed a cat"]]) == max(alone[:2])
    assert _score([FED], [[""], [FOND]]) == _score([FED], [[FOND], [""]]) == alone[0]


def test_corpus_is_the_mean_of_its_lines() -> None:
    hypotheses, references = [FED, "cat sat", "dog"], [FOND, "cat", "cat"]
    assert _score(hypotheses, [references]) == pytest.approx((17 / 55 + 0.5**0.25 + 0) / 3)


def test_tokens_are_those_of_the_evaluation_tokeniser_in_lower_case() -> None:
    assert _score(["Cats sat, dogs ran."], [["cats sat , Dogs ran ."]]) == 1.0
    assert _score(["Cats sat, dogs ran."], [["cats sat , Dogs ran ."]], "none") < 1.0
    signature = METRICS["ribes"](tokenize="char").signature(num_references=1, resamples=5, seed=1)
    assert {"case:lc", "tok:char", "alpha:0.25", "beta:0.1"} <= set(signature.split("|"))


def test_a_long_line_of_one_word_ends() -> None:
    """Each of its n-grams stands more than once, and none of the lengths is tried one by one."""
    assert sentence_ribes(["a"] * 200, ["a"] * 199) == 0.0
