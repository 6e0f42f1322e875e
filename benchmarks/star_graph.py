"""Star graphs: paths in orders that the model finds itself against left to right, with the negative control (bar 2).

python benchmarks/star_graph.py FOLDER [--size small|large] [--runs l2r sao-4 sao-1] [--seeds 0 1 2] [--jobs 2]
    [--arms N --arm-length N --names N] [--updates N --bootstrap N --paths N] [--set KEY=VALUE ...]

Trains each run with each seed, decodes the test set with beams 1 and 5, and prints a row as soon as it is known: exact
match over all, over the out-stars and over the in-stars. A run is `l2r`, or `sao-B` for a search with beam B. Rows are
added to FOLDER/results.tsv, too; what stands there is not computed again (take another FOLDER when a recipe of the demo
has changed), and a training that was interrupted goes on where it stood, so the same command can be given again, or
with more seeds. Recipes and items are those of `indigo demo --task star-graph`; each item is seen once. CPU seconds are
those of training, validations included, on one thread.
"""

import argparse
import json
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path

from indigo_cli.core import console
from indigo_cli.demo.star_graph import HALVES, SIZES, StarGraph, TaskSize, write_star_graphs
from indigo_cli.engine.fit import train
from indigo_cli.engine.generate import generate
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.runtime import Runtime
from indigo_cli.recipe import load_recipe

BEAMS = (1, 5)
NUM_VALIDATIONS = 5
UPDATES = {"small": (700, 175), "large": (2000, 500)}
"""Updates of each size, and how many of them are for bootstrapping; of the small one as in the demo."""
COLUMNS = ("arms", "length", "names", "run", "updates", "boot", "paths", "seed", "settings", "CPU s")
FIGURES = tuple(f"{half} {beam}" for beam in BEAMS for half in ("all", *HALVES))


