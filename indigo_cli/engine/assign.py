"""Orders of a corpus: computed for a predefined rule, or read from an orders file."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from indigo_cli.core.console import note
from indigo_cli.core.settings import NonNegativeInt
from indigo_cli.core.vocab import UNK
from indigo_cli.data.files import refuse_existing
from indigo_cli.data.orders_file import OrdersFile, OrdersRow, read_orders, write_orders
from indigo_cli.engine.parser import ParserPool, SpacyParses, num_workers
from indigo_cli.engine.parser_model import find_model
from indigo_cli.engine.parses import ConlluParses, Item, Parses
from indigo_cli.errors import UsageError
from indigo_cli.orders import ORDERS, OrderContext, Rule, Targets, drawn_tree
from indigo_cli.orders.common_first import balancing_cutoff, frequency_ranks
from indigo_cli.orders.rule import Ints

if TYPE_CHECKING:
    from indigo_cli.data.corpus import Corpus, Split, Store

BLOCK_TOKENS = 1 << 20
"""Orders are computed for about this many tokens at once, to bound memory."""
PARSED_BLOCK_TOKENS = 1 << 16
"""The same where parses are in memory too, some hundred bytes a token."""

FlatOrders = tuple[NDArray[np.int32], Ints]
"""Orders one after another, and the (N + 1,) offsets that cut them."""


@dataclass(frozen=True)
class OrderConfig:
    """The recipe's [order] section.

    Args:
        name: l2r r2l odd blt syn cf rf rnd, or file.
        file: Orders file, with name = "file".
        cutoff: Last frequency rank that counts as common, for cf and rf; 0 balances common and rare tokens.
        parse: CoNLL-U file of a split by its name, for syn.
        parser: spaCy model that parses splits without a file, a package or a folder; empty = by the target language.
    """

    name: str = "l2r"
    file: str = ""
    cutoff: NonNegativeInt = 0
    parse: dict[str, str] = field(default_factory=dict)
    parser: str = ""

    @property
    def rule(self) -> Rule:
        """The rule of a predefined order."""
        return ORDERS[self.name]


@dataclass(frozen=True)
class DrawnTree(OrderConfig):
    """Balanced trees as systems that train with the balanced-tree loss draw them: blt anew for each epoch.

    No section of a recipe: its `[order] name = "blt"` and `model.tree_temperature` make it.

    Args:
        temperature: tau > 0.
    """

    name: str = "blt"
    temperature: float = 1.0

    @property
    def rule(self) -> Rule:
        """See `OrderConfig`."""
        return drawn_tree.rule(self.temperature)


def orders_for_split(
    corpus: "Corpus", split_name: str, config: OrderConfig, *, seed: int = 0, epoch: int = 0
) -> FlatOrders:
    """Return one order for each kept target of a split, in the order of the store.

    The orders of a target depend on the target, its id, seed and epoch alone: never on other targets or on workers.

    Returns: (sum of T,) int32 orders and (N + 1,) int64 offsets.
    Raises:
        UsageError: an unknown order, or one without the file it needs.
        DataError: a file that does not fit the split.
    """
    split = corpus.split(split_name)
    offsets = np.asarray(split.target.offsets)
    if config.name == "file":
        if not config.file:
            raise UsageError("the order is to come from a file, but none is named", where="order.file")
        return orders_of_file(corpus, split_name, config.file, first_only=True).flat, offsets
    flat = np.empty(int(offsets[-1]), dtype=np.int32)
    for start, stop, orders in order_blocks(corpus, split_name, config, seed=seed, epoch=epoch):
        flat[offsets[start] : offsets[stop]] = orders
    return flat, offsets


def orders_of_file(corpus: "Corpus", split_name: str, path: str, *, first_only: bool) -> OrdersFile:
    """Return the orders that a file has for the kept targets of a split; see `read_orders`."""
    split = corpus.split(split_name)
    return read_orders(
        path,
        ids=split.lines,
        lengths=split.target.lengths,
        split=split_name,
        corpus=corpus.digest,
        first_only=first_only,
    )


def order_blocks(
    corpus: "Corpus",
    split_name: str,
    config: OrderConfig,
    *,
    seed: int = 0,
    epoch: int = 0,
    pool: ParserPool | None = None,
) -> Iterator[tuple[int, int, NDArray[np.int32]]]:
    """Yield a predefined order of all targets of a split, block by block: (start, stop, flat orders of these items).

    Args:
        pool: Parses for syn where there is no file; one process if there is none.

    Raises:
        UsageError, DataError: see `orders_for_split`.
    """
    if config.name not in ORDERS:
        raise UsageError(f"unknown order {config.name!r}", where="order.name", fix="one of " + " ".join(ORDERS))
    rule = config.rule
    split = corpus.split(split_name)
    offsets, lines = np.asarray(split.target.offsets), np.asarray(split.lines)
    if rule.needs != "parses":
        context = order_context(corpus, config, seed=seed, epoch=epoch)
        for start, stop in _blocks(offsets, BLOCK_TOKENS):
            yield start, stop, rule.orders(_targets(split, start, stop), context)
        return
    parses = parses_for_split(corpus, split_name, config, pool=pool, bar=True)
    found = parses(_items(split))  # one stream, so that a pool works on the next block meanwhile
    for start, stop in _blocks(offsets, PARSED_BLOCK_TOKENS):
        parse_of = dict(zip(lines[start:stop].tolist(), islice(found, stop - start), strict=True))
        context = OrderContext(parses={line: parse for line, parse in parse_of.items() if parse is not None})
        yield start, stop, rule.orders(_targets(split, start, stop), context)
    parses.finish()


def _blocks(offsets: Ints, tokens: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of runs of targets with about this many tokens."""
    start, end = 0, len(offsets) - 1
    while start < end:
        stop = int(np.searchsorted(offsets, offsets[start] + tokens, side="right")) - 1
        stop = min(max(stop, start + 1), start + tokens, end)
        yield start, stop
        start = stop


