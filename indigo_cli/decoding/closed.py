"""What becomes of the hypotheses of a sentence whose length has a hard limit.

Whatever stood at a word boundary on the way can be closed there, at the price that the model says. What the search
itself ended comes first, and alone where there was room enough: then a limit changes nothing. Where there was not, all
that fit compete by their scores. A text without any word is only taken from the way if nothing else fits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from indigo_cli.core.trace import GenerationTrace, Hypothesis
from indigo_cli.decoding.places import HardLimit


class Ends(NamedTuple):
    """What the hypotheses of a batch would be if they were closed before a step or round, each (S, B).

    Args:
        possible: bool: it is live, holds whole words only, and is not too long.
        allowed: bool: the other rules let it end, too.
        score: What would rank it.
        end: Log-probability of `<eod>`; of systems that close slot by slot (S, B, G): that of each.
    """

    possible: Any
    allowed: Any
    score: Any
    end: Any

    def keep(self, index: Tensor) -> "Ends":
        """Go on with these sentences only."""
        return Ends(*(part[index] for part in self))

    def numpy(self) -> "Ends":
        """Return the same as arrays."""
        return Ends(*(part.cpu().numpy() for part in self))


class _Candidate(NamedTuple):
    score: float
    allowed: bool
    step: int
    place: int


@dataclass(frozen=True)
class Way:
    """Where the hypotheses of one sentence could have been closed.

    Args:
        noted: Before each step; None = nothing can be.
        sentence: Its row in them.
        close: Makes the trace of a step, a place and the log-probabilities that close it.
        limit: Of the sentence.
    """

    noted: Sequence[Ends | None]
    sentence: int
    close: Callable[[int, int, Any], GenerationTrace]
    limit: HardLimit

    def best(self, *, place: int | None = None, any_rule: bool = False) -> Iterator[Hypothesis]:
        """Yield what fits, best first.

        Args:
            place: Only of this sample; None = of all hypotheses.
            any_rule: Also what other rules forbid to end.
        """
        for candidate in sorted(self._candidates(place), reverse=True):
            if not (candidate.allowed or any_rule):
                continue
            ends = self.noted[candidate.step]
            assert ends is not None
            trace = self.close(candidate.step, candidate.place, ends.end[self.sentence, candidate.place])
            hypothesis = Hypothesis(trace, candidate.score, finished=True)
            if self.limit.fits(hypothesis):
                yield hypothesis

    def _candidates(self, place: int | None) -> Iterator[_Candidate]:
        i = self.sentence
        for step, ends in enumerate(self.noted):
            if ends is None:
                continue
            for b, possible in enumerate(ends.possible[i]):
                if possible and (place is None or b == min(place, ends.possible.shape[1] - 1)):
                    yield _Candidate(float(ends.score[i, b]), bool(ends.allowed[i, b]), step, b)


def best_within(found: Sequence[Hypothesis], way: Way, *, short: bool, most: int) -> list[Hypothesis]:
    """Return what a beam has for a sentence, see above, in any order.

    Args:
        found: By the search.
        way: What else it could have closed.
        short: It would have gone on where there was no room.
        most: So many of the way, at most.
    """
    fitting = [hypothesis for hypothesis in found if way.limit.fits(hypothesis)]
    if fitting and not short:
        return fitting
    fitting = [hypothesis for hypothesis in fitting if hypothesis.finished or len(hypothesis.trace)]
    known = {_key(hypothesis) for hypothesis in fitting if hypothesis.finished}
    closed: list[Hypothesis] = []
    for hypothesis in way.best():
        if len(hypothesis.trace) and _key(hypothesis) not in known:
            known.add(_key(hypothesis))
            closed.append(hypothesis)
        if len(closed) == most:
            break
    return fitting + closed or _last_resort(found, way)


def samples_within(found: Sequence[Hypothesis], way: Way) -> list[Hypothesis]:
    """Return samples, each that does not fit closed where it was best on its own way."""
    kept = []
    for place, hypothesis in enumerate(found):
        if not way.limit.fits(hypothesis):
            closed = list(way.best(place=place))
            words = [one for one in closed if len(one.trace)]
            hypothesis = (words or closed or _last_resort(found, way, place=place))[0]
        kept.append(hypothesis)
    return kept


def _last_resort(found: Sequence[Hypothesis], way: Way, *, place: int | None = None) -> list[Hypothesis]:
    """Return the best that fits whatever other rules say, with words if any have room."""
    closed = list(way.best(place=place, any_rule=True))
    words = [hypothesis for hypothesis in closed if len(hypothesis.trace)]
    return (words or closed or [found[place or 0]])[:1]


def _key(hypothesis: Hypothesis) -> tuple[tuple[int, int, int], ...]:
    return tuple((one.token, one.slot, one.round) for one in hypothesis.trace.insertions)
