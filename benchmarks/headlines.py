"""Headlines of a wished length: how good they are, and how near they come (issue 7, bars 1 and 2).

python benchmarks/headlines.py table FOLDER RUN ... --source FILE --reference FILE [--lengths 30 50 75] [--set ...]
python benchmarks/headlines.py held FOLDER RUN --source FILE [--low 40] [--high 50] [--from 20] [--to 70] [--set ...]

`table`: each run writes a headline of each length for every line of the source, twice: as it likes (a run that was told
no lengths writes the same for all of them), and under `--hard-length`. The first run is the plain one, whose free
headlines are cut after the last whole word that fits for the comparison. ROUGE is F1 of the whole headline, and, as for
DUC, recall of what stands within so many bytes: wishes far from the length of the references cost F1 whoever writes.

`held`: wishes from one length to another in turn over the lines, three times over, so that each line has three; the
mean error of those that were held out of training, and of the others.

Outputs stay in FOLDER, one file for each run and wish; what stands there is not decoded again.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from indigo_cli.core.format import Format
from indigo_cli.data.files import read_lines
from indigo_cli.data.traces_file import read_traces
from indigo_cli.engine.assess import EvaluateConfig, assess
from indigo_cli.engine.generate import generate
from indigo_cli.engine.length_wish import LengthOption
from indigo_cli.engine.loaded_run import load_run

CPU = torch.device("cpu")
METRICS = ["rouge1", "rouge2", "rougeL", "length"]
SQUARED_BAR, UNUSED_BAR = 1 / 20, 0.15
HELD_RATIO, HELD_ERROR = 1.5, 2.0
PASSES, STEP = 3, 17
"""Of `held`: wishes of a line, and how far they are apart."""


def decode(
    folder: Path, run: Path, name: str, source: str, overrides: Sequence[str], length: LengthOption | None
) -> list[str]:
    """Return the outputs of a run, decoded now or before."""
    output = folder / f"{name}.traces.jsonl"
    if not output.exists():
        generate(run, source=source, output=str(output), form=Format.jsonl, overrides=overrides, length=length)
    texts = {record.id: record.text for record in read_traces(output)[1] if record.rank == 1}
    return [texts.get(line, "") for line in range(len(list(read_lines(source))))]


def cut(text: str, length: int) -> str:
    """Return the words of a text that fit."""
    while len(text) > length:
        text = text.rpartition(" ")[0]
    return text


def figures(lines: Sequence[str], references: Sequence[str], length: int) -> dict[str, float]:
    """Return ROUGE (F1, and recall within so many bytes), how near the lines come, and their mean length."""
    seed = {"resamples": 1, "seed": 1}
    whole = assess(
        {"": lines}, [references], config=EvaluateConfig(METRICS, length_limit=length), parts=True, **seed
    ).systems[0]
    within = EvaluateConfig(["rouge1"], rouge_bytes=length)
    recall = assess({"": lines}, [references], config=within, **seed).systems[0]
    found = {name: 100 * whole.scores[name].score for name in METRICS}
    parts = whole.scores["length"].parts
    return {
        "R1": found["rouge1"],
        "R2": found["rouge2"],
        "RL": found["rougeL"],
        "recall": 100 * recall.scores["rouge1"].score,
        "squared": parts["squared"].score,
        "within": found["length"],
        "unused": 100 * parts["unused"].score,
        "mean": sum(map(len, lines)) / len(lines),
    }


def rows(options: argparse.Namespace, length: int) -> Iterator[tuple[str, list[str]]]:
    """Yield what is compared at one length: the name of a row, and its lines."""
    for number, run in enumerate(options.runs):
        told = load_run(run, device=CPU).length_unit is not None
        wish = LengthOption(fixed=length)
        free = decode(
            options.folder,
            run,
            f"{run.name}.{length if told else 'free'}",
            options.source,
            options.set,
            wish if told else None,
        )
        yield run.name, free
        if number == 0:
            yield f"{run.name}, cut", [cut(line, length) for line in free]
        hard = [*options.set, "decode.hard_length=true"]
        yield f"{run.name}, hard", decode(options.folder, run, f"{run.name}.hard{length}", options.source, hard, wish)


def table(options: argparse.Namespace) -> None:
    """Print a table for each length, and what the bars say."""
    references = list(read_lines(options.reference))
    for length in options.lengths:
        found = {}
        for name, lines in rows(options, length):
            found[name] = figures(lines, references, length)
            if len(found) == 1:
                print(f"\n| {length} characters | {' | '.join(found[name])} |\n|---|{'---:|' * len(found[name])}")
            print(f"| {name} | {' | '.join(f'{value:.2f}' for value in found[name].values())} |", flush=True)
        plain = options.runs[0].name
        print()
        for run in options.runs[1:]:
            ratio = found[run.name]["squared"] / found[plain]["squared"]
            hard, short = found[f"{run.name}, hard"], found[f"{plain}, cut"]
            more, recall = hard["R1"] - short["R1"], hard["recall"] - short["recall"]
            print(
                f"{run.name}: squared difference {ratio:.4f} of the plain one's (bar {SQUARED_BAR}); hard: within "
                f"{hard['within']:.2f} % (bar 100), ROUGE-1 {more:+.2f} F1, {recall:+.2f} recall (bar 0, beside "
                f"the cut one), unused {hard['unused']:.1f} % (bar {100 * UNUSED_BAR:.0f})"
            )


def held(options: argparse.Namespace) -> None:
    """Print the mean error of wishes that were held out of training beside that of the others."""
    run, span = options.run, options.to - options.first + 1
    num_lines = len(list(read_lines(options.source)))
    errors: dict[int, list[int]] = {}
    for number in range(PASSES):
        wishes = [options.first + (line + number * STEP) % span for line in range(num_lines)]
        asked = options.folder / f"{run.name}.wishes{number}"
        asked.write_text("".join(f"{wish}\n" for wish in wishes))
        length = LengthOption(file=str(asked))
        lines = decode(options.folder, run, f"{run.name}.held{number}", options.source, options.set, length)
        for wish, line in zip(wishes, lines, strict=True):
            errors.setdefault(wish, []).append(abs(len(line) - wish))
    sides: dict[bool, list[int]] = {True: [], False: []}
    for wish, found in errors.items():
        sides[options.low <= wish <= options.high] += found
    out, elsewhere = (sum(sides[side]) / len(sides[side]) for side in (True, False))
    for first in range(options.first, options.to + 1, 10):
        some = [error for wish in range(first, first + 10) for error in errors.get(wish, [])]
        print(f"wishes {first}-{first + 9}: {sum(some) / len(some):.3f} characters off, {len(some)} outputs")
    bar = max(HELD_RATIO * elsewhere, HELD_ERROR)
    print(f"held out {options.low}-{options.high}: {out:.3f}; elsewhere {elsewhere:.3f}; bar {bar:.3f}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, action in (("table", table), ("held", held)):
        command = commands.add_parser(name)
        command.set_defaults(action=action)
        command.add_argument("folder", type=Path)
        command.add_argument("--source", required=True)
        command.add_argument("--set", action="append", default=[])
        if action is table:
            command.add_argument("runs", type=Path, nargs="+")
            command.add_argument("--reference", required=True)
            command.add_argument("--lengths", type=int, nargs="+", default=[30, 50, 75])
        else:
            command.add_argument("run", type=Path)
            for option, default in (("--low", 40), ("--high", 50), ("--to", 70)):
                command.add_argument(option, type=int, default=default)
            command.add_argument("--from", dest="first", type=int, default=20)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    options.action(options)


if __name__ == "__main__":
    main()
