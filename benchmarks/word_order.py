"""Word order recovery: searched orders against left to right, by seeds and beams (issue 5, bar 3; SAO.md section 2b).

python benchmarks/word_order.py FOLDER [--rows l2r sao ...] [--seeds 0 1 2] [--jobs N] [--report]

The data are windows of 5 to 9 words that follow each other in the docstrings of the installed Python packages, all
among the 1,000 most frequent ones; what comes in is the sorted bag. Windows for testing come from sentences of their
own. Each row of ROWS is a recipe; all rows of a seed see the same windows in the same order. Updates are half as large
as in SAO.md, for three seeds instead of one. Trains what is missing in FOLDER (an interrupted training goes on),
decodes 2,500 test windows with beams 1 to 20, equal strings merged and not, prints the table of everything that stands
there, and draws FOLDER/word_order.png: BLEU and exact match, and the difference to `l2r` with an interval over items
and seeds (both drawn anew, 1,000 times). `--report` does no more than table and picture.
"""

import argparse
import hashlib
import json
import random
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from inspect import cleandoc
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from indigo_cli.core import console
from indigo_cli.demo.sentences import read_texts, source_folders
from indigo_cli.engine.fit import train
from indigo_cli.engine.generate import generate
from indigo_cli.engine.offline_search import search_split
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.runtime import Runtime
from indigo_cli.recipe import load_recipe

BEAMS = (1, 5, 10, 20)
NUM_WORDS = 1000
LENGTHS = range(5, 10)
NUM_TRAIN, NUM_VALID, NUM_TEST = 285_000, 500, 2_500
POOL = 18_000
"""Windows of the rows that come back to each: 8 visits in 2,000 updates."""
DRAWS = 1000
SEEDS = range(10)

RECIPE = """
name = "word-order"
[data]
task = "word_ordering"
[data.splits]
train = {{ target = ["{train}.txt"] }}
valid = {{ target = ["valid.txt"] }}
test = {{ target = ["test.txt"] }}
[preprocess]
tokenizer = "none"
vocabulary = "word"
[model]
system = "indigo"
model_dim = 128
ff_dim = 512
num_heads = 4
encoder_layers = 2
decoder_layers = 2
dropout = 0.1
[train]
batch_tokens = 500
max_steps = 2000
learning_rate = 2e-3
warmup_steps = 100
schedule = "linear"
label_smoothing = 0.0
validate_every = 500
save_every = 250
keep = 1
[decode]
max_length = 30
[evaluate]
metrics = ["bleu", "exact"]
tokenize = "none"
"""
SAO = ("order.name=sao", "search.beam_size=4", "search.bootstrap_steps=1000", "search.train_on=sample")
AVERAGE = ("order.name=sao", "search.beam_size=4", "search.train_on=average", "search.reference=none")
ROWS: dict[str, tuple[str, ...]] = {
    "l2r": (),
    "l2r-cpu": ("train.max_steps=3600",),  # as much CPU time as `sao`
    "sao": SAO,
    "average": (*AVERAGE, "search.bootstrap_steps=1000"),
    "best": (*SAO, "search.train_on=best"),
    "B=2": (*SAO, "search.beam_size=2"),
    "B=8": (*SAO, "search.beam_size=8"),
    "gumbel": (*SAO, "search.gumbel=1.0"),
    "no-noise": (*SAO, "search.dropout=0.0"),
    "slot-3": (*SAO, "search.slot_weight=3.0"),
    "smoothed": (*SAO, "train.label_smoothing=0.1"),
    "l2r-smoothed": ("train.label_smoothing=0.1",),
    "pool-sao": SAO,
    "pool-refresh-4": (*SAO, "search.refresh=4"),
    "pool-bootstrap": ("train.max_epochs=4",),  # about the 1,000 updates before the search
    "pool-offline": (
        "train.max_steps=1000",
        "train.learning_rate=1e-3",
        "train.warmup_steps=50",
        "search.train_on=sample",
    ),
}
"""Rows named pool-... see POOL windows several times; `pool-offline` goes on from `pool-bootstrap`, whose weights find
its orders, and the learning rate of that time. Its CPU seconds are those of its own updates alone."""
FIRST = {"pool-offline": "pool-bootstrap"}
"""Rows that go on from another one."""


def data_of(row: str) -> str:
    return "pool" if row.startswith("pool-") else "train"


def windows() -> dict[str, list[str]]:
    """Return the windows of each split, in an order of their own."""
    sentences = {sentence for text in read_texts(source_folders()) for sentence in _sentences(text)}
    texts = [re.findall(r"[a-z]+(?:'[a-z]+)?|[.,]|\S", sentence) for sentence in sorted(sentences)]
    counts = Counter(token for tokens in texts for token in tokens if re.match(r"[a-z.,]", token))
    known = {token for token, _ in counts.most_common(NUM_WORDS)}
    found: dict[str, set[str]] = {"train": set(), "valid": set(), "test": set()}
    for tokens in texts:
        value = hashlib.sha256(" ".join(tokens).encode()).digest()[0]
        split = "test" if value < 16 else "valid" if value < 24 else "train"
        found[split] |= {" ".join(window) for run in _runs(tokens, known) for window in _cuts(run)}
    found["valid"] -= found["train"]
    found["test"] -= found["train"] | found["valid"]
    shuffled = {split: sorted(lines) for split, lines in found.items()}
    for lines in shuffled.values():
        random.Random(1).shuffle(lines)
    return shuffled


