"""`indigo score`: what given targets cost in given orders."""

from pathlib import Path
from typing import Annotated

import typer


def score(
    run: Annotated[Path, typer.Argument(help="Run folder written by `indigo train`.")],
    split: Annotated[
        str,
        typer.Option("--split", help="A split of the run's corpus, or that of a traces file.", show_default="valid"),
    ] = "",
    source: Annotated[
        str, typer.Option("--input", help="Text file of the sources, one a line; - is standard input.")
    ] = "",
    target: Annotated[
        str,
        typer.Option("--target", help="Their targets: text, or a traces file, scored in its own tokens and orders."),
    ] = "",
    corpus: Annotated[Path | None, typer.Option("--corpus", help="Corpus folder.", show_default="the run's")] = None,
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", help="Name under checkpoints/.", show_default="best, else last")
    ] = "",
    orders: Annotated[
        Path | None,
        typer.Option(
            "--orders",
            help="Orders file, any number of orders a target; default: the order that the run was trained on (rnd: "
            "drawn as its validation does; orders of a file: l2r). --set order.name=NAME takes another.",
        ),
    ] = None,
    draws: Annotated[int, typer.Option("--draws", help="With order rnd: how many orders of a target.")] = 1,
    output: Annotated[str, typer.Option("--output", "-o", help="Orders file; - is standard output.")] = "-",
    override: Annotated[list[str] | None, typer.Option("--set", help="e.g. --set train.batch_tokens=2048")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an output that stands.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the draws.", show_default="the recipe's")] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N")] = "auto",
    precision: Annotated[str, typer.Option("--precision", help="fp32 or bf16")] = "fp32",
    threads: Annotated[int, typer.Option("--threads", help="CPU threads; 0 = as many as there are.")] = 0,
) -> None:
    """Give the log-probabilities of targets, by part, as an orders file.

    Targets are scored whole, also those longer than preprocess.max_length; sources are cut to it, as in decoding. For
    several orders, bound is the logarithm of their added probabilities: a lower bound on log p(target | source).
    """
    from indigo_cli.core import console
    from indigo_cli.engine.runtime import Runtime
    from indigo_cli.engine.score import score as score_targets

    summary = score_targets(
        run,
        split=split,
        source=source,
        target=target,
        corpus_folder=corpus,
        orders=orders,
        draws=draws,
        output=output,
        checkpoint=checkpoint,
        overrides=override or [],
        seed=seed,
        runtime=Runtime(device, precision, threads),
        overwrite=overwrite,
    )
    console.status(summary.text())
