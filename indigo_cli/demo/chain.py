"""The whole chain of the demo for a task: raw text, corpus, two models, outputs, scores.

Whatever a user could do by hand is done by the very command that the user would type, in a process of its own; only
the text, the bags of the test set and the outputs of its parts come from here.
"""

import os
import shlex
import shutil
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from indigo_cli.core import console
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import atomic_write_text, read_jsonl, read_lines
from indigo_cli.data.traces_file import TraceRecord, read_traces
from indigo_cli.demo.steps import Step, run, train, working
from indigo_cli.demo.tasks import TASKS, DemoTask
from indigo_cli.engine.assess import EvaluateConfig, Report, assess_files
from indigo_cli.engine.run_folder import LOG_FILE, RECIPE_FILE
from indigo_cli.errors import UsageError

ORDERS = ("l2r", "sao")
"""The orders that are trained side by side. The others are compared with the first; an output of the last is shown."""
SPLITS = ("train", "valid", "test")
BAG = "bag"
SCRIPT = "commands.sh"
HEAD = "# Written by `indigo demo`: the commands it ran."


@dataclass(frozen=True)
class Plan:
    """What stands where in the folder of a task, and the commands that fill it.

    Args:
        folder: Of this task alone.
        name: Of the task, in TASKS.
        size: `small` or `tiny`: which recipes.
        training, computing: Options of `train`, and of `train` and `decode`.
    """

    folder: Path
    name: str
    size: str
    training: tuple[str, ...] = ()
    computing: tuple[str, ...] = ()

    @property
    def task(self) -> DemoTask:
        return TASKS[self.name]

    def place(self, *parts: str) -> str:
        """Return a path in the folder as a command takes it: one that starts with a dash would be an option."""
        path = str(self.folder.joinpath(*parts))
        return f".{os.sep}{path}" if path.startswith("-") else path

    def text(self, split: str) -> str:
        """Return the targets of a split, or of a part of the test set."""
        return self.place("data", f"{split}.{self.task.ending}")

    def recipe(self, order: str) -> str:
        return self.place(f"{order}.toml")

    def output(self, order: str, part: str = "") -> str:
        """Return the traces of the test set, or the outputs of a part of it as text."""
        return self.place(f"test.{part}.{order}.txt" if part else f"test.{order}.traces.jsonl")

    @property
    def sources(self) -> str:
        """The sources of the test set."""
        return self.place("data", self.task.sources) if self.task.sources else self.place(f"test.{BAG}.txt")

    def scored(self, part: str = "") -> dict[str, str]:
        """Return the files whose scores are shown, by what they are: bags first, where they are scored."""
        bags = {} if part or self.task.sources else {BAG: self.sources}
        return {**bags, **{order: self.output(order, part) for order in ORDERS}}

    def recipe_text(self, order: str) -> str:
        """Return the recipe that comes with the package."""
        name = f"{self.name.replace('-', '_')}_{self.size}_{order}.toml"
        return files("indigo_cli.demo").joinpath(name).read_text("utf-8")

    def preprocess(self) -> Step:
        return Step("preprocess", ("preprocess", self.recipe(ORDERS[0]), "-o", self.place("corpus"), "--overwrite"))

    def train(self, order: str) -> Step:
        """`--resume` goes on where an interrupted run stands, and starts one where none does."""
        places = ("--corpus", self.place("corpus"), "-o", self.place(order))
        args = ("train", self.recipe(order), *places, *self.training, *self.computing, "--resume")
        return Step(f"train {order}", args)

    def decode(self, order: str) -> Step:
        what = ("--split", "test", "--format", "jsonl", "-o", self.output(order), "--overwrite")
        return Step(f"decode {order}", ("decode", self.place(order), *what, *self.computing))

    def evaluate(self, part: str = "") -> Step:
        what = ("--reference", self.text(f"test.{part}" if part else "test"))
        how = ("--baseline", self.output(ORDERS[0], part), "--metrics", ",".join(self.task.metrics))
        return Step("evaluate", ("evaluate", *self.scored(part).values(), *what, *how))

    def show(self, line: int) -> Step:
        return Step("show", ("show", self.output(ORDERS[-1]), "--id", str(line)))

    def steps(self, line: int = 0) -> list[Step]:
        """Return everything that runs, in order; `line` is the output to show."""
        models = [*map(self.train, ORDERS), *map(self.decode, ORDERS)]
        return [self.preprocess(), *models, *map(self.evaluate, ("", *self.task.parts)), self.show(line)]

    def script(self, line: int = 0) -> str:
        """Return the commands as a shell script."""
        return "\n".join([HEAD, f"cd {shlex.quote(os.getcwd())}", *(step.command() for step in self.steps(line)), ""])


@dataclass(frozen=True)
class Results:
    """What came out, to be shown.

    Args:
        plan: Where everything is.
        num_items: By split.
        trained: Updates and CPU minutes of each training, by order.
        reports: Scores of the files of `plan.scored`, over all and by part of the test set; `` is all.
        from_left: Share of the last order's outputs that grew from left to right.
        shown: The output of the last order that is shown growing.
        shown_source: What the model got.
        shown_is_right: The very target came out.
    """

    plan: Plan
    num_items: dict[str, int]
    trained: dict[str, tuple[int, float]]
    reports: dict[str, Report]
    from_left: float
    shown: TraceRecord
    shown_source: str
    shown_is_right: bool


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Make the folder of a task.

    Raises: UsageError if something stands there that must not be replaced.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        what = f"cannot make the folder: {error.strerror or error}"
        raise UsageError(what, where=str(folder), fix="choose another -o") from error
    script = folder / SCRIPT
    if not is_empty and not (script.is_file() and next(read_lines(script), "") == HEAD):
        raise UsageError("the folder holds something else than a demo", where=str(folder), fix="choose another -o")
    if not is_empty and not overwrite:
        fix = "add --overwrite to run it anew, or choose another -o"
        raise UsageError("a demo stands in this folder already", where=str(folder), fix=fix)


