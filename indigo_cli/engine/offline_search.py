"""A run and known targets -> the best orders of each under the model, as an orders file.

The targets are cut into blocks of a fixed number. A block is the work of one process, in batches that never cross it,
and is kept as soon as it is finished: the file is the same from any number of processes, and whatever was killed on the
way.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from indigo_cli.core import console
from indigo_cli.core.settings import apply_overrides, parse_section, place_of
from indigo_cli.data.files import STANDARD_STREAM, refuse_existing
from indigo_cli.data.orders_file import read_order_rows, write_orders
from indigo_cli.engine.distributed import Processes, check_shared, processes_of
from indigo_cli.engine.health_flags import frequent_types
from indigo_cli.engine.lines import LineCount
from indigo_cli.engine.loaded_run import LoadedRun, load_run
from indigo_cli.engine.order_health import SEARCH, FoundTarget, OrderHealth
from indigo_cli.engine.order_searcher import Found, OrderSearcher
from indigo_cli.engine.parts import check_same, parts_folder
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.search_config import NO_REFERENCE, SEARCHED, SearchConfig, with_preset
from indigo_cli.engine.search_parts import SearchParts
from indigo_cli.engine.search_summary import SearchSummary
from indigo_cli.engine.search_targets import SearchTargets, SplitTargets, TextTargets, rereadable
from indigo_cli.engine.targets import Item, check_options, check_targets
from indigo_cli.errors import IndigoError, RecipeError, UsageError
from indigo_cli.orders import ORDERS

BLOCK_TARGETS = 512
"""Targets of a block: seconds to minutes of work, all that a kill can cost."""


def search_split(
    run: Path,
    *,
    split: str = "",
    source: str = "",
    target: str = "",
    corpus_folder: Path | None = None,
    checkpoint: str = "",
    output: str = "",
    settings: Sequence[str] = (),
    overrides: Sequence[str] = (),
    seed: int | None = None,
    runtime: Runtime | None = None,
    overwrite: bool = False,
    resume: bool = False,
) -> SearchSummary | None:
    """Search the orders of known targets and write an orders file.

    Args:
        run: Run folder.
        split: Of the run's corpus; `train` if no file is named.
        source, target: Text files, `-` is standard input; no sources for a task that makes them from targets.
        corpus_folder: Instead of the one that the run recorded.
        checkpoint: See `load_run`.
        output: File, or `-`; empty = SPLIT.sao.orders.jsonl in the corpus folder, standard output for text.
        settings: `search.key=value`, stronger than `overrides`.
        overrides: `section.key=value`.
        seed: Of dropout and noise; None takes the recipe's.
        runtime: Device, precision, threads.
        overwrite: Replace an output or finished blocks that stand.
        resume: Go on from the finished blocks.

    Returns: None on every process but the first, and where a whole file of an older version stands.

    Raises:
        UsageError: a run or options that cannot be used, an output in the way.
        RecipeError: wrong [search] settings.
        DataError: a damaged file.
    """
    if overwrite and resume:
        raise UsageError("--resume keeps what --overwrite deletes", where="--resume", fix="give one of the two")
    check_options(source=source, target=target, split=split)
    runtime = runtime or Runtime()
    with processes_of(runtime) as processes, ExitStack() as opened:
        of_search = [text for text in overrides if text.startswith("search.")]
        others = [text for text in overrides if not text.startswith("search.")]
        loaded = load_run(run, checkpoint=checkpoint, overrides=others, device=processes.device)
        config = search_config(loaded, [*of_search, *settings])
        seed = loaded.recipe.seed if seed is None else seed
        searcher = OrderSearcher(loaded, config, seed=seed, device=processes.device, runtime=runtime)
        targets: SearchTargets
        if target:
            bag = loaded.codecs.source_is_bag
            check_targets(source=source, split=split, source_is_bag=bag, traces=False)
            for file in (source, target):
                check_shared(file, processes)
            files = [opened.enter_context(rereadable(file)) for file in (source, target)]
            targets = TextTargets(loaded, files[0], files[1], names=(source, target))
        else:
            max_length = loaded.recipe.preprocess.max_length
            targets = SplitTargets(loaded.open_corpus(corpus_folder), split or "train", max_length=max_length)
        job = _Job(loaded, targets, searcher, precision=runtime.precision, path=output or targets.output)
        standing = processes.first_does(lambda: job.begin(opened, resume=resume, overwrite=overwrite))
        if standing is None:
            job.search_missing(processes)
        if not processes.is_first:
            return None
        if standing is None:
            summary = job.finish()
        else:
            console.note(f"{job.path} is complete already")
            summary = job.summary(standing.get(SEARCH))
    console.warn_of(job.warnings())
    return summary


def search_config(run: LoadedRun, overrides: Sequence[str]) -> SearchConfig:
    """Return the run's [search] section with other settings; a run that never searched has the usual ones.

    Args:
        overrides: `search.key=value`. The reference can be `l2r` or `none`; a note says so of another one of the run.

    Raises:
        UsageError, RecipeError: a wrong setting, or another reference set here.
    """
    written, places = apply_overrides({"search": {}}, overrides)
    table = {**asdict(run.recipe.search), **with_preset(written["search"])}
    config, faults = parse_section(SearchConfig, table, prefix=("search",), places=places)
    if config is None:
        raise RecipeError(faults)
    if config.reference in ("l2r", NO_REFERENCE):
        return config
    key = ("search", "reference")
    if key in places:
        fix = f'set it to "l2r" or "{NO_REFERENCE}"; `indigo reorder` writes files of other orders'
        raise UsageError(
            f"only l2r can compete offline, not {config.reference!r}", where=place_of(key, places), fix=fix
        )
    console.note(f"search.reference = {config.reference!r} competes in training only: here nothing does")
    return replace(config, reference=NO_REFERENCE)


def _advised(run: LoadedRun, reference: str) -> SearchConfig:
    """Return what advice on the figures goes by: what the run learnt first, and what competes in the file."""
    name = run.recipe.order.name
    if name == SEARCHED:
        return replace(run.recipe.search, reference=reference)
    return SearchConfig(bootstrap_order=name if name in ORDERS else "l2r", reference=reference)


class _Job:
    """What is searched, by blocks, and where to.

    Args:
        path: Of the output, or `-`.
    """

    parts: SearchParts
    """Of process 0, as what follows."""
    missing: Sequence[int] = ()

    def __init__(
        self, run: LoadedRun, targets: SearchTargets, searcher: OrderSearcher, *, precision: str, path: str
    ) -> None:
        self.run, self.targets, self.searcher, self.path = run, targets, searcher, path
        self.count = -(-targets.total // BLOCK_TARGETS)
        self.advance: Callable[[int], None] = lambda count: None
        self.replaces = False
        self.cut, self.long = LineCount(), LineCount()
        config = searcher.config
        self.settings: dict[str, Any] = {
            **targets.header,
            "weights": run.weights_digest(),
            "beam": config.beam_size,
            "dropout": config.dropout,
            "slot_weight": config.slot_weight,
            "gumbel": config.gumbel,
            "whole_words": config.whole_words,
            "reference": config.reference,
            "seed": searcher.seed,
        }
        # Batches may be cut in another way when a search goes on, e.g. with less memory: scores stay within 1e-4.
        self.facts = {
            **self.settings,
            "model": asdict(run.recipe.model),
            "max_length": run.recipe.preprocess.max_length,
            "precision": precision,
            "block": BLOCK_TARGETS,
        }

    def begin(self, opened: ExitStack, *, resume: bool, overwrite: bool) -> Mapping[str, Any] | None:
        """Find the missing blocks, on process 0; return the header of the output instead if that stands already."""
        folder = opened.enter_context(parts_folder(self.path, resume=resume))
        self.parts = SearchParts(folder, self.facts, self.count)
        self.replaces = overwrite or (resume and self.parts.replaces())
        header = self._header_of_output() if resume else None
        if header is None:
            refuse_existing(self.path, self.replaces)
        opened.enter_context(self.parts.lock())
        if header is not None:
            self.parts.remove()  # what a kill left behind it
            return header
        self.missing = self.parts.open(resume=resume, overwrite=overwrite)
        return None

    def _header_of_output(self) -> Mapping[str, Any] | None:
        """Return the header of an output as this search writes it; None if it is still to be written.

        Raises:
            UsageError: the output was made with other settings.
            DataError: it is something else.
        """
        if self.path == STANDARD_STREAM or not os.path.isfile(self.path):
            return None
        try:
            header = read_order_rows(self.path)[0]
            check_same(header, self.header(), what="the file was made", where=f"{self.path}:1")
        except IndigoError:
            if self.replaces:
                return None
            raise
        return header

    def header(self) -> dict[str, Any]:
        """Return what the orders file says of where it comes from."""
        return {"order": SEARCHED, **self.targets.header, **self.run.header(), **self.settings}

    def _within(self, number: int) -> range:
        return range(number * BLOCK_TARGETS, min((number + 1) * BLOCK_TARGETS, self.targets.total))

    def search_missing(self, processes: Processes) -> None:
        """Search what is missing and keep it; every process does its part."""
        missing = processes.first_does(lambda: self.missing)
        done = self.targets.total - sum(len(self._within(number)) for number in missing)
        with console.progress("search", total=self.targets.total, unit="targets", start=done) as bar:
            self.advance = bar.advance
            for place, (number, (seconds, found)) in enumerate(processes.in_order(missing, self._search)):
                self.parts.write(number, seconds, found)
                if place % processes.world:  # another process worked on it
                    bar.advance(len(found))

    def _search(self, number: int) -> tuple[float, list[Found]]:
        """Search a block; return the seconds it took, too."""
        clock = time.process_time if self.searcher.device.type == "cpu" else time.monotonic
        began = clock()
        found = self.searcher.find(list(self.targets.items(self._within(number))), self.advance)
        return clock() - began, found

    def finish(self) -> SearchSummary | None:
        """Write the file from the finished blocks, with what they come to in its header."""
        health = OrderHealth(lengths=self.targets.lengths, frequent=frequent_types(self.run.codecs.target.vocabulary))
        seconds = 0.0
        for number in range(self.count):
            took, block = self._read(number)
            seconds += took
            for found, item in zip(block, self.targets.items(self._within(number)), strict=True):
                health.add(self._found_target(found, item))
                self._count(item)
        figures = health.row()
        competes = self.searcher.config.has_reference
        rows = (found.ranked(with_l2r=competes) for n in range(self.count) for found in self._read(n)[1])
        write_orders(self.path, {**self.header(), SEARCH: figures}, rows, overwrite=self.replaces)
        self.parts.remove()
        return self.summary(figures, seconds)

    def _read(self, number: int) -> tuple[float, list[Found]]:
        return self.parts.read(number, self.targets.ids(self._within(number)))

    def _found_target(self, found: Found, item: Item) -> FoundTarget:
        row = found.row
        assert row.parts is not None and row.bound is not None
        return FoundTarget(
            tokens=self.run.codecs.target.vocabulary.decode(item.target),
            order=row.orders[0],
            word=row.parts.words[0],
            slot=row.parts.slots[0],
            end=row.parts.ends[0] or 0.0,
            log_sum=row.bound,
            l2r=found.l2r,
            num_orders=len(row.orders),
            num_nodes=found.num_nodes,
        )

    def summary(self, figures: Any, seconds: float = 0.0) -> SearchSummary | None:
        """Return the report; None where a header has no figures, or not these."""
        if not isinstance(figures, dict) or not figures.keys() >= OrderHealth().row().keys():
            return None
        unit = "CPU second" if self.searcher.device.type == "cpu" else "device second"
        config = _advised(self.run, self.searcher.config.reference)
        return SearchSummary(figures, config, self.path, unit=unit, seconds=seconds)

    def _count(self, item: Item) -> None:
        for count, happened in (
            (self.cut, item.source.cut),
            (self.long, len(item.target) > self.run.recipe.preprocess.max_length),
        ):
            if happened:
                count.add(item.line)

    def warnings(self) -> list[str]:
        """Return one line for each kind of target that was not read as a user may expect."""
        kinds = (
            (self.cut, "read with a source cut to preprocess.max_length, as in decoding"),
            (self.long, "longer than preprocess.max_length, which training never saw"),
        )
        return [count.text(what) for count, what in kinds if count.count]
