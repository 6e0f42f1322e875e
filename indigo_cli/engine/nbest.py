"""n-best lists: the traces that a search found, as different strings in the order of their scores."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from indigo_cli.core.trace import GenerationTrace, Hypothesis, log_sum
from indigo_cli.decoding.config import LONGEST_LIST, DecodeConfig, ranking_score

LARGEST = LONGEST_LIST
WIDENINGS = (1, 2, 4)
"""The further searches for a list that is not full: beam sizes, in units of the larger of beam and list."""


@dataclass(frozen=True)
class Output:
    """One hypothesis of a line.

    Args:
        hypothesis: It.
        text: What it spells.
        wish: How long it was to be; None = nobody has said.
    """

    hypothesis: Hypothesis
    text: str
    wish: int | None = None


NOTHING = Output(Hypothesis(GenerationTrace(()), score=0.0, finished=False), "")
"""What a line without tokens gives."""


def wider_beams(beam_size: int, n_best: int) -> list[int]:
    """Return the beam sizes to go through while a list of `n_best` strings is not full; none for the best alone."""
    if n_best == 1:
        return []
    unit = max(beam_size, n_best)
    return [unit * factor for factor in WIDENINGS if factor == 1 or unit * factor <= LARGEST]


def join_searches(first: Sequence[Output], second: Iterable[Output]) -> list[Output]:
    """Return what two searches found, each trace once: the same words in the same order are one trace."""
    traces = {_key(output): output for output in first}
    for output in second:
        traces.setdefault(_key(output), output)
    return list(traces.values())


def _key(output: Output) -> tuple[object, ...]:
    insertions = output.hypothesis.trace.insertions
    return output.hypothesis.finished, *((insertion.token, insertion.slot) for insertion in insertions)


def rank_strings(outputs: Iterable[Output], config: DecodeConfig) -> list[Output]:
    """Return each string once, best first; those that ran out of steps come last.

    Unfinished ones are kept apart: one spells the beginning of something else, so it adds nothing to a finished string
    and is left out if there is one like it.
    """
    groups: dict[tuple[bool, str], list[Output]] = {}
    for output in outputs:
        groups.setdefault((output.hypothesis.finished, output.text), []).append(output)
    kept = [group for (finished, text), group in groups.items() if finished or (True, text) not in groups]
    found = [_add(group, config) if config.merge_strings else _best(group) for group in kept]
    return sorted(found, key=lambda output: (output.hypothesis.finished, output.hypothesis.score), reverse=True)


def _best(group: Sequence[Output]) -> Output:
    return max(group, key=lambda output: output.hypothesis.score)


def _add(group: Sequence[Output], config: DecodeConfig) -> Output:
    """Return the most probable trace of a string, ranked by the added probabilities of all of them."""
    best = max(group, key=lambda output: output.hypothesis.trace.log_prob)
    together = log_sum(output.hypothesis.trace.log_prob for output in group)
    score = ranking_score(together, len(best.hypothesis.trace), best.hypothesis.finished, config)
    return replace(best, hypothesis=replace(best.hypothesis, score=score, merged_log_prob=together))


def num_finished(ranked: Iterable[Output]) -> int:
    """Return how many hypotheses of a list ended."""
    return sum(output.hypothesis.finished for output in ranked)