def _sentences(text: str) -> Iterator[str]:
    for block in re.split(r"\n[ \t]*\n", cleandoc(text)):
        for sentence in re.split(r"(?<=[.!?])\s+", " ".join(block.split())):
            if sentence.count(" ") + 1 >= LENGTHS[0]:
                yield sentence.lower()


def _runs(tokens: Sequence[str], known: set[str]) -> Iterator[list[str]]:
    """Yield the longest runs of known words, without two punctuation marks in a row."""
    run: list[str] = []
    for token in [*tokens, ""]:
        if token in known and not (token in ".," and run and run[-1] in ".,"):
            run.append(token)
        else:
            yield run
            run = []


def _cuts(run: Sequence[str]) -> Iterator[Sequence[str]]:
    for length in LENGTHS:
        for start in range(len(run) - length + 1):
            yield run[start : start + length]


def write_data(folder: Path) -> None:
    """Write text, recipes and corpora, unless they stand there."""
    if (folder / "pool" / "manifest.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    lines = windows()
    print({split: len(made) for split, made in lines.items()}, flush=True)
    chosen = {"train": lines["train"][:NUM_TRAIN], "pool": lines["train"][:POOL]}
    chosen |= {"valid": lines["valid"][:NUM_VALID], "test": lines["test"][:NUM_TEST]}
    for name, made in chosen.items():
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in made), "utf-8")
    for name in ("train", "pool"):
        (folder / f"{name}.toml").write_text(RECIPE.format(train=name), "utf-8")
        prepare(load_recipe(folder / f"{name}.toml"), folder / name, overwrite=True)


@dataclass(frozen=True)
class Job:
    """A row with a seed."""

    folder: Path
    row: str
    seed: int

    @property
    def run(self) -> Path:
        return self.folder / f"{self.row}-{self.seed}"

    def output(self, beam: int, merged: bool) -> Path:
        return self.run / f"test.beam{beam}{'' if merged else '.apart'}.txt"

    def outputs(self) -> Iterator[tuple[int, bool, Path]]:
        for beam in BEAMS:
            for merged in (True, False):
                if merged or beam > 1:
                    yield beam, merged, self.output(beam, merged)

    def measure(self) -> None:
        """Train and decode what is missing."""
        console.set_verbosity(quiet=True)
        runtime = Runtime("cpu", threads=1)
        name = data_of(self.row)
        recipe = load_recipe(self.folder / f"{name}.toml", [f"seed={self.seed}", *ROWS[self.row]])
        orders: tuple[Path, ...] = ()
        init: Path | None = None
        if self.row in FIRST:
            init = Job(self.folder, FIRST[self.row], self.seed).run
            found = init / "train.orders.jsonl"
            if not found.exists():
                how = ["search.beam_size=4"]
                search_split(init, split="train", output=str(found), overrides=how, runtime=runtime, resume=True)
            orders = (found,)
        train(
            recipe,
            output=self.run,
            corpus_folder=self.folder / name,
            orders=orders,
            init=init,
            resume=self.run.exists(),
            runtime=runtime,
        )
        for beam, merged, output in self.outputs():
            if not output.exists():
                settings = [f"decode.beam_size={beam}", f"decode.merge_strings={str(merged).lower()}"]
                generate(
                    self.run, split="test", checkpoint="last", output=str(output), overrides=settings, runtime=runtime
                )

    @property
    def is_done(self) -> bool:
        return all(output.exists() for *_, output in self.outputs())

    def cpu_seconds(self) -> float:
        rows = map(json.loads, (self.run / "log.jsonl").read_text("utf-8").splitlines())
        return 60 * float([row["cpu_minutes"] for row in rows if row.get("split") == "valid"][-1])


class Scores:
    """BLEU's counts of every test window, so that a draw of items costs a sum."""

    def __init__(self, references: Sequence[str]) -> None:
        self._references = references
        self._bleu = BLEU(tokenize="none", force=True)

    def read(self, path: Path) -> np.ndarray:
        """Return (items, 11): n-gram hits and totals, lengths, and whether the window came out exactly."""
        lines = path.read_text("utf-8").splitlines()
        rows = []
        for line, reference in zip(lines, self._references, strict=True):
            score = self._bleu.corpus_score([line], [[reference]])
            rows.append([*score.counts, *score.totals, score.sys_len, score.ref_len, line == reference])
        return np.array(rows, dtype=np.float64)


def bleu(counts: np.ndarray) -> float:
    """Return corpus BLEU of summed counts (11,)."""
    hits, totals, (length, wanted) = counts[:4], counts[4:8], counts[8:10]
    if not hits.all():
        return 0.0
    return float(100 * np.exp(np.log(hits / totals).mean() + min(0.0, 1 - wanted / length)))


