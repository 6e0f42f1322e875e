"""What training on searched orders costs: in training steps of a plain transformer of the same sizes (issue 5, bar 1),
and as Table 6 of Gu, Liu and Cho (2019) puts it, with greedy decoding beside it.

python benchmarks/sao.py RUN [--batch-tokens N] [--rounds N] [--decode RUN ...] [--sentences N] [--profile]

RUN is a trained InDIGO run with its corpus: how much the orders of a beam have in common (u = distinct prefixes / words
of all orders) depends on what the model has learnt, so untrained weights would flatter the figures. Each round takes
another micro-batch of the run's training split, cut as the run cuts it: lengths are mixed as they are there. The
forms that search at every 4th visit are a quarter of a step that searches and three quarters of one that does not.

Table 6 counts batches a second, on 8 V100 there and one CPU thread here: only its ratios can be compared. Its L2R is
InDIGO from left to right; it trains on all orders one after another, and searches at every visit. Runs of --decode
(L2R, SAO, a transformer) decode the first sentences of their `valid` greedily.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import WARM_UP, show
from torch.profiler import ProfilerActivity, profile

from indigo_cli.data.batch import Batch, MicroBatch
from indigo_cli.data.order_tree import grow_tree
from indigo_cli.engine.assign import OrderConfig
from indigo_cli.engine.build import build_system
from indigo_cli.engine.generator import Generator
from indigo_cli.engine.loaded_run import load_run
from indigo_cli.engine.optim import GuardedStep, make_optimizer
from indigo_cli.engine.order_planner import OrderPlanner, Searching
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.engine.targets import split_items
from indigo_cli.models import MODELS

SMOOTHING = 0.1
RATE = 1e-9  # the weights stay as they are
Parts = dict[str, float]
"""Steps that a form is made of, on average over visits, and how often each is made."""
TABLE_6: dict[str, tuple[Parts, str]] = {
    "transformer": ({"transformer": 1}, ""),
    "L2R": ({"one order": 1}, "1.0"),
    "SAO-1": ({"B=1": 1}, "3.8"),
    "SAO-1, every 4th visit": ({"B=1": 0.25, "one order": 0.75}, ""),
    "SAO-8, average as a tree": ({"B=8, tree": 1}, "7.2"),
    "SAO-8, average as a tree, every 4th visit": ({"B=8, tree": 0.25, "tree": 0.75}, ""),
    "SAO-8, average as a tree, offline file": ({"tree": 1}, ""),
    "SAO-8, one order": ({"B=8, one": 1}, ""),
    "SAO-8, one order, every 4th visit": ({"B=8, one": 0.25, "one order": 0.75}, ""),
    "SAO-8, one order, offline file": ({"one order": 1}, ""),
}
"""Our forms; and how many times as long as L2R the paper's take."""


class Bench:
    """A transformer and a trained InDIGO of its sizes, and micro-batches to train them on."""

    def __init__(self, run: Path, batch_tokens: int) -> None:
        torch.set_num_threads(1)
        loaded = load_run(run, device=torch.device("cpu"))
        self.recipe = loaded.recipe
        corpus = loaded.open_corpus(None)
        self.split = OrderedSplit(corpus, "train", OrderConfig(), seed=2, batch_tokens=batch_tokens)
        self.stream = self.split.stream(epoch=0, skip=0)
        self.indigo = loaded.system.train()
        model = {key: getattr(self.recipe.model, key) for key in ("model_dim", "ff_dim", "num_heads", "dropout")}
        layers = {key: getattr(self.recipe.model, key) for key in ("encoder_layers", "decoder_layers")}
        config = MODELS["transformer"].config(**model, **layers, share_embeddings=self.recipe.model.share_embeddings)
        self.transformer = build_system(replace(self.recipe, model=config), loaded.codecs).train()
        self.guards = {id(s): GuardedStep(make_optimizer(s), clip_norm=1.0) for s in (self.indigo, self.transformer)}

    def step(self, system: Any, batch: Batch, planner: OrderPlanner | None = None) -> None:
        """Make one update."""
        losses = system(batch, SMOOTHING, *(() if planner is None else (planner,)))
        losses.objective.backward()
        self.guards[id(system)](1, weight=losses.weight, rate=RATE)

    def planner(self, items: Any, **settings: Any) -> OrderPlanner:
        """Return what searches a whole micro-batch, the reference left out."""
        config = SearchConfig(reference="none", dropout=self.recipe.model.dropout, **settings)
        searching = Searching(config, seed=1, model_dropout=self.recipe.model.dropout)
        return OrderPlanner(searching, 0, self.split.lines(items), np.ones(len(items), dtype=np.bool_))

    def variants(self, micro_batch: MicroBatch) -> tuple[float, dict[str, Callable[[], None]]]:
        """Return u of a micro-batch under a beam of 8, and the steps to be timed on it."""
        batch, items = micro_batch.load(), micro_batch.items
        average = self.planner(items, beam_size=8, train_on="average")
        with torch.no_grad():
            memory = self.indigo.known.encode(batch.source, average.dropout(batch))
            found = replace(batch, plan=average(self.indigo, memory, batch))
        return grow_tree(found).num_nodes / (8 * batch.num_tokens), {
            "transformer": lambda: self.step(self.transformer, batch),
            "one order": lambda: self.step(self.indigo, batch),
            "B=1": lambda: self.step(self.indigo, batch, self.planner(items, beam_size=1)),
            "B=8, one": lambda: self.step(self.indigo, batch, self.planner(items, beam_size=8)),
            "B=8, tree": lambda: self.step(self.indigo, batch, average),
            "tree": lambda: self.step(self.indigo, found),
        }


