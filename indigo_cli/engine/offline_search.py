"""A run and a split -> the best orders of every known target under the model, as an orders file.

The split is cut into blocks of a fixed number of targets. A block is the work of one process, in batches that never
cross it, and is kept as soon as it is finished: the file is the same from any number of processes, and whatever was
killed on the way.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from indigo_cli.core import console
from indigo_cli.core.settings import apply_overrides, parse_section
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import STANDARD_STREAM, refuse_existing, sha256_file
from indigo_cli.data.orders_file import OrdersRow, read_order_rows, write_orders
from indigo_cli.engine.checkpoint import MODEL_FILE
from indigo_cli.engine.distributed import processes_of
from indigo_cli.engine.generate import say
from indigo_cli.engine.health_flags import frequent_types
from indigo_cli.engine.line_scores import buckets
from indigo_cli.engine.lines import LineCount
from indigo_cli.engine.loaded_run import LoadedRun, load_run
from indigo_cli.engine.order_health import LENGTHS, OrderHealth
from indigo_cli.engine.order_searcher import Found, OrderSearcher
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.search_config import NO_REFERENCE, SEARCHED, SearchConfig, with_preset
from indigo_cli.engine.search_parts import SearchParts, check_same
from indigo_cli.engine.search_summary import SearchSummary
from indigo_cli.engine.targets import split_items
from indigo_cli.errors import RecipeError, UsageError
from indigo_cli.orders import ORDERS

BLOCK_TARGETS = 512
"""Kept targets of a block: seconds to minutes of work, all that a kill can cost."""
PARTS = ".parts"


def search_split(
    run: Path,
    *,
    split: str = "",
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
    """Search the orders of a split and write an orders file.

    Args:
        run: Run folder.
        split: `train` if empty.
        corpus_folder: Instead of the one that the run recorded.
        checkpoint: See `load_run`.
        output: File, or `-`; empty = SPLIT.sao.orders.jsonl in the corpus folder.
        settings: `search.key=value`, stronger than `overrides`.
        overrides: `section.key=value`.
        seed: Of dropout and noise; None takes the recipe's.
        runtime: Device, precision, threads.
        overwrite: Replace an output or finished blocks that stand.
        resume: Go on from the finished blocks.

    Returns: None if there was nothing to do, and on every process but the first.

    Raises:
        UsageError: a run or options that cannot be used, an output in the way.
        RecipeError: wrong [search] settings.
    """
    if overwrite and resume:
        raise UsageError("--resume keeps what --overwrite deletes", where="--resume", fix="give one of the two")
    runtime = runtime or Runtime()
    with processes_of(runtime) as processes, ExitStack() as opened:
        of_search = [text for text in overrides if text.startswith("search.")]
        others = [text for text in overrides if not text.startswith("search.")]
        loaded = load_run(run, checkpoint=checkpoint, overrides=others, device=processes.device)
        config = search_config(loaded, [*of_search, *settings])
        seed = loaded.recipe.seed if seed is None else seed
        searcher = OrderSearcher(loaded, config, seed=seed, device=processes.device, runtime=runtime)
        job = _Job(loaded, loaded.open_corpus(corpus_folder), split or "train", searcher, precision=runtime.precision)
        path = output or str(job.corpus.folder / f"{job.split.name}.{SEARCHED}.orders.jsonl")

        def begin() -> list[int] | None:
            """Return the numbers of the missing blocks; None if the output stands already. Process 0 alone."""
            written = resume and job.is_written(path)
            if not written:
                refuse_existing(path, overwrite)
            job.parts = SearchParts(opened.enter_context(_parts_folder(path, resume=resume)), job.facts, job.count)
            opened.enter_context(job.parts.lock())
            if written:
                job.parts.remove()  # what a kill left behind it
                return None
            return job.parts.open(resume=resume, overwrite=overwrite)

        missing = processes.first_does(begin)
        if missing is None:
            console.note(f"{path} is complete already")
            return None
        done = sum(len(job.ids(number)) for number in range(job.count)) - sum(len(job.ids(n)) for n in missing)
        with console.progress("search", total=len(job.split), unit="targets", start=done) as bar:
            job.advance = bar.advance
            for place, (number, (seconds, found)) in enumerate(processes.in_order(missing, job.search)):
                job.parts.write(number, seconds, found)
                if place % processes.world:  # another process worked on it
                    bar.advance(len(found))
        if not processes.is_first:
            return None
        summary = SearchSummary(
            OrderHealth(
                lengths=buckets(job.split.target.lengths) if len(job.split) else LENGTHS,
                frequent=frequent_types(loaded.codecs.target.vocabulary),
            ),
            learnt=_learnt(loaded),
            output=path,
            unit="CPU second" if processes.device.type == "cpu" else "device second",
        )
        write_orders(path, job.header(), job.rows(summary), overwrite=overwrite)
        job.parts.remove()
    say(job.warnings())
    return summary


def search_config(run: LoadedRun, overrides: Sequence[str]) -> SearchConfig:
    """Return the run's [search] section with other settings; a run that never searched has the usual ones.

    Args:
        overrides: `search.key=value`.

    Raises:
        UsageError, RecipeError: a wrong setting.
    """
    written, places = apply_overrides({"search": {}}, overrides)
    table = {**asdict(run.recipe.search), **with_preset(written["search"])}
    config, faults = parse_section(SearchConfig, table, prefix=("search",), places=places)
    if config is None:
        raise RecipeError(faults)
    return config


def _learnt(run: LoadedRun) -> SearchConfig:
    """Return how the run came by its orders: it searched, or it has learnt a predefined one from the start."""
    name = run.recipe.order.name
    if name == SEARCHED:
        config: SearchConfig = run.recipe.search
        return config
    return SearchConfig(bootstrap_order=name if name in ORDERS else "l2r", reference=NO_REFERENCE)


class _Job:
    """What is searched, by blocks."""

    parts: SearchParts
    """Of process 0."""

    def __init__(self, run: LoadedRun, corpus: Corpus, name: str, searcher: OrderSearcher, *, precision: str) -> None:
        self.run, self.corpus, self.searcher = run, corpus, searcher
        self.split = corpus.split(name)
        self.count = -(-len(self.split) // BLOCK_TARGETS)
        self.advance: Callable[[int], None] = lambda count: None
        self.max_length: int = run.recipe.preprocess.max_length
        config = searcher.config
        self.settings: dict[str, Any] = {
            "split": name,
            "corpus": corpus.digest,
            "weights": _weights_digest(run),
            "beam": config.beam_size,
            "dropout": config.dropout,
            "slot_weight": config.slot_weight,
            "gumbel": config.gumbel,
            "whole_words": config.whole_words,
            "seed": searcher.seed,
        }
        # Batches may be cut in another way when a search goes on, e.g. with less memory: scores stay within 1e-4.
        self.facts = {
            **self.settings,
            "model": asdict(run.recipe.model),
            "max_length": self.max_length,
            "precision": precision,
            "block": BLOCK_TARGETS,
        }

    def header(self) -> dict[str, Any]:
        """Return what the orders file says about itself."""
        first = {"order": SEARCHED, "split": self.split.name, "corpus": self.corpus.digest}
        return {**first, **self.run.header(), **self.settings}

    def ids(self, number: int) -> list[int]:
        """Return the raw lines of a block."""
        ids: list[int] = self.split.lines[self._within(number)].tolist()
        return ids

    def _within(self, number: int) -> slice:
        return slice(number * BLOCK_TARGETS, min((number + 1) * BLOCK_TARGETS, len(self.split)))

    def search(self, number: int) -> tuple[float, list[Found]]:
        """Search a block; return the seconds it took, too."""
        clock = time.process_time if self.searcher.device.type == "cpu" else time.monotonic
        began = clock()
        items = split_items(self.corpus, self.split.name, max_length=self.max_length, within=self._within(number))
        found = self.searcher.find(list(items), self.advance)
        return clock() - began, found

    def rows(self, summary: SearchSummary) -> Iterator[OrdersRow]:
        """Yield the rows of the file from all finished blocks, and count them."""
        vocabulary = self.run.codecs.target.vocabulary
        for number in range(self.count):
            seconds, block = self.parts.read(number, self.ids(number))
            summary.seconds += seconds
            for found, place in zip(block, range(*self._within(number).indices(len(self.split))), strict=True):
                summary.add(found, vocabulary.decode(self.split.target[place].tolist()))
                yield replace(found.row, parts=None, bound=None)

    def is_written(self, path: str) -> bool:
        """Tell whether the output stands, as it would be written.

        Raises:
            UsageError: it was made with other settings.
            DataError: it is something else.
        """
        if path == STANDARD_STREAM or not os.path.isfile(path):
            return False
        check_same(read_order_rows(path)[0], self.header(), what="the file was made", where=f"{path}:1")
        return True

    def warnings(self) -> list[str]:
        """Return one line for each kind of target that was not read as a user may expect."""
        counts = []
        for lengths, what in (
            (self.split.source.lengths, "read with a source cut to preprocess.max_length, as in decoding"),
            (self.split.target.lengths, "longer than preprocess.max_length, which training never saw"),
        ):
            count = LineCount()
            for line in self.split.lines[lengths > self.max_length].tolist():
                count.add(line)
            counts.append((count, what))
        return [count.text(what) for count, what in counts if count.count]


def _weights_digest(run: LoadedRun) -> str:
    """Return the sha256 of the weights; a checkpoint of 0.1 does not know it."""
    known = run.checkpoint.facts.get("sha256")
    if isinstance(known, dict) and isinstance(known.get(MODEL_FILE), str):
        return str(known[MODEL_FILE])
    return sha256_file(run.checkpoint.folder / MODEL_FILE)


@contextmanager
def _parts_folder(path: str, *, resume: bool) -> Iterator[Path]:
    """Give the folder of finished blocks: beside the output, or a temporary one where that is a stream.

    Raises:
        UsageError: the output cannot be written, or holds nothing to go on from.
    """
    if os.path.isdir(path):
        raise UsageError("the output is a folder, a file is needed", where=path, fix="add the name of a file")
    if path != STANDARD_STREAM and (os.path.isfile(path) or not os.path.exists(path)):
        yield Path(path + PARTS)
        return
    if resume:
        fix = "name a file with -o: finished blocks are kept beside it"
        raise UsageError("there is nothing to go on from where the output is a stream", where="--resume", fix=fix)
    with tempfile.TemporaryDirectory(prefix="indigo-search-") as folder:
        yield Path(folder)
