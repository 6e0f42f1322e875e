"""Headlines of a wished length: how good they are, and how near they come (issue 7, bars 1 and 2).

python benchmarks/headlines.py table FOLDER RUN ... --source FILE --reference FILE [--lengths 30 50 75] [--free] ...
python benchmarks/headlines.py held FOLDER RUN --source FILE [--low 40] [--high 50] [--from 20] [--to 70] [--set ...]

`table`: each run writes a headline of each length for every line of the source: as it likes (a run that was told no
lengths writes the same for all of them), and, without --free, under `--hard-length`. The first run is the plain one,
whose free headlines are cut after the last whole word that fits for the comparison. ROUGE is F1 of the whole headline,
and, as for DUC, recall of what stands within so many bytes: wishes far from the length of the references cost F1
whoever writes.

`held`: wishes from one length to another in turn over the lines, three times over; the mean error of those that were
held out of training, and of the others.

Lengths are in characters. Outputs stay in FOLDER, one file for each run and wish; what stands there is not decoded
again, so other settings, sources or weights want another FOLDER.
"""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from indigo_cli.core.format import Format
from indigo_cli.data.files import read_lines
from indigo_cli.data.traces_file import TraceRecord, read_traces
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
) -> list[TraceRecord]:
    """Return the best output of each line, decoded now or before; a line without a source has none."""
    output = folder / f"{name}.traces.jsonl"
    if not output.exists():
        generate(run, source=source, output=str(output), form=Format.jsonl, overrides=overrides, length=length)
    return [record for record in read_traces(output)[1] if record.rank == 1]


def texts(records: Sequence[TraceRecord], num_lines: int) -> list[str]:
    """Return the text of each line."""
    found = {record.id: record.text for record in records}
    return [found.get(line, "") for line in range(num_lines)]


def cut(text: str, length: int) -> str:
    """Return the words of a text that fit."""
    while len(text) > length:
        text = text.rpartition(" ")[0]
    return text


def figures(lines: Sequence[str], references: Sequence[str], length: int) -> dict[str, float]:
    """Return ROUGE (F1, and recall within so many bytes), how near the lines come, and their mean length."""
    scored = partial(assess, {"": lines}, [references], resamples=1)
    whole = scored(config=EvaluateConfig(METRICS, length_limit=length), parts=True).systems[0]
    recall = scored(config=EvaluateConfig(["rouge1"], rouge_bytes=length)).systems[0]
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


def rows(options: argparse.Namespace, length: int, num_lines: int) -> Iterator[tuple[str, list[str]]]:
    """Yield what is compared at one length: the name of a row, and its lines."""
    wish, hard = LengthOption(fixed=length), [*options.set, "decode.hard_length=true"]
    for run, told in options.told.items():
        one = partial(decode, options.folder, run)
        if told:
            free = one(f"{run.name}.{length}", options.source, options.set, wish)
        else:
            free = one(f"{run.name}.free", options.source, options.set, None)
        lines = texts(free, num_lines)
        yield run.name, lines
        if run == options.runs[0]:
            yield f"{run.name}, cut", [cut(line, length) for line in lines]
        if not options.free:
            limited = one(f"{run.name}.hard{length}", options.source, hard, wish)
            yield f"{run.name}, hard", texts(limited, num_lines)


def takes_wishes(run: Path) -> bool:
    """Tell whether a run was told lengths.

    Raises:
        SystemExit: in another unit than characters.
    """
    unit = load_run(run, device=CPU).length_unit
    if unit not in (None, "character"):
        raise SystemExit(f"{run} was told lengths in the unit {unit!r}: characters are measured here")
    return unit is not None


def table(options: argparse.Namespace) -> None:
    """Print a table for each length, and what the bars say."""
    references = list(read_lines(options.reference))
    options.told = {run: takes_wishes(run) for run in options.runs}
    if len({run.name for run in options.runs}) < len(options.runs):
        raise SystemExit("two of the runs have one name, which their outputs would share")
    for length in options.lengths:
        found: dict[str, dict[str, float]] = {}
        for name, lines in rows(options, length, len(references)):
            found[name] = figures(lines, references, length)
            if len(found) == 1:
                print(f"\n| {length} characters | {' | '.join(found[name])} |\n|---|{'---:|' * len(found[name])}")
            print(f"| {name} | {' | '.join(f'{value:.2f}' for value in found[name].values())} |", flush=True)
        plain = options.runs[0].name
        print()
        for run in options.runs[1:]:
            ratio = found[run.name]["squared"] / found[plain]["squared"]
            print(f"{run.name}: squared difference {ratio:.4f} of the plain one's (bar {SQUARED_BAR})")
            if options.free:
                continue
            hard, short = found[f"{run.name}, hard"], found[f"{plain}, cut"]
            more, recall = hard["R1"] - short["R1"], hard["recall"] - short["recall"]
            print(
                f"{run.name}, hard: within {hard['within']:.2f} % (bar 100), ROUGE-1 to the cut one {more:+.2f} F1, "
                f"{recall:+.2f} recall (bar 0), unused {hard['unused']:.1f} % (bar {100 * UNUSED_BAR:.0f})"
            )


def held(options: argparse.Namespace) -> None:
    """Print the mean error of wishes that were held out of training beside that of the others."""
    run, first, last = options.run, options.first, options.to
    takes_wishes(run)
    num_lines = len(list(read_lines(options.source)))
    errors: dict[int, list[int]] = {wish: [] for wish in range(first, last + 1)}
    for number in range(PASSES):
        wishes = [first + (line + number * STEP) % len(errors) for line in range(num_lines)]
        name = f"{run.name}.held{first}-{last}.{number}"
        asked = options.folder / f"{name}.wishes"
        asked.write_text("".join(f"{wish}\n" for wish in wishes))
        for record in decode(options.folder, run, name, options.source, options.set, LengthOption(file=str(asked))):
            if record.wish is not None:
                errors[record.wish].append(abs(len(record.text) - record.wish))
    for low in range(first, last + 1, 10):
        high = min(low + 9, last)
        if some := [error for wish in range(low, high + 1) for error in errors[wish]]:
            print(f"wishes {low}-{high}: {sum(some) / len(some):.3f} characters off, {len(some)} outputs")
    sides: dict[bool, list[int]] = {True: [], False: []}
    for wish, some in errors.items():
        sides[options.low <= wish <= options.high] += some
    out, elsewhere = (sum(sides[side]) / max(len(sides[side]), 1) for side in (True, False))
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
            command.add_argument("--free", action="store_true")
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