Times = dict[str, list[float]]
"""CPU seconds of each step, round by round."""


def measure(bench: Bench, rounds: int) -> tuple[float, Times]:
    """Return u and the times of all steps."""
    times: Times = {}
    shares = []
    for turn in range(WARM_UP + rounds):
        share, variants = bench.variants(next(bench.stream))
        if turn >= WARM_UP:
            shares.append(share)
        for name, run in variants.items():
            start = time.process_time()
            run()
            if turn >= WARM_UP:
                times.setdefault(name, []).append(time.process_time() - start)
    return statistics.mean(shares), times


def costs(times: Times, parts: Parts, unit: str) -> list[float]:
    """Return what a form costs, round by round, in steps of another."""
    rounds = range(len(times[unit]))
    return [sum(share * times[name][i] for name, share in parts.items()) / times[unit][i] for i in rounds]


def show_bars(times: Times, u: float, *, small: bool) -> None:
    """Print the rows of issue 5, bar 1."""

    def row(title: str, parts: Parts, bar: float) -> None:
        ratios = costs(times, parts, "transformer")
        show(title, (statistics.median(ratios), min(ratios), max(ratios)), bar)

    row("one order, searched offline", {"one order": 1}, 1.15)
    row("online, B=1", {"B=1": 1}, 1.75 if small else 1.65)
    row("online, B=8, tree", {"B=8, tree": 1}, 3.2 + 7 * u if small else 2.3 + 6.5 * u)
    row("every 4th visit, B=8, one order", {"B=8, one": 0.25, "one order": 0.75}, 1.8 if small else 1.55)
    row("every 4th visit, B=8, tree", {"B=8, tree": 0.25, "tree": 0.75}, 1.3 + 7 * u)


def show_table_6(times: Times) -> None:
    """Print batches a CPU second of each form, and how many times as long as L2R it takes."""
    print(f"\n{'training':44}{'batches/s':>10}{'of L2R':>8}{'paper':>7}")
    for form, (parts, paper) in TABLE_6.items():
        seconds = sum(share * statistics.mean(times[name]) for name, share in parts.items())
        cost = statistics.median(costs(times, parts, "one order"))
        print(f"{form:44}{1 / seconds:10.3f}{cost:8.2f}{paper:>7}".rstrip())


def show_decoding(runs: Sequence[Path], count: int) -> None:
    """Print what a sentence takes when it is decoded greedily, `<eod>` and detokenising included."""
    print(f"\n{'greedy decoding':44}{'ms/sentence':>12}{'tokens':>8}")
    for run in runs:
        loaded = load_run(run, overrides=["decode.beam_size=1"], device=torch.device("cpu"))
        limit = loaded.recipe.preprocess.max_length
        items = split_items(loaded.open_corpus(None), "valid", max_length=limit, within=slice(count))
        lines = [item.source for item in items]
        generator = Generator(loaded, device=torch.device("cpu"), runtime=Runtime())
        generator.decode(lines[: count // 10])
        start = time.process_time()
        outputs = generator.decode(lines)
        seconds = time.process_time() - start
        tokens = sum(len(found[0].hypothesis.trace.tokens()) for found in outputs)
        print(f"{run.name:44}{1000 * seconds / len(lines):12.2f}{tokens / len(lines):8.1f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--batch-tokens", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--decode", type=Path, nargs="*", default=[])
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    bench = Bench(options.run, options.batch_tokens)
    width = bench.recipe.model.model_dim
    u, times = measure(bench, options.rounds)
    print(f"{bench.recipe.name}, d={width}: u = {u:.3f} over {options.rounds} micro-batches")
    show_bars(times, u, small=width < 512)
    show_table_6(times)
    if options.decode:
        show_decoding(options.decode, options.sentences)
    if options.profile:
        _, variants = bench.variants(next(bench.stream))
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            variants["B=8, tree"]()
        print(profiled.key_averages().table(sort_by="self_cpu_time_total", row_limit=20))


if __name__ == "__main__":
    main()
