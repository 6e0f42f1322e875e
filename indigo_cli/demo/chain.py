"""The whole chain on sentences that this machine has: raw text, corpus, two models, outputs, scores.

Whatever a user could do by hand is done by the very command that the user would type, in a process of its own; only
the sentences and the bags of the test set come from here.
"""

import os
import shlex
import shutil
import sysconfig
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from indigo_cli.core import console
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import atomic_write_text, read_jsonl, read_lines
from indigo_cli.data.traces_file import TraceRecord, read_traces
from indigo_cli.demo.sentences import Sentences, load_sentences
from indigo_cli.demo.steps import Step, run, train, working
from indigo_cli.engine.assess import EvaluateConfig, Report, assess
from indigo_cli.engine.run_folder import LOG_FILE, RECIPE_FILE
from indigo_cli.errors import UsageError

ORDERS = ("l2r", "rf")
"""The orders that are trained side by side. The last one's sentence is shown growing."""
METRICS = ("bleu", "exact")
BAG = "bag"
SCRIPT = "commands.sh"
HEAD = "# Written by `indigo demo`: the commands it ran."
SHOWN_WORDS = range(6, 11)
"""How long the sentence may be that is shown growing."""
TINY_FOLDERS = ("asyncio", "email", "importlib", "logging", "pydoc_data", "unittest")
"""Parts of the standard library that make up the tiny size."""
TINY_HELD_OUT = 40


@dataclass(frozen=True)
class Plan:
    """What stands where in the demo's folder, and the commands that fill it.

    Args:
        folder: The demo's folder.
        size: `small` or `tiny`: which recipes.
        training, computing: Options of `train`, and of `train` and `decode`.
    """

    folder: Path
    size: str
    training: tuple[str, ...] = ()
    computing: tuple[str, ...] = ()

    def place(self, *parts: str) -> str:
        """Return a path in the folder as a command takes it: one that starts with a dash would be an option."""
        path = str(self.folder.joinpath(*parts))
        return f".{os.sep}{path}" if path.startswith("-") else path

    def text(self, split: str) -> str:
        return self.place("data", f"{split}.txt")

    def recipe(self, order: str) -> str:
        return self.place(f"{order}.toml")

    def output(self, order: str) -> str:
        return self.place(f"test.{order}.traces.jsonl")

    @property
    def bags(self) -> str:
        return self.place(f"test.{BAG}.txt")

    def recipe_text(self, order: str) -> str:
        """Return the recipe that comes with the package."""
        return files("indigo_cli.demo").joinpath(f"sentences_{self.size}_{order}.toml").read_text("utf-8")

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

    def evaluate(self) -> Step:
        outputs = (self.bags, *map(self.output, ORDERS))
        what = ("--reference", self.text("test"), "--metrics", ",".join(METRICS))
        return Step("evaluate", ("evaluate", *outputs, *what))

    def show(self, line: int) -> Step:
        return Step("show", ("show", self.output(ORDERS[-1]), "--id", str(line)))

    def steps(self, line: int = 0) -> list[Step]:
        """Return everything that runs, in order; `line` is the sentence to show."""
        models = [*map(self.train, ORDERS), *map(self.decode, ORDERS)]
        return [self.preprocess(), *models, self.evaluate(), self.show(line)]

    def script(self, line: int = 0) -> str:
        """Return the commands as a shell script."""
        return "\n".join([HEAD, f"cd {shlex.quote(os.getcwd())}", *(step.command() for step in self.steps(line)), ""])


@dataclass(frozen=True)
class Results:
    """What came out, to be shown.

    Args:
        plan: Where everything is.
        num_sentences: By split.
        trained: Updates and CPU minutes of each training, by order.
        report: Scores of the bags, then of each order, under their names.
        shown: The output of the last order that is shown growing.
        shown_bag: What the model got.
        shown_is_right: The very sentence came out.
    """

    plan: Plan
    num_sentences: dict[str, int]
    trained: dict[str, tuple[int, float]]
    report: Report
    shown: TraceRecord
    shown_bag: str
    shown_is_right: bool


