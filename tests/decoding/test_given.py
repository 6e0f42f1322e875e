"""Given words in the serial search: against a search with plain lists that starts from them, and all completions."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indigo_cli.core.order import anchors_to_slots, order_to_slots, replay, slots_to_anchors
from indigo_cli.core.trace import Hypothesis
from indigo_cli.core.vocab import EOD, UNK
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.places import GivenWords
from tests.decoding.tables import (
    PLAIN,
    A,
    B,
    C,
    History,
    Partial,
    TableDecoder,
    assert_same,
    history_of,
    options,
    random_table,
    score,
    search,
    slow_search,
    surface,
)

GOES_ON = (A, UNK)
"""Pieces whose word goes on, in these tests."""
SAMPLE = DecodeConfig(search="sample", ban_unk=False)
CLOSED = GivenWords((A, B), (False, False, False))


@st.composite
def canvases(draw: st.DrawFn, words: tuple[int, ...] = (UNK, A, B, C)) -> GivenWords | None:
    """A canvas as a reader makes it (without words all is open), in some order; None now and then."""
    chosen = draw(st.lists(st.sampled_from(words), max_size=4))
    opened = draw(st.lists(st.booleans(), min_size=len(chosen) + 1, max_size=len(chosen) + 1))
    order = draw(st.permutations(range(len(chosen))))
    if not chosen:
        return draw(st.sampled_from([None, GivenWords((), (True,))]))
    return GivenWords(tuple(chosen), tuple(opened), order=draw(st.sampled_from([(), tuple(order)])))


def prefix(canvas: GivenWords | None) -> History:
    """The insertions that make a canvas."""
    if canvas is None:
        return ()
    anchors = slots_to_anchors(order_to_slots(canvas.steps))
    return tuple(zip([canvas.words[index] for index in canvas.steps], anchors, strict=True))


def may_come(canvas: GivenWords | None, history: History) -> bool:
    """Whether the last word of a history stands in an open gap, and lengthens no given word."""
    if canvas is None:
        return True
    steps = replay(range(len(history)), anchors_to_slots([anchor for _, anchor in history]))
    place = steps.index(len(history) - 1)
    given_left = sum(step < len(canvas.words) for step in steps[:place])
    before_given = place + 1 < len(steps) and steps[place + 1] < len(canvas.words)
    return canvas.open[given_left] and not (before_given and history[-1][0] in GOES_ON)


def check_stands(canvas: GivenWords | None, hypothesis: Hypothesis) -> None:
    """The trace begins with the canvas, for nothing, and every other word may stand where it does."""
    history, start = history_of(hypothesis), prefix(canvas)
    given = len(start)
    assert history[:given] == start
    assert all(may_come(canvas, history[:length]) for length in range(given + 1, len(history) + 1))
    assert hypothesis.trace.given == given
    assert hypothesis.trace.rounds() == (-1,) * given + tuple(range(len(history) - given))
    assert not any(i.word_log_prob or i.slot_log_prob for i in hypothesis.trace.insertions[:given])


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    width=st.integers(1, 5),
    rows=st.lists(st.tuples(canvases(), st.integers(0, 3)), min_size=1, max_size=4),
    alpha=st.sampled_from([0.0, 1.0]),
    penalty=st.sampled_from([0.0, 1.5]),
    kind=st.sampled_from(["beam", "joint"]),
    distinct=st.booleans(),
    end_cost=st.sampled_from([0.0, 0.4]),
)
def test_it_is_the_slow_search_from_each_canvas_alone(
    seed: int,
    width: int,
    rows: list[tuple[GivenWords | None, int]],
    alpha: float,
    penalty: float,
    kind: str,
    distinct: bool,
    end_cost: float,
) -> None:
    """Whatever the other sentences of the batch have to begin with."""
    config = DecodeConfig(search=kind, length_penalty=alpha, eod_penalty=penalty, ban_unk=False)  # type: ignore[arg-type]
    decoder = random_table(seed, num_words=5, end_cost=end_cost)
    limits = [len(prefix(canvas)) + room for canvas, room in rows]
    own = [canvas for canvas, _ in rows]
    options = {"canvases": own, "continuing": GOES_ON, "distinct": distinct}
    found = search(decoder, config, width=width, limits=limits, **options)  # type: ignore[arg-type]
    for i, (canvas, limit) in enumerate(zip(own, limits, strict=True)):
        wanted = slow_search(
            decoder,
            A + i,
            config,
            width=width,
            limit=limit,
            distinct=distinct,
            start=prefix(canvas),
            may=lambda history, canvas=canvas: may_come(canvas, history),  # type: ignore[misc]
        )
        assert_same(found[i], wanted)
        for hypothesis in found[i]:
            check_stands(canvas, hypothesis)


def completions(
    decoder: TableDecoder, canvas: GivenWords, history: History, log_prob: float, limit: int
) -> list[Partial]:
    """Everything that a canvas can become, and how likely it is."""
    if len(history) == limit:
        return [Partial(log_prob, history, score(log_prob, limit, PLAIN, finished=False))]
    end, *words = (math.log(p) for p in decoder.word_table(A, history))
    total = log_prob + end - decoder.end_cost
    found = [Partial(total, history, score(total, len(history), PLAIN, finished=True), finished=True)]
    for word, of_word in enumerate(words, start=EOD + 1):
        for anchor, of_slot in options(decoder, A, history, word):
            longer = (*history, (word, anchor))
            if may_come(canvas, longer):
                found += completions(decoder, canvas, longer, log_prob + of_word + of_slot, limit)
    return found


@pytest.mark.parametrize("kind", ["beam", "joint"])
@pytest.mark.parametrize(
    "canvas",
    [
        GivenWords((B, C), (True, True, True)),
        GivenWords((B, C), (False, True, False), order=(1, 0)),
        GivenWords((B, C, B), (True, False, True, False), order=(1, 2, 0)),
        CLOSED,
    ],
)
def test_a_beam_as_wide_as_the_space_finds_all_completions(kind: str, canvas: GivenWords) -> None:
    decoder, limit = random_table(3, num_words=4, end_cost=0.2), len(canvas.words) + 2
    wanted = completions(decoder, canvas, prefix(canvas), 0.0, limit)
    wanted.sort(key=lambda p: (p.finished, p.rank), reverse=True)
    config = replace(PLAIN, search=kind)  # type: ignore[arg-type]
    (found,) = search(decoder, config, width=500, limits=[limit], canvases=[canvas], continuing=GOES_ON)
    assert_same(found, wanted)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 10**6), st.lists(canvases(), min_size=2, max_size=4))
def test_a_sample_is_the_same_in_any_company(seed: int, own: list[GivenWords | None]) -> None:
    decoder = random_table(seed, num_words=5, end=0.3)
    limits = [len(prefix(canvas)) + 3 for canvas in own]
    together = search(decoder, SAMPLE, width=3, limits=limits, canvases=own, continuing=GOES_ON)
    for i, canvas in enumerate(own):
        (alone,) = search(decoder, SAMPLE, width=3, limits=[limits[i]], keys=[A + i], lines=[i], canvases=[canvas],
                          continuing=GOES_ON)  # fmt: skip
        assert [history_of(h) for h in together[i]] == [history_of(h) for h in alone]
        for hypothesis in together[i]:
            check_stands(canvas, hypothesis)


def test_samples_come_from_the_open_slots_in_proportion() -> None:
    decoder = TableDecoder(
        lambda _, history: [0.0, 0.0, 1.0] if len(history) == 2 else [1.0, 0.0, 0.0],
        lambda _, history, word: [0.2, 0.6, 0.2] if len(history) == 2 else [1.0] * (len(history) + 1),
    )
    canvas = GivenWords((B, C), (True, False, True))
    (drawn,) = search(decoder, SAMPLE, width=400, limits=[9], canvases=[canvas])
    counts = Counter(surface(history_of(h)) for h in drawn)
    assert counts.keys() == {(A, B, C), (B, C, A)}
    assert 150 < counts[A, B, C] < 250
    assert {round(h.trace.log_prob, 4) for h in drawn} == {round(math.log(0.2), 4)}  # the model's own


@pytest.mark.parametrize("kind", ["beam", "joint", "sample"])
def test_where_nothing_is_open_it_ends(kind: str) -> None:
    decoder, config = random_table(1, num_words=5), replace(PLAIN, search=kind)  # type: ignore[arg-type]
    found = search(decoder, config, width=2, limits=[9], fewest=[5], canvases=[CLOSED])[0]
    end = pytest.approx(math.log(decoder.word_table(A, prefix(CLOSED))[0]))
    assert found
    for hypothesis in found:
        assert hypothesis.finished and hypothesis.trace.tokens() == [A, B]
        assert hypothesis.trace.log_prob == hypothesis.trace.end_log_prob == end


def test_a_canvas_of_nothing_is_none() -> None:
    decoder = random_table(2, num_words=5)
    empty = [GivenWords((), (True,)), None]
    plain = search(decoder, width=3, limits=[5, 5])
    assert search(decoder, width=3, limits=[5, 5], canvases=empty, continuing=GOES_ON) == plain


@pytest.mark.slow
@settings(max_examples=50)
@given(st.integers(0, 10**6), canvases(words=(A, B, C)).filter(lambda c: c is not None and len({*c.words}) > 1))
def test_no_sequence_stands_twice_wherever_gaps_are_open(seed: int, canvas: GivenWords) -> None:
    """A word whose every slot is closed, or would repeat something, is no candidate: the beam stays full."""

    def twice(history: History) -> bool:
        words = surface(history)
        return max(Counter(pairwise(words)).values(), default=0) > 1

    start = prefix(canvas)
    if any(twice(start[:length]) for length in range(1, len(start) + 1)):
        return
    config, limit = replace(PLAIN, block_ngrams=2), len(start) + 3
    decoder = random_table(seed, num_words=5, end=0.5)
    (found,) = search(decoder, config, width=3, limits=[limit], canvases=[canvas], continuing=GOES_ON)
    wanted = slow_search(decoder, A, config, width=3, limit=limit, start=start,
                         may=lambda history: may_come(canvas, history) and not twice(history))  # fmt: skip
    assert_same(found, wanted)


def test_given_words_use_up_the_bag() -> None:
    """More of them than it holds take nothing else away."""
    decoder = random_table(4, num_words=5)
    config, canvas = DecodeConfig(restrict_to_bag=True), GivenWords((A, A), (True, True, True))
    found = search(decoder, config, width=3, limits=[9], bags=[(A, B, C)], canvases=[canvas])[0]
    assert all(h.finished and sorted(h.trace.tokens()) == [A, A, B, C] for h in found)


def test_a_system_that_shows_one_slot_cannot_be_given_words() -> None:
    decoder = replace(random_table(0, num_words=4), greedy_only=True)
    with pytest.raises(ValueError, match="may be closed"):
        search(decoder, width=1, limits=[4], canvases=[CLOSED])
