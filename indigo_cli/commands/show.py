"""`indigo show`: how a sentence grew, what the orders of whole files look like, or those that a run finds."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer


def show(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Traces or orders files, compared if several; - is stdin. Or one run folder of `train --order sao`.",
            metavar="TRACES_OR_ORDERS...",
        ),
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
    """Show how a sentence grew, word by word, and the orders of whole files, one or several side by side.

    Of a run on searched orders: what its last validation found, and with --png how that changed over the updates.
    """
    from indigo_cli.data.files import refuse_existing
    from indigo_cli.engine.health_plot import draw_health
    from indigo_cli.engine.order_plot import draw
    from indigo_cli.engine.plot import new_figure, save_png
    from indigo_cli.engine.present import present, print_to_terminal, read_views, write_html
    from indigo_cli.engine.run_health import present_health, read_health
    from indigo_cli.errors import UsageError

    for output in filter(None, (html, png)):
        refuse_existing(output, overwrite)
    if png:
        new_figure()  # says now, not after a long file, that pictures cannot be made here
    folders = [file for file in files if Path(file).is_dir()]
    if folders and (len(files) > 1 or line is not None):
        what = "a run folder is shown alone, without --id"
        raise UsageError(what, where=folders[0], fix="for sentences, give the traces that `indigo decode` wrote")
    if folders:
        health = read_health(Path(folders[0]))
        shown, picture = present_health(health), partial(draw_health, health)
    else:
        views = read_views(files, line=line, rank=rank, corpus=corpus)
        shown, picture = present(views, line=line), partial(draw, views, line=line)
    if html:
        write_html(shown, html, overwrite=overwrite)
    if png:
        save_png(picture(), png, overwrite=overwrite)
    print_to_terminal(shown)  # last: its reader may leave early
