"""`indigo show`: how a sentence grew, and what the orders of whole files look like."""

from pathlib import Path
from typing import Annotated

import typer


def show(
    files: Annotated[
        list[str],
        typer.Argument(help="Traces or orders files, compared if several; - is stdin.", metavar="TRACES_OR_ORDERS..."),
    ],
    line: Annotated[
        int | None, typer.Option("--id", min=0, help="Line to show (from 0) instead of statistics and the first.")
    ] = None,
    rank: Annotated[int, typer.Option("--rank", min=1, help="Which hypothesis (traces) or order (orders).")] = 1,
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", help="Corpus folder with the words of orders files (default: beside them)."),
    ] = None,
    html: Annotated[str, typer.Option("--html", help="Write an HTML page as well.", metavar="FILE")] = "",
    png: Annotated[
        str, typer.Option("--png", help="Draw the statistics, or with --id the line, as well.", metavar="FILE")
    ] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the page or picture if it stands.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Accepted everywhere; nothing is random here.")] = 1,
) -> None:
    """Show how a sentence grew, word by word, and the orders of whole files, one or several side by side."""
    from indigo_cli.data.files import refuse_existing
    from indigo_cli.engine.order_plot import draw
    from indigo_cli.engine.plot import new_figure, save_png
    from indigo_cli.engine.present import present, print_to_terminal, read_views, write_html

    for output in filter(None, (html, png)):
        refuse_existing(output, overwrite)
    if png:
        new_figure()  # says now, not after a long file, that pictures cannot be made here
    views = read_views(files, line=line, rank=rank, corpus=corpus)
    shown = present(views, line=line)
    if html:
        write_html(shown, html, overwrite=overwrite)
    if png:
        save_png(draw(views, line=line), png, overwrite=overwrite)
    print_to_terminal(shown)  # last: its reader may leave early
