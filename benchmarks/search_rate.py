"""How fast the orders of known targets are found offline (issue 5, bar 5).

python benchmarks/search_rate.py RUN [--split NAME] [--targets N] [--rounds N] [--tokens N] [--processes]

RUN is a trained InDIGO run with its corpus. What is timed is what `indigo search-orders` does with a block: the search
under dropout, then the clean scores of all orders. First the rate over targets of the split as they are; then how the
time of a target grows with its length T, at a beam of 8, and with the beam B, at 20 words. For that, pairs of the split
are joined and cut to so many tokens on both sides; every row has the same number of target tokens in all.

--processes runs the whole command on one process and on two instead, and compares wall-clock times without those of
starting, which a command shows that finds its work done: give it two quiet cores, and a split of an even number of
blocks of 512 targets, or many.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from statistics import mean, median

import torch
from measure import interleaved

from indigo_cli.engine.loaded_run import LoadedRun, load_run
from indigo_cli.engine.order_searcher import OrderSearcher
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.engine.targets import Item, split_items

CPU = torch.device("cpu")
LENGTHS, BEAMS = (10, 20, 40, 80), (1, 2, 4, 8, 16)
BEAM, LENGTH = 8, 20
"""Of the rows that vary the other one."""
BAR_PROCESSES = 1.8


def joined(items: Sequence[Item], length: int, num_tokens: int) -> list[Item]:
    """Return targets of exactly so many tokens, each of neighbours in the split, as many as make `num_tokens`."""
    made: list[Item] = []
    source, target = [], []
    for item in cycle(items):
        source += item.source.ids
        target += item.target
        if min(len(source), len(target)) >= length:
            line = replace(item.source, ids=source[:length])
            made.append(Item(len(made), line, target[:length]))
            source, target = [], []
            if len(made) * length >= num_tokens:
                return made
    raise ValueError("a split without pairs")


def searcher(run: LoadedRun, beam_size: int) -> OrderSearcher:
    """Return a search as `search-orders` makes it by default."""
    return OrderSearcher(run, SearchConfig(beam_size=beam_size), seed=1, device=CPU, runtime=Runtime())


def growth(title: str, jobs: Mapping[int, tuple[OrderSearcher, Sequence[Item]]], rounds: int) -> None:
    """Time the jobs in turn, and print a row for each."""

    def job(size: int) -> Callable[[], object]:
        search, items = jobs[size]
        return lambda: search.find(items)

    seconds = interleaved({str(size): job(size) for size in jobs}, rounds=rounds)
    print(f"\n{title:>6}{'ms/target':>11}{'targets/CPU s':>15}{'of the first':>14}{'exponent':>10}")
    first = min(jobs)
    for size, (_, items) in jobs.items():
        times = [taken / len(items) for taken in seconds[str(size)]]
        of_first = [b / (a / len(jobs[first][1])) for a, b in zip(seconds[str(first)], times, strict=True)]
        factor = median(of_first)
        exponent = f"{math.log(factor) / math.log(size / first):10.2f}" if size != first else ""
        print(f"{size:6}{1000 * median(times):11.2f}{1 / mean(times):15.1f}{factor:14.2f}{exponent}", flush=True)


def seconds_of(run: Path, split: str, processes: int, folder: Path) -> float:
    """Return the wall-clock seconds that a whole search takes on so many processes, without those of starting."""
    output = folder / f"{processes}.orders.jsonl"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "-m", "indigo_cli"]
    command += ["search-orders", str(run), "--split", split, "--beam", str(BEAM), "--threads", "1", "-o", str(output)]
    taken = []
    for more in ([], ["--resume"]):  # the second one finds the file complete
        start = time.monotonic()
        subprocess.run(
            [*command, *more], check=True, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        taken.append(time.monotonic() - start)
    print(
        f"{processes} process{'es' * (processes > 1)}: {taken[0]:.1f} s, of these {taken[1]:.1f} s for starting",
        flush=True,
    )
    return taken[0] - taken[1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--split", default="valid")
    parser.add_argument("--targets", type=int, default=512, help="of the first row; 512 are a block")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=960, help="of the targets of each further row")
    parser.add_argument("--processes", action="store_true")
    options = parser.parse_args()
    if options.processes:
        with tempfile.TemporaryDirectory() as scratch:
            one, two = (seconds_of(options.run, options.split, count, Path(scratch)) for count in (1, 2))
        verdict = "ok" if one / two >= BAR_PROCESSES else "MISSED"
        print(f"two processes: {one / two:.2f} times as fast as one  bar {BAR_PROCESSES}  {verdict}")
        return
    torch.set_num_threads(1)
    run = load_run(options.run, device=CPU)
    limit = run.recipe.preprocess.max_length
    pairs = split_items(run.open_corpus(None), options.split, max_length=limit, within=slice(options.targets))
    items = list(pairs)
    search = searcher(run, BEAM)
    search.find(items[:32])
    start = time.process_time()
    search.find(items)
    seconds = time.process_time() - start
    tokens = sum(len(item.target) for item in items)
    print(
        f"{run.recipe.name}, d={run.recipe.model.model_dim}, B={BEAM}, {len(items)} targets of {options.split}: ",
        end="",
    )
    print(f"{len(items) / seconds:.1f} targets, {tokens / seconds:,.0f} tokens a CPU second")
    growth("T", {length: (search, joined(items, length, options.tokens)) for length in LENGTHS}, options.rounds)
    targets = joined(items, LENGTH, options.tokens)
    growth("B", {beam: (searcher(run, beam), targets) for beam in BEAMS}, options.rounds)


if __name__ == "__main__":
    main()
