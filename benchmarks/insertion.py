"""The Insertion Transformer beside the systems that write one word at a time (issue 6, bars 1 to 3).

python benchmarks/insertion.py table RUN[@CHECKPOINT] ... [--beams 1 5] [--sentences N] [--rounds N] [--scores FILE]
python benchmarks/insertion.py latency [--lengths T ...] [--rounds N]
python benchmarks/insertion.py training [--rounds N]

`table`: trained runs of one corpus, a row for each and each beam. The penalty (`decode.close_penalty` of runs that
insert in rounds, else `decode.length_penalty`, which a beam of 1 has none of) is the one with the best BLEU on valid,
BLEU that of the whole of test; both are kept in FILE, and what stands there is not decoded again. Rounds, operations
(of batches of 1, so without padding) and speeds are those of the first N sentences of test; all rows take turns, one
thread, CPU time, the median of the rounds.

`latency`: one sentence at a time, T words from T words, random weights. The search is made to write T words: the
transformer may not end before, the Insertion Transformer closes no slot while there is room. So it takes
floor(log2 T) + 1 rounds that insert, each doubling what stands, and one that closes every slot: the balanced case; what
trained models take more is in `table`. Encoder, bookkeeping and traces are timed, too.

`training`: one update (forward, backward, clipping, Adam) on about 2,000 target tokens of 10 to 30 words, V = 8,000,
on drawn balanced trees.
"""

import argparse
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import untrained
from measure import ROUNDS, interleaved, ratio, show

from indigo_cli.core.vocab import NUM_SPECIALS
from indigo_cli.data.collate import collate, collate_source
from indigo_cli.data.references import read_references
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.parallel import search_rounds
from indigo_cli.decoding.search import Sentence, search_batch
from indigo_cli.engine.assess import assess
from indigo_cli.engine.flops import DecodingCost, Meter
from indigo_cli.engine.generate import split_blocks
from indigo_cli.engine.generator import Generator
from indigo_cli.engine.lines import BLOCK_LINES, EncodedLine
from indigo_cli.engine.loaded_run import LoadedRun, load_run
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.writers import text_line
from indigo_cli.orders.drawn_tree import rule
from indigo_cli.orders.rule import OrderContext, Targets

CPU = torch.device("cpu")
ANY_BATCH = 1 << 40
"""`decode.batch_tokens`: whatever is decoded together is one batch."""
BATCHES = (1, 32)
CLOSE_PENALTIES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
LENGTH_PENALTIES = (0.0, 0.6, 1.0, 1.4)
BAR_ROUNDS, BAR_FLOPS, BAR_BLEU = 1.3, 0.55, 1.0


# ---- trained runs -------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """What the table says of one run under one beam."""

    name: str
    kind: str
    generator: Generator
    penalty: float | None
    bleu: float
    cost: DecodingCost


def with_settings(loaded: LoadedRun, **settings: Any) -> Generator:
    """Return what decodes a run with other [decode] settings."""
    config = replace(loaded.recipe.decode, **settings)
    return Generator(loaded.with_decode(config), device=CPU, runtime=Runtime(threads=1))


def bleu(loaded: LoadedRun, generator: Generator, split: str) -> float:
    """Return BLEU of a whole split against its raw references."""
    corpus = loaded.open_corpus()
    references = read_references(corpus, split)
    texts = [""] * len(references[0])
    for block in split_blocks(generator, corpus, split, BLOCK_LINES):
        for line, outputs in zip(block, generator.decode(block), strict=True):
            texts[line.number] = text_line(outputs[0])
    config = replace(loaded.recipe.evaluate, metrics=["bleu"])
    report = assess({"it": texts}, references, config=config, language=loaded.recipe.data.target_lang, resamples=1)
    return report.systems[0].scores["bleu"].score


def choose(loaded: LoadedRun, beam: int) -> dict[str, float]:
    """Return the setting that is best on valid; none where there is nothing to choose."""
    key, values = ("close_penalty", CLOSE_PENALTIES) if loaded.in_rounds else ("length_penalty", LENGTH_PENALTIES)
    if not loaded.in_rounds and beam == 1:
        return {}
    scores = {value: bleu(loaded, with_settings(loaded, beam_size=beam, **{key: value}), "valid") for value in values}
    best = max(scores, key=lambda value: scores[value])
    print(f"  {key} on valid: {', '.join(f'{value:g} {score:.2f}' for value, score in scores.items())}", flush=True)
    return {key: best}


def first_lines(generator: Generator, loaded: LoadedRun, count: int) -> list[EncodedLine]:
    """Return sources of test."""
    block = next(split_blocks(generator, loaded.open_corpus(), "test", count))
    return [line for line in block if len(line.ids)]


