"""`indigo evaluate`: scores of outputs against untouched references."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from indigo_cli.engine.assess import EvaluateConfig
    from indigo_cli.engine.line_scores import ScoresByLength
    from indigo_cli.engine.score_report import Report


class Format(StrEnum):
    """How the scores are written to stdout."""

    table = "table"
    json = "json"
    markdown = "markdown"
    latex = "latex"


class Test(StrEnum):
    """Test of the difference from the baseline."""

    bootstrap = "bootstrap"
    randomisation = "randomisation"


def evaluate(
    hypotheses: Annotated[list[str], typer.Argument(metavar="HYP...", help="Outputs: text or traces; - is stdin.")],
    reference: Annotated[list[str], typer.Option("--reference", help="Untouched references; repeat it for more.")],
    source: Annotated[str | None, typer.Option("--source", help="Source text, for --by-source-length.")] = None,
    metrics: Annotated[str | None, typer.Option("--metrics", help="Names with commas, e.g. bleu,chrf,ter.")] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Output to compare every HYP with; of several HYP the first.")
    ] = None,
    test: Annotated[
        Test | None, typer.Option("--test", help="Paired test, as evaluate.significance sets it (bootstrap).")
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.table,
    intervals: Annotated[
        bool | None,
        typer.Option("--intervals/--no-intervals", help="95 % intervals; only `table` shows them by default."),
    ] = None,
    sentence: Annotated[
        Path | None,
        typer.Option("--sentence", metavar="FILE", help="Write the scores of every line: a table, or *.jsonl."),
    ] = None,
    by_length: Annotated[bool, typer.Option("--by-length", help="Print the first metric by reference length.")] = False,
    by_source_length: Annotated[
        bool,
        typer.Option("--by-source-length", help="Print it by least length of --source, 10 to 60 tokens."),
    ] = False,
    parts: Annotated[
        bool, typer.Option("--parts", help="Further figures: ROUGE's precision and recall, repetition by n, lengths.")
    ] = False,
    png: Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Draw the scores by length.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what --sentence and --png find.")] = False,
    override: Annotated[list[str] | None, typer.Option("--set", help="e.g. --set evaluate.tokenize=zh")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every draw; the default is sacreBLEU's.")] = 12345,
) -> None:
    """Score outputs against references, with signatures, 95 % bootstrap intervals and paired tests."""
    from indigo_cli.core import console
    from indigo_cli.data.files import refuse_existing
    from indigo_cli.engine.assess import assess_files
    from indigo_cli.engine.line_scores import sentence_signatures, write_sentence_scores
    from indigo_cli.engine.plot import new_figure
    from indigo_cli.engine.score_plot import draw_by_length
    from indigo_cli.errors import UsageError

    for option, path in (("--sentence", sentence), ("--png", png)):
        if path is not None and str(path) == "-":
            raise UsageError("standard output (-) is for the scores of the corpus", where=option, fix="name a file")
        if path is not None:
            refuse_existing(path, overwrite)
    if by_source_length and source is None:
        raise UsageError("the source is not known", where="--by-source-length", fix="add --source FILE")
    if png is not None and by_length and by_source_length:
        raise UsageError("--png draws one picture", where="--png", fix="ask for one of the two lengths")
    if png is not None:
        new_figure()  # a missing library is said before anything is scored
    config, languages = _settings(override or [], metrics, test, reads_source=by_source_length)
    report = assess_files(
        hypotheses, reference, config=config, source=source, baseline=baseline, seed=seed, parts=parts, **languages
    )
    if source is not None and not by_source_length:
        console.note("no metric reads --source; only its number of lines was checked")
    has_parts = any(metric.parts for metric in report.measured.metrics.values())
    if parts and not has_parts:
        console.note(f"--parts: {', '.join(report.measured.metrics)} have one figure each")
    if test is not None and report.comparison is None:
        console.note("--test: there is one system and no --baseline, so nothing to compare")
    if intervals is not None and output_format is Format.json:
        console.note("--intervals, --no-intervals: JSON always holds them")
    for warning in report.warnings:
        console.warn(warning)
    least = config.source_lengths if by_source_length else None
    lengths = _lengths(report, by_length or (png is not None and not by_source_length), least, seed=seed)
    shown = {name: found for name, found in lengths.items() if by_length or name != "by_length"}
    _print(report, shown, output_format, intervals, parts=parts and has_parts)
    if sentence is not None:
        write_sentence_scores(report.measured, sentence, overwrite=overwrite)
        signatures = ", ".join(f"{name} {text}" for name, text in sentence_signatures(report.measured).items())
        console.status(f"{sentence}: scores of single lines ({signatures})")
    if png is not None:
        (drawn,) = lengths.values()
        draw_by_length(drawn, png, overwrite=overwrite)
    console.status(f"{report.num_lines} lines, {len(reference)} reference{'s' * (len(reference) > 1)} each")


def _lengths(
    report: "Report", by_reference: bool, least: Sequence[int] | None, *, seed: int
) -> "dict[str, ScoresByLength]":
    """Return the scores by length that were asked for, under their names in JSON; `least` lengths are of the source."""
    from indigo_cli.engine.line_scores import scores_by_length, scores_by_source_length

    found = {}
    measured = report.measured
    if by_reference:
        found["by_length"] = scores_by_length(measured, seed=seed)
    if least is not None and measured.sources is not None:
        tokenizer = measured.source_tokenizer
        found["by_source_length"] = scores_by_source_length(
            measured, measured.sources, least=least, tokenizer=tokenizer, seed=seed
        )
    return found


def _print(
    report: "Report",
    lengths: "Mapping[str, ScoresByLength]",
    output_format: Format,
    intervals: bool | None,
    *,
    parts: bool,
) -> None:
    """Write the scores to stdout."""
    import json

    from indigo_cli.core.console import stdout_console
    from indigo_cli.engine import score_markup, score_parts, score_tables
    from indigo_cli.engine.present import PLAIN_WIDTH, print_to_terminal

    if output_format is Format.json:
        more = {name: found.as_json() for name, found in lengths.items()}
        typer.echo(json.dumps(report.as_json() | more, ensure_ascii=False))
    elif output_format is Format.markdown:
        typer.echo(score_markup.markdown(report, [*lengths.values()], intervals=bool(intervals), parts=parts))
    elif output_format is Format.latex:
        typer.echo(score_markup.latex(report, [*lengths.values()], intervals=bool(intervals), parts=parts))
    else:
        console = stdout_console()
        bold = console.color_system is not None
        table = score_tables.score_table(report, bold=bold, intervals=intervals is not False)
        print_to_terminal([table], width=10_000)  # a file has no right margin
        signatures = {name: figure.signature for name, figure in report.systems[0].scores.items()}
        for line in [score_tables.legend(report), *score_tables.signature_lines(signatures)]:
            if line:
                typer.echo(line)
        if parts:
            print_to_terminal(["", score_parts.part_table(report, intervals=intervals is not False)], width=10_000)
        width = console.width if console.is_terminal else PLAIN_WIDTH
        for found in lengths.values():
            print_to_terminal(["", score_tables.length_chart(found, width=width)])


RECIPE_KEYS = (
    "name", "seed", "data", "preprocess", "order", "model", "train", "search", "decode", "evaluate",
)  # fmt: skip
"""First parts of the keys of a recipe; reading them off `recipe.py` would load torch."""


def _settings(
    overrides: Sequence[str], metrics: str | None, test: Test | None, *, reads_source: bool
) -> "tuple[EvaluateConfig, dict[str, str]]":
    """Return the [evaluate] section and the languages (empty: as the traces say) from the options."""
    import json

    from indigo_cli.core import console
    from indigo_cli.core.settings import apply_overrides, parse_section, unknown_key
    from indigo_cli.engine.assess import EvaluateConfig
    from indigo_cli.engine.prepare_settings import DataConfig
    from indigo_cli.errors import RecipeError

    if metrics is not None:
        names = [name.strip() for name in metrics.split(",") if name.strip()]
        overrides = [*overrides, f"evaluate.metrics={json.dumps(names)}"]
    if test is not None:
        overrides = [*overrides, f"evaluate.significance={test.value}"]
    mapping, places = apply_overrides({}, overrides)
    faults = [unknown_key((name,), RECIPE_KEYS, places, {}) for name in mapping if name not in RECIPE_KEYS]
    config, more = parse_section(EvaluateConfig, mapping.get("evaluate", {}), prefix=("evaluate",), places=places)
    data, yet_more = parse_section(DataConfig, mapping.get("data", {}), prefix=("data",), places=places)
    if config is None or data is None or faults:
        raise RecipeError(faults + more + yet_more)
    given = [override.partition("=")[0].strip() for override in overrides]
    used = ("data.target_lang", *(("data.source_lang",) if reads_source else ()))
    unused = [key for key in given if key.split(".")[0] != "evaluate" and key not in used]
    if unused:
        console.note(f"{', '.join(dict.fromkeys(unused))}: nothing to evaluate with it")
    return config, {"language": data.target_lang, "source_language": data.source_lang}
