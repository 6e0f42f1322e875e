"""What a step of the beam keeps: joint choices, and no string twice. Against lists: tests/decoding/test_search.py."""

from itertools import product

import pytest
import torch

from indigo_cli.core.vocab import FIRST_WORD
from indigo_cli.decoding.beam import without_copies
from indigo_cli.decoding.config import DecodeConfig
from tests.decoding.tables import PLAIN, A, B, TableDecoder, history_of, random_table, search

JOINT = DecodeConfig(search="joint", length_penalty=0.0, ban_unk=False)


def test_joint_takes_the_better_pair_where_two_steps_take_the_better_word() -> None:
    """A is the better word (.6), but its slots are even (.3 each); B is sure of its slot (.4)."""
    decoder = TableDecoder(
        lambda _, history: [[0.0, 0, 1, 0], [0.0, 0, 0.6, 0.4], [1.0, 0, 0, 0]][len(history)],
        lambda _, history, word: [[1.0], [0.5, 0.5] if word == A else [0.0, 1.0], [1 / 3] * 3][len(history)],
    )
    ((two_steps,),) = search(decoder, PLAIN, width=1, limits=[5])
    assert two_steps.trace.tokens() == [A, A]
    ((joint,),) = search(decoder, JOINT, width=1, limits=[5])
    assert history_of(joint) == ((A, 0), (B, 1))


def test_joint_looks_at_as_many_words_as_it_must() -> None:
    """Eight words of falling probability; only the last is sure of its slot, so all have to be looked at."""
    words = [0, 0, 0.16, 0.15, 0.15, 0.14, 0.14, 0.13, 0.13 * 0.99, 0.13 * 0.01]
    last = 4 + 7 - 1
    decoder = TableDecoder(
        lambda _, history: [[0.0, 0, 1, *[0] * 7], words, [1.0, *[0] * 9]][len(history)],
        lambda _, history, word: [[1.0], [1.0, 0.0] if word == last else [0.6, 0.4], [1 / 3] * 3][len(history)],
    )
    ((best,),) = search(decoder, JOINT, width=1, limits=[5])
    assert history_of(best) == ((A, 0), (last, 0))


@pytest.mark.parametrize("kind", ["beam", "joint"])
def test_a_wide_distinct_beam_holds_every_string_once(kind: str) -> None:
    """Two words and three steps: 1 + 2 + 4 strings that end, 8 that are cut; of 1 + 2 + 8 and 48 traces."""
    config = DecodeConfig(search=kind, ban_unk=False)  # type: ignore[arg-type]
    decoder = random_table(2, num_words=3)
    (plain,) = search(decoder, config, width=100, limits=[3])
    assert len(plain) == 1 + 2 + 8 + 48
    (found,) = search(decoder, config, width=15, limits=[3], distinct=True)
    wanted = [words for length in range(4) for words in product((4, A), repeat=length)]
    assert sorted(tuple(h.trace.tokens()) for h in found) == sorted(wanted)
    assert all(h.finished == (len(h.trace) < 3) for h in found)
    assert {history_of(h) for h in found} <= {history_of(h) for h in plain}


def test_a_distinct_beam_keeps_the_better_trace() -> None:
    """A A A in three of its six ways at most fit a plain beam of 4; of a string's traces the likeliest is kept."""
    decoder = TableDecoder(
        lambda _, history: [1, 0, 0, 0] if len(history) == 2 else [0, 0, 0.8, 0.2],
        lambda _, history, word: [[1.0], [0.3, 0.7], [1 / 3] * 3][len(history)],
    )
    (plain,) = search(decoder, JOINT, width=4, limits=[5])
    assert [h.trace.tokens() for h in plain].count([A, A]) == 2
    (found,) = search(decoder, JOINT, width=4, limits=[5], distinct=True)
    assert sorted(h.trace.tokens() for h in found) == [[A, A], [A, B], [B, A], [B, B]]
    assert history_of(found[0]) == ((A, 0), (A, 1))


def test_a_full_sentence_does_not_see_how_far_its_neighbour_must_look() -> None:
    """The ninth word would be the best pair of the first sentence; only the second one has to look at it."""
    words = [0.0, 0, 0.122, 0.121, 0.12, 0.119, 0.118, 0.117, 0.116, 0.115, 0.052]
    last = FIRST_WORD + 10

    def word_table(key: int, history: tuple[tuple[int, int], ...]) -> list[float]:
        return [[0.0, 0, 1, *[0] * 8], words, [1.0, *[0] * 10]][len(history)]

    def slot_table(key: int, history: tuple[tuple[int, int], ...], word: int) -> list[float]:
        if len(history) != 1:
            return [1 / (len(history) + 1)] * (len(history) + 1)
        if word == last:
            return [1.0, 0.0]
        return [0.25, 0.25] if key == A else [0.0, 0.0]  # the second sentence has no room for any other

    decoder = TableDecoder(word_table, slot_table)
    config = DecodeConfig(ban_unk=False, length_penalty=0.0)
    alone, _ = search(decoder, config, width=2, limits=[4, 0], distinct=True)
    together, other = search(decoder, config, width=2, limits=[4, 4], distinct=True)
    assert [history_of(h) for h in alone] == [history_of(h) for h in together]
    assert [h.trace.tokens() for h in other] == [[last, A]]
    assert not any(last in h.trace.tokens() for h in alone)


def test_without_copies() -> None:
    inf = torch.inf
    totals = torch.tensor([[[-3.0, -1.0], [-2.0, -4.0], [-inf, -5.0]], [[-1.0, -1.0], [-1.0, -2.0], [0.0, -9.0]]])
    keys = torch.tensor([[[7, 8], [7, -9], [8, 7]], [[1, 2], [1, 2], [1, 3]]])
    wanted = torch.tensor([[[-inf, -1.0], [-2.0, -4.0], [-inf, -inf]], [[-inf, -1.0], [-inf, -inf], [0.0, -9.0]]])
    assert torch.equal(without_copies(totals, keys), wanted)
