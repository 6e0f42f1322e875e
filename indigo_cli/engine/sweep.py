"""`decode --sweep`: a split decoded and scored for each value of some [decode] settings, with weights loaded once.

Each combination is searched once. Whether hypotheses that spell one string add their probabilities is only a matter of
ranking what was found, so both rankings are scored, exactly as `decode` and `evaluate` would.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from indigo_cli.core import console
from indigo_cli.core.console import Progress
from indigo_cli.core.toml import read_key
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import STANDARD_STREAM, atomic_write_text, refuse_existing
from indigo_cli.data.references import read_references
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.engine.assess import Report, assess
from indigo_cli.engine.generate import split_blocks
from indigo_cli.engine.generator import Generator
from indigo_cli.engine.length_wish import LengthOption, note_ratio
from indigo_cli.engine.lines import BLOCK_LINES, EncodedLine
from indigo_cli.engine.loaded_run import LoadedRun, load_ensemble
from indigo_cli.engine.nbest import Output, rank_strings
from indigo_cli.engine.plot import new_figure, save_png
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.sweep_grid import Point, make_grid
from indigo_cli.engine.sweep_plot import draw_sweep
from indigo_cli.engine.sweep_report import RANKINGS, Scored, SweepReport
from indigo_cli.engine.writers import text_line
from indigo_cli.errors import UsageError

CHOOSING_SPLITS = ("valid", "dev")
"""Splits on which settings may be chosen."""


def sweep(
    run: Path,
    settings: Sequence[str],
    *,
    split: str = "valid",
    corpus_folder: Path | None = None,
    checkpoint: str = "",
    ensemble: Sequence[Path] = (),
    overrides: Sequence[str] = (),
    seed: int | None = None,
    runtime: Runtime | None = None,
    output: Path | str = STANDARD_STREAM,
    png: Path | str | None = None,
    overwrite: bool = False,
    length: LengthOption | None = None,
) -> SweepReport:
    """Decode a split with every combination of settings and score it against the corpus's raw references.

    Args:
        run: Run folder.
        settings: `decode.KEY=V1,V2,A..B`, one or more; all combinations are tried.
        split: A split of the run's corpus.
        corpus_folder: Instead of the one that the run recorded.
        checkpoint, ensemble, overrides: See `load_ensemble`; [evaluate] says which metrics, the first one chooses.
        seed: Of draws, with `decode.search = "sample"`; None takes the recipe's.
        runtime: Device, precision, threads.
        output: File for the rows as tab-separated text; `-` writes none.
        png: File for the picture.
        overwrite: Replace files that stand.
        length: How long outputs are to be, see `LengthOption`.

    Raises:
        UsageError, RecipeError: a value that cannot be used; said before anything is decoded.
        DataError: raw references that have gone or changed.
    """
    refuse_existing(output, overwrite)
    if png:
        refuse_existing(png, overwrite)
        new_figure()  # says now, not after hours, that pictures cannot be made here
    runtime = runtime or Runtime()
    device = runtime.start()
    loaded = load_ensemble([run, *ensemble], checkpoint=checkpoint, overrides=overrides, device=device)
    points = make_grid(settings, loaded.recipe.decode)
    generators = [
        Generator(loaded.with_decode(point.config), device=device, runtime=runtime, seed=seed, length=length)
        for point in points
    ]
    if any(point.config.rerank != "none" for point in points):
        what = "a sweep scores what one search finds, and re-ranking needs the longer list of decode"
        raise UsageError(what, where="decode.rerank", fix="--set decode.rerank=none, and leave it out of --sweep")
    scorer = _Scorer(loaded, loaded.open_corpus(corpus_folder), split)
    if generators[0].wisher is not None:
        generators[0].wisher.check_count(scorer.num_lines)
        note_ratio(generators[0].wisher, length)
    _note_what_varies(overrides, points)
    if split not in CHOOSING_SPLITS:
        console.warn(f"settings are chosen on valid, never on a test set; this sweep decodes {split!r}")
    scored: list[Scored] = []
    warnings: dict[str, None] = {}
    with console.progress("sweep", total=len(points) * scorer.num_items) as bar:
        for point, generator in zip(points, generators, strict=True):
            tally = _decode(generator, scorer, bar)
            report = scorer.report(tally.texts)
            scored.append(tally.scored(point, report))
            warnings |= dict.fromkeys(report.warnings)
            console.status(_line(scored[-1], report))
    for warning in warnings:
        console.warn(warning)
    result = SweepReport(
        split=split,
        num_lines=scorer.num_lines,
        scored=scored,
        higher_is_better=report.higher_is_better,
        decimals=report.decimals,
        signatures={name: figure.signature for name, figure in report.systems[0].scores.items()},
    )
    if str(output) != STANDARD_STREAM:
        atomic_write_text(output, result.as_tsv(), overwrite=overwrite)
    if png:
        save_png(draw_sweep(result), png, overwrite=overwrite)
    return result


def _note_what_varies(overrides: Sequence[str], points: Sequence[Point]) -> None:
    """Say which `--set` the sweep overrules."""
    for override in overrides:
        key = read_key(override.partition("=")[0])
        if key == ("decode", "merge_strings"):
            console.note(f"--set {override} has no effect: both rankings are scored")
        elif key is not None and key[0] == "decode" and key[-1] in points[0].values:
            console.note(f"--set {override} has no effect: it varies")


class _Scorer:
    """The split to decode and its raw references.

    Raises: whatever scoring would, before anything is decoded.
    """

    def __init__(self, loaded: LoadedRun, corpus: Corpus, split: str) -> None:
        self.corpus, self.split = corpus, split
        self.references = read_references(corpus, split)
        self.num_lines, self.num_items = len(self.references[0]), len(corpus.split(split))
        self.config, self.language = loaded.recipe.evaluate, loaded.recipe.data.target_lang
        self.report({"references": self.references[0]})

    def report(self, texts: Mapping[str, Sequence[str]]) -> Report:
        """Return the scores that `evaluate` gives; the one resample is not looked at."""
        return assess(texts, self.references, config=self.config, language=self.language, resamples=1)


@dataclass
class _Tally:
    """The texts of one combination by ranking, a line that preprocessing dropped being empty, and counts."""

    texts: dict[str, list[str]]
    unfinished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RANKINGS, 0))
    lines: int = 0
    hypotheses: int = 0
    strings: int = 0
    seconds: float = 0.0

    def add(self, line: EncodedLine, outputs: Sequence[Output], config: DecodeConfig) -> None:
        """Rank what was found for a line in both ways."""
        for ranking, merge in RANKINGS.items():
            best = rank_strings(outputs, replace(config, merge_strings=merge))[0]
            self.texts[ranking][line.number] = text_line(best)
            self.unfinished[ranking] += bool(len(line.ids)) and not best.hypothesis.finished
        self.lines += 1
        self.hypotheses += len(outputs)
        self.strings += len({(output.text, output.hypothesis.finished) for output in outputs})

    def scored(self, point: Point, report: Report) -> Scored:
        """Return the row of the report."""
        scores = {
            system.name: {metric: figure.score for metric, figure in system.scores.items()} for system in report.systems
        }
        lines = max(self.lines, 1)
        return Scored(point, scores, self.seconds, self.hypotheses / lines, self.strings / lines, self.unfinished)


def _decode(generator: Generator, scorer: _Scorer, bar: Progress) -> _Tally:
    """Search every line of the split once."""
    tally = _Tally({ranking: [""] * scorer.num_lines for ranking in RANKINGS})
    start = time.perf_counter()
    for block in split_blocks(generator, scorer.corpus, scorer.split, BLOCK_LINES):
        for batch in generator.searches(block):
            for place, outputs in batch:
                tally.add(block[place], outputs, generator.config)
            bar.advance(len(batch))
    tally.seconds = time.perf_counter() - start
    return tally


def _line(found: Scored, report: Report) -> str:
    """Return what one combination gave, for stderr."""
    metrics = (
        f"{metric} " + ", ".join(f"{found.scores[name][metric]:.{digits}f} {name}" for name in RANKINGS)
        for metric, digits in report.decimals.items()
    )
    return f"{found.point.text()}: {'; '.join(metrics)} ({found.seconds:.1f} s)"
