"""Outputs + untouched references -> scores with signatures, intervals, paired significance. Loads no model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from indigo_cli.core.settings import Count, NonNegativeInt
from indigo_cli.data.files import read_lines
from indigo_cli.engine.figures import corpus_figures, without_p
from indigo_cli.engine.outputs import read_output
from indigo_cli.engine.score_report import Comparison, Measured, SystemReport
from indigo_cli.engine.score_report import Report as Report
from indigo_cli.engine.wishes import UnitSetting, Wanted, Wishes, find_wanted
from indigo_cli.errors import DataError, UsageError
from indigo_cli.metrics import READS_WISH, build_metrics
from indigo_cli.metrics.metric import Metric, MetricOptions, corpus_statistics
from indigo_cli.metrics.tokenize import TokenizerName, choose_tokenizer, tokenisation_warnings

SEED = 12345  # sacreBLEU's: the same draws, so the intervals agree with `sacrebleu --confidence`
RESAMPLES = 1000
TRIALS = 10_000


@dataclass(frozen=True)
class EvaluateConfig:
    """The recipe's [evaluate] section.

    Args:
        metrics: Names in METRICS, in the order to show.
        tokenize: Evaluation tokeniser; `auto` goes by the target language (`choose_tokenizer`).
        significance: Test of the difference of two systems (`metrics/significance.py`).
        empty_reference: What RIBES does with a line that no reference has a word for: an error, or a score of 0.
        stemming: ROUGE compares the stems of English words (extra `rouge`).
        rouge_bytes: ROUGE cuts outputs after so many bytes and gives the recall, as for DUC; 0 = F1 of the whole.
        length_limit: Length that `length` compares all lines with; 0 = the wish of each in traces, else its reference.
        length_unit: What `length` counts; `auto` = what traces say, else characters.
        source_lengths: Least lengths of the rows of `evaluate --by-source-length`, in tokens.
    """

    metrics: list[str] = field(default_factory=lambda: ["bleu", "chrf"])
    tokenize: TokenizerName = "auto"
    significance: Literal["bootstrap", "randomisation"] = "bootstrap"
    empty_reference: Literal["error", "zero"] = "error"
    stemming: bool = False
    rouge_bytes: NonNegativeInt = 0
    length_limit: NonNegativeInt = 0
    length_unit: UnitSetting = "auto"
    source_lengths: list[Count] = field(default_factory=lambda: [10, 20, 30, 40, 50, 60])

    @property
    def options(self) -> MetricOptions:
        """What single metrics are told, as far as settings say it."""
        unit = "character" if self.length_unit == "auto" else self.length_unit
        return MetricOptions(self.stemming, self.rouge_bytes, unit, self.length_limit)


def assess(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    config: EvaluateConfig,
    language: str = "",
    baseline: tuple[str, Sequence[str]] | None = None,
    seed: int = SEED,
    resamples: int = RESAMPLES,
    trials: int = TRIALS,
    reference_name: str = "references",
    wishes: Mapping[str, Wishes] | None = None,
    parts: bool = False,
) -> Report:
    """Score every system against the same references.

    Args:
        systems: Text by name, one line an item.
        references: One list per reference file, each as long as every system's text.
        language: Code of the target language for `tokenize = "auto"`.
        baseline: Name and text of the system that the others are compared with, on the same draws. It may be one of
            `systems`; each of its p-values is then 1.
        seed: Of every draw.
        resamples: Of the bootstrap, whose intervals are always given.
        trials: Of approximate randomisation.
        reference_name: How to call the references in an error.
        wishes: By system, where outputs say which length they were to have.
        parts: Give the further figures of metrics, too.
    Raises:
        UsageError: a metric or tokeniser that cannot be had.
        DataError: a line without a reference, where a metric needs one (`empty_reference`).
        ValueError: texts of unequal length, or another text under the baseline's name.
    """
    named = dict(systems)
    if baseline is not None:
        if list(named.get(baseline[0], baseline[1])) != list(baseline[1]):
            raise ValueError(f"two texts under the name {baseline[0]!r}")
        named = {baseline[0]: baseline[1], **named}
    tokenizer = choose_tokenizer(config.tokenize, language)
    wanted = Wanted(config.options, {})
    if not READS_WISH.isdisjoint(config.metrics):
        wanted = find_wanted(config.options, config.length_unit, list(named), wishes or {})
    metrics = build_metrics(config.metrics, tokenize=tokenizer, options=wanted.options)
    if config.empty_reference == "error":
        _check_references(metrics, references, reference_name)
    statistics = {
        name: {
            metric_name: corpus_statistics(metric, lines, references, wanted.lengths.get(name))
            for metric_name, metric in metrics.items()
        }
        for name, lines in named.items()
    }
    measured = Measured(metrics, tokenizer, references, statistics, wanted.options)
    first = None if baseline is None else baseline[0]
    figures = corpus_figures(
        measured, first, config.significance, parts=parts, seed=seed, resamples=resamples, trials=trials
    )
    warnings = [
        text
        for name, lines in named.items()
        for text in tokenisation_warnings(name, lines, references, tokenizer=tokenizer)
    ]
    samples = resamples if config.significance == "bootstrap" else trials
    return Report(
        num_lines=len(references[0]),
        systems=tuple(SystemReport(name, figures[name]) for name in systems),
        measured=measured,
        baseline=None if first is None else SystemReport(first, without_p(figures[first])),
        comparison=None if first is None else Comparison(config.significance, samples, seed),
        higher_is_better={name: metric.higher_is_better for name, metric in metrics.items()},
        decimals={name: metric.decimals for name, metric in metrics.items()},
        titles={name: metric.title for name, metric in metrics.items()},
        warnings=tuple(dict.fromkeys([*wanted.warnings, *warnings])),
    )


def _check_references(metrics: Mapping[str, Metric], references: Sequence[Sequence[str]], name: str) -> None:
    needing = [metric_name for metric_name, metric in metrics.items() if metric.needs_reference]
    for number, lines in enumerate(zip(*references, strict=True), start=1):
        if needing and not any(line.strip() for line in lines):
            raise DataError(
                f"this line is empty in every reference, and {', '.join(needing)} cannot score it",
                where=f"{name}:{number}",
                fix="--set evaluate.empty_reference=zero counts such lines as 0",
            )


def assess_files(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    config: EvaluateConfig,
    source: str | None = None,
    baseline: str | None = None,
    language: str = "",
    source_language: str = "",
    seed: int = SEED,
    parts: bool = False,
) -> Report:
    """Score files: text or traces as hypotheses, text as references; `-` may be standard input once.

    Args:
        source: Source text, for scores by its length; no metric reads it.
        source_language: Overrules the source language that traces name.
        baseline: File that the others are compared with; of several hypotheses the first, where none is named.
        language: Overrules the target language that traces name.
        parts: Give the further figures of metrics, too.
    Raises: DataError for files of unequal length (both names and both counts) and for empty ones.
    """
    hypotheses = list(dict.fromkeys(hypotheses))
    if baseline is None and len(hypotheses) > 1:
        baseline = hypotheses[0]
    outside = [baseline] if baseline is not None and baseline not in hypotheses else []
    paths = [*hypotheses, *references, *outside, *([source] if source else [])]
    if paths.count("-") > 1:
        raise UsageError("standard input (-) can stand for one file only", fix="write the other one to a file")
    reference_lines = [list(read_lines(path)) for path in references]
    expected = len(reference_lines[0])
    for path, lines in zip(references, reference_lines, strict=True):
        _check_count(path, len(lines), references[0], expected)
    if not expected:
        raise DataError("there is no line to score", where=references[0], fix="give the references of the hypotheses")
    outputs = {path: read_output(path, expected) for path in [*hypotheses, *outside]}
    for path, output in outputs.items():
        _check_count(path, len(output.lines), references[0], expected)
    source_lines = list(read_lines(source)) if source else None
    if source and source_lines is not None:
        _check_count(source, len(source_lines), references[0], expected)
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
        reference_name=references[0],
        wishes={path: output.wishes for path, output in outputs.items() if output.wishes is not None},
        parts=parts,
    )
    gaps = [
        f"{path}: {output.missing} of {expected} lines have no hypothesis and count as empty"
        for path, output in outputs.items()
        if output.missing
    ]
    told = {output.source_language for output in outputs.values()} - {""}
    code = source_language or (next(iter(told)) if len(told) == 1 else "")
    read = choose_tokenizer("none" if config.tokenize == "none" else "auto", code)
    measured = replace(report.measured, sources=source_lines, source_tokenizer=read)
    return replace(report, measured=measured, warnings=(*gaps, *report.warnings))


def _check_count(path: str, count: int, reference: str, expected: int) -> None:
    if count != expected:
        raise DataError(
            f"{path} has {count} lines but {reference} has {expected}",
            where=path,
            fix="line N of every file must belong to the same sentence; empty lines count",
        )
