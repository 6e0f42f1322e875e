"""Orders of a corpus: computed for a predefined rule, or read from an orders file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from indigo_cli.core.bpe import CONTINUES
from indigo_cli.core.console import warn
from indigo_cli.core.settings import NonNegativeInt
from indigo_cli.core.vocab import UNK
from indigo_cli.data.conllu import align, read_conllu
from indigo_cli.data.files import refuse_existing
from indigo_cli.data.orders_file import OrdersRow, read_orders, write_orders
from indigo_cli.errors import UsageError
from indigo_cli.orders import ORDERS, OrderContext, Parse, Targets
from indigo_cli.orders.common_first import balancing_cutoff, frequency_ranks
from indigo_cli.orders.rule import Ints

if TYPE_CHECKING:
    from indigo_cli.core.text import SideCodec
    from indigo_cli.data.corpus import Corpus, Store

BLOCK_TOKENS = 1 << 20
"""Orders are computed for about this many tokens at once, to bound memory."""

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
    """

    name: str = "l2r"
    file: str = ""
    cutoff: NonNegativeInt = 0
    parse: dict[str, str] = field(default_factory=dict)


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
        found = read_orders(
            config.file, ids=split.lines, lengths=split.target.lengths, split=split_name, corpus=corpus.digest
        )
        return found.flat, offsets
    if config.name not in ORDERS:
        raise UsageError(f"unknown order {config.name!r}", where="order.name", fix="one of " + " ".join(ORDERS))
    rule = ORDERS[config.name]
    context = order_context(corpus, split_name, config, seed=seed, epoch=epoch)
    flat = np.empty(int(offsets[-1]), dtype=np.int32)
    for start, stop in _blocks(offsets):
        tokens = _tokens(split.target, start, stop)
        block = Targets(np.asarray(split.lines[start:stop]), tokens, offsets[start : stop + 1] - offsets[start])
        flat[offsets[start] : offsets[stop]] = rule.orders(block, context)
    return flat, offsets


