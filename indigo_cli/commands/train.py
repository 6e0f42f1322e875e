"""`indigo train`: a corpus and a recipe to a run folder."""

from pathlib import Path
from typing import Annotated

import typer


def train(
    recipe: Annotated[Path, typer.Argument(help="Recipe (TOML).")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Run folder.", show_default="runs/NAME/ORDER")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option("--corpus", help="Corpus folder.", show_default="runs/NAME/corpus")
    ] = None,
    order: Annotated[str | None, typer.Option("--order", help="l2r r2l odd blt syn cf rf rnd sao")] = None,
    orders: Annotated[
        list[Path] | None, typer.Option("--orders", help="Orders file; one a split, its header says which.")
    ] = None,
    init: Annotated[Path | None, typer.Option("--init", help="Start from the weights of this run.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the newest checkpoint stands.")] = False,
    override: Annotated[list[str] | None, typer.Option("--set", help="e.g. --set train.max_steps=1000")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Instead of the recipe's.")] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N")] = "auto",
    precision: Annotated[str, typer.Option("--precision", help="fp32 or bf16")] = "fp32",
    threads: Annotated[int, typer.Option("--threads", help="CPU threads; 0 = as many as there are.")] = 0,
) -> None:
    """Train a model to generate in an order; `--resume` continues a stopped run bit for bit."""
    from indigo_cli.core import console
    from indigo_cli.engine.fit import train as fit
    from indigo_cli.engine.runtime import Runtime
    from indigo_cli.errors import UsageError
    from indigo_cli.recipe import load_recipe

    if order is not None and orders:
        raise UsageError("--order computes orders and --orders reads them", where="--order", fix="give one of the two")
    overrides = list(override or [])
    overrides += [] if seed is None else [f"seed={seed}"]
    overrides += [] if order is None else [f'order.name="{order}"']
    overrides += ['order.name="l2r"'] if orders else []  # the files take its place: it need not fit the run
    summary = fit(
        load_recipe(recipe, overrides),
        output=output,
        corpus_folder=corpus,
        orders=orders or [],
        init=init,
        resume=resume,
        runtime=Runtime(device, precision, threads),
    )
    console.status(summary.text())
