"""`indigo evaluate`: scores of outputs against untouched references."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from indigo_cli.engine.assess import EvaluateConfig, Report, SystemReport


class Format(StrEnum):
    """How the scores are written to stdout."""

    table = "table"
    json = "json"


def evaluate(
    hypotheses: Annotated[list[str], typer.Argument(metavar="HYP...", help="Outputs: text or traces; - is stdin.")],
    reference: Annotated[list[str], typer.Option("--reference", help="Untouched references; repeat it for more.")],
    source: Annotated[str | None, typer.Option("--source", help="Source text; only its length is checked.")] = None,
    metrics: Annotated[str | None, typer.Option("--metrics", help="Names with commas, e.g. bleu,chrf,ter.")] = None,
    baseline: Annotated[str | None, typer.Option("--baseline", help="Output to compare every HYP with.")] = None,
    output_format: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.table,
    override: Annotated[list[str] | None, typer.Option("--set", help="e.g. --set evaluate.tokenize=zh")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the bootstrap; the default is sacreBLEU's.")] = 12345,
) -> None:
    """Score outputs against references, with signatures and 95 % bootstrap intervals."""
    import json

    from indigo_cli.core import console
    from indigo_cli.engine.assess import assess_files
    from indigo_cli.engine.present import print_to_terminal

    config, language = _settings(override or [], metrics)
    report = assess_files(
        hypotheses, reference, config=config, source=source, baseline=baseline, language=language, seed=seed
    )
    if source is not None:
        console.note("no metric of this version reads --source; only its number of lines was checked")
    for warning in report.warnings:
        console.warn(warning)
    if output_format is Format.json:
        typer.echo(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        print_to_terminal([score_table(report)], width=10_000)  # a file has no right margin
        for name, figure in report.systems[0].scores.items():
            typer.echo(f"{name}: {figure.signature}")
    console.status(f"{report.num_lines} lines, {len(reference)} reference{'s' * (len(reference) > 1)} each")


RECIPE_KEYS = (
    "name", "seed", "data", "preprocess", "order", "model", "train", "search", "decode", "evaluate",
)  # fmt: skip
"""First parts of the keys of a recipe; reading them off `recipe.py` would load torch."""


def _settings(overrides: Sequence[str], metrics: str | None) -> "tuple[EvaluateConfig, str]":
    """Return the [evaluate] section and the target language (empty: as the traces say) from the options."""
    import json

    from indigo_cli.core import console
    from indigo_cli.core.settings import apply_overrides, parse_section, unknown_key
    from indigo_cli.engine.assess import EvaluateConfig
    from indigo_cli.engine.prepare import DataConfig
    from indigo_cli.errors import RecipeError

    if metrics is not None:
        names = [name.strip() for name in metrics.split(",") if name.strip()]
        overrides = [*overrides, f"evaluate.metrics={json.dumps(names)}"]
    mapping, places = apply_overrides({}, overrides)
    faults = [unknown_key((name,), RECIPE_KEYS, places, {}) for name in mapping if name not in RECIPE_KEYS]
    config, more = parse_section(EvaluateConfig, mapping.get("evaluate", {}), prefix=("evaluate",), places=places)
    data, yet_more = parse_section(DataConfig, mapping.get("data", {}), prefix=("data",), places=places)
    if config is None or data is None or faults:
        raise RecipeError(faults + more + yet_more)
    given = [override.partition("=")[0].strip() for override in overrides]
    unused = [key for key in given if key.split(".")[0] != "evaluate" and key != "data.target_lang"]
    if unused:
        console.note(f"{', '.join(dict.fromkeys(unused))}: nothing to evaluate with it")
    return config, data.target_lang


def score_table(report: "Report") -> "Table":
    """Return one row a system, the baseline first, one column a metric."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, leading=1)
    table.add_column("system", overflow="fold")
    for name, higher_is_better in report.higher_is_better.items():
        table.add_column(name if higher_is_better else f"{name}\nless is better", justify="right")
    if report.baseline is not None:
        table.add_row(f"{report.baseline.name} (baseline)", *_cells(report.baseline, report.decimals))
    for system in report.systems:
        table.add_row(system.name, *_cells(system, report.decimals))
    return table


def _cells(system: "SystemReport", decimals: dict[str, int]) -> list[str]:
    """Return each figure with its interval below it, and the p-value of its difference from the baseline."""
    cells = []
    for name, figure in system.scores.items():
        score, low, high = (f"{value:.{decimals[name]}f}" for value in (figure.score, figure.low, figure.high))
        difference = "" if figure.p_value is None else f"\np = {figure.p_value:.3f}"
        cells.append(f"{score}\n[{low}, {high}]{difference}")
    return cells