def run_demo(plan: Plan, *, overwrite: bool, at_once: int) -> Results:
    """Do everything and return what to show.

    Args:
        overwrite: Replace what an earlier demo left in the folder.
        at_once: How many trainings (and decodings) run side by side.

    Raises:
        UsageError: the folder is not empty.
        RunError: no sentences here, or a step failed.
    """
    _check_folder(plan, overwrite=overwrite)
    with working("read sentences from the Python files that are installed here"):
        sentences = find_sentences(plan.size)
    _prepare_folder(plan, sentences)
    with working("preprocess"):
        run([plan.preprocess()], at_once=1)
    write_bags(plan)
    console.status(f"train {' and '.join(ORDERS)}{' side by side' if at_once > 1 else ''}")
    num_updates = tomllib.loads(plan.recipe_text(ORDERS[0]))["train"]["max_steps"]
    runs = [plan.folder / order for order in ORDERS]
    train([plan.train(order) for order in ORDERS], runs, num_updates=num_updates, at_once=at_once)
    with working("decode the test set"):
        run([plan.decode(order) for order in ORDERS], at_once=at_once)
    with working("evaluate"):
        return _results(plan, sentences)


def find_sentences(size: str) -> Sentences:
    """Return the sentences of a size: all that are here, or some of those in the standard library."""
    if size != "tiny":
        return load_sentences()
    library = Path(sysconfig.get_path("stdlib"))
    folders = [library / name for name in TINY_FOLDERS]
    return load_sentences(folders, num_valid=TINY_HELD_OUT, num_test=TINY_HELD_OUT)


def _check_folder(plan: Plan, *, overwrite: bool) -> None:
    """Make the folder; raise UsageError if something stands there that must not be replaced."""
    folder = plan.folder
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


def _prepare_folder(plan: Plan, sentences: Sentences) -> None:
    """Write text and recipes, and clear runs away; all else is replaced by the commands that write it."""
    atomic_write_text(plan.folder / SCRIPT, plan.script())
    for order in ORDERS:
        if (plan.folder / order / RECIPE_FILE).exists():
            shutil.rmtree(plan.folder / order)
        atomic_write_text(plan.recipe(order), plan.recipe_text(order))
    for split, lines in _splits(sentences).items():
        atomic_write_text(plan.text(split), _as_text(lines))


def _splits(sentences: Sentences) -> dict[str, list[str]]:
    return {"train": sentences.train, "valid": sentences.valid, "test": sentences.test}


def _as_text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def write_bags(plan: Plan) -> None:
    """Write the test set as the models get it: the words of each sentence, sorted by their ids."""
    corpus = Corpus.open(plan.folder / "corpus")
    source = corpus.split("test").source
    atomic_write_text(
        plan.bags, _as_text([corpus.codecs.source.text_of_ids(source[i].tolist()) for i in range(len(source))])
    )


def _results(plan: Plan, sentences: Sentences) -> Results:
    outputs = {BAG: list(read_lines(plan.bags))}
    records: list[TraceRecord] = []
    for order in ORDERS:
        records = sorted(read_traces(plan.output(order))[1], key=lambda record: record.id)
        outputs[order] = [record.text for record in records]
    report = assess(outputs, [sentences.test], config=EvaluateConfig(metrics=list(METRICS)), language="en")
    for warning in report.warnings:
        console.warn(warning)
    shown, is_right = choose(records, sentences.test)
    atomic_write_text(plan.folder / SCRIPT, plan.script(shown.id))
    return Results(
        plan=plan,
        num_sentences={split: len(lines) for split, lines in _splits(sentences).items()},
        trained={order: trained(plan.folder / order) for order in ORDERS},
        report=report,
        shown=shown,
        shown_bag=outputs[BAG][shown.id],
        shown_is_right=is_right,
    )


def choose(records: Sequence[TraceRecord], references: Sequence[str]) -> tuple[TraceRecord, bool]:
    """Return the output to show growing, and whether it is right.

    Of the right ones with a fitting number of words, the longest; of these, the one that most often inserts before
    words that stand; of these, the first. Without a right one, the output with the best score among those of fitting
    length, else of all; an empty one only if there is no other.
    """
    fitting = [record for record in records if len(references[record.id].split()) in SHOWN_WORDS] or list(records)
    right = [record for record in fitting if record.text == references[record.id]]
    if right:
        return max(right, key=lambda record: (len(record.text.split()), _inner(record), -record.id)), True
    return max(fitting, key=lambda record: (bool(record.tokens), record.score, -record.id)), False


def _inner(record: TraceRecord) -> int:
    """Count the insertions that have a word to their right."""
    return sum(slot < step for step, slot in enumerate(record.slots))


def trained(run_folder: Path) -> tuple[int, float]:
    """Return the updates and the CPU minutes of a run from its log; the last step is always validated."""
    rows = [row for _, row in read_jsonl(run_folder / LOG_FILE) if row.get("split") == "valid"]
    return rows[-1]["step"], rows[-1]["cpu_minutes"]
