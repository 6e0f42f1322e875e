"""The beam over rounds of any width, against the same in loops: all ways of every slot, sorted and cut."""

import math
import random
from dataclasses import replace

import pytest

from indigo_cli.core.vocab import EOD
from indigo_cli.decoding.config import DecodeConfig
from tests.decoding.round_tables import (
    PLAIN,
    A,
    Outcome,
    RoundTable,
    decide,
    history_of,
    random_rounds,
    search,
    words_of,
)


def ways_of(at: Outcome, decoder: RoundTable, limit: int, width: int, penalty: float) -> list[Outcome]:
    """Return the best ways to decide the open slots of a hypothesis, joined from left to right."""
    ways: list[tuple[float, float, bool, tuple[int, ...]]] = [(0.0, 0.0, False, ())]
    for slot in range(at.items.count("o")):
        table = decoder.table(A, at.items, slot)
        wants = math.log(max(table[1:])) > math.log(table[0]) - penalty
        grown = []
        for score, log_prob, forced, words in ways:
            room = limit - len(words_of(at.items)) - sum(word != EOD for word in words)
            for column, chance in enumerate(table):
                if column and not room:
                    continue
                more, pushed = math.log(chance), not column and not room and wants
                best = score + more + penalty * (column > 0)
                grown.append((best, log_prob + more, forced or pushed, (*words, EOD + column)))
        ways = sorted(grown, reverse=True)[:width]
    return [
        Outcome((*at.history, words), decide(at.items, words), at.log_prob + log_prob, at.forced or forced)
        for _, log_prob, forced, words in ways
    ]


def beam(decoder: RoundTable, limit: int, width: int, config: DecodeConfig) -> list[Outcome]:
    """Return what a beam keeps."""
    kept = [Outcome((), ("o",))]
    while any("o" in at.items for at in kept):
        grown = [
            after
            for at in kept
            for after in (ways_of(at, decoder, limit, width, config.close_penalty) if "o" in at.items else [at])
        ]
        kept = sorted(grown, key=lambda at: at.score(config), reverse=True)[:width]
    return sorted(kept, key=lambda at: (not at.forced, at.score(config)), reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("width", [2, 3, 5])
def test_it_keeps_the_best_of_all_ways(width: int) -> None:
    """Also where some ways have no room left for a word, and others that are worse have."""
    for seed in range(12):
        rng = random.Random(100 * width + seed)
        decoder = random_rounds(seed, num_words=rng.choice([3, 6]), close=rng.choice([0.5, 2.0]))
        config = replace(PLAIN, length_penalty=rng.choice([0.0, 1.0]), close_penalty=rng.choice([0.0, 1.0, -0.5]))
        limit = rng.randrange(1, 7)
        (found,) = search(decoder, config, width=width, limits=[limit])
        wanted = beam(decoder, limit, width, config)
        assert [history_of(hypothesis) for hypothesis in found] == [at.history for at in wanted]
        assert [hypothesis.score for hypothesis in found] == pytest.approx(
            [at.score(config) for at in wanted], abs=1e-5
        )
