"""Words split anew: the same text, the same draw for the same visit, and an order that keeps every word together."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.bpe import BPE, join, learn, split_all
from indigo_cli.core.text import SideCodec
from indigo_cli.core.vocab import UNK, Vocabulary
from indigo_cli.data.fresh_pieces import FreshPieces

COUNTS = {"abaababa": 3, "aba": 9, "ab": 20, "baa": 2, "aaba": 4, "b": 7}


def make_codec(*, complete: bool = True) -> SideCodec:
    """A side whose vocabulary holds every piece there can be, or only those of plain BPE."""
    bpe = BPE(learn(COUNTS, 9))
    pieces = Counter(split_all(bpe, COUNTS))
    if complete:
        pieces.update(piece for a, b in bpe.ranks for s in (a, b, a + b) for piece in bpe.spell([s, "b</w>"])[:1])
        pieces.update(piece for a, b in bpe.ranks for s in (b, a + b) for piece in bpe.spell([s]))
        pieces.update(["a", "b", "a@@", "b@@"])
    return SideCodec("none", "", False, bpe, Vocabulary.from_counts(pieces.items()))


CODEC = make_codec()
lines = st.lists(st.sampled_from([*COUNTS, "abab", "bbbb"]), max_size=6)


def fresh(rate: float = 0.4, key: str = "1 train target", codec: SideCodec = CODEC) -> FreshPieces:
    return FreshPieces(codec, rate=rate, key=key)


def words_of(ids: list[int], codec: SideCodec = CODEC) -> list[str]:
    return join(codec.vocabulary.decode(ids))


@given(lines, st.integers(0, 9), st.integers(0, 9))
def test_the_text_stays(line: list[str], number: int, epoch: int) -> None:
    ids = CODEC.encode(" ".join(line))
    assert UNK not in ids
    assert words_of(fresh().draw(ids, line=number, epoch=epoch)) == line


def test_a_draw_depends_on_its_visit_alone() -> None:
    ids = CODEC.encode("abaababa aba aaba abaababa")
    visits = [(line, epoch) for line in range(6) for epoch in range(6)]
    one = fresh()
    drawn = [one.draw(ids, line=line, epoch=epoch) for line, epoch in visits]
    other = fresh()
    assert [other.draw(ids, line=line, epoch=epoch) for line, epoch in reversed(visits)] == drawn[::-1]
    assert len({tuple(draw) for draw in drawn}) > 20
    assert [fresh(key="2 train target").draw(ids, line=line, epoch=epoch) for line, epoch in visits] != drawn
    assert [fresh(key="1 train source").draw(ids, line=line, epoch=epoch) for line, epoch in visits] != drawn


def test_a_word_keeps_its_pieces_where_some_are_not_known() -> None:
    codec = make_codec(complete=False)
    ids = codec.encode("abaababa xy b aba")
    assert UNK in ids
    drawn = [fresh(0.9, codec=codec).draw(ids, line=line, epoch=0) for line in range(50)]
    plain = [codec.vocabulary.decode(codec.encode(word)) for word in "abaababa xy b aba".split()]
    for draw in drawn:
        pieces = codec.vocabulary.decode(draw)
        assert draw.count(UNK) == ids.count(UNK)
        assert pieces[: len(plain[0])] == plain[0] or UNK not in codec.vocabulary.encode(pieces)
    lacking = SideCodec("none", "", False, codec.bpe, Vocabulary(("aba",), (1,)))
    assert fresh(0.9, codec=lacking).draw(lacking.encode("aba"), line=0, epoch=0) == lacking.encode("aba")


@given(lines, st.data(), st.integers(0, 9))
def test_new_pieces_take_the_place_of_the_word(line: list[str], data: st.DataObject, number: int) -> None:
    """Words in any order, each from left to right: the new order is that of the words, whatever their pieces."""
    ids = CODEC.encode(" ".join(line))
    order_of_words = data.draw(st.permutations(range(len(line))))

    def expand(pieces: list[list[int]]) -> list[int]:
        starts = [sum(map(len, pieces[:word])) for word in range(len(pieces))]
        return [place for word in order_of_words for place in range(starts[word], starts[word] + len(pieces[word]))]

    drawn, order = fresh().draw_in_order(ids, expand(groups(ids)), line=number, epoch=0)
    assert drawn == fresh().draw(ids, line=number, epoch=0)
    assert order == expand(groups(drawn))


def groups(ids: list[int]) -> list[list[int]]:
    """The ids of each word."""
    found: list[list[int]] = [[]]
    for token_id in ids:
        found[-1].append(token_id)
        if not CODEC.vocabulary.token(token_id).endswith("@@"):
            found.append([])
    return found[:-1]


@given(lines, st.data())
def test_any_order_stays_one_and_scattered_words_keep_their_pieces(line: list[str], data: st.DataObject) -> None:
    ids = CODEC.encode(" ".join(line))
    order = data.draw(st.permutations(range(len(ids))))
    drawn, new = fresh(0.9).draw_in_order(ids, order, line=3, epoch=1)
    assert words_of(drawn) == line
    assert sorted(new) == list(range(len(drawn)))
    old_words, new_words = groups(ids), groups(drawn)
    steps = {place: step for step, place in enumerate(order)}
    new_steps = {place: step for step, place in enumerate(new)}
    first = new_first = 0
    firsts = []
    for old_word, new_word in zip(old_words, new_words, strict=True):
        taken = [steps[place] for place in range(first, first + len(old_word))]
        if taken != list(range(taken[0], taken[0] + len(taken))):
            assert new_word == old_word
        firsts.append((steps[first], new_steps[new_first]))
        first, new_first = first + len(old_word), new_first + len(new_word)
    assert [new for _, new in sorted(firsts)] == sorted(new for _, new in firsts)


def test_a_side_without_bpe_is_refused() -> None:
    codec = SideCodec("none", "", False, None, CODEC.vocabulary)
    with pytest.raises(ValueError, match="BPE"):
        fresh(codec=codec)
