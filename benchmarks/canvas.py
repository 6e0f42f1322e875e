"""Given words: how many canvases come out broken, and what words of the reference do for BLEU (issue 6, bar 4).

python benchmarks/canvas.py FOLDER RUN ... [--split test] [--checkpoint NAME] [--canvases 10000] [--lines N]
                            [--shares 0 25 50] [--marked] [--seed 1] [--set KEY=VALUE ...]

Random canvases hold words of the split's targets, a random share of a random line, with `[gap]` at random places (at
none: open everywhere). Each is decoded from the source of its line, and one is broken if a given word is missing, out
of order, in parts, or lengthened, or if something stands in a closed gap: read off the trace, and off the text.

Then the first N lines (default: all) are decoded with so many per cent of the words of their reference given, drawn by
seed and line: the words of 25 % are among those of 50 %. Nothing says where others are missing, unless --marked puts a
`[gap]` there. Tokens of the run's tokenizer are the words. Traces and canvases stay in FOLDER, a folder for each name
of a run; what stands there is not decoded again.
"""

import argparse
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from sacrebleu.metrics.bleu import BLEU

from indigo_cli.core.bpe import CONTINUES
from indigo_cli.core.format import Format
from indigo_cli.core.text import SideCodec
from indigo_cli.data.files import read_lines
from indigo_cli.data.traces_file import TraceRecord, read_traces
from indigo_cli.decoding.places import GivenWords
from indigo_cli.engine.canvas_lines import MARK, CanvasReader
from indigo_cli.engine.generate import generate
from indigo_cli.engine.loaded_run import LoadedRun, load_run

NAMED = 5
"""Broken canvases that are shown."""


@dataclass(frozen=True)
class Bench:
    """One run and the raw text of a split.

    Args:
        folder: Where its files go.
        checkpoint, overrides: As `indigo decode` takes them.
        sources, targets: Raw lines.
    """

    folder: Path
    run: LoadedRun
    checkpoint: str
    overrides: Sequence[str]
    sources: list[str]
    targets: list[str]

    @property
    def codec(self) -> SideCodec:
        """Of the targets."""
        return self.run.codecs.target

    def decode(self, name: str, sources: Iterable[str], canvases: Iterable[str]) -> Iterator[TraceRecord]:
        """Decode lines from their canvases, unless that has been done."""
        files = {self.folder / f"{name}.source": sources, self.folder / f"{name}.canvas": canvases}
        output = self.folder / f"{name}.traces.jsonl"
        for path, lines in files.items():
            text = "".join(f"{line}\n" for line in lines)
            if output.exists() and path.read_text("utf-8") != text:
                raise SystemExit(f"{output} is of other lines: name another FOLDER")
            path.write_text(text, "utf-8")
        source, canvas = map(str, files)
        generate(
            self.run.folder.path,
            source=source,
            canvas=canvas,
            output=str(output),
            form=Format.jsonl,
            checkpoint=self.checkpoint,
            overrides=self.overrides,
            resume=True,
        )
        return read_traces(output)[1]

    def words(self, line: int) -> list[str]:
        """Return the words of a target, a literal mark escaped."""
        return [word.replace(MARK, f"\\{MARK}") for word in self.codec.words(self.targets[line])]


def random_canvas(words: Sequence[str], rng: random.Random) -> str:
    """Give a random share of the words, and open a random share of the gaps."""
    share, openness = rng.random(), rng.random()
    given = [word for word in words if rng.random() < share]
    parts = [[MARK] * (rng.random() < openness) + [word] for word in given]
    return " ".join([part for pair in parts for part in pair] + [MARK] * (rng.random() < openness))


def reference_canvas(words: Sequence[str], percent: int, rng: random.Random, *, marked: bool) -> str:
    """Give so many per cent of the words, rounded; the draw is the same for any share."""
    ranked = rng.sample(range(len(words)), len(words))
    given = {*ranked[: round(len(words) * percent / 100)]}
    if not marked or not given:
        return " ".join(word for index, word in enumerate(words) if index in given)
    parts: list[str] = []
    for index, word in enumerate(words):
        if index in given:
            parts.append(word)
        elif parts[-1:] != [MARK]:
            parts.append(MARK)
    return " ".join(parts)


