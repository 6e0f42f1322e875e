"""Orders of the targets that break them: short, repeated, of punctuation, of several sentences."""

import json
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.order import order_to_slots, replay
from indigo_cli.engine.prepare import prepare
from indigo_cli.orders import ORDERS, Example, OrderContext, Parse
from tests.conftest import Indigo
from tests.workshop import PLAIN, Workshop

words = st.lists(st.sampled_from(["the", "cat", "dog"]), max_size=6)


def slots_by_hand(order: tuple[int, ...]) -> tuple[int, ...]:
    """Grow the sentence as a list and look where each word went."""
    grown: list[int] = []
    slots = []
    for index in order:
        grown = sorted([*grown, index])
        slots.append(grown.index(index))
    return tuple(slots)


@given(sentence=words)
def test_case_51_repeated_words_stay_apart(sentence: list[str]) -> None:
    """All orders of a sentence have slots of their own, though many spell the same words."""
    seen = set()
    for order in permutations(range(len(sentence))):
        slots = order_to_slots(order)
        assert slots == slots_by_hand(order)
        assert replay([sentence[index] for index in order], slots) == sentence
        seen.add(slots)
    assert len(seen) == len(list(permutations(sentence)))


@pytest.mark.parametrize("name", sorted(ORDERS))
def test_case_31_53_short_targets_and_punctuation_are_ordered(indigo: Indigo, workshop: Workshop, name: str) -> None:
    """Of one token, of signs alone, and an empty one outside of training: a permutation each, through files."""
    targets = ["cat", "...", "?!", ".", "it's a red cat .", "x"]
    text = "\n".join(targets) + "\n"
    recipe = workshop.recipe(None, text, task="word_ordering", vocabulary="word")
    corpus = prepare(recipe, workshop.folder / "corpus").folder
    options = []
    if name == "syn":
        trees = [["cat"], ["..."], ["?", "!"], ["."], ["it", "'s", "a", "red", "cat", "."], ["x"]]
        rows = (
            "\n".join(f"{i + 1}\t{word}{chr(9) + '_'}" + "\t_" * 3 + f"\t{i}" + "\t_" * 3 for i, word in enumerate(t))
            for t in trees
        )
        options = ["--parse", workshop.write("t.conllu", "\n\n".join(rows) + "\n\n")]
    done = indigo("reorder", corpus, name, "--split", "train", "-o", "-", *options)
    assert done.status == 0, done.err
    orders = [json.loads(line)["orders"][0] for line in done.out.splitlines()[1:]]
    assert [sorted(order) for order in orders] == [list(range(size)) for size in (1, 1, 2, 1, 6, 1)]


@given(length=st.integers(0, 60))
def test_case_55_odd_positions_come_first(length: int) -> None:
    """As people count, from 1."""
    order = ORDERS["odd"].order(Example(0, [5] * length), OrderContext())
    assert [index + 1 for index in order] == [*range(1, length + 1, 2), *range(2, length + 1, 2)]


@given(ranks=st.permutations(range(1, 7)), tokens=st.lists(st.integers(0, 5), max_size=10), cutoff=st.integers(0, 7))
def test_case_57_two_blocks_each_from_left_to_right(ranks: list[int], tokens: list[int], cutoff: int) -> None:
    """By rank against the cutoff, nothing else: a rarer word does not overtake a rare one."""
    context = OrderContext(rank_of=np.array(ranks), cutoff=cutoff)
    common = [index for index, token in enumerate(tokens) if ranks[token] <= cutoff]
    rare = [index for index, token in enumerate(tokens) if ranks[token] > cutoff]
    assert ORDERS["cf"].order(Example(0, tokens), context) == (*common, *rare)
    assert ORDERS["rf"].order(Example(0, tokens), context) == (*rare, *common)


@pytest.mark.parametrize("depth", range(1, 8))
def test_case_59_a_full_tree_is_written_level_by_level(depth: int) -> None:
    """2^d - 1 tokens: level k has 2^k of them, evenly spread, from left to right."""
    length = 2**depth - 1
    expected = [
        step * 2 ** (depth - level) + 2 ** (depth - level - 1) - 1 for level in range(depth) for step in range(2**level)
    ]
    order = ORDERS["blt"].order(Example(0, [5] * length), OrderContext())
    # Spans of two are written from left to right, and full trees have none.
    assert list(order) == expected
    assert order_to_slots(order) == slots_by_hand(order)


sentence_heads = st.integers(1, 5).flatmap(
    lambda size: st.tuples(*(st.integers(0, max(i - 1, 0)) for i in range(size)))
)


@given(sentences=st.lists(sentence_heads, min_size=1, max_size=5))
def test_case_61_sentences_of_a_line_follow_each_other(sentences: list[tuple[int, ...]]) -> None:
    """However many: each is ordered as if it stood alone, and none is dropped."""
    heads: list[int] = []
    expected: list[int] = []
    for sentence in sentences:
        start = len(heads)
        alone = ORDERS["syn"].order(Example(0, [9] * len(sentence)), OrderContext(parses={0: Parse(sentence)}))
        expected += [start + index for index in alone]
        heads += [start + head for head in sentence]
    order = ORDERS["syn"].order(Example(0, [9] * len(heads)), OrderContext(parses={0: Parse(tuple(heads))}))
    assert list(order) == expected
    for word, head in enumerate(heads):
        assert order.index(head) <= order.index(word)


def test_case_63_orders_of_a_line_depend_on_seed_and_line_alone(indigo: Indigo, workshop: Workshop) -> None:
    """Not on the lines around it, so not on how the file is cut into blocks."""
    lines = [f"a b c d e f {number}" for number in range(5)]

    def orders(some: list[str], seed: int) -> list[list[int]]:
        workshop.made += 1
        recipe = workshop.recipe(None, "\n".join(some) + "\n", task="word_ordering", **PLAIN)
        folder = prepare(recipe, workshop.folder / f"c{workshop.made}").folder
        out = indigo("reorder", folder, "rnd", "--split", "train", "--seed", str(seed), "-o", "-").out
        return [json.loads(line)["orders"][0] for line in out.splitlines()[1:]]

    whole = orders(lines, 7)
    assert all(sorted(order) == list(range(7)) for order in whole)
    assert orders(lines[:3], 7) == whole[:3] and orders(lines, 7) == whole
    assert len({tuple(order) for order in whole}) > 1
    assert orders(lines, 8) != whole
