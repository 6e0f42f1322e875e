"""`indigo reorder`: write a predefined generation order of every target of a corpus."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from indigo_cli.engine.assign import OrderConfig


def reorder(
    corpus: Annotated[Path, typer.Argument(help="Corpus folder written by `indigo preprocess`.", metavar="CORPUS")],
    order: Annotated[str, typer.Argument(help="l2r r2l odd blt syn cf rf rnd", metavar="ORDER")],
    split: Annotated[list[str] | None, typer.Option("--split", help="Only this split; may be repeated.")] = None,
    parse: Annotated[
        list[str] | None,
        typer.Option(
            "--parse",
            help="For syn: CoNLL-U of the targets, FILE or SPLIT=FILE; without it spaCy parses them.",
            metavar="FILE",
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            min=0,
            help="Processes that parse (syn without --parse); 0 is one a CPU, at most 8, and fewer for few targets.",
        ),
    ] = 0,
    output: Annotated[
        str, typer.Option("-o", "--output", help="Default: SPLIT.ORDER.orders.jsonl in the corpus folder; - is stdout.")
    ] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that stand.")] = False,
    override: Annotated[
        list[str] | None, typer.Option("--set", help="e.g. --set order.cutoff=81 (cf, rf)", metavar="KEY=VALUE")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of rnd.")] = 1,
) -> None:
    """Write the generation order of every target as an orders file, one for each split."""
    from indigo_cli.core.console import status
    from indigo_cli.data.corpus import Corpus
    from indigo_cli.engine.assign import assign

    opened = Corpus.open(corpus)
    splits = split or opened.splits
    config = order_config(order, splits=splits, parses=parse or [], overrides=override or [])
    written = assign(opened, config, splits=splits, output=output, seed=seed, overwrite=overwrite, workers=workers)
    for path, count in written:
        status(f"{config.name} orders of {count:,} targets written to {'standard output' if path == '-' else path}")


def order_config(name: str, *, splits: Sequence[str], parses: Sequence[str], overrides: Sequence[str]) -> "OrderConfig":
    """Return the [order] section that the command line describes.

    Args:
        name: Of the order.
        splits: Those to order: a bare parse file belongs to the only one.
        parses: FILE or SPLIT=FILE.
        overrides: KEY=VALUE with keys of [order].

    Raises:
        UsageError, RecipeError: an unknown order, a parse file of no split, a wrong setting.
    """
    from indigo_cli.core.settings import apply_overrides, did_you_mean, parse_section
    from indigo_cli.engine.assign import OrderConfig
    from indigo_cli.errors import RecipeError, UsageError
    from indigo_cli.orders import ORDERS

    mapping: dict[str, Any] = {"order": {"name": name}}
    trees: dict[str, str] = {}
    for entry in parses:
        split, separator, file = entry.partition("=")
        if not separator or split not in splits:
            if len(splits) > 1:
                fix = "write --parse SPLIT=FILE, or choose one with --split"
                raise UsageError(
                    f"whose parse is {entry}? There are the splits {', '.join(splits)}", where="--parse", fix=fix
                )
            split, file = splits[0], entry
        trees[split] = file
    if trees:
        mapping["order"]["parse"] = trees
    mapping, places = apply_overrides(mapping, overrides)
    if others := [key for key in mapping if key != "order"]:
        raise UsageError(
            f"reorder has no settings in [{others[0]}]",
            where="--set",
            fix="keys: order.cutoff, order.parse.SPLIT, order.parser",
        )
    config, faults = parse_section(OrderConfig, mapping["order"], prefix=("order",), places=places)
    if config is None:
        raise RecipeError(faults)
    if config.name not in ORDERS:
        known = f"the orders are {' '.join(ORDERS)}"
        near = did_you_mean(config.name, ORDERS)
        if config.name == "sao":
            near, known = "", "searched orders come from a trained run: `indigo search-orders RUN`"
        raise UsageError(f"there is no predefined order {config.name!r}", where="ORDER", fix=f"{near} {known}".strip())
    return config
