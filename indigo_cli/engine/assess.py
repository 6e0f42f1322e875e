"""Hypotheses + untouched references -> scores with signatures, intervals, paired significance. Loads no model."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indigo_cli.core.format import check_header
from indigo_cli.data.files import read_lines
from indigo_cli.data.traces_file import FORMAT, VERSION, parse_row
from indigo_cli.errors import DataError, UsageError
from indigo_cli.metrics import build_metrics
from indigo_cli.metrics.metric import Bootstrap, corpus_score, corpus_statistics, interval, p_value
from indigo_cli.metrics.tokenize import TokenizerName, choose_tokenizer, tokenisation_warnings

SEED = 12345  # sacreBLEU's: the same draws, so the intervals agree with `sacrebleu --confidence`
RESAMPLES = 1000
DIGITS = 8  # after the point, in JSON


@dataclass(frozen=True)
class EvaluateConfig:
    """The recipe's [evaluate] section.

    Args:
        metrics: Names in METRICS, in the order to show.
        tokenize: Evaluation tokeniser; `auto` goes by the target language (`choose_tokenizer`).
    """

    metrics: list[str] = field(default_factory=lambda: ["bleu", "chrf"])
    tokenize: TokenizerName = "auto"


@dataclass(frozen=True)
class MetricScore:
    """One figure: the score of the whole corpus, its 95 % bootstrap interval, and how to compute it again.

    `p_value` is that of the paired bootstrap against the baseline, None where there is no baseline.
    """

    score: float
    low: float
    high: float
    signature: str
    p_value: float | None = None


@dataclass(frozen=True)
class SystemReport:
    """The figures of one system, by metric name in the order asked for."""

    name: str
    scores: dict[str, MetricScore]

    def as_json(self) -> dict[str, Any]:
        """Return `{metric: {score, signature, ci}}`, rounded: a perfect BLEU is 100.0, not 100.00000000000004."""
        return {
            name: {
                "score": round(value.score, DIGITS),
                "signature": value.signature,
                "ci": [round(value.low, DIGITS), round(value.high, DIGITS)],
            }
            for name, value in self.scores.items()
        }

    def p_values(self) -> dict[str, float | None]:
        """Return `{metric: p_value}`."""
        return {name: value.p_value for name, value in self.scores.items()}


@dataclass(frozen=True)
class Report:
    """What an evaluation found; `warnings` are for stderr."""

    num_lines: int
    systems: tuple[SystemReport, ...]
    baseline: SystemReport | None = None
    higher_is_better: dict[str, bool] = field(default_factory=dict)
    decimals: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the object of `evaluate --format json`.

        `n`, `metrics` and `baseline` are those of the first system. Several systems add `systems`, one object each with
        `name`, `metrics` and, with a baseline, `p_value` by metric.
        """
        first = self.systems[0]
        result: dict[str, Any] = {"n": self.num_lines, "metrics": first.as_json()}
        if self.baseline is not None:
            result["baseline"] = {
                "name": self.baseline.name,
                "metrics": self.baseline.as_json(),
                "p_value": first.p_values(),
            }
        if len(self.systems) > 1:
            result["systems"] = [
                {"name": system.name, "metrics": system.as_json()}
                | ({} if self.baseline is None else {"p_value": system.p_values()})
                for system in self.systems
            ]
        return result


@dataclass(frozen=True)
class Output:
    """The output of one system: its text, and what its file says of the target language (empty for plain text).

    `missing` counts lines of which traces say nothing, such as pairs of a split that preprocessing dropped.
    """

    lines: list[str]
    language: str = ""
    missing: int = 0


def assess(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    config: EvaluateConfig,
    language: str = "",
    baseline: tuple[str, Sequence[str]] | None = None,
    seed: int = SEED,
    resamples: int = RESAMPLES,
) -> Report:
    """Score every system against the same references.

    Args:
        systems: Text by name, one line an item.
        references: One list per reference file, each as long as every system's text.
        language: Code of the target language for `tokenize = "auto"`.
        baseline: Name and text of the system that the others are compared with, on the same resamples.
        seed: Of the bootstrap.
    Raises: UsageError for a metric or tokeniser that cannot be had; ValueError for texts of unequal length.
    """
    tokenizer = choose_tokenizer(config.tokenize, language)
    metrics = build_metrics(config.metrics, tokenize=tokenizer)
    num_lines = len(references[0])
    bootstrap = Bootstrap(num_lines, resamples=resamples, seed=seed)
    named = [*([] if baseline is None else [baseline]), *systems.items()]
    figures: list[dict[str, MetricScore]] = [{} for _ in named]
    for metric_name, metric in metrics.items():
        signature = metric.signature(num_references=len(references), resamples=resamples, seed=seed)
        compared: tuple[float, NDArray[np.float64]] | None = None  # the baseline's score and its resamples
        for (_, lines), scores in zip(named, figures, strict=True):
            statistics = corpus_statistics(metric, lines, references)
            score = corpus_score(metric, statistics)
            resampled = bootstrap.scores(metric, statistics)
            p = None if compared is None else p_value(score - compared[0], resampled - compared[1])
            scores[metric_name] = MetricScore(score, *interval(resampled), signature, p)
            if baseline is not None and compared is None:
                compared = (score, resampled)
    reports = [SystemReport(name, scores) for (name, _), scores in zip(named, figures, strict=True)]
    warnings = [
        text for name, lines in named for text in tokenisation_warnings(name, lines, references, tokenizer=tokenizer)
    ]
    return Report(
        num_lines=num_lines,
        systems=tuple(reports if baseline is None else reports[1:]),
        baseline=None if baseline is None else reports[0],
        higher_is_better={name: metric.higher_is_better for name, metric in metrics.items()},
        decimals={name: metric.decimals for name, metric in metrics.items()},
        warnings=tuple(dict.fromkeys(warnings)),
    )


