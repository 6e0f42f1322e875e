"""Parallel systems whose probabilities stand in a table, and every outcome they have: no network, no batch."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product

import numpy as np
import torch
from torch import Tensor

from indigo_cli.core.trace import Hypothesis
from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.data.batch import Source
from indigo_cli.data.collate import collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.parallel import search_rounds
from indigo_cli.decoding.places import GivenWords, Sentence
from indigo_cli.models.protocol import Canvas, SlotScores

A, B, C = 5, 6, 7
PLAIN = DecodeConfig(ban_unk=False, length_penalty=0.0)
"""A search without rules: id 4 is a word like any other in these tables."""
Items = tuple[str | int, ...]
"""Words, and "o" for an open slot, "c" for a closed one: one between any two words."""
Table = Callable[[int, Items, int], Sequence[float]]
"""Probabilities of no insertion and of the words, for a source (its first id), a canvas and the number of a slot."""
State = list[tuple[int, list[Items]]]


def empty_or(canvas: GivenWords | None) -> Items:
    """Return the items to begin with."""
    if canvas is None:
        return ("o",)
    slots = ["o" if is_open else "c" for is_open in canvas.open]
    return (*(item for pair in zip(slots, canvas.words, strict=False) for item in pair), slots[-1])


def decide(items: Items, words: Sequence[int]) -> Items:
    """Fill or close the open slots from left to right."""
    grown: list[str | int] = []
    left = list(words)
    for item in items:
        if item != "o":
            grown.append(item)
        elif (word := left.pop(0)) == EOD:
            grown.append("c")
        else:
            grown += ("o", word, "o")
    return tuple(grown)


def words_of(items: Items) -> tuple[int, ...]:
    """Return the words from left to right."""
    return tuple(item for item in items if isinstance(item, int))


@dataclass(frozen=True)
class RoundTable:
    """A `ParallelDecoder` that looks everything up, and checks that the search asks for what exists."""

    table: Table
    calls: list[int] = field(default_factory=list)
    can_wait: bool = False
    chooses_slots: bool = False
    ends_at_once: bool = False

    def start(self, source: Source, canvas: Canvas | None = None) -> State:
        keys = source.values[:, 0].tolist()
        if canvas is None:
            return [(key, [("o",)]) for key in keys]
        given = [
            GivenWords(tuple(words[:length]), tuple(opened[: length + 1]))
            for words, length, opened in zip(
                canvas.words.tolist(), canvas.lengths.tolist(), canvas.open.tolist(), strict=True
            )
        ]
        return [(key, [empty_or(one)]) for key, one in zip(keys, given, strict=True)]

    def slots(self, state: State) -> SlotScores:
        self.calls.append(len(state))
        rows = [
            [[self.table(key, items, slot) for slot in range(items.count("o"))] for items in row] for key, row in state
        ]
        most = max(len(slots) for row in rows for slots in row)
        size = len(self.table(A, ("o",), 0))
        logits = torch.full((len(rows), len(rows[0]), most, size), torch.nan)
        opened = torch.zeros(logits.shape[:3], dtype=torch.bool)
        for i, row in enumerate(rows):
            for j, slots in enumerate(row):
                if slots:
                    logits[i, j, : len(slots)] = torch.tensor(slots).log() + 0.7  # logits need not be normalised
                opened[i, j, : len(slots)] = True
        return SlotScores(logits, torch.full(opened.shape, 0.7), opened)

    def insert(self, state: State, parent_SB: Tensor, word_SBG: Tensor) -> State:
        assert (word_SBG >= FIRST_WORD).all()
        return [
            (key, [decide(row[p], words) for p, words in zip(parents, all_words, strict=True)])
            for (key, row), parents, all_words in zip(state, parent_SB.tolist(), word_SBG.tolist(), strict=True)
        ]

    def keep(self, state: State, sentence_index: Tensor) -> State:
        return [state[i] for i in sentence_index.tolist()]


def random_rounds(seed: int, *, num_words: int, close: float = 1.0) -> RoundTable:
    """Return a system with its own random distribution for every slot of every canvas."""

    @cache
    def table(source: int, items: Items, slot: int) -> list[float]:
        digits = [ord(item) if isinstance(item, str) else item for item in items]
        weights = np.random.default_rng([seed, source, slot, *digits]).exponential(size=num_words) ** 2
        weights[0] *= close
        return (weights / weights.sum()).tolist()  # type: ignore[no-any-return]

    return RoundTable(table)


def search(
    decoder: RoundTable,
    config: DecodeConfig = PLAIN,
    *,
    width: int,
    limits: Sequence[int],
    fewest: Sequence[int] | None = None,
    canvases: Sequence[GivenWords | None] | None = None,
    keys: Sequence[int] | None = None,
    lines: Sequence[int] | None = None,
    seed: int = 1,
    continuing: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Search sentences with these limits; a table knows them by their keys (from A on)."""
    source = collate_source([[key] for key in keys or range(A, A + len(limits))])
    sentences = [
        Sentence(
            line=lines[i] if lines else i,
            min_length=fewest[i] if fewest else 0,
            max_length=limit,
            canvas=canvases[i] if canvases else None,
        )
        for i, limit in enumerate(limits)
    ]
    return search_rounds(decoder, source, config, sentences, width=width, seed=seed, continuing=continuing)


