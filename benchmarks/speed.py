"""Training step and cached decoding of InDIGO against the transformer of the same code and sizes.

python benchmarks/speed.py [train] [decode] [long] [small] [large]

Without a part all of them, without a size both; `long` is for `small` only. The bars are those of issues 2 and, for
`long`, 3.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import untrained
from measure import interleaved, ratio, show

from indigo_cli.core.vocab import NUM_SPECIALS
from indigo_cli.data.collate import collate, collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.search import Sentence, search_batch

VOCABULARY = 6000
SYSTEMS = ("transformer", "indigo")
PARTS = ("train", "decode", "long")


@dataclass(frozen=True)
class Size:
    """One configuration and its bars."""

    name: str
    model_dim: int
    layers: int
    heads: int
    sentences: int
    bar_train: float
    bar_greedy: float
    bar_beam: float


SIZES = {
    "small": Size("d=256, 3+3", 256, 3, 4, 48, 1.12, 1.20, 1.15),
    "large": Size("d=512, 6+6", 512, 6, 8, 32, 1.10, 1.12, 1.08),
}


def build(system: str, size: Size) -> Any:
    """Build a system of a size."""
    return untrained.build(
        system, model_dim=size.model_dim, layers=size.layers, heads=size.heads, vocabulary=VOCABULARY
    )


def training(size: Size) -> None:
    """One update on about 2,000 target tokens of 10 to 30 words: forward, backward, clipping, Adam."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(10, 31, 100)
    rows = [rng.integers(NUM_SPECIALS, VOCABULARY, n) for n in lengths]
    sources = [rng.integers(NUM_SPECIALS, VOCABULARY, n) for n in lengths]
    batch = collate([str(i) for i in range(len(rows))], sources, rows, [[np.arange(n)] for n in lengths])
    steps = {name: untrained.update(build(name, size), batch) for name in SYSTEMS}
    seconds = interleaved(steps)
    show(f"training step, {size.name}: InDIGO / transformer", ratio(seconds, "indigo", "transformer"), size.bar_train)
    rate = int(lengths.sum()) / float(np.median(seconds["transformer"]))
    print(f"  transformer: {rate:,.0f} target tokens per CPU second")


def decoding(size: Size, beam: int, steps: int = 20) -> None:
    """`steps` forced steps from the cache, bookkeeping of words, slots and parents included."""
    rng = np.random.default_rng(0)
    source = collate_source([rng.integers(NUM_SPECIALS, VOCABULARY, 20) for _ in range(size.sentences)])
    systems = {name: build(name, size).eval() for name in SYSTEMS}

    # As many words for all, since `<eod>` would come at random: the models are untrained.
    sentences = [Sentence(line=i, min_length=steps, max_length=steps) for i in range(size.sentences)]

    def search(name: str) -> None:
        search_batch(systems[name], source, DecodeConfig(), sentences, width=beam, seed=1)

    seconds = interleaved({name: (lambda name=name: search(name)) for name in SYSTEMS})
    bar = size.bar_greedy if beam == 1 else size.bar_beam
    title = f"decoding, {size.name}, beam {beam}, {size.sentences} sentences: InDIGO / transformer"
    show(title, ratio(seconds, "indigo", "transformer"), bar)
    rate = size.sentences * steps / float(np.median(seconds["transformer"]))
    print(f"  transformer: {rate:,.0f} tokens per CPU second")


LENGTHS = (10, 50, 200)
BAR_LONG, BAR_GROWTH = 1.25, 0.1


def long_sentences(size: Size) -> None:
    """Greedy decoding of ever longer outputs: how the cost of relations and pointer grows with what stands already."""
    rng = np.random.default_rng(0)
    source = collate_source([rng.integers(NUM_SPECIALS, VOCABULARY, 20) for _ in range(size.sentences)])
    systems = {name: build(name, size).eval() for name in SYSTEMS}
    first = 0.0
    for steps in LENGTHS:
        sentences = [Sentence(line=i, min_length=steps, max_length=steps) for i in range(size.sentences)]

        def search(name: str, sentences: list[Sentence] = sentences) -> None:
            search_batch(systems[name], source, DecodeConfig(), sentences, width=1, seed=1)

        figures = ratio(
            interleaved({name: (lambda name=name: search(name)) for name in SYSTEMS}), "indigo", "transformer"
        )
        first = first or figures[0]
        show(f"greedy, {size.name}, {steps} words: InDIGO / transformer", figures, min(BAR_LONG, first + BAR_GROWTH))


def main() -> None:
    """Run what the command line names, or everything."""
    wanted = sys.argv[1:]
    if unknown := set(wanted) - {*PARTS, *SIZES}:
        raise SystemExit(f"unknown: {' '.join(sorted(unknown))}; known: {' '.join((*PARTS, *SIZES))}")
    parts = [part for part in PARTS if part in wanted] or PARTS
    for name in [name for name in SIZES if name in wanted] or SIZES:
        if "train" in parts:
            training(SIZES[name])
        if "decode" in parts:
            for beam in (1, 5, 10):
                decoding(SIZES[name], beam)
        if "long" in parts and name == "small":
            long_sentences(SIZES[name])


if __name__ == "__main__":
    main()
