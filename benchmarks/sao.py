"""What training on searched orders costs, in training steps of a plain transformer of the same sizes (issue 5, bar 1).

python benchmarks/sao.py RUN [--batch-tokens N] [--rounds N] [--profile]

RUN is a trained InDIGO run with its corpus: how much the orders of a beam have in common (u = distinct prefixes / words
of all orders) depends on what the model has learnt, so untrained weights would flatter the figures. Each round takes
another micro-batch of the run's training split, cut as the run cuts it: lengths are mixed as they are there. The two
forms that search at every 4th visit are a quarter of a step that searches and three quarters of one that does not.
"""

import argparse
import statistics
import time
from collections.abc import Callable
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
from indigo_cli.engine.loaded_run import load_run
from indigo_cli.engine.optim import GuardedStep, make_optimizer
from indigo_cli.engine.order_planner import OrderPlanner, Searching
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.models import MODELS

SMOOTHING = 0.1
RATE = 1e-9  # the weights stay as they are


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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--batch-tokens", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    bench = Bench(options.run, options.batch_tokens)
    small = bench.recipe.model.model_dim < 512
    times: dict[str, list[float]] = {}
    shares: list[float] = []
    for turn in range(WARM_UP + options.rounds):
        share, variants = bench.variants(next(bench.stream))
        shares.append(share)
        for name, run in variants.items():
            start = time.process_time()
            run()
            if turn >= WARM_UP:
                times.setdefault(name, []).append(time.process_time() - start)
    u = statistics.mean(shares[WARM_UP:])
    print(f"{bench.recipe.name}, d={bench.recipe.model.model_dim}: u = {u:.3f} over {options.rounds} micro-batches")

    def row(title: str, parts: dict[str, float], bar: float) -> None:
        ratios = [
            sum(share * times[name][i] for name, share in parts.items()) / times["transformer"][i]
            for i in range(options.rounds)
        ]
        show(title, (statistics.median(ratios), min(ratios), max(ratios)), bar)

    row("one order, searched offline", {"one order": 1}, 1.15)
    row("online, B=1", {"B=1": 1}, 1.75 if small else 1.65)
    row("online, B=8, tree", {"B=8, tree": 1}, 3.2 + 7 * u if small else 2.3 + 6.5 * u)
    row("every 4th visit, B=8, one order", {"B=8, one": 0.25, "one order": 0.75}, 1.8 if small else 1.55)
    row("every 4th visit, B=8, tree", {"B=8, tree": 0.25, "tree": 0.75}, 1.3 + 7 * u)
    if options.profile:
        _, variants = bench.variants(next(bench.stream))
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            variants["B=8, tree"]()
        print(profiled.key_averages().table(sort_by="self_cpu_time_total", row_limit=20))


if __name__ == "__main__":
    main()