def _blocks(offsets: Ints) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of runs of targets with about BLOCK_TOKENS tokens."""
    start, end = 0, len(offsets) - 1
    while start < end:
        stop = int(np.searchsorted(offsets, offsets[start] + BLOCK_TOKENS, side="right")) - 1
        stop = min(max(stop, start + 1), start + BLOCK_TOKENS, end)
        yield start, stop
        start = stop


def _tokens(store: "Store", start: int, stop: int) -> Ints:
    """Return the ids of some targets, one after another."""
    return store.ids[store.offsets[start] : store.offsets[stop]].astype(np.int64)


def order_context(
    corpus: "Corpus", split_name: str, config: OrderConfig, *, seed: int = 0, epoch: int = 0
) -> OrderContext:
    """Gather what the rule of `config.name` needs beside the targets."""
    needs = ORDERS[config.name].needs
    if needs == "ranks":
        counts = target_counts(corpus)
        ranks = frequency_ranks(counts, rarest=UNK)
        return OrderContext(rank_of=ranks, cutoff=config.cutoff or balancing_cutoff(counts, ranks))
    if needs == "parses":
        return OrderContext(parses=parses_for_split(corpus, split_name, config))
    return OrderContext(seed=seed, epoch=epoch)


def target_counts(corpus: "Corpus") -> Ints:
    """Return how often each vocabulary id occurs in the training targets."""
    train = corpus.split("train").target
    counts = np.zeros(len(corpus.codecs.target.vocabulary), dtype=np.int64)
    for start, stop in _blocks(train.offsets):
        counts += np.bincount(_tokens(train, start, stop), minlength=len(counts))
    return counts


def parses_for_split(corpus: "Corpus", split_name: str, config: OrderConfig) -> dict[int, Parse]:
    """Read the trees of a split and align them with its tokens."""
    if split_name not in config.parse:
        raise UsageError(
            f"order syn needs a dependency parse of the target side of split {split_name!r}",
            where=f"order.parse.{split_name}",
            fix=f"`indigo reorder --parse FILE`, or `--set order.parse.{split_name}=FILE`",
        )
    trees = read_conllu(config.parse[split_name])
    split, codec = corpus.split(split_name), corpus.codecs.target
    spelling = _Spelling(codec)
    parses: dict[int, Parse] = {}
    for item, line in enumerate(split.lines.tolist()):
        ids = split.target[item].tolist()
        if ids and line in trees:
            tree = trees[line]
            spans = align([spelling.token(i) for i in ids], tree, normalise=spelling.word)
            parses[line] = Parse(tree.heads, spelling.whole_words(ids, spans), where=tree.where)
    if parses and all(parse.heads == tuple(range(len(parse.heads))) for parse in parses.values()):
        warn(f"in {config.parse[split_name]} every word is a root: syn gives left to right; is it parsed at all?")
    return parses


class _Spelling:
    """The characters that tokens and words share, after the codec's own normalisation of both."""

    def __init__(self, codec: "SideCodec") -> None:
        self._codec = codec
        self._words: dict[str, str] = {}

    def token(self, token_id: int) -> str | None:
        """Return the text of a token without marks of continuation and white space; None if it is not known."""
        return None if token_id == UNK else self._piece(self._codec.vocabulary.token(token_id))

    def _piece(self, piece: str) -> str:
        return "".join(self._codec.text([piece]).split())

    def word(self, text: str) -> str:
        """Spell a word of the tree as the codec would."""
        if text not in self._words:
            self._words[text] = "".join(self._piece(piece) for piece in self._codec.pieces(text))
        return self._words[text]

    def whole_words(self, ids: Sequence[int], spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Give all pieces of a token the words that the whole token covers, so that they stay together."""
        if self._codec.bpe is None:
            return tuple(spans)
        whole: list[tuple[int, int]] = []
        start = 0
        for stop, token_id in enumerate(ids, start=1):
            if stop == len(ids) or not self._codec.vocabulary.token(token_id).endswith(CONTINUES):
                group = spans[start:stop]
                whole += [(min(first for first, _ in group), max(last for _, last in group))] * len(group)
                start = stop
        return tuple(whole)


def assign(
    corpus: "Corpus",
    config: OrderConfig,
    *,
    splits: Sequence[str] = (),
    output: str = "",
    seed: int = 0,
    overwrite: bool = False,
) -> list[tuple[str, int]]:
    """Write the orders file of each split.

    Args:
        corpus: What to order.
        config: The order and what it needs.
        splits: All if empty.
        output: Instead of SPLIT.NAME.orders.jsonl in the corpus folder; for one split.
        seed: Of `rnd`, whose epoch 0 is written.
        overwrite: Replace files that stand.

    Returns: (path, number of targets) of each file.
    """
    names = list(splits) or list(corpus.splits)
    if output and len(names) > 1:
        raise UsageError(f"-o names one file, but there are {len(names)} splits", where="-o", fix="add --split NAME")
    paths = [output or str(Path(corpus.folder) / f"{name}.{config.name}.orders.jsonl") for name in names]
    for path in paths:
        refuse_existing(path, overwrite)
    written: list[tuple[str, int]] = []
    for name, path in zip(names, paths, strict=True):
        flat, offsets = orders_for_split(corpus, name, config, seed=seed)
        header: dict[str, object] = {"order": config.name, "split": name, "corpus": corpus.digest, "seed": seed}
        if ORDERS[config.name].needs == "ranks":
            header["cutoff"] = order_context(corpus, name, config).cutoff
        lines = corpus.split(name).lines.tolist()
        rows = (
            OrdersRow(line, (tuple(flat[start:stop].tolist()),))
            for line, start, stop in zip(lines, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        )
        write_orders(path, header, rows, overwrite=overwrite)
        written.append((path, len(lines)))
    return written
