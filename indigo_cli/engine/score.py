"""A run and given targets -> what each of them costs in given orders, as an orders file; in input order.

Numbers are sums of `System.log_probs`: clean, in nats. A run's own orders are scored as in its validation, so the
figures of the summary continue those of its log.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from indigo_cli.core import console
from indigo_cli.core.chunks import chunked
from indigo_cli.core.order import Order, stages
from indigo_cli.data.batch import NO_WISH
from indigo_cli.data.batching import PAIRS_PER_TOKEN, token_batches
from indigo_cli.data.collate import collate
from indigo_cli.data.files import read_lines, refuse_existing
from indigo_cli.data.orders_file import OrdersRow, Parts, write_orders
from indigo_cli.engine.distributed import Processes, check_shared, processes_of
from indigo_cli.engine.lines import BLOCK_LINES
from indigo_cli.engine.loaded_run import LoadedRun, load_run
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.score_rounds import in_rounds, in_whole_rounds, made_alike, replayed
from indigo_cli.engine.score_summary import ScoreSummary
from indigo_cli.engine.target_orders import FileOrders, Orders, OwnOrders, trained_orders
from indigo_cli.engine.targets import (
    Item,
    SplitSources,
    TextSources,
    check_options,
    check_targets,
    open_targets,
    split_items,
    text_items,
    trace_items,
)
from indigo_cli.engine.training_orders import own_order
from indigo_cli.errors import DataError, RunError, UsageError
from indigo_cli.models import MODELS


class _Share(NamedTuple):
    """Some orders of one target: what goes into a batch together."""

    place: int
    first: int
    orders: tuple[Order, ...]


class Scorer:
    """Scores targets with one loaded run.

    Args:
        run: Its recipe's `train.batch_tokens` bounds a batch.
        device: Where its weights are.
        runtime: Precision.

    Raises:
        UsageError: several runs at once.
    """

    def __init__(self, run: LoadedRun, *, device: torch.device, runtime: Runtime) -> None:
        if run.others:
            raise UsageError("an ensemble decodes, but does not score", where=str(run.folder.path), fix="load one run")
        self.run, self.device, self.runtime = run, device, runtime
        self.in_rounds = in_rounds(run)
        self.batch_tokens: int = run.recipe.train.batch_tokens

    def blocks(
        self, items: Iterable[Item], orders: Orders, processes: Processes | None = None
    ) -> Iterator[list[tuple[Item, OrdersRow]]]:
        """Yield every item with its row, block by block: memory does not grow with their number.

        Several processes share the blocks; the first one gets the rows.

        Raises:
            UsageError: an order that the system cannot score.
            DataError: orders and items do not belong together.
        """
        blocks = ((block, orders(block)) for block in chunked(items, BLOCK_LINES))
        for (block, _), rows in (processes or Processes()).in_order(blocks, lambda pair: self._rows(*pair)):
            yield list(zip(block, rows, strict=True))
        orders.finish()

    def _rows(self, block: Sequence[Item], orders: Sequence[tuple[Order, ...]]) -> list[OrdersRow]:
        """Return the row of each item, best order first. Batches are of similar length and never cross a block."""
        self._check(block, orders)
        sums = [np.empty((3, len(own))) for own in orders]  # words, slots, ends
        for batch in self._batches(block, orders):
            for share, found in zip(batch, self._sums([block[s.place] for s in batch], batch), strict=True):
                sums[share.place][:, share.first : share.first + len(share.orders)] = found
        return [
            best_first(item, own, parts, one_history=self.in_rounds)
            for item, own, parts in zip(block, orders, sums, strict=True)
        ]

    def _check(self, block: Sequence[Item], orders: Sequence[tuple[Order, ...]]) -> None:
        system = self.run.recipe.system
        if MODELS[system].orders is None:
            return
        for item, own in zip(block, orders, strict=True):
            if any(order != tuple(range(len(item.target))) for order in own):
                raise UsageError(
                    f"system {system!r} scores l2r only, but target {item.line} (from 0) is in another order",
                    where=str(self.run.folder.path),
                    fix="leave --orders out; of a traces file, score its text",
                )

    def _batches(self, block: Sequence[Item], orders: Sequence[tuple[Order, ...]]) -> Iterator[list[_Share]]:
        """Yield batches whose targets have equally many orders; the orders of one target may be more than a batch.

        What is to be replayed is kept apart: whatever else stands in a batch, a target is scored in one way.
        """
        alike: dict[tuple[int, bool], list[_Share]] = {}
        for place, own in enumerate(orders):
            length = len(block[place].target) + 1
            most = max(1, self.batch_tokens * PAIRS_PER_TOKEN // (length * max(PAIRS_PER_TOKEN, length)))
            for first in range(0, len(own), most):
                share = _Share(place, first, own[first : first + most])
                alike.setdefault((len(share.orders), self._is_replayed(block[place])), []).append(share)
        for (count, is_replayed), shares in alike.items():
            most = min(self.batch_tokens, self.run.recipe.decode.batch_tokens) if is_replayed else self.batch_tokens
            items = [block[share.place] for share in shares]
            for batch in token_batches(
                np.array([len(item.target) for item in items], dtype=np.int64),
                np.array([len(item.source.ids) for item in items], dtype=np.int64),
                batch_tokens=max(1, most // count),
                rng=np.random.default_rng(0),
            ):
                yield [shares[i] for i in batch]

    def _wishes(self, items: Sequence[Item]) -> list[int]:
        """Return the length that each target was to have; nothing where none was wished, so that it is its own."""
        if self.run.length_unit is None or all(item.wish is None for item in items):
            return []
        return [NO_WISH if item.wish is None else item.wish for item in items]

    def _is_replayed(self, item: Item) -> bool:
        """Tell whether a hypothesis grew in rounds from given words, which no pass over the target sees stand."""
        return self.in_rounds and item.given > 0

    def _sums(self, items: Sequence[Item], shares: Sequence[_Share]) -> Iterator[NDArray[np.float64]]:
        """Yield (3, K) sums over the steps of each share: words, slots, `<eod>`."""
        if self._is_replayed(items[0]):
            yield from replayed(self.run.system, items, self._wishes(items), self.device, self.runtime)
            return
        batch = collate(
            [f"target {item.line}" for item in items],
            [item.source.ids for item in items],
            [item.target for item in items],
            [share.orders for share in shares],
            wishes=self._wishes(items),
        )
        system = self.run.system
        log_probs = system.serial_log_probs if self.run.in_rounds and not self.in_rounds else system.log_probs
        with torch.inference_mode(), self.runtime.autocast(self.device):
            steps = log_probs(batch.to(self.device))
        words, slots = steps.words.double().cpu().numpy(), steps.slots.double().cpu().numpy()
        for i, item in enumerate(items):
            made = slice(item.given, len(item.target))
            end = words[i, :, len(item.target)] * item.ended
            yield np.stack((words[i, :, made].sum(axis=1), slots[i, :, made].sum(axis=1), end))


def best_first(
    item: Item, orders: Sequence[Order], sums: NDArray[np.float64], *, one_history: bool = False
) -> OrdersRow:
    """Return the row of a target.

    Args:
        item: The target.
        orders: K different ones.
        sums: (3, K) words, slots and `<eod>` of each, nats.
        one_history: Orders with the same stages are one history, which the bound counts once.

    Raises:
        RunError: a sum is not finite.
    """
    log_probs = sums.sum(axis=0)
    if not np.isfinite(log_probs).all():
        raise not_finite(item)
    best_first = np.argsort(-log_probs, kind="stable").tolist()
    words, slots, ends = sums[:, best_first].tolist()
    different = list({stages(orders[k]): k for k in best_first}.values()) if one_history else best_first
    return OrdersRow(
        item.line,
        tuple(orders[k] for k in best_first),
        log_probs=tuple(log_probs[best_first].tolist()),
        parts=Parts(tuple(words), tuple(slots), tuple(ends) if item.ended else (None,) * len(orders)),
        bound=float(np.logaddexp.reduce(log_probs[sorted(different)])),
        rank=item.rank,
    )


def not_finite(item: Item) -> RunError:
    """Return the fault of a model whose numbers have broken."""
    what = f"the model gives target {item.line} (from 0) no finite log-probability"
    return RunError(what, fix="take another checkpoint, or --precision fp32")


def score(
    run: Path,
    *,
    split: str = "",
    source: str = "",
    target: str = "",
    corpus_folder: Path | None = None,
    orders: Path | None = None,
    draws: int = 1,
    output: str = "-",
    checkpoint: str = "",
    overrides: Sequence[str] = (),
    seed: int | None = None,
    runtime: Runtime | None = None,
    overwrite: bool = False,
) -> ScoreSummary:
    """Score targets and write an orders file.

    Args:
        run: Run folder.
        split: A split of the run's corpus; `valid` if nothing else is named. With traces: what they were decoded from.
        source: Text file of the sources, `-` is standard input; none for a task that makes them from targets.
        target: Text file of the targets, or a traces file, told by its header line.
        corpus_folder: Instead of the one that the run recorded.
        orders: Orders file; default: the order that the run was trained on.
        draws: How many orders of a target, where they are drawn (`rnd`).
        output: File, or `-`.
        checkpoint, overrides: See `load_run`.
        seed: Of the draws; None takes the recipe's.
        runtime: Device, precision, threads.
        overwrite: Replace an output that stands.

    Raises:
        UsageError: options, run or orders that cannot be used together.
        DataError: a damaged or foreign file.
    """
    refuse_existing(output, overwrite)
    runtime = runtime or Runtime()
    with processes_of(runtime) as processes:
        for file in (source, target):
            check_shared(file, processes)
        loaded = load_run(run, checkpoint=checkpoint, overrides=overrides, device=processes.device)
        seed = loaded.recipe.seed if seed is None else seed
        summary = ScoreSummary(in_rounds(loaded))
        job = _Job(loaded, split=split, source=source, target=target, corpus_folder=corpus_folder)
        chosen = job.orders(orders, seed=seed, draws=draws)
        blocks = Scorer(loaded, device=processes.device, runtime=runtime).blocks(job.items, chosen, processes)

        def rows(bar: console.Progress) -> Iterator[OrdersRow]:
            for block in blocks:
                for item, row in block:
                    summary.add(item, row, max_length=loaded.recipe.preprocess.max_length)
                    yield row
                bar.advance(len(block))

        header = {"order": chosen.name, **job.header, **loaded.header()}
        if not processes.is_first:
            deque(blocks, maxlen=0)
            return summary
        try:
            with console.progress("score", total=job.total, unit="targets") as bar:
                write_orders(output, header, rows(bar), overwrite=overwrite)
        except DataError:
            console.warn_of(summary.warnings())  # of the targets before the one that cannot be read
            raise
    console.warn_of(summary.warnings())
    return summary


class _Job:
    """What is to be scored: a stream of items, and what the header says of it."""

    def __init__(self, run: LoadedRun, *, split: str, source: str, target: str, corpus_folder: Path | None) -> None:
        check_options(source=source, target=target, split=split)
        self.run, self.corpus_folder = run, corpus_folder
        self.split = split or ("" if source or target else "valid")
        self.total: int | None = None
        self.header: dict[str, object] = {}
        vocabulary, max_length = run.codecs.target.vocabulary, run.recipe.preprocess.max_length
        self.traces = False
        if not target:
            corpus = run.open_corpus(corpus_folder)
            self.items = split_items(corpus, self.split, max_length=max_length)
            self.total = len(corpus.split(self.split))
            self.header = {"split": self.split, "corpus": corpus.digest}
            return
        lines, records = open_targets(target, vocabulary.digest, run.length_unit)
        self.traces = records is not None
        check_targets(source=source, split=split, source_is_bag=run.codecs.source_is_bag, traces=self.traces)
        if records is None:
            source_lines = read_lines(source) if source else None
            names = (source, target)
            self.items = text_items(run.codecs, source_lines, lines, max_length=max_length, names=names)
            return
        sources: SplitSources | TextSources
        if split:
            sources = SplitSources(run.open_corpus(corpus_folder), split, max_length=max_length)
        else:
            sources = TextSources(run.codecs, source, max_length=max_length)
        if run.in_rounds:
            records = made_alike(records, rounds=in_rounds(run))
        self.items = trace_items(records, sources, vocabulary_size=len(vocabulary))
        if in_rounds(run):
            self.items = in_whole_rounds(self.items)

    def orders(self, path: Path | None, *, seed: int, draws: int) -> Orders:
        """Return in which orders the items are scored."""
        if (path is not None or self.traces) and draws != 1:
            raise UsageError("these orders are not drawn", where="--draws", fix="leave it out")
        if self.traces:
            if path is not None:
                fix = "leave --orders out, or score the text of the hypotheses"
                raise UsageError("traces are scored in the orders they have", where="--orders", fix=fix)
            return OwnOrders()
        if path is not None:
            return FileOrders(path, split=self.split, corpus=str(self.header.get("corpus", "")))
        own = trained_orders(
            own_order(self.run.recipe, self.run.recipe.order.name),
            split=self.split,
            open_corpus=lambda: self.run.open_corpus(self.corpus_folder),
            seed=seed,
            draws=draws,
        )
        self.header = {**self.header, **({"seed": seed, "draws": draws} if own.redrawn else {})}
        return own