@dataclass(frozen=True)
class Run:
    """A training.

    Args:
        folder: Where data, corpus and run stand.
        name: `l2r` or `sao-B`.
        settings: Of the recipe, as KEY=VALUE.
    """

    folder: Path
    graph: StarGraph
    name: str
    updates: int
    bootstrap: int
    paths: int
    seed: int
    settings: tuple[str, ...]

    def key(self) -> tuple[str, ...]:
        """Return the cells of the table that say which run it is."""
        graph, boot = self.graph, self.bootstrap if self.beam else 0
        shape = (graph.arms, graph.arm_length, len(graph.names))
        return tuple(map(str, (*shape, self.name, self.updates, boot, self.paths, self.seed, " ".join(self.settings))))

    @property
    def beam(self) -> int:
        """Return the beam of the search; 0 for none."""
        return int(self.name.removeprefix("sao-")) if self.name != "l2r" else 0

    @property
    def task_folder(self) -> Path:
        """Return the folder of the data; fewer items are the first ones of more, but other epochs."""
        graph = self.graph
        items = self.updates * self.paths
        return self.folder / f"star-{graph.arms}-{graph.arm_length}-{len(graph.names)}-{items}"

    def write_task(self) -> None:
        """Write items, recipes and corpus, unless they stand there."""
        place = self.task_folder
        if (place / "corpus" / "manifest.json").exists():
            return
        num_items = {**SIZES["small"].num_items, "train": self.updates * self.paths}
        write_star_graphs(place / "data", TaskSize(self.graph, num_items))
        for order in ("l2r", "sao"):
            text = files("indigo_cli.demo").joinpath(f"star_graph_small_{order}.toml").read_text("utf-8")
            (place / f"{order}.toml").write_text(text, "utf-8")
        prepare(load_recipe(place / "l2r.toml"), place / "corpus", overwrite=True)

    def measure(self) -> tuple[str, ...]:
        """Train, decode, and return CPU seconds and the figures."""
        console.set_verbosity(quiet=True)
        length = self.graph.arm_length + 1
        every = max(1, self.updates // NUM_VALIDATIONS)
        settings = [
            f"seed={self.seed}",
            f"train.max_steps={self.updates}",
            "train.max_cpu_minutes=0",
            f"train.batch_tokens={self.paths * length}",
            f"train.validate_every={every}",
            f"train.save_every={every}",
            f"decode.max_length={2 * length}",
        ]
        if self.beam:
            settings += [f"search.beam_size={self.beam}", f"search.bootstrap_steps={self.bootstrap}"]
        recipe = load_recipe(self.task_folder / f"{self.name.split('-')[0]}.toml", [*settings, *self.settings])
        output = self.task_folder / "_".join(self.key()[3:]).replace("/", "-").strip("_")
        runtime = Runtime("cpu", threads=1)
        corpus = self.task_folder / "corpus"
        resume = (output / "log.jsonl").exists()
        train(recipe, output=output, corpus_folder=corpus, resume=resume, runtime=runtime)
        rows = map(json.loads, (output / "log.jsonl").read_text("utf-8").splitlines())
        minutes = [row["cpu_minutes"] for row in rows if row.get("split") == "valid"][-1]
        cells = [f"{60 * minutes:.0f}"]
        for beam in BEAMS:
            found = output / f"test.beam{beam}.txt"
            beam_size = [f"decode.beam_size={beam}"]
            generate(
                output,
                split="test",
                checkpoint="last",
                output=str(found),
                overrides=beam_size,
                runtime=runtime,
                overwrite=True,
            )
            cells += [f"{share:.3f}" for share in self.exact_match(found)]
        return tuple(cells)

    def exact_match(self, found: Path) -> list[float]:
        """Return the share of right paths: of all, then of each half. The test set is its halves, one after another."""
        lines = found.read_text("utf-8").splitlines()
        right: dict[str, list[bool]] = {}
        for half in HALVES:
            wanted = (self.task_folder / "data" / f"test.{half}.tgt").read_text("utf-8").splitlines()
            right[half] = [a == b for a, b in zip(lines[: len(wanted)], wanted, strict=True)]
            lines = lines[len(wanted) :]
        assert not lines
        return [sum(hits) / len(hits) for hits in ([hit for hits in right.values() for hit in hits], *right.values())]


def main() -> None:
    """Measure what is missing and print all rows that were asked for."""
    options = parse()
    options.folder.mkdir(parents=True, exist_ok=True)
    table = options.folder / "results.tsv"
    if not table.exists():
        table.write_text("\t".join((*COLUMNS, *FIGURES)) + "\n", "utf-8")
    runs = asked_for(options)
    num_keys = len(COLUMNS) - 1
    stored = [tuple(line.split("\t")) for line in table.read_text("utf-8").splitlines()]
    done = {row[:num_keys]: row for row in stored}
    show((*COLUMNS, *FIGURES))
    for run in runs:
        if run.key() in done:
            show(done[run.key()])
        else:
            run.write_task()
    missing = [run for run in runs if run.key() not in done]
    with ProcessPoolExecutor(options.jobs, get_context("spawn"), max_tasks_per_child=1) as pool:  # CPU time by run
        jobs = {pool.submit(run.measure): run for run in missing}
        for job in as_completed(jobs):
            row = (*jobs[job].key(), *job.result())
            with open(table, "a", encoding="utf-8") as stream:
                stream.write("\t".join(row) + "\n")
            show(row)


def asked_for(options: argparse.Namespace) -> list[Run]:
    """Return the runs of a command line, seed by seed."""
    size = SIZES[options.size].graph
    graph = StarGraph(
        options.arms or size.arms,
        options.arm_length or size.arm_length,
        size.num_names if options.names is None else options.names,
    )
    updates, bootstrap = UPDATES[options.size]
    updates = options.updates or updates
    bootstrap = bootstrap if options.bootstrap is None else options.bootstrap
    return [
        Run(options.folder, graph, name, updates, bootstrap, options.paths, seed, tuple(options.set))
        for seed in options.seeds
        for name in options.runs
    ]


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", choices=UPDATES, default="small")
    parser.add_argument("--runs", nargs="+", type=name_of_run, default=["l2r", "sao-4", "sao-1"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side")
    parser.add_argument("--arms", type=int)
    parser.add_argument("--arm-length", type=int)
    parser.add_argument("--names", type=int, help="to draw those of the nodes from; 0 = as many as nodes")
    parser.add_argument("--updates", type=int)
    parser.add_argument("--bootstrap", type=int, help="updates on random orders before the search; not of l2r")
    parser.add_argument("--paths", type=int, default=100, help="of an update")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the recipe; repeatable")
    return parser.parse_args()


def name_of_run(text: str) -> str:
    """Refuse what is no run."""
    if not re.fullmatch("l2r|sao-[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f"a run is l2r or sao-B, not {text!r}")
    return text


def show(cells: Sequence[str]) -> None:
    """Print a row."""
    key, figures = cells[: len(COLUMNS)], cells[len(COLUMNS) :]
    print("  ".join(f"{cell:>7}" for cell in key), " | ", "  ".join(f"{cell:>6}" for cell in figures), flush=True)


if __name__ == "__main__":
    main()
