"""The one loop of every serial search. It knows the protocol, never a model; what a step chooses is a part of its own.

Shape letters: S sentences, B hypotheses a sentence.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from indigo_cli.core.order import anchors_to_slots
from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.core.vocab import EOD, UNK
from indigo_cli.data.batch import Source
from indigo_cli.decoding.beam import Beam
from indigo_cli.decoding.canvas import Canvas
from indigo_cli.decoding.closed import Ends
from indigo_cli.decoding.config import DecodeConfig, ranking_score
from indigo_cli.decoding.given import Gaps, GivenFirst
from indigo_cli.decoding.places import CARRIED, Chooser, Places, Sentence, Step
from indigo_cli.decoding.room import Room
from indigo_cli.decoding.rules import Rules, make_rules
from indigo_cli.decoding.sampling import Sampler
from indigo_cli.models.protocol import SerialDecoder
from indigo_cli.nn.units import UnitCounter

__all__ = ["Sentence", "search_batch"]

EMPTY_SHARE = 0.25
"""Finished sentences are dropped from the batch when they are at least this share of it."""


@torch.inference_mode()
def search_batch(
    decoder: SerialDecoder,
    source: Source,
    config: DecodeConfig,
    sentences: Sequence[Sentence],
    *,
    width: int,
    seed: int,
    distinct: bool = False,
    continuing: Sequence[int] = (),
    counter: UnitCounter | None = None,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each sentence: never none, and the same whatever its neighbours in the batch are.

    From a beam they come best first, those that ended before those that were cut: those that reached their most
    insertions (a hypothesis as long as that is never asked for its `<eod>`), or whose every way on is banned. Samples
    come in the order of their draws. Given words stand before anything is chosen, at no cost; where they leave no gap
    open, `<eod>` follows. Where a length has a hard limit, all fit, see `closed.py`.

    Args:
        decoder: A serial system in evaluation mode.
        source: S sources.
        config: How to search and to rank. `width` is in place of `beam_size`; the lengths are those of `sentences`.
        sentences: One a source.
        width: Most hypotheses kept, or number of samples.
        seed: Of the samples.
        distinct: A beam holds no string twice (see `Beam`): for n-best lists.
        continuing: Ids of pieces whose word goes on: none may end up right before a given word, or at the end of a text
            whose length is limited.
        counter: Of the units of hard limits.
    """
    if decoder.greedy_only and (width > 1 or config.search == "sample"):
        raise ValueError("this system shows the words of one slot only: the search must be a beam of 1")
    device = source.values.device
    room = Room.where_needed(config, counter, sentences, continuing, device)
    rules = make_rules(config, sentences, device, room=room)
    chooser: Chooser
    if config.search == "sample":
        chooser = Sampler(decoder, config, rules, sentences, width=width, seed=seed)
    else:
        chooser = Beam(decoder, config, rules, width=width, joint=config.search == "joint", distinct=distinct)
    gaps = None
    if any(sentence.canvas is not None and sentence.canvas.words for sentence in sentences):
        if decoder.greedy_only:
            raise ValueError("this system shows the words of one slot, which may be closed")
        chooser = GivenFirst(chooser, sentences, device, copies=config.search == "sample")
        gaps = Gaps.start(sentences, continuing, device)
    distinct = distinct and config.search != "sample"
    search = _Search(decoder, source, config, sentences, chooser, rules, width=width, distinct=distinct, gaps=gaps)
    results = search.run()
    if config.search == "sample":  # one that may not take a step was never made several
        return [found if len(found) == width else found * width for found in results]
    for found in results:
        found.sort(key=lambda hypothesis: (hypothesis.finished, hypothesis.score), reverse=True)
    return results


