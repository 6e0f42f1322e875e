"""`indigo average`: one checkpoint out of several."""

from pathlib import Path
from typing import Annotated

import typer


def average(
    run: Annotated[Path, typer.Argument(help="Run folder written by `indigo train`.")],
    last: Annotated[
        int | None, typer.Option("--last", help="How many of the newest checkpoints.", show_default="3")
    ] = None,
    best: Annotated[int | None, typer.Option("--best", help="How many of those that validation found best.")] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="Name under checkpoints/, or a path.", show_default="average-last-N, average-best-N"
        ),
    ] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an average that stands.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Accepted everywhere; nothing is random here.")] = 1,
) -> None:
    """Average the weights of a run's checkpoints; `decode --checkpoint NAME` uses the result.

    Training keeps the newest train.keep step checkpoints and the train.keep_best best ones.
    """
    from indigo_cli.core import console
    from indigo_cli.engine.average import average as average_weights

    last = 3 if last is None and best is None else last
    console.status(average_weights(run, last=last or 0, best=best or 0, output=output, overwrite=overwrite).text())