def assess_files(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    config: EvaluateConfig,
    source: str | None = None,
    baseline: str | None = None,
    language: str = "",
    seed: int = SEED,
) -> Report:
    """Score files: text or traces as hypotheses, text as references; `-` may be standard input once.

    Args:
        source: Source text; no metric of this version reads it, only its line count is checked.
        language: Overrules the target language that traces name.
    Raises: DataError for files of unequal length (both names and both counts) and for empty ones.
    """
    paths = [*hypotheses, *references, *([baseline] if baseline else []), *([source] if source else [])]
    if paths.count("-") > 1:
        raise UsageError("standard input (-) can stand for one file only", fix="write the other one to a file")
    reference_lines = [list(read_lines(path)) for path in references]
    expected = len(reference_lines[0])
    for path, lines in zip(references, reference_lines, strict=True):
        _check_count(path, len(lines), references[0], expected)
    if not expected:
        raise DataError("there is no line to score", where=references[0], fix="give the references of the hypotheses")
    outputs = {path: read_output(path, expected) for path in [*hypotheses, *([baseline] if baseline else [])]}
    for path, output in outputs.items():
        _check_count(path, len(output.lines), references[0], expected)
    if source:
        _check_count(source, sum(1 for _ in read_lines(source)), references[0], expected)
    languages = {output.language for output in outputs.values()} - {""}
    if not language and len(languages) > 1:
        raise DataError(
            f"the traces name different target languages: {', '.join(sorted(languages))}",
            where=", ".join(outputs),
            fix="score them one by one, or --set data.target_lang=CODE",
        )
    report = assess(
        {path: outputs[path].lines for path in hypotheses},
        reference_lines,
        config=config,
        language=language or next(iter(languages), ""),
        baseline=None if baseline is None else (baseline, outputs[baseline].lines),
        seed=seed,
    )
    gaps = [
        f"{path}: {output.missing} of {expected} lines have no hypothesis and count as empty"
        for path, output in outputs.items()
        if output.missing
    ]
    return replace(report, warnings=(*gaps, *report.warnings))


def read_output(path: str, num_lines: int = 0) -> Output:
    """Read text, or the first-ranked text of every line of a traces file (told apart by its header line).

    Args:
        num_lines: Traces that end before get empty lines at their end, as they do for every id left out.
    """
    lines = list(read_lines(path))
    header = _as_object(lines[0]) if lines else None
    if header is None or header.get("format") != FORMAT:
        return Output(lines)
    check_header(header, where=f"{path}:1", format=FORMAT, version=VERSION)
    best = _best_texts(path, lines[1:])
    count = max(num_lines, max(best, default=-1) + 1)
    texts = [best.get(line, "") for line in range(count)]
    return Output(texts, language=str(header.get("target_lang", "")), missing=count - len(best))


def _best_texts(path: str, lines: Sequence[str]) -> dict[int, str]:
    """Return the text of rank 1 by id; no id may have two."""
    best: dict[int, str] = {}
    for number, line in enumerate(lines, start=2):
        where = f"{path}:{number}"
        fields = _as_object(line)
        if fields is None:
            raise DataError("this line is not a JSON object", where=where)
        record = parse_row(fields, where)
        if record.rank != 1:
            continue
        if record.id in best:
            raise DataError(f"a second hypothesis of rank 1 for id {record.id}", where=where)
        best[record.id] = record.text
    return best


def _as_object(line: str) -> dict[str, Any] | None:
    """Return the JSON object that a line is, None if it is anything else."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _check_count(path: str, count: int, reference: str, expected: int) -> None:
    if count != expected:
        raise DataError(
            f"{path} has {count} lines but {reference} has {expected}",
            where=path,
            fix="line N of every file must belong to the same sentence; empty lines count",
        )
