"""What an evaluation found, and its JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from indigo_cli.metrics.metric import USUAL, Metric, MetricOptions, Statistics

DIGITS = 8
"""After the point, in JSON."""


@dataclass(frozen=True)
class MetricScore:
    """One figure: the score of the whole corpus, its 95 % bootstrap interval, and how to compute it again.

    `p_value` is that of the paired test against the baseline, None where there is no baseline; `parts` are the metric's
    further figures, where they were asked for.
    """

    score: float
    low: float
    high: float
    signature: str
    p_value: float | None = None
    parts: dict[str, "MetricScore"] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return `{score, ci}`, rounded: a perfect BLEU is 100.0, not 100.00000000000004."""
        return {"score": round(self.score, DIGITS), "ci": [round(self.low, DIGITS), round(self.high, DIGITS)]}


@dataclass(frozen=True)
class SystemReport:
    """The figures of one system, by metric name in the order asked for."""

    name: str
    scores: dict[str, MetricScore]

    def as_json(self) -> dict[str, Any]:
        """Return `{metric: {score, signature, ci}}`; with parts also `parts: {part: {score, ci}}`."""
        result = {}
        for name, value in self.scores.items():
            figure = value.as_json()
            result[name] = {"score": figure["score"], "signature": value.signature, "ci": figure["ci"]}
            if value.parts:
                result[name]["parts"] = {part: more.as_json() for part, more in value.parts.items()}
        return result

    def p_values(self) -> dict[str, float | None]:
        """Return `{metric: p_value}`."""
        return {name: value.p_value for name, value in self.scores.items()}

    def p_values_as_json(self) -> dict[str, Any]:
        """Return `{p_value: {metric: p}}`; with parts also `parts_p_value: {metric: {part: p}}`."""
        parts = {
            name: {part: more.p_value for part, more in value.parts.items()}
            for name, value in self.scores.items()
            if value.parts
        }
        return {"p_value": self.p_values(), **({"parts_p_value": parts} if parts else {})}


@dataclass(frozen=True)
class Measured:
    """Statistics of every line of every system, from which any score of any part of the corpus is a sum away.

    Args:
        tokenizer: What `choose_tokenizer` returned.
        references: One list per reference file.
        statistics: By system, the baseline included, then by metric.
        options: What the metrics were built with.
        sources: Source text, where it was given.
        source_tokenizer: As `tokenizer`, for the source.
    """

    metrics: dict[str, Metric]
    tokenizer: str
    references: Sequence[Sequence[str]]
    statistics: dict[str, dict[str, Statistics]]
    options: MetricOptions = USUAL
    sources: Sequence[str] | None = None
    source_tokenizer: str = "13a"


@dataclass(frozen=True)
class Comparison:
    """How p-values were computed: `bootstrap` or `randomisation`, how many corpora were drawn, the seed."""

    name: str
    samples: int
    seed: int

    def describe(self) -> str:
        """Return it in words."""
        if self.name == "bootstrap":
            return f"paired bootstrap, {self.samples:,} resamples, seed {self.seed}"
        return f"paired approximate randomisation, {self.samples:,} trials, seed {self.seed}"


@dataclass(frozen=True)
class Report:
    """What an evaluation found; `warnings` are for stderr, `measured` serves scores of lines and of parts.

    With a baseline, `comparison` says how the p-values came about. The baseline may be one of the systems.
    """

    num_lines: int
    systems: tuple[SystemReport, ...]
    measured: Measured = field(compare=False, repr=False)
    baseline: SystemReport | None = None
    comparison: Comparison | None = None
    higher_is_better: dict[str, bool] = field(default_factory=dict)
    decimals: dict[str, int] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def rows(self) -> tuple[SystemReport, ...]:
        """Return the systems of a table, the baseline first, each once."""
        if self.baseline is None:
            return self.systems
        return (self.baseline, *(system for system in self.systems if system.name != self.baseline.name))

    def best(self) -> dict[str, set[str]]:
        """Return by metric the systems whose figure as shown nobody beats; none if there is nobody to beat."""
        rows = self.rows()
        result: dict[str, set[str]] = {}
        for name, higher in self.higher_is_better.items():
            shown = {row.name: float(f"{row.scores[name].score:.{self.decimals[name]}f}") for row in rows}
            wanted = max(shown.values()) if higher else min(shown.values())
            result[name] = {system for system, score in shown.items() if score == wanted} if len(rows) > 1 else set()
        return result

    def as_json(self) -> dict[str, Any]:
        """Return the object of `evaluate --format json`.

        `n`, `metrics` and `baseline` are those of the first system. Several systems add `systems`, one object each with
        `name`, `metrics` and, with a baseline, `p_value` by metric.
        """
        first = self.systems[0]
        result: dict[str, Any] = {"n": self.num_lines, "metrics": first.as_json()}
        if self.baseline is not None and self.comparison is not None:
            result["baseline"] = {
                "name": self.baseline.name,
                "metrics": self.baseline.as_json(),
                "test": vars(self.comparison),
                **first.p_values_as_json(),
            }
        if len(self.systems) > 1:
            result["systems"] = [
                {"name": system.name, "metrics": system.as_json()}
                | ({} if self.baseline is None else system.p_values_as_json())
                for system in self.systems
            ]
        return result
