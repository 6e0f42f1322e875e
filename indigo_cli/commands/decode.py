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
    n_best: Annotated[int, typer.Option("--n-best", help="Different strings (or samples) of a line: tsv, jsonl.")] = 1,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw; --set decode.temperature, decode.top_k, decode.top_p say how.")
    ] = False,
    ensemble: Annotated[
        list[Path] | None, typer.Option("--ensemble", help="Another run: probabilities are averaged. Repeatable.")
    ] = None,
    canvas: Annotated[
        str,
        typer.Option(
            "--canvas", help="Words that must appear, a line for each of the source; [gap] = others may come."
        ),
    ] = "",
    length: Annotated[
        str,
        typer.Option(
            "--length", help="Wished length of each output in model.length_unit, or `source`: as long as that."
        ),
    ] = "",
    length_file: Annotated[str, typer.Option("--length-file", help="Wished lengths, a number on each line.")] = "",
    length_ratio: Annotated[
        float | None, typer.Option("--length-ratio", help="Wished lengths, times that of the source.")
    ] = None,
    hard_length: Annotated[
        bool, typer.Option("--hard-length", help="No output is longer than that, and no word is cut for it.")
    ] = False,
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", help="Name under checkpoints/.", show_default="best, else last")
    ] = "",
    override: Annotated[list[str] | None, typer.Option("--set", help="e.g. --set decode.length_penalty=0.6")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--sweep", help="decode.KEY=V1,V2: score a split (default: valid) for each value. Repeatable."),
    ] = None,
    png: Annotated[Path | None, typer.Option("--png", help="Draw the scores of --sweep into this file.")] = None,
    count_flops: Annotated[
        bool,
        typer.Option("--count-flops", help="Say what it cost on stderr; with -o FILE as JSON on stdout, too."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep what is finished beside -o FILE, and go on from what stands.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an output that stands.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the samples.", show_default="the recipe's")] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N")] = "auto",
    precision: Annotated[str, typer.Option("--precision", help="fp32 or bf16")] = "fp32",
    threads: Annotated[int, typer.Option("--threads", help="CPU threads; 0 = as many as there are.")] = 0,
) -> None:
    """Turn every line of text into its best hypothesis, n-best list or samples."""
    from indigo_cli.core import console
    from indigo_cli.engine.length_wish import length_option
    from indigo_cli.engine.runtime import Runtime
    from indigo_cli.errors import UsageError

    if split and source != "-":
        raise UsageError("--split and --input both name what to decode", where="--split", fix="give one of the two")
    if corpus is not None and not (split or settings):
        raise UsageError("--corpus is where --split is read from", where="--corpus", fix="add --split, or leave it out")
    if sample and beam is not None:
        raise UsageError("samples have no beam", where="--beam", fix="--n-best N draws N samples of a line")
    if png is not None and not settings:
        raise UsageError("--png draws the scores of a sweep", where="--png", fix="add --sweep decode.KEY=V1,V2")
    if settings and canvas:
        raise UsageError("--sweep decodes a split without given words", where="--canvas", fix="leave it out")
    if canvas == source == "-" and not split:
        what = "source and canvas cannot both come from standard input"
        raise UsageError(what, where="--canvas", fix="write one of them to a file")
    if settings and (source != "-" or form is not Format.text or n_best != 1):
        raise UsageError(
            "--sweep scores the best hypotheses of a split", where="--sweep", fix="drop --input, --format and --n-best"
        )
    if settings and count_flops:
        raise UsageError("--sweep decodes a split many times", where="--count-flops", fix="count one decoding alone")
    if settings and resume:
        raise UsageError("--sweep writes nothing to go on from", where="--resume", fix="leave it out")
    overrides = list(override or [])
    if beam is not None:
        overrides.append(f"decode.beam_size={beam}")
    if sample:
        overrides.append("decode.search=sample")
    if hard_length:
        overrides.append("decode.hard_length=true")
    wished = length_option(length, length_file, length_ratio)
    runtime = Runtime(device, precision, threads)
    if settings:
        from indigo_cli.engine.present import print_to_terminal
        from indigo_cli.engine.sweep import sweep

        report = sweep(
            run,
            settings,
            split=split or "valid",
            corpus_folder=corpus,
            checkpoint=checkpoint,
            ensemble=ensemble or [],
            overrides=overrides,
            seed=seed,
            runtime=runtime,
            output=output,
            png=png,
            overwrite=overwrite,
            length=wished,
        )
        print_to_terminal([report.table()], width=10_000)  # a file has no right margin
        console.status(report.text())
        return

    from indigo_cli.engine.generate import generate

    summary = generate(
        run,
        source=source,
        split=split,
        corpus_folder=corpus,
        output=output,
        form=form,
        n_best=n_best,
        checkpoint=checkpoint,
        ensemble=ensemble or [],
        overrides=overrides,
        seed=seed,
        runtime=runtime,
        overwrite=overwrite,
        canvas=canvas,
        count_flops=count_flops,
        resume=resume,
        length=wished,
    )
    console.status(summary.text())
    if summary.cost is not None:
        console.status(summary.cost.text())
        if output != "-":
            typer.echo(summary.cost.json())