@dataclass(frozen=True)
class Outcome:
    """One way that everything may go.

    Args:
        history: What was decided in each round.
        log_prob: Of all of it.
    """

    history: tuple[tuple[int, ...], ...]
    items: Items
    log_prob: float = 0.0
    forced: bool = False

    def score(self, config: DecodeConfig) -> float:
        """Return what ranks it, written once more."""
        length = len(words_of(self.items))
        return (self.log_prob + config.close_penalty * length) / float((length + 1) ** config.length_penalty)


def outcomes(decoder: RoundTable, key: int, limit: int, start: Items = ("o",), penalty: float = 0.0) -> list[Outcome]:
    """Return every outcome with at most so many words."""
    return list(_ends(decoder, key, limit, penalty, Outcome((), start)))


def _ends(decoder: RoundTable, key: int, limit: int, penalty: float, at: Outcome) -> Iterator[Outcome]:
    num_slots = at.items.count("o")
    if not num_slots:
        yield at
        return
    tables = [decoder.table(key, at.items, slot) for slot in range(num_slots)]
    wants = [math.log(max(table[1:])) > math.log(table[0]) - penalty for table in tables]
    for words in product(range(EOD, EOD + len(tables[0])), repeat=num_slots):
        room, forced = limit - len(words_of(at.items)), at.forced
        for word, want in zip(words, wants, strict=True):
            forced |= word == EOD and not room and want
            room -= word != EOD
            if room < 0:
                break
        if room < 0:
            continue
        more = sum(math.log(table[word - EOD]) for table, word in zip(tables, words, strict=True))
        grown = replace(
            at,
            history=(*at.history, words),
            items=decide(at.items, words),
            log_prob=at.log_prob + more,
            forced=forced,
        )
        yield from _ends(decoder, key, limit, penalty, grown)


def history_of(hypothesis: Hypothesis, start: Items = ("o",)) -> tuple[tuple[int, ...], ...]:
    """Read what was decided in each round off the insertions of a trace alone."""
    trace = hypothesis.trace
    order, rounds = trace.order(), trace.rounds()
    words, at = trace.tokens(), dict(zip(order, rounds, strict=True))
    items, found = start, []
    number = 0
    while "o" in items:
        place, decided = 0, []  # words of the surface left of the slot, those of later rounds included
        standing = [index for index in range(len(words)) if at[index] < number]
        for item in items:
            if isinstance(item, int):
                place += 1
            elif item == "o":
                low = standing[place - 1] + 1 if place else 0
                high = standing[place] if place < len(standing) else len(words)
                new = [words[index] for index in range(low, high) if at[index] == number]
                assert len(new) <= 1
                decided.append(new[0] if new else EOD)
        found.append(tuple(decided))
        items = decide(items, decided)
        number += 1
    assert words_of(items) == tuple(words)
    return tuple(found)
