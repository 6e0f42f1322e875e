"""The figures of systems: scores with intervals, and p-values against a baseline, of metrics and of their parts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from indigo_cli.engine.score_report import Measured, MetricScore
from indigo_cli.metrics.metric import Scores, Statistics, corpus_score
from indigo_cli.metrics.significance import (
    Bootstrap,
    Randomisation,
    bootstrap_p_value,
    interval,
    randomisation_p_value,
)

WHOLE = ""
"""In place of a part's name: the metric itself."""


@dataclass(frozen=True)
class _Figure:
    """A metric or a part of one, on the statistics of a system."""

    system: str
    metric: str
    part: str
    scorer: Scores
    statistics: Statistics


def corpus_figures(
    measured: Measured, baseline: str | None, test: str, *, parts: bool, seed: int, resamples: int, trials: int
) -> dict[str, dict[str, MetricScore]]:
    """Return the figures by system and metric.

    Args:
        baseline: The system that p-values compare with; None gives none.
        test: `bootstrap` or `randomisation`.
        parts: Whether each metric's parts come with it.
    """
    num_references, num_lines = len(measured.references), len(measured.references[0])
    bootstrap = Bootstrap(num_lines, resamples=resamples, seed=seed)
    randomisation = Randomisation(num_lines, trials=trials, seed=seed)
    wanted = _all_figures(measured, parts=parts)
    drawn = bootstrap.scores_of([(figure.scorer, figure.statistics) for figure in wanted])
    keys = [(figure.system, figure.metric, figure.part) for figure in wanted]
    scores = {key: corpus_score(figure.scorer, figure.statistics) for key, figure in zip(keys, wanted, strict=True)}
    resampled = dict(zip(keys, drawn, strict=True))

    def p_value(figure: _Figure) -> float | None:
        if baseline is None:
            return None
        if figure.system == baseline:
            return 1.0
        own, other = (figure.system, figure.metric, figure.part), (baseline, figure.metric, figure.part)
        difference = scores[own] - scores[other]
        if test == "bootstrap":
            return bootstrap_p_value(difference, resampled[own] - resampled[other])
        rows = figure.statistics, measured.statistics[baseline][figure.metric]
        return randomisation_p_value(difference, randomisation.differences(figure.scorer, *rows))

    figures: dict[str, dict[str, MetricScore]] = {system: {} for system in measured.statistics}
    for key, figure in zip(keys, wanted, strict=True):
        metric = measured.metrics[figure.metric]
        signature = metric.signature(num_references=num_references, resamples=resamples, seed=seed)
        found = MetricScore(scores[key], *interval(resampled[key]), signature, p_value(figure))
        if figure.part == WHOLE:
            figures[figure.system][figure.metric] = found
        else:
            figures[figure.system][figure.metric].parts[figure.part] = found
    return figures


def _all_figures(measured: Measured, *, parts: bool) -> list[_Figure]:
    """Return what is to be computed, a metric before its parts."""
    scorers: dict[tuple[str, str], Scores] = {}
    for name, metric in measured.metrics.items():
        scorers[name, WHOLE] = metric
        if parts:
            scorers |= {(name, part_name): part for part_name, part in metric.parts.items()}
    return [
        _Figure(system, name, part_name, scorer, statistics[name])
        for system, statistics in measured.statistics.items()
        for (name, part_name), scorer in scorers.items()
    ]


def without_p(scores: Mapping[str, MetricScore]) -> dict[str, MetricScore]:
    """Return the figures without p-values, for a baseline."""
    return {name: replace(score, p_value=None, parts=without_p(score.parts)) for name, score in scores.items()}