def _targets(split: "Split", start: int, stop: int) -> Targets:
    """Return the targets of some items as a block."""
    offsets = np.asarray(split.target.offsets[start : stop + 1])
    return Targets(np.asarray(split.lines[start:stop]), _tokens(split.target, start, stop), offsets - offsets[0])


def _items(split: "Split") -> Iterator[Item]:
    """Yield raw line and ids of every target."""
    for start, stop in _blocks(np.asarray(split.target.offsets), PARSED_BLOCK_TOKENS):
        for item, line in enumerate(split.lines[start:stop].tolist(), start=start):
            yield line, split.target[item].tolist()


def _tokens(store: "Store", start: int, stop: int) -> Ints:
    """Return the ids of some targets, one after another."""
    return store.ids[store.offsets[start] : store.offsets[stop]].astype(np.int64)


def order_context(corpus: "Corpus", config: OrderConfig, *, seed: int = 0, epoch: int = 0) -> OrderContext:
    """Gather what the rule of `config.name` needs beside the targets, but for parses."""
    if config.rule.needs == "ranks":
        counts = target_counts(corpus)
        ranks = frequency_ranks(counts, rarest=UNK)
        return OrderContext(rank_of=ranks, cutoff=config.cutoff or balancing_cutoff(counts, ranks))
    return OrderContext(seed=seed, epoch=epoch)


def target_counts(corpus: "Corpus") -> Ints:
    """Return how often each vocabulary id occurs in the training targets."""
    train = corpus.split("train").target
    counts = np.zeros(len(corpus.codecs.target.vocabulary), dtype=np.int64)
    for start, stop in _blocks(train.offsets, BLOCK_TOKENS):
        counts += np.bincount(_tokens(train, start, stop), minlength=len(counts))
    return counts