class _Search:
    """State of one search."""

    def __init__(
        self,
        decoder: SerialDecoder,
        source: Source,
        config: DecodeConfig,
        sentences: Sequence[Sentence],
        chooser: Chooser,
        rules: Rules,
        *,
        width: int,
        distinct: bool,
        gaps: Gaps | None,
    ) -> None:
        device = source.values.device
        self.decoder, self.config, self.chooser, self.room = decoder, config, chooser, rules.room
        self.width = width
        self.state = decoder.start(source)
        self.given = [len(sentence.canvas.words) if sentence.canvas else 0 for sentence in sentences]
        limits = [max(sentence.max_length, given) for sentence, given in zip(sentences, self.given, strict=True)]
        self.limits = torch.tensor(limits, device=device)
        canvas, append_only = None, False
        if rules.need_canvas or distinct:
            canvas = Canvas.start(len(sentences), device)
            first = torch.zeros(len(sentences), 1, dtype=torch.int64, device=device)
            append_only = decoder.slots(self.state, first, first + UNK) is None
        self.places = Places.start(len(sentences), device, canvas=canvas, append_only=append_only)
        self.places.gaps = gaps
        self.steps: list[Step] = []
        self.ends: list[Ends | None] = []
        self.results: list[list[Hypothesis]] = [[] for _ in sentences]

    def run(self) -> list[list[Hypothesis]]:
        """Search until no sentence has a live hypothesis."""
        places = self.places
        while True:
            self._stop_at_limit()
            alive = places.live.any(dim=1)
            num_alive = int(alive.sum())
            if num_alive == 0:
                break
            if num_alive <= (1.0 - EMPTY_SHARE) * len(alive):
                self._drop_done(alive)
            step = self.chooser.choose(self.state, places)
            self.steps.append(step)
            self.ends.append(None if self.room is None else self.room.taken())
            if bool(places.live.any()):
                word = step.word.clamp(min=EOD)  # ended places compute something harmless
                self.state = self.decoder.advance(self.state, step.parent, word, step.anchor)
                places.canvas = places.canvas and places.canvas.advance(step.parent, step.word, step.anchor)
                places.gaps = places.gaps and places.gaps.advance(step.parent, step.anchor)
            places.length += 1
        self._collect(torch.arange(len(places.rows), device=places.rows.device))
        return self.results

    def _stop_at_limit(self) -> None:
        """End the hypotheses that may not grow any more, without `<eod>`."""
        places = self.places
        over = places.live & (self.limits[places.rows] <= places.length)[:, None]
        score = ranking_score(places.total, places.length, False, self.config)
        places.rank = torch.where(over, score, places.rank)
        places.cut = places.cut | over
        places.live = places.live & ~over

    def _drop_done(self, alive: Tensor) -> None:
        """Collect the sentences that are done and take them out of the batch."""
        self._collect((~alive).nonzero()[:, 0])
        keep = alive.nonzero()[:, 0]
        self.state = self.decoder.keep(self.state, keep)
        self.places.keep(keep)
        self.steps = [Step(*(part[keep] for part in step)) for step in self.steps]
        self.ends = [ends and ends.keep(keep) for ends in self.ends]

    def _collect(self, index: Tensor) -> None:
        """Read the hypotheses of some sentences off the steps."""
        steps = [Step(*(part[index].cpu().numpy() for part in step)) for step in self.steps]
        places = self.places
        rows, rank, cut = (part[index].cpu().numpy() for part in (places.rows, places.rank, places.cut))
        for i, row in enumerate(rows):
            self.results[row] = [
                Hypothesis(_trace_back(steps, i, b, self.given[row]), score=float(rank[i, b]), finished=not cut[i, b])
                for b in range(rank.shape[1])
                if rank[i, b] > -np.inf
            ]

        def close(i: int, step: int, place: int, end: float) -> GenerationTrace:
            return replace(_trace_back(steps[:step], i, place, self.given[rows[i]]), end_log_prob=float(end))

        if self.room is not None:
            noted = [ends and ends.keep(index) for ends in self.ends]
            self.room.hold(self.results, rows, noted, close, most=self.width)


def _trace_back(steps: Sequence[Step], sentence: int, place: int, given: int) -> GenerationTrace:
    """Follow the parents of one hypothesis back to the empty canvas; so many words of it were given."""
    end_log_prob = None
    insertions: list[tuple[int, int, float, float]] = []
    for step in reversed(steps):
        word = int(step.word[sentence, place])
        if word != CARRIED:
            log_prob = float(step.word_log_prob[sentence, place])
            slot_log_prob = float(step.slot_log_prob[sentence, place])
            if word == EOD:
                end_log_prob = log_prob + slot_log_prob
            else:
                insertions.append((word, int(step.anchor[sentence, place]), log_prob, slot_log_prob))
        place = int(step.parent[sentence, place])
    insertions.reverse()
    slots = anchors_to_slots([anchor for _, anchor, _, _ in insertions])
    return GenerationTrace(
        tuple(
            Insertion(word, slot, max(step - given, -1), word_log_prob=log_prob, slot_log_prob=slot_log_prob)
            for step, ((word, _, log_prob, slot_log_prob), slot) in enumerate(zip(insertions, slots, strict=True))
        ),
        end_log_prob=end_log_prob,
    )
