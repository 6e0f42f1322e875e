"""`indigo show`: how a sentence grew, and what the orders of a whole file look like."""

from pathlib import Path
from typing import Annotated

import typer


def show(
    file: Annotated[
        str, typer.Argument(help="Traces or orders file; - is standard input.", metavar="TRACES_OR_ORDERS")
    ],
    line: Annotated[
        int | None, typer.Option("--id", help="Line to show (from 0) instead of statistics and the first.")
    ] = None,
    rank: Annotated[int, typer.Option("--rank", min=1, help="Which hypothesis (traces) or order (orders).")] = 1,
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", help="Corpus folder with the words of an orders file (default: beside it)."),
    ] = None,
    html: Annotated[str, typer.Option("--html", help="Write an HTML page as well.", metavar="FILE")] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the HTML page if it stands.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Accepted everywhere; nothing is random here.")] = 1,
) -> None:
    """Show how a sentence grew, word by word, and the relations between its words."""
    from indigo_cli.data.files import refuse_existing
    from indigo_cli.engine.present import present, print_to_terminal, write_html

    if html:
        refuse_existing(html, overwrite)
    shown = present(file, line=line, rank=rank, corpus=corpus)
    print_to_terminal(shown)
    if html:
        write_html(shown, html, overwrite=overwrite)