def parses_for_split(
    corpus: "Corpus", split_name: str, config: OrderConfig, *, pool: ParserPool | None = None, bar: bool = False
) -> Parses:
    """Return what gives the parses of a split's targets: its CoNLL-U file, or spaCy.

    Args:
        pool: See `order_blocks`.
        bar: Show how far parsing is.

    Raises:
        UsageError: there is neither file nor model.
    """
    codec = corpus.codecs.target
    if split_name in config.parse:
        return ConlluParses(config.parse[split_name], codec)
    if pool is None:
        pool = parser_pool(corpus, config)
        fix = f"`indigo reorder {corpus.folder} syn` writes the orders once, for --orders"
        note(f"order syn: {pool.model.name} parses split {split_name}; {fix}")
    return SpacyParses(pool, total=len(corpus.split(split_name)) if bar else 0, label=f"parse {split_name}")


def parser_pool(corpus: "Corpus", config: OrderConfig, *, workers: int = 1) -> ParserPool:
    """Return what parses targets of the corpus with spaCy, and say what is known of its trees.

    Raises:
        UsageError: no spaCy, or no model for the language.
    """
    codec = corpus.codecs.target
    pool = ParserPool(corpus.folder, find_model(config.parser, codec.lang), workers=workers)
    if codec.lowercase:
        note(
            "the targets are lower-cased, and parsers learn from text as people write it: 2 % of the heads differ in "
            "English captions and news; a CoNLL-U file of the text as it was fits these targets too"
        )
    return pool


def assign(
    corpus: "Corpus",
    config: OrderConfig,
    *,
    splits: Sequence[str] = (),
    output: str = "",
    seed: int = 0,
    overwrite: bool = False,
    workers: int = 0,
) -> list[tuple[str, int]]:
    """Write the orders file of each split.

    Args:
        corpus: What to order.
        config: The order and what it needs.
        splits: All if empty.
        output: Instead of SPLIT.NAME.orders.jsonl in the corpus folder; for one split.
        seed: Of `rnd`, whose epoch 0 is written.
        overwrite: Replace files that stand.
        workers: Processes that parse, for syn without a file; 0 = as many as are worth their start.

    Returns: (path, number of targets) of each file.
    """
    names = list(splits) or list(corpus.splits)
    if output and len(names) > 1:
        raise UsageError(f"-o names one file, but there are {len(names)} splits", where="-o", fix="add --split NAME")
    paths = [output or str(Path(corpus.folder) / f"{name}.{config.name}.orders.jsonl") for name in names]
    for path in paths:
        refuse_existing(path, overwrite)
    needs = ORDERS[config.name].needs
    for key, needed_by in (("cutoff", "ranks"), ("parse", "parses"), ("parser", "parses")):
        if getattr(config, key) and needs != needed_by:
            note(f"order.{key} has no effect: order {config.name} does not need it")
    written: list[tuple[str, int]] = []
    with ExitStack() as opened:
        unparsed = [name for name in names if name not in config.parse] if needs == "parses" else []
        pool = None
        if unparsed:
            processes = num_workers(workers, sum(len(corpus.split(name)) for name in unparsed))
            pool = opened.enter_context(parser_pool(corpus, config, workers=processes))
        elif workers:
            note("--workers has no effect: nothing is to be parsed")
        for name, path in zip(names, paths, strict=True):
            header: dict[str, object] = {"order": config.name, "split": name, "corpus": corpus.digest, "seed": seed}
            if needs == "ranks":
                header["cutoff"] = order_context(corpus, config).cutoff
            if pool is not None and name in unparsed:
                header["parser"] = f"{pool.model.name} {pool.model.version}"
            rows = _rows(corpus.split(name), order_blocks(corpus, name, config, seed=seed, pool=pool))
            write_orders(path, header, rows, overwrite=overwrite)
            written.append((path, len(corpus.split(name))))
    return written


def _rows(split: "Split", blocks: Iterable[tuple[int, int, NDArray[np.int32]]]) -> Iterator[OrdersRow]:
    """Yield the rows of an orders file."""
    for start, stop, flat in blocks:
        offsets = split.target.offsets[start : stop + 1]
        bounds = (offsets - offsets[0]).tolist()
        for line, first, last in zip(split.lines[start:stop].tolist(), bounds[:-1], bounds[1:], strict=True):
            yield OrdersRow(line, (tuple(flat[first:last].tolist()),))
