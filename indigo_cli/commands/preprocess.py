"""`indigo preprocess`: raw text to a corpus folder."""

from pathlib import Path
from typing import Annotated

import typer


def preprocess(
    recipe: Annotated[Path, typer.Argument(help="Recipe (TOML) that names the raw files.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Corpus folder.", show_default="runs/NAME/corpus")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a corpus that is there.")] = False,
    override: Annotated[list[str] | None, typer.Option("--set", help="e.g. --set preprocess.merges=4000")] = None,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", min=0, help="Processes that tokenise; 0 is one a CPU, at most 8, 1 none but this. Same bytes."
        ),
    ] = 0,
    seed: Annotated[int | None, typer.Option("--seed", help="Accepted everywhere; nothing is random here.")] = None,
) -> None:
    """Tokenise raw text, learn BPE and vocabulary on the training split, write memory-mapped ids."""
    from indigo_cli.core import console
    from indigo_cli.engine.prepare import prepare
    from indigo_cli.recipe import dump_recipe, load_recipe

    overrides = [*(override or []), *([] if seed is None else [f"seed={seed}"])]
    settings = load_recipe(recipe, overrides)
    with console.progress("preprocess") as bar:
        done: dict[str, int] = {}

        def show(stage: str, lines: int) -> None:
            if stage not in done:
                console.detail(stage)
            bar.advance(lines - done.get(stage, 0), info=stage)
            done[stage] = lines

        summary = prepare(
            settings,
            output,
            overwrite=overwrite,
            progress=show,
            recipe_text=dump_recipe(settings),
            workers=workers,
        )
    for warning in summary.warnings:
        console.warn(warning)
    console.status(summary.text())
