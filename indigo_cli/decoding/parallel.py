"""The search of systems that fill many slots at once: round by round, until every slot is closed.

It knows the protocol, never a model; how a round is decided is a part of its own.

Shape letters: S sentences, B hypotheses a sentence, G open slots (the most of any), V words of the softmax.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.core.vocab import EOD, PAD
from indigo_cli.data.batch import Source
from indigo_cli.decoding.closed import Ends
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.places import GivenWords, Sentence
from indigo_cli.decoding.replay import Replay, Rounds
from indigo_cli.decoding.round_beam import RoundBeam
from indigo_cli.decoding.round_room import RoundRoom
from indigo_cli.decoding.round_sampling import RoundSampler
from indigo_cli.decoding.rounds import Decision, Greedy, Growing, RoundChooser, RoundRules
from indigo_cli.decoding.search import EMPTY_SHARE
from indigo_cli.models.protocol import Canvas, ParallelDecoder
from indigo_cli.nn.units import UnitCounter

NO_LIMIT = 1 << 40
"""Most words of what is only measured."""
OPEN, GAP = object(), object()
"""An open slot, and one that a canvas keeps closed."""


@torch.inference_mode()
def search_rounds(
    decoder: ParallelDecoder,
    source: Source,
    config: DecodeConfig,
    sentences: Sequence[Sentence],
    *,
    width: int,
    seed: int,
    continuing: Sequence[int] = (),
    counter: UnitCounter | None = None,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each sentence: never none, and the same whatever its neighbours in the batch are.

    From a beam they come best first, those that ended before those that were cut; samples in the order of their draws.
    Where there is no room for a word, slots are closed by force: this costs what the model says, and a hypothesis with
    a slot that would have taken a word is unfinished. Where a length has a hard limit, all fit, see `closed.py`.

    Args:
        decoder: A parallel system in evaluation mode, whose slots end one by one.
        source: S sources.
        config: How to search and to rank. `width` is in place of `beam_size`; the lengths are those of `sentences`.
        sentences: One a source.
        width: Most hypotheses kept, or number of samples.
        seed: Of the samples.
        continuing: Ids of pieces whose word goes on: none may end up right before a given word, or at the end of a text
            whose length is limited.
        counter: Of the units of hard limits.
    """
    if decoder.ends_at_once:
        raise ValueError("this system ends in any slot at once: it is decoded serially")
    chooser: RoundChooser
    if config.search == "sample":
        chooser = RoundSampler(config, sentences, width=width, seed=seed)
    else:
        chooser = Greedy() if width == 1 else RoundBeam(config, width=width)
    limited = RoundRoom.where_needed(config, counter, sentences, continuing, source.values.device)
    results = _Search(decoder, source, config, sentences, chooser, continuing, width=width, limited=limited).run()
    if config.search == "sample":  # a canvas that is closed everywhere was never made several
        return [found if len(found) == width else found * width for found in results]
    for found in results:
        found.sort(key=lambda hypothesis: (hypothesis.finished, hypothesis.score), reverse=True)
    return results


@torch.inference_mode()
def replay_rounds(
    decoder: ParallelDecoder, source: Source, canvases: Sequence[GivenWords], decisions: Sequence[Rounds]
) -> list[GenerationTrace]:
    """Return what known hypotheses cost: each slot is decided as it was.

    Args:
        decoder: See `search_rounds`.
        source: S sources.
        canvases: What stood before.
        decisions: What each did, see `rounds_of`.
    """
    anything = DecodeConfig(ban_unk=False)
    sentences = [Sentence(line=0, min_length=0, max_length=NO_LIMIT, canvas=canvas) for canvas in canvases]
    results = _Search(decoder, source, anything, sentences, Replay(decisions), ()).run()
    return [found[0].trace for found in results]


