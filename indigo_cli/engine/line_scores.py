"""Scores of parts of a corpus, from the statistics of its lines: of every line, and of lines of similar length."""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from indigo_cli.data.files import open_output
from indigo_cli.engine.score_report import DIGITS, Measured
from indigo_cli.errors import UsageError
from indigo_cli.metrics import build_sentence_metric
from indigo_cli.metrics.metric import Metric, corpus_score
from indigo_cli.metrics.significance import Bootstrap, interval
from indigo_cli.metrics.tokenize import load_tokenizer

FORMAT = "indigo-sentence-scores"
VERSION = 1
BUCKETS = 6


def sentence_metrics(measured: Measured) -> dict[str, Metric]:
    """Return the metrics for single lines; BLEU takes effective order, and its signature says so."""
    return {
        name: build_sentence_metric(name, tokenize=measured.tokenizer, options=measured.options)
        for name in measured.metrics
    }


def sentence_signatures(measured: Measured) -> dict[str, str]:
    """Return the signatures of the scores of single lines: one line has no resamples and no seed."""
    signatures = {}
    for name, metric in sentence_metrics(measured).items():
        signature = metric.signature(num_references=len(measured.references), resamples=1, seed=0)
        kept = [part for part in signature.split("|") if part.split(":")[0] not in ("bs", "seed")]
        signatures[name] = "|".join(kept)
    return signatures


def sentence_scores(measured: Measured) -> Iterator[tuple[int, str, dict[str, float]]]:
    """Yield the 0-based line, the system and the scores by metric: all systems of a line, then the next line."""
    metrics = sentence_metrics(measured)
    for line in range(len(measured.references[0])):
        for system, statistics in measured.statistics.items():
            scores = {name: metric.score(statistics[name][line].tolist()) for name, metric in metrics.items()}
            yield line, system, {name: round(score, DIGITS) for name, score in scores.items()}


def write_sentence_scores(measured: Measured, path: Path | str, *, overwrite: bool = False) -> None:
    """Write one row a line and system: JSON with a header line that holds the signatures, or tab-separated columns.

    Args:
        path: If it ends in `.jsonl`, compressed or not, the rows are JSON, else a table whose first line names its
            columns `id`, `system` and the metrics; tabs and line ends in a system's name become spaces there.
    Raises: UsageError where a file stands and `overwrite` is not set.
    """
    names = list(measured.metrics)
    as_json = re.search(r"\.jsonl(\.(gz|bz2|xz))?$", str(path)) is not None
    with open_output(path, overwrite) as out:
        if as_json:
            out.write(_json({"format": FORMAT, "version": VERSION, "signatures": sentence_signatures(measured)}))
            for line, system, scores in sentence_scores(measured):
                out.write(_json({"id": line, "system": system, **scores}))
        else:
            out.write("\t".join(["id", "system", *names]) + "\n")
            for line, system, scores in sentence_scores(measured):
                cells = [str(line), " ".join(system.split()), *(f"{scores[name]:g}" for name in names)]
                out.write("\t".join(cells) + "\n")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


@dataclass(frozen=True)
class LengthRow:
    """Scores of the lines whose first reference (or source) has `low` to `high` tokens.

    Args:
        high: None = as many as there are.
        scores: (score, lower and upper bound of its 95 % interval) by system, of these lines as a corpus.
    """

    low: int
    high: int | None
    num_lines: int
    scores: dict[str, tuple[float, float, float]]

    @property
    def label(self) -> str:
        """The range as text."""
        if self.high is None:
            return f"≥ {self.low}"
        return f"{self.low}" if self.low == self.high else f"{self.low}–{self.high}"  # noqa: RUF001


@dataclass(frozen=True)
class ScoresByLength:
    """One metric over rows of lines, the shortest lines first.

    Args:
        tokenizer: Names the tokens that were counted.
        side: Whose length: the rows of `reference` are buckets, those of `source` have a least length only, so that
            each holds the lines of the next one, too.
    """

    metric: str
    title: str
    decimals: int
    higher_is_better: bool
    tokenizer: str
    rows: tuple[LengthRow, ...]
    side: Literal["reference", "source"] = "reference"

    @property
    def what(self) -> str:
        """What the rows go by."""
        return f"{'least ' if self.side == 'source' else ''}length of the {self.side}, in tokens ({self.tokenizer})"

    def as_json(self) -> dict[str, Any]:
        """Return `{metric, tokens, buckets: [{low, high, n, scores: {system: {score, ci}}}]}`; `high` may be null."""
        buckets = [
            {
                "low": row.low,
                "high": row.high,
                "n": row.num_lines,
                "scores": {
                    system: {"score": round(score, DIGITS), "ci": [round(low, DIGITS), round(high, DIGITS)]}
                    for system, (score, low, high) in row.scores.items()
                },
            }
            for row in self.rows
        ]
        return {"metric": self.metric, "tokens": self.tokenizer, "buckets": buckets}


