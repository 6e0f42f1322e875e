"""`indigo search-orders`: the orders that a trained model finds for known targets."""

from pathlib import Path
from typing import Annotated

import typer


def search_orders(
    run: Annotated[Path, typer.Argument(help="Run folder written by `indigo train`.")],
    split: Annotated[str, typer.Option("--split", help="A split of the run's corpus.", show_default="train")] = "",
    source: Annotated[
        str, typer.Option("--input", help="Instead: a text file of sources, one a line; - is standard input.")
    ] = "",
    target: Annotated[str, typer.Option("--target", help="The targets that belong to --input.")] = "",
    corpus: Annotated[Path | None, typer.Option("--corpus", help="Corpus folder.", show_default="the run's")] = None,
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", help="Name under checkpoints/.", show_default="best, else last")
    ] = "",
    beam: Annotated[
        int | None, typer.Option("--beam", min=1, help="Orders of a target.", show_default="search.beam_size, 8")
    ] = None,
    dropout: Annotated[
        float | None,
        typer.Option(
            "--dropout",
            min=0.0,
            max=0.99,
            help="Rate while searching; scores are without.",
            show_default="search.dropout, 0.1",
        ),
    ] = None,
    slot_weight: Annotated[
        float | None,
        typer.Option("--slot-weight", min=0.0, help="Of log p(slot) in the ranks.", show_default="search.slot_weight"),
    ] = None,
    gumbel: Annotated[
        float | None,
        typer.Option("--gumbel", min=0.0, help="Scale of noise on the ranks.", show_default="search.gumbel"),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", help="Default: SPLIT.sao.orders.jsonl in the corpus folder; of --target: stdout."
        ),
    ] = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin anew: replace an output, or finished blocks, that stand.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the blocks that a stopped search left.")] = False,
    override: Annotated[list[str] | None, typer.Option("--set", help="e.g. --set search.whole_words=true")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Of dropout and noise.", show_default="the recipe's")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N")] = "auto",
    precision: Annotated[str, typer.Option("--precision", help="fp32 or bf16")] = "fp32",
    threads: Annotated[int, typer.Option("--threads", help="CPU threads; 0 = as many as there are.")] = 0,
) -> None:
    """Search the best generation orders of every known target, as an orders file for `train --orders`.

    The search keeps dropout on, one mask for each sentence; the scores in the file are without. Left to right takes the
    place of a worse order, unless search.reference is none. Finished blocks stand in OUTPUT.parts until the file is
    whole: a search that was stopped goes on with --resume.
    """
    from indigo_cli.core import console
    from indigo_cli.engine.offline_search import search_split
    from indigo_cli.engine.runtime import Runtime

    options = {"beam_size": beam, "dropout": dropout, "slot_weight": slot_weight, "gumbel": gumbel}
    summary = search_split(
        run,
        split=split,
        source=source,
        target=target,
        corpus_folder=corpus,
        checkpoint=checkpoint,
        output=output,
        settings=[f"search.{key}={value}" for key, value in options.items() if value is not None],
        overrides=override or [],
        seed=seed,
        runtime=Runtime(device, precision, threads),
        overwrite=overwrite,
        resume=resume,
    )
    if summary is not None:
        console.status(summary.text())
        for flag in summary.flags():
            flag.say()