class _Search:
    """State of one search."""

    def __init__(
        self,
        decoder: ParallelDecoder,
        source: Source,
        config: DecodeConfig,
        sentences: Sequence[Sentence],
        chooser: RoundChooser,
        continuing: Sequence[int],
        *,
        width: int = 1,
        limited: RoundRoom | None = None,
    ) -> None:
        device = source.values.device
        self.decoder, self.config, self.chooser = decoder, config, chooser
        self.width, self.limited = width, limited
        self.canvases = [sentence.canvas for sentence in sentences]
        self.rules = RoundRules(config, sentences, continuing, device, limited)
        self.growing = Growing.start(sentences, device)
        self.source = source
        self.decisions: list[Decision] = []
        self.ends: list[Ends] = []
        self.results: list[list[Hypothesis]] = [[] for _ in sentences]

    def run(self) -> list[list[Hypothesis]]:
        """Search until no sentence has an open slot."""
        growing, state = self.growing, None
        while True:
            alive = growing.live.any(dim=1)
            num_alive = int(alive.sum())
            if num_alive == 0:
                break
            if state is None:
                state = self.decoder.start(self.source, canvas_of(self.canvases, growing.rows.device))
            if num_alive <= (1.0 - EMPTY_SHARE) * len(alive):
                state = self._drop_done(state, alive)
            decision = self.chooser.choose(self.rules(self.decoder.slots(state), growing), growing)
            self.decisions.append(decision._replace(real=None))
            if self.limited is not None:
                self.ends.append(self.limited.taken())
                self.limited.grow(decision.parent, decision.word)
            growing.grow(decision, self.config)
            if bool(growing.live.any()):
                closed = decision.word.masked_fill(decision.word == PAD, EOD)
                state = self.decoder.insert(state, decision.parent, closed)
        self._collect(torch.arange(len(growing.rows), device=growing.rows.device))
        return self.results

    def _drop_done(self, state: object, alive: Tensor) -> object:
        """Collect the sentences that are done and take them out of the batch."""
        self._collect((~alive).nonzero()[:, 0])
        keep = alive.nonzero()[:, 0]
        self.growing.keep(keep)
        if self.limited is not None:
            self.limited.keep(keep)
            self.ends = [ends.keep(keep) for ends in self.ends]
        self.decisions = [Decision(*(part if part is None else part[keep] for part in one)) for one in self.decisions]
        return self.decoder.keep(state, keep)

    def _collect(self, index: Tensor) -> None:
        """Read the hypotheses of some sentences off the decisions."""
        rounds = [tuple(part[index].cpu().numpy() for part in one[:3]) for one in self.decisions]
        growing = self.growing
        rows, rank, forced = (part[index].cpu().numpy() for part in (growing.rows, growing.rank, growing.forced))
        for i, row in enumerate(rows):
            for b in range(rank.shape[1]):
                if rank[i, b] == -np.inf:
                    continue
                trace = self._trace(rounds, i, b, self.canvases[row])
                self.results[row].append(Hypothesis(trace, score=float(rank[i, b]), finished=not forced[i, b]))

        def close(i: int, step: int, place: int, end: np.ndarray) -> GenerationTrace:
            return self._trace(rounds[:step], i, place, self.canvases[rows[i]], end.tolist())

        if self.limited is not None:
            self.limited.hold(self.results, rows, [ends.keep(index) for ends in self.ends], close, most=self.width)

    def _trace(
        self,
        rounds: Sequence[tuple[np.ndarray, ...]],
        sentence: int,
        place: int,
        canvas: GivenWords | None,
        closings: Sequence[float] = (),
    ) -> GenerationTrace:
        """Follow the parents of one hypothesis back; then its open slots may have been closed at these prices."""
        decided = [[(EOD, float(close)) for close in closings]] if len(closings) else []
        for parent, word, log_prob in reversed(rounds):
            decided.append(list(zip(word[sentence, place].tolist(), log_prob[sentence, place].tolist(), strict=True)))
            place = parent[sentence, place]
        return trace_of(reversed(decided), canvas)


def canvas_of(canvases: Sequence[GivenWords | None], device: torch.device) -> Canvas | None:
    """Return the canvases of a batch for the decoder; None where nothing is given at all."""
    if all(canvas is None for canvas in canvases):
        return None
    given = [canvas or GivenWords((), (True,)) for canvas in canvases]
    lengths = [len(canvas.words) for canvas in given]
    most = max(lengths)
    words = [[*canvas.words, *[PAD] * (most - len(canvas.words))] for canvas in given]
    opened = [[*canvas.open, *[False] * (most - len(canvas.words))] for canvas in given]
    return Canvas(
        torch.tensor(words, dtype=torch.int64, device=device).view(len(given), most),
        torch.tensor(lengths, device=device),
        torch.tensor(opened, device=device),
    )


def trace_of(rounds: Iterable[Iterable[tuple[int, float]]], canvas: GivenWords | None) -> GenerationTrace:
    """Return how a hypothesis grew.

    Args:
        rounds: What was decided in each, from left to right, padding last: words and their log-probabilities.
        canvas: What stood before.
    """
    insertions: list[Insertion] = []
    open_gaps = None
    items: list[object] = [OPEN]  # words, slots and, in place of closed slots, log p(no insertion)
    if canvas is not None:
        insertions = [Insertion(word, i, -1, 0.0, 0.0) for i, word in enumerate(canvas.words)]
        if canvas.words:
            open_gaps = tuple(gap for gap, is_open in enumerate(canvas.open) if is_open)
        gaps = [OPEN if is_open else GAP for is_open in canvas.open]
        items = [item for gap, word in zip(gaps, canvas.words, strict=False) for item in (gap, word)] + gaps[-1:]
    for number, decided in enumerate(rounds):
        decisions = iter(decided)
        grown: list[object] = []
        words = 0
        for item in items:
            if item is OPEN:
                word, log_prob = next(decisions)
                if word == EOD:
                    grown.append(log_prob)
                    continue
                insertions.append(Insertion(word, words, number, log_prob, 0.0))
                grown += (OPEN, word, OPEN)
                words += 1
            else:
                grown.append(item)
                words += isinstance(item, int)
        items = grown
    closings = tuple(item for item in items if isinstance(item, float))
    return GenerationTrace(tuple(insertions), closings, open_gaps=open_gaps)