def scores_by_length(measured: Measured, *, seed: int, resamples: int = 1000) -> ScoresByLength:
    """Return the first metric on buckets of lines by the length of their first reference, in evaluation tokens."""
    lengths = _lengths(measured.references[0], measured.tokenizer)
    ranges = buckets(lengths)
    return _scores_of_ranges(measured, lengths, ranges, "reference", measured.tokenizer, seed=seed, resamples=resamples)


def scores_by_source_length(
    measured: Measured,
    sources: Sequence[str],
    *,
    least: Sequence[int],
    tokenizer: str,
    seed: int,
    resamples: int = 1000,
) -> ScoresByLength:
    """Return the first metric on the lines whose source has so many tokens or more; as far as there are any.

    Args:
        sources: One line for each that was scored.
        least: Tokens of each row, in any order.
        tokenizer: What `choose_tokenizer` returned for the source language.
    Raises: UsageError if every source is shorter.
    Source: Lin, Ma, Su & Sun 2018 (arXiv 1802.01812), Figure 5.
    """
    lengths = _lengths(sources, tokenizer)
    ranges = [(low, None) for low in sorted({*least}) if lengths.max(initial=0) >= low]
    if not ranges:
        what = f"no source line has {min(least)} tokens ({tokenizer}) or more" if least else "there are no lengths"
        fix = "--set evaluate.source_lengths=[2,4]"
        raise UsageError(what, where="--by-source-length", fix=fix)
    return _scores_of_ranges(measured, lengths, ranges, "source", tokenizer, seed=seed, resamples=resamples)


def _lengths(lines: Sequence[str], tokenizer: str) -> NDArray[np.int64]:
    split = load_tokenizer(tokenizer)
    return np.array([len(split(line)) for line in lines], dtype=np.int64)


def _scores_of_ranges(
    measured: Measured,
    lengths: NDArray[np.int64],
    ranges: Sequence[tuple[int, int | None]],
    side: Literal["reference", "source"],
    tokenizer: str,
    *,
    seed: int,
    resamples: int,
) -> ScoresByLength:
    """Return the first metric on the lines of each range of lengths."""
    name, metric = next(iter(measured.metrics.items()))
    rows = []
    for low, high in ranges:
        members = np.flatnonzero((lengths >= low) & (lengths <= (lengths.max() if high is None else high)))
        bootstrap = Bootstrap(len(members), resamples=resamples, seed=seed)
        parts = {system: statistics[name][members] for system, statistics in measured.statistics.items()}
        resampled = bootstrap.scores_of([(metric, part) for part in parts.values()])
        scores = {
            system: (corpus_score(metric, part), *interval(drawn))
            for (system, part), drawn in zip(parts.items(), resampled, strict=True)
        }
        rows.append(LengthRow(low, high, len(members), scores))
    return ScoresByLength(
        metric=name,
        title=metric.title,
        decimals=metric.decimals,
        higher_is_better=metric.higher_is_better,
        tokenizer=tokenizer,
        rows=tuple(rows),
        side=side,
    )


def buckets(lengths: Sequence[int] | NDArray[np.int64], count: int = BUCKETS) -> list[tuple[int, int]]:
    """Return (smallest, largest) length of each bucket, ascending, without gaps between them.

    The buckets hold about equally many lines, so that each score stands on the same amount of text (fixed widths leave
    a few lines in the last ones). Lines of one length stay together, so there may be fewer than `count` buckets.
    """
    ordered = np.sort(np.asarray(lengths, dtype=np.int64))
    ends = [max(1, round(len(ordered) * part / count)) for part in range(1, count + 1)]
    tops = sorted({int(ordered[end - 1]) for end in ends})
    return [(int(ordered[0]), tops[0]), *((low + 1, high) for low, high in itertools.pairwise(tops))]