def fault_of(record: TraceRecord, canvas: GivenWords, codec: SideCodec) -> str:
    """Say what is wrong with a canvas after decoding; nothing if it is whole."""
    places = list(record.order[: record.given])
    if record.given != len(canvas.words):
        return "a given word is missing"
    places.sort()
    tokens = [record.tokens[place] for place in places]
    if any(token not in (piece, "<unk>") for token, piece in zip(tokens, canvas.pieces, strict=True)):
        return "another word stands in the place of a given one"
    edges = [-1, *places, len(record.tokens)]
    if any(
        right > left + 1 for left, right, is_open in zip(edges, edges[1:], canvas.open, strict=False) if not is_open
    ):
        return "something stands in a closed gap"
    pieces = codec.bpe is not None
    inside = [pieces and piece.endswith(CONTINUES) for piece in ("", *canvas.pieces)]
    for place, goes_on in zip(places, inside, strict=False):
        if pieces and place and record.tokens[place - 1].endswith(CONTINUES) and not goes_on:
            return "a given word is lengthened"
    text, at = "".join(record.text.split()), 0
    word: list[str] = []
    for piece in canvas.pieces:
        word.append(piece)
        if not (pieces and piece.endswith(CONTINUES)):
            spelt = "".join(codec.text(word).split())
            at = text.find(spelt, at) + len(spelt)
            if at < len(spelt):
                return f"the text has no {spelt!r} in its place"
            word = []
    return ""


def count_broken(bench: Bench, count: int, seed: int) -> None:
    """Decode random canvases and print how many are broken, and which."""
    rng = random.Random(seed)
    lines = [rng.randrange(len(bench.targets)) for _ in range(count)]
    canvases = [random_canvas(bench.words(line), rng) for line in lines]
    read = CanvasReader(bench.codec, max_length=bench.run.recipe.preprocess.max_length)
    given = filled = 0
    broken: list[str] = []
    for record in bench.decode(f"random-{count}-{seed}", (bench.sources[line] for line in lines), canvases):
        fault = fault_of(record, read(canvases[record.id], f"canvas {record.id + 1}"), bench.codec)
        given, filled = given + record.given, filled + len(record.tokens) - record.given
        if fault:
            broken.append(f"  {fault}: {canvases[record.id]!r} -> {record.text!r}")
    print(f"{len(broken)} of {count:,} random canvases broken; {given:,} tokens given, {filled:,} inserted")
    print("\n".join(broken[:NAMED]), end="\n" if broken else "")


def show_scores(bench: Bench, shares: Sequence[int], seed: int, *, marked: bool) -> None:
    """Print BLEU by share of reference words given."""
    for percent in shares:
        name = f"share-{percent}-{seed}-{len(bench.targets)}{'-marked' if marked else ''}"
        canvases = [
            reference_canvas(bench.words(line), percent, random.Random(f"{seed} {line}"), marked=marked)
            for line in range(len(bench.targets))
        ]
        records = list(bench.decode(name, bench.sources, canvases))
        score = BLEU().corpus_score([record.text for record in records], [bench.targets]).score
        share = sum(record.given for record in records) / max(1, sum(len(record.tokens) for record in records))
        unfinished = sum(not record.finished for record in records)
        print(
            f"{percent:3d} % given  BLEU {score:5.2f}  ({share:.0%} of the output, {unfinished} unfinished)", flush=True
        )


def text_of(run: LoadedRun, split: str, lines: int) -> tuple[list[str], list[str]]:
    """Return the raw lines of both sides of a split, the first ones."""
    files = run.recipe.data.splits[split]
    source, target = (
        list(islice((line for path in paths for line in read_lines(path)), lines or None))
        for paths in (files.source, files.target)
    )
    return source, target


def main() -> None:
    """Decode what is missing and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--split", default="test")
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--canvases", type=int, default=10_000)
    parser.add_argument("--lines", type=int, default=0)
    parser.add_argument("--shares", type=int, nargs="*", default=[0, 25, 50])
    parser.add_argument("--marked", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    options = parser.parse_args()
    for path in options.runs:
        run = load_run(path, checkpoint=options.checkpoint, overrides=options.overrides, device=torch.device("cpu"))
        how = "".join(f",{override}" for override in options.overrides)
        folder = options.folder / f"{path.resolve().name},{run.checkpoint_name}{how}"
        folder.mkdir(parents=True, exist_ok=True)
        text = text_of(run, options.split, options.lines)
        bench = Bench(folder, run, options.checkpoint, options.overrides, *text)
        print(f"{path.resolve().name} ({run.recipe.system}), {run.checkpoint_name}{how}")
        if options.canvases:
            count_broken(bench, options.canvases, options.seed)
        show_scores(bench, options.shares, options.seed, marked=options.marked)


if __name__ == "__main__":
    main()
