"""SYN: level order of trees, pieces of a word together."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.order import order_to_slots
from indigo_cli.errors import DataError
from indigo_cli.orders import ORDERS, Example, OrderContext, Parse
from indigo_cli.orders.syntax_tree import level_order


def syntactic(parse: Parse, length: int) -> tuple[int, ...]:
    return ORDERS["syn"].order(Example(4, [9] * length), OrderContext(parses={4: parse}))


def test_case_61_two_sentences_in_a_line() -> None:
    order = syntactic(Parse((0, 0, 2, 2)), 4)
    assert order == (0, 1, 2, 3)
    assert order_to_slots(order) == (0, 1, 2, 3)


def test_level_by_level_children_left_to_right() -> None:
    """A tree over "the big dog saw a cat": saw(dog(the, big), cat(a))."""
    assert syntactic(Parse((2, 2, 3, 3, 5, 3)), 6) == (3, 2, 5, 0, 1, 4)


def test_trees_follow_each_other_left_to_right() -> None:
    """Two trees whose words interleave: all of the first comes before the second."""
    assert syntactic(Parse((0, 1, 0, 1)), 4) == (0, 2, 1, 3)


def test_pieces_of_a_word_stay_together() -> None:
    """Words "unseen dog barks", head barks, in pieces un- se- en / dog / bar- ks."""
    parse = Parse((1, 2, 2), spans=((0, 0), (0, 0), (0, 0), (1, 1), (2, 2), (2, 2)))
    assert syntactic(parse, 6) == (4, 5, 3, 0, 1, 2)


def test_a_contraction_goes_with_the_first_of_its_words() -> None:
    """One token over the words 0 and 1, the second of which is the root."""
    assert syntactic(Parse((2, 1, 1), spans=((0, 1), (2, 2))), 2) == (0, 1)


trees = st.integers(1, 25).flatmap(
    lambda n: st.tuples(*(st.integers(0, i) for i in range(n))).flatmap(
        lambda earlier: st.permutations(range(n)).map(lambda names: relabel(earlier, names))
    )
)


def relabel(earlier: tuple[int, ...], names: list[int]) -> tuple[int, ...]:
    """Turn "word i hangs on an earlier word or is a root" into heads over shuffled words."""
    heads = [0] * len(earlier)
    for child, parent in enumerate(earlier):
        heads[names[child]] = names[parent]
    return tuple(heads)


def depth(heads: tuple[int, ...], word: int) -> tuple[int, int]:
    """(root, distance to it)."""
    steps = 0
    while heads[word] != word:
        word, steps = heads[word], steps + 1
    return word, steps


@given(trees)
def test_level_order_on_any_forest(heads: tuple[int, ...]) -> None:
    steps = level_order(heads)
    assert sorted(steps) == list(range(len(heads)))
    assert all(steps[head] < steps[word] for word, head in enumerate(heads) if head != word)
    by_step = sorted(range(len(heads)), key=lambda word: steps[word])
    assert [depth(heads, word) for word in by_step] == sorted(depth(heads, word) for word in by_step)
    for a, b in pairwise(by_step):
        if heads[a] == heads[b] and a != heads[a] and b != heads[b]:
            assert a < b, "children come from left to right"


def test_a_circle_is_named_with_its_place() -> None:
    with pytest.raises(DataError, match="word 2 hangs in a circle") as caught:
        syntactic(Parse((0, 2, 1), where="trees.conllu:7"), 3)
    assert caught.value.where == "trees.conllu:7"


def test_a_missing_parse_names_the_line() -> None:
    with pytest.raises(DataError, match="line 4"):
        ORDERS["syn"].order(Example(4, [9]), OrderContext())


def test_a_parse_of_another_length() -> None:
    with pytest.raises(DataError, match="covers 2 tokens but target 4 has 3"):
        syntactic(Parse((0, 0), where="trees.conllu:1"), 3)


def test_an_empty_target_needs_no_parse() -> None:
    assert ORDERS["syn"].order(Example(4, []), OrderContext()) == ()