def difference(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float, float]:
    """Return the mean difference in BLEU and its 95 % interval; (seeds, items, 11), seeds and items drawn anew."""
    generator = np.random.default_rng(12345)
    seeds, items = ours.shape[:2]

    def mean(of: np.ndarray, chosen: np.ndarray, weight: np.ndarray) -> float:
        return statistics.fmean(bleu(weight @ of[seed]) for seed in chosen)

    everything = (np.arange(seeds), np.ones(items))
    drawn = []
    for _ in range(DRAWS):
        chosen = generator.integers(seeds, size=seeds)
        weight = np.bincount(generator.integers(items, size=items), minlength=items).astype(np.float64)
        drawn.append(mean(ours, chosen, weight) - mean(theirs, chosen, weight))
    low, high = np.quantile(drawn, (0.025, 0.975))
    return mean(ours, *everything) - mean(theirs, *everything), float(low), float(high)


def report(folder: Path) -> None:
    """Print a line for each row and beam of what is finished, and draw BLEU over beams."""
    scores = Scores((folder / "test.txt").read_text("utf-8").splitlines())
    stats: dict[tuple[str, int, bool], dict[int, np.ndarray]] = {}
    seconds: dict[str, list[float]] = {}
    for row in ROWS:
        for seed in SEEDS:
            job = Job(folder, row, seed)
            if job.is_done:
                seconds.setdefault(row, []).append(job.cpu_seconds())
                for beam, merged, output in job.outputs():
                    stats.setdefault((row, beam, merged), {})[seed] = scores.read(output)
    print(
        "| row | CPU s | beam | merged | BLEU by seed | mean | exact | against l2r |\n|---|---|---|---|---|---|---|---|"
    )
    for (row, beam, merged), by_seed in stats.items():
        figures = [bleu(counts.sum(0)) for counts in by_seed.values()]
        exact = statistics.fmean(counts[:, 10].mean() for counts in by_seed.values())
        base = stats.get(("pool-sao" if row.startswith("pool-") else "l2r", beam, merged), {})
        both = [seed for seed in by_seed if seed in base]
        versus = ""
        if both and base is not by_seed:
            shift, low, high = difference(*(np.stack([of[seed] for seed in both]) for of in (by_seed, base)))
            versus = f"{shift:+.2f} [{low:+.2f}, {high:+.2f}]"
        cells = (
            row,
            f"{statistics.fmean(seconds[row]):.0f}",
            beam,
            "yes" if merged else "no",
            " ".join(f"{figure:.2f}" for figure in figures),
            f"{statistics.fmean(figures):.2f}",
            f"{exact:.3f}",
            versus,
        )
        print("|", " | ".join(map(str, cells)), "|")
    draw(folder / "word_order.png", stats)


def draw(path: Path, stats: dict[tuple[str, int, bool], dict[int, np.ndarray]]) -> None:
    """Draw BLEU over beams (Figure 3 of the paper): means, and bars from the lowest to the highest seed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for number, row in enumerate(row for row in ("l2r", "l2r-cpu", "sao", "average") if (row, 1, True) in stats):
        by_beam = [[bleu(counts.sum(0)) for counts in stats[row, beam, True].values()] for beam in BEAMS]
        means = [statistics.fmean(figures) for figures in by_beam]
        spread = [[mean - min(f) for mean, f in zip(means, by_beam, strict=True)]]
        spread.append([max(f) - mean for mean, f in zip(means, by_beam, strict=True)])
        places = [place + 0.06 * number for place in range(len(BEAMS))]
        axes.errorbar(places, means, yerr=spread, marker="o", capsize=3, label=row)
    axes.set_xticks(range(len(BEAMS)), [str(beam) for beam in BEAMS])
    axes.set_xlabel("beam")
    axes.set_ylabel("BLEU, 2,500 windows")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Train and decode what was asked for; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=["l2r", "l2r-cpu", "sao", "average"])
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    if not options.report:
        write_data(options.folder)
        missing = [Job(options.folder, row, seed) for seed in options.seeds for row in options.rows]
        missing = [job for job in missing if not job.is_done]
        measure_all([job for job in missing if job.row not in FIRST], options.jobs)
        measure_all([job for job in missing if job.row in FIRST], options.jobs)
    report(options.folder)


def measure_all(jobs: Sequence[Job], at_once: int) -> None:
    """Do jobs side by side.

    Raises: SystemExit if a row is missing that one of them goes on from.
    """
    for job in jobs:
        if job.row in FIRST and not Job(job.folder, FIRST[job.row], job.seed).is_done:
            raise SystemExit(f"{job.row} goes on from {FIRST[job.row]}: give that row, too")
    with ProcessPoolExecutor(at_once, get_context("spawn"), max_tasks_per_child=1) as pool:  # CPU time by run
        running = {pool.submit(job.measure): job for job in jobs}
        for done in as_completed(running):
            done.result()
            print(running[done].row, running[done].seed, f"{running[done].cpu_seconds():.0f} CPU-s", flush=True)


if __name__ == "__main__":
    main()
