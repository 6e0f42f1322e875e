"""Averages of probabilities against averages by hand."""

from dataclasses import replace

import pytest

from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.ensemble import Ensemble
from tests.decoding.tables import (
    PLAIN,
    History,
    TableDecoder,
    assert_same,
    history_of,
    random_table,
    search,
    slow_search,
)


def average(one: TableDecoder, two: TableDecoder) -> TableDecoder:
    """Return the table of the averages."""

    def words(key: int, history: History) -> list[float]:
        return [(p + q) / 2 for p, q in zip(one.word_table(key, history), two.word_table(key, history), strict=True)]

    def slots(key: int, history: History, word: int) -> list[float]:
        assert one.slot_table is not None and two.slot_table is not None
        both = zip(one.slot_table(key, history, word), two.slot_table(key, history, word), strict=True)
        return [(p + q) / 2 for p, q in both]

    return TableDecoder(words, slots if one.slot_table else None)


@pytest.mark.parametrize("with_slots", [True, False])
@pytest.mark.parametrize("width", [1, 4])
def test_two_models_are_the_table_of_their_averages(with_slots: bool, width: int) -> None:
    one, two = (random_table(seed, num_words=5, with_slots=with_slots, end=0.4) for seed in (1, 2))
    found = search(Ensemble([one, two]), width=width, limits=[6, 3, 5])
    for i, limit in enumerate([6, 3, 5]):
        assert_same(found[i], slow_search(average(one, two), 5 + i, width=width, limit=limit))
        assert found[i][0].trace.log_prob != pytest.approx(
            search(one, width=width, limits=[limit])[0][0].trace.log_prob
        )


@pytest.mark.parametrize("config", [DecodeConfig(), DecodeConfig(search="sample"), DecodeConfig(search="joint")])
def test_a_model_with_itself_is_the_model(config: DecodeConfig) -> None:
    model = random_table(3, num_words=6)
    for alone, together in zip(
        search(model, config, width=3, limits=[5, 2]),
        search(Ensemble([model, model, model]), config, width=3, limits=[5, 2]),
        strict=True,
    ):
        assert [history_of(h) for h in alone] == [history_of(h) for h in together]
        assert [h.score for h in alone] == pytest.approx([h.score for h in together], abs=1e-5)


def test_one_that_is_sure_of_what_the_other_excludes() -> None:
    """log of a mean of 0 and 1."""
    one = TableDecoder(lambda _, history: [1.0, 0, 0] if history else [0, 0, 1.0], None)
    two = TableDecoder(lambda _, history: [1.0, 0, 0], None)
    (found,) = search(Ensemble([one, two]), PLAIN, width=2, limits=[3])
    assert sorted(h.trace.log_prob for h in found) == pytest.approx([-0.6931472] * 2)


def test_what_cannot_be_one() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Ensemble([])
    left_to_right, inserting = random_table(0, num_words=4, with_slots=False), random_table(0, num_words=4)
    with pytest.raises(ValueError, match="choose slots"):
        search(Ensemble([left_to_right, inserting]), width=1, limits=[3])
    with pytest.raises(ValueError, match="different slots"):
        Ensemble([inserting, replace(inserting, greedy_only=True)])