class Scores:
    """Chosen penalties and BLEU by title, kept in a file if one is named."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known = json.loads(path.read_text()) if path is not None and path.exists() else {}

    def of(self, title: str, loaded: LoadedRun, beam: int) -> tuple[dict[str, float], float]:
        """Return the settings of a run that are best on valid, and its BLEU on test with them."""
        print(title, flush=True)
        if title not in self.known:
            settings = choose(loaded, beam)
            self.known[title] = settings, bleu(loaded, with_settings(loaded, beam_size=beam, **settings), "test")
            if self.path is not None:
                self.path.write_text(json.dumps(self.known, indent=1) + "\n")
        settings, score = self.known[title]
        return settings, score


def measure_run(name: str, beam: int, sentences: int, scores: Scores) -> Row:
    """Choose the penalty of a run, score it and count."""
    folder, _, checkpoint = name.partition("@")
    loaded = load_run(Path(folder), checkpoint=checkpoint, device=CPU)
    title = f"{Path(folder).name}{f'@{checkpoint}' if checkpoint else ''}, beam {beam}"
    settings, score = scores.of(title, loaded, beam)
    generator = with_settings(loaded, beam_size=beam, batch_tokens=ANY_BATCH, **settings)
    meter = Meter(generator)
    for line in first_lines(generator, loaded, sentences):
        meter.decode([line])
    kind = loaded.recipe.model.position_scheme if loaded.in_rounds else loaded.recipe.system
    return Row(title, kind, generator, next(iter(settings.values()), None), score, meter.cost)


def speeds(rows: Sequence[Row], batch: int, sentences: int, rounds: int) -> list[float]:
    """Return sentences a CPU second of each row, in batches of sentences of similar length."""

    def decoder(row: Row) -> Callable[[], None]:
        lines = sorted(first_lines(row.generator, row.generator.run, sentences), key=lambda line: len(line.ids))
        chunks = [lines[first : first + batch] for first in range(0, len(lines), batch)]

        def run() -> None:
            for chunk in chunks:
                row.generator.decode(chunk)

        return run

    seconds = interleaved({str(i): decoder(row) for i, row in enumerate(rows)}, rounds=rounds)
    return [row.cost.sentences / statistics.median(seconds[str(i)]) for i, row in enumerate(rows)]


def table(runs: Sequence[str], beams: Sequence[int], sentences: int, rounds: int, scores: Scores) -> None:
    """Print the table of bar 1, and its bars where the runs for them are there."""
    torch.set_num_threads(1)
    rows = [measure_run(name, beam, sentences, scores) for name in runs for beam in beams]
    rates = [speeds(rows, batch, sentences, rounds) for batch in BATCHES]
    print(
        f"\n{'':44}{'pen.':>5}{'BLEU':>7}{'T':>6}{'rounds':>8}{'log2T+1':>8}{'MFLOP: stack':>13}{'heads':>8}{'all':>8}"
        f"{'sent/s: 1':>10}{'32':>8}"
    )
    for row, one, many in zip(rows, *rates, strict=True):
        facts = row.cost.facts()
        each = {part: flops / row.cost.sentences / 1e6 for part, flops in facts["flops"].items()}
        penalty = "-" if row.penalty is None else f"{row.penalty:g}"
        print(
            f"{row.name:44}{penalty:>5}{row.bleu:7.2f}{row.cost.tokens / row.cost.sentences:6.1f}"
            f"{facts['rounds_per_sentence']:8.2f}{facts['log2_rounds_per_sentence']:8.2f}{each['decoder']:13.1f}"
            f"{each['slots'] + each['words']:8.1f}{each['total']:8.1f}{one:10.1f}{many:8.1f}"
        )
    print()
    for row in rows:
        if row.generator.run.in_rounds:
            over = row.cost.rounds / row.cost.ideal_rounds
            show(f"rounds / (log2 T + 1), {row.name}", (over, over, over), BAR_ROUNDS)
    plain = {row.kind: row for row in reversed(rows)}  # the first of each kind
    if {"fractional", "absolute"} <= plain.keys():
        kept, anew = plain["fractional"], plain["absolute"]
        share = kept.cost.flops["decoder"] / anew.cost.flops["decoder"]
        show("operations of the stack, fractional / absolute", (share, share, share), BAR_FLOPS)
        behind = anew.bleu - kept.bleu
        show("BLEU, absolute - fractional", (behind, behind, behind), BAR_BLEU)


# ---- random weights -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """One configuration, and the bar of its training step."""

    model_dim: int
    layers: int
    heads: int
    bar_training: float

    @property
    def name(self) -> str:
        """For the rows."""
        return f"d={self.model_dim}, {self.layers}+{self.layers}"


SIZES = (Size(256, 3, 4, 1.6), Size(512, 6, 8, 1.35))
VOCABULARY = 8000
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("transformer", {}),
    "fractional": ("insertion", {"positions": "fractional"}),
    "relative": ("insertion", {"positions": "relative"}),
    "absolute": ("insertion", {"positions": "absolute"}),
}
LENGTHS = (10, 25, 50, 100, 200)
BARS_LATENCY = {25: 1.9, 50: 3.0}
NEVER_CLOSE = 1e4
"""`close_penalty` in nats: a slot is closed where there is no room alone."""


def build(kind: str, size: Size) -> Any:
    """Build a kind of model of a size."""
    system, settings = KINDS[kind]
    sizes = {"model_dim": size.model_dim, "layers": size.layers, "heads": size.heads}
    return untrained.build(system, vocabulary=VOCABULARY, **sizes, **settings)


def writer(kind: str, system: Any, length: int) -> Callable[[], None]:
    """Return what writes one output of a length, and check once that it does, in as many rounds as it should."""
    rng = np.random.default_rng(length)
    source = collate_source([rng.integers(NUM_SPECIALS, VOCABULARY, length)])
    in_rounds = kind != "transformer"
    config = DecodeConfig(close_penalty=NEVER_CLOSE if in_rounds else 0.0)
    sentences = [Sentence(line=0, min_length=length, max_length=length)]

    def run() -> Any:
        return (search_rounds if in_rounds else search_batch)(system, source, config, sentences, width=1, seed=1)

    (hypothesis,) = run()[0]
    rounds = 1 + max(hypothesis.trace.rounds())
    assert (len(hypothesis.trace), rounds) == (length, math.floor(math.log2(length)) + 1 if in_rounds else length)
    return run


def latency(lengths: Sequence[int], rounds: int) -> None:
    """Print bar 2: how many times as many sentences a CPU second as the transformer writes, at each length."""
    size = SIZES[0]
    kinds = ("transformer", "fractional", "absolute")
    systems = {kind: build(kind, size).eval() for kind in kinds}
    print(f"{'one sentence at a time, ' + size.name:30}{'transformer':>14}{'fractional':>12}{'absolute':>10}")
    rows = []
    for length in lengths:
        runs = {kind: writer(kind, system, length) for kind, system in systems.items()}
        seconds = interleaved(runs, rounds=rounds)
        rates = [1 / statistics.median(seconds[kind]) for kind in kinds]
        print(f"{f'T = {length}, sentences / CPU s':30}{rates[0]:14.2f}{rates[1]:12.2f}{rates[2]:10.2f}", flush=True)
        rows.append((length, *(ratio(seconds, "transformer", kind) for kind in kinds[1:])))
    for length, *pair in rows:
        for kind, (median, low, high) in zip(kinds[1:], pair, strict=True):
            bar = BARS_LATENCY.get(length) if kind == "fractional" else None
            verdict = "" if bar is None else f"  bar {bar:.1f}  {'ok' if median >= bar else 'MISSED'}"
            print(f"T = {length}: {kind} / transformer {median:6.2f} ({low:.2f}-{high:.2f}){verdict}")


def training(rounds: int) -> None:
    """Print bar 3: a training step in steps of the transformer."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(10, 31, 100)
    targets, sources = ([rng.integers(NUM_SPECIALS, VOCABULARY, n) for n in lengths] for _ in range(2))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    block = Targets(np.arange(len(lengths)), np.concatenate(targets), offsets)
    orders = np.split(rule(1.0).orders(block, OrderContext(seed=1)), offsets[1:-1])
    batch = collate([f"train:{i}" for i in range(len(lengths))], sources, targets, [[order] for order in orders])
    for size in SIZES:
        steps = {kind: untrained.update(build(kind, size), batch) for kind in KINDS}
        seconds = interleaved(steps, rounds=rounds)
        for kind in list(KINDS)[1:]:
            title = f"training step, {size.name}: {kind} / transformer"
            show(title, ratio(seconds, kind, "transformer"), size.bar_training)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("table", "latency", "training"))
    parser.add_argument("runs", nargs="*", help="for `table`")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--scores", type=Path, help="for `table`")
    options = parser.parse_args()
    if options.part == "table":
        table(options.runs, options.beams, options.sentences, options.rounds, Scores(options.scores))
    elif options.part == "latency":
        latency(options.lengths, options.rounds)
    else:
        training(options.rounds)


if __name__ == "__main__":
    main()