def run_demo(plan: Plan, *, at_once: int) -> Results:
    """Do everything in a folder that was checked, and return what to show.

    Args:
        at_once: How many trainings (and decodings) run side by side.

    Raises:
        RunError: no text here, or a step failed.
    """
    _prepare_folder(plan)
    with working(plan.task.making):
        plan.task.write(plan.folder / "data", plan.size)
    with working("preprocess"):
        run([plan.preprocess()], at_once=1)
    if not plan.task.sources:
        write_bags(plan)
    console.status(f"train {' and '.join(ORDERS)}{' side by side' if at_once > 1 else ''}")
    num_updates = tomllib.loads(plan.recipe_text(ORDERS[0]))["train"]["max_steps"]
    runs = [plan.folder / order for order in ORDERS]
    train([plan.train(order) for order in ORDERS], runs, num_updates=num_updates, at_once=at_once)
    with working("decode the test set"):
        run([plan.decode(order) for order in ORDERS], at_once=at_once)
    with working("evaluate"):
        return _results(plan)


def _prepare_folder(plan: Plan) -> None:
    """Write recipes and clear runs away; all else is replaced by what writes it."""
    atomic_write_text(plan.folder / SCRIPT, plan.script())
    for order in ORDERS:
        if (plan.folder / order / RECIPE_FILE).exists():
            shutil.rmtree(plan.folder / order)
        atomic_write_text(plan.recipe(order), plan.recipe_text(order))


def write_bags(plan: Plan) -> None:
    """Write the test set as the models get it: the words of each sentence, sorted by their ids."""
    corpus = Corpus.open(plan.folder / "corpus")
    source = corpus.split("test").source
    _write_lines(plan.sources, (corpus.codecs.source.text_of_ids(source[i].tolist()) for i in range(len(source))))


def write_parts(plan: Plan, order: str, texts: Sequence[str]) -> None:
    """Write the outputs of each part of the test set; they stand one after another."""
    rest = iter(texts)
    for part in plan.task.parts:
        _write_lines(plan.output(order, part), (next(rest) for _ in read_lines(plan.text(f"test.{part}"))))


def _write_lines(path: str, lines: Iterable[str]) -> None:
    atomic_write_text(path, "".join(f"{line}\n" for line in lines))


def _results(plan: Plan) -> Results:
    records: list[TraceRecord] = []
    for order in ORDERS:
        records = sorted(read_traces(plan.output(order))[1], key=lambda record: record.id)
        write_parts(plan, order, [record.text for record in records])
    config = EvaluateConfig(metrics=list(plan.task.metrics))
    reports: dict[str, Report] = {}
    for part in ("", *plan.task.parts):
        reference = plan.text(f"test.{part}" if part else "test")
        baseline = plan.output(ORDERS[0], part)
        reports[part] = assess_files([*plan.scored(part).values()], [reference], config=config, baseline=baseline)
        for warning in reports[part].warnings:
            console.warn(warning)
    shown, is_right = choose(records, list(read_lines(plan.text("test"))), plan.task.shown_words)
    atomic_write_text(plan.folder / SCRIPT, plan.script(shown.id))
    return Results(
        plan=plan,
        num_items={split: sum(1 for _ in read_lines(plan.text(split))) for split in SPLITS},
        trained={order: trained(plan.folder / order) for order in ORDERS},
        reports=reports,
        from_left=sum(not jumps(record) for record in records) / len(records),
        shown=shown,
        shown_source=list(read_lines(plan.sources))[shown.id],
        shown_is_right=is_right,
    )


def choose(
    records: Sequence[TraceRecord], references: Sequence[str], num_words: Sequence[int]
) -> tuple[TraceRecord, bool]:
    """Return the output to show growing, and whether it is right.

    Of the right ones with a fitting number of words, one that did not grow from left to right, if there is one; of
    these, the longest; of these, the one that most often inserts before words that stand; of these, the first. Without
    a right one, the output with the best score among those of fitting length, else of all; an empty one only if there
    is no other.
    """
    fitting = [record for record in records if len(references[record.id].split()) in num_words] or list(records)
    right = [record for record in fitting if record.text == references[record.id]]
    if right:
        return max(
            right, key=lambda record: (jumps(record), len(record.text.split()), _inner(record), -record.id)
        ), True
    return max(fitting, key=lambda record: (bool(record.tokens), record.score, -record.id)), False


def jumps(record: TraceRecord) -> bool:
    """Tell whether an output grew otherwise than from left to right."""
    return _inner(record) > 0


def _inner(record: TraceRecord) -> int:
    """Count the insertions that have a word to their right."""
    return sum(slot < step for step, slot in enumerate(record.slots))


def trained(run_folder: Path) -> tuple[int, float]:
    """Return the updates and the CPU minutes of a run from its log; the last step is always validated."""
    rows = [row for _, row in read_jsonl(run_folder / LOG_FILE) if row.get("split") == "valid"]
    return rows[-1]["step"], rows[-1]["cpu_minutes"]
