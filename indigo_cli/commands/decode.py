"""`indigo decode`: raw text in, raw text out."""

from pathlib import Path
from typing import Annotated

import typer

from indigo_cli.core.format import Format


def decode(
    run: Annotated[Path, typer.Argument(help="Run folder written by `indigo train`.")],
    split: Annotated[str, typer.Option("--split", help="A split of the run's corpus instead of text.")] = "",
    source: Annotated[str, typer.Option("--input", help="Text file, one sentence a line; - is standard input.")] = "-",
    corpus: Annotated[
        Path | None, typer.Option("--corpus", help="Corpus folder for --split.", show_default="the run's")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="File; - is standard output.")] = "-",
    form: Annotated[Format, typer.Option("--format", help="text, tsv (n-best) or jsonl (traces)")] = Format.text,
    beam: Annotated[
        int | None, typer.Option("--beam", help="Beam size; 1 = greedy.", show_default="the recipe's")
    ] = None,
    n_best: Annotated[int, typer.Option("--n-best", help="Hypotheses of a line, for tsv and jsonl.")] = 1,
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", help="Name under checkpoints/.", show_default="best, else last")
    ] = "",
    override: Annotated[list[str] | None, typer.Option("--set", help="e.g. --set decode.length_penalty=0.6")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an output that stands.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Accepted everywhere; nothing is random here.")] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N")] = "auto",
    precision: Annotated[str, typer.Option("--precision", help="fp32 or bf16")] = "fp32",
    threads: Annotated[int, typer.Option("--threads", help="CPU threads; 0 = as many as there are.")] = 0,
) -> None:
    """Turn every line of text into its best hypothesis."""
    from indigo_cli.core import console
    from indigo_cli.engine.generate import generate
    from indigo_cli.engine.runtime import Runtime
    from indigo_cli.errors import UsageError

    if split and source != "-":
        raise UsageError("--split and --input both name what to decode", where="--split", fix="give one of the two")
    if corpus is not None and not split:
        raise UsageError("--corpus is where --split is read from", where="--corpus", fix="add --split, or leave it out")
    summary = generate(
        run,
        source=source,
        split=split,
        corpus_folder=corpus,
        output=output,
        form=form,
        n_best=n_best,
        checkpoint=checkpoint,
        overrides=[*(override or []), *([] if beam is None else [f"decode.beam_size={beam}"])],
        runtime=Runtime(device, precision, threads),
        overwrite=overwrite,
    )
    console.status(summary.text())
