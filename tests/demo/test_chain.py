"""The demo's plans: recipes, places, commands, and which output is shown."""

import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from indigo_cli.cli import app
from indigo_cli.core.order import order_to_slots
from indigo_cli.data.traces_file import TraceRecord
from indigo_cli.demo import chain
from indigo_cli.demo.chain import BAG, HEAD, ORDERS, SCRIPT, Plan, check_folder, choose, run_demo, write_parts
from indigo_cli.demo.tasks import TASKS
from indigo_cli.engine.search_config import SEARCHED, SearchConfig
from indigo_cli.errors import RunError, UsageError
from indigo_cli.recipe import Recipe, load_recipe

SIZES = ("small", "tiny")
WORDS = range(6, 11)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of text, and the first process cannot be started."""

    def broken(steps: object, *, at_once: int) -> None:
        raise RunError("stopped here")

    def write(folder: Path, size: str) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "test.txt").write_text("Take the name now.\n", encoding="utf-8")

    monkeypatch.setitem(TASKS, "sentences", replace(TASKS["sentences"], write=write))
    monkeypatch.setattr(chain, "run", broken)


def recipe(plan: Plan, order: str) -> Recipe:
    """Load a recipe where the demo would put it."""
    Path(plan.recipe(order)).write_text(plan.recipe_text(order), encoding="utf-8")
    return load_recipe(plan.recipe(order))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", TASKS)
class TestRecipes:
    def test_orders_differ_in_nothing_else(
        self, name: str, size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        plan = Plan(tmp_path, name, size)
        found = {order: recipe(plan, order) for order in ORDERS}
        assert capsys.readouterr().err == ""
        for order, one in found.items():
            assert (one.order.name, one.name) == (order, f"{name}-{size}-{order}")
        fixed, searched = (
            replace(one, name="", order=found["l2r"].order, search=SearchConfig()) for one in found.values()
        )
        assert fixed == searched
        assert 0 < found["sao"].search.bootstrap_updates(fixed.train.max_steps) < fixed.train.max_steps

    def test_the_files_are_those_of_the_plan(self, name: str, size: str, tmp_path: Path) -> None:
        plan = Plan(tmp_path, name, size)
        splits = recipe(plan, ORDERS[0]).data.splits
        assert {split: config.target for split, config in splits.items()} == {
            split: [plan.text(split)] for split in ("train", "valid", "test")
        }
        assert splits["test"].source == ([plan.sources] if plan.task.sources else [])


class TestSettings:
    def test_small_ends_in_time_even_on_a_slow_core(self, tmp_path: Path) -> None:
        minutes = [
            max(recipe(Plan(tmp_path, name, "small"), order).train.max_cpu_minutes for order in ORDERS)
            for name in TASKS
        ]
        assert min(minutes) > 0
        assert sum(minutes) <= 9

    def test_each_task_searches_as_is_good_for_it(self, tmp_path: Path) -> None:
        graphs, sentences = (recipe(Plan(tmp_path, name, "small"), SEARCHED).search for name in TASKS)
        assert (graphs.train_on, graphs.reference, graphs.bootstrap_order) == ("average", "none", "rnd")
        assert (sentences.train_on, sentences.reference, sentences.bootstrap_order) == ("best", "l2r", "l2r")


@pytest.mark.parametrize("name", TASKS)
class TestCommands:
    @pytest.mark.parametrize("folder", ["runs/demo", "-x", "my runs/it's one"])
    def test_the_command_line_takes_them(self, name: str, folder: str) -> None:
        options = ("--device", "cpu", "--threads", "2")
        plan = Plan(Path(folder), name, "tiny", training=("--seed", "7"), computing=options)
        group = typer.main.get_command(app)
        for step in plan.steps(3):
            args = shlex.split(step.command())
            args = args[args.index(step.args[0]) :]
            context = group.make_context("indigo", args.copy())
            command_name, command, rest = group.resolve_command(context, args)  # type: ignore[attr-defined]
            inner = command.make_context(command_name, rest)
            paths = [str(value) for value in inner.params.values() if folder in str(value)]
            assert len(paths) >= (1 if command_name == "show" else 2)
            if command_name == "train":
                assert (inner.params["seed"], inner.params["device"], inner.params["threads"]) == (7, "cpu", 2)

    def test_the_script_runs_them_in_this_folder(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        plan = Plan(Path("demo"), name, "tiny")
        first, second, *others = plan.script(5).splitlines()
        assert first == HEAD
        assert shlex.split(second) == ["cd", os.getcwd()]
        assert others == [step.command() for step in plan.steps(5)]
        assert others[-1].endswith("--id 5")

    def test_every_part_is_scored_on_its_own_references(self, name: str) -> None:
        plan = Plan(Path("demo"), name, "tiny")
        scored = [step.args for step in plan.steps() if step.args[0] == "evaluate"]
        assert len(scored) == 1 + len(plan.task.parts)
        assert [args[args.index("--reference") + 1] for args in scored] == [
            plan.text(f"test{part}") for part in ("", *(f".{part}" for part in plan.task.parts))
        ]


def test_only_bags_that_the_task_makes_are_scored() -> None:
    scored = {name: [*Plan(Path("demo"), name, "tiny").scored()] for name in TASKS}
    assert scored == {"star-graph": [*ORDERS], "sentences": [BAG, *ORDERS]}


def test_outputs_of_the_parts_are_those_of_their_lines(tmp_path: Path) -> None:
    plan = Plan(tmp_path, "star-graph", "tiny")
    (tmp_path / "data").mkdir()
    for part, text in (("out", "a b\nb c\n"), ("in", "c a\n")):
        Path(plan.text(f"test.{part}")).write_text(text, encoding="utf-8")
    write_parts(plan, "sao", ["a b", "b a", "c"])
    assert Path(plan.output("sao", "out")).read_text("utf-8") == "a b\nb a\n"
    assert Path(plan.output("sao", "in")).read_text("utf-8") == "c\n"


class TestFolder:
    @pytest.mark.parametrize("overwrite", [False, True])
    def test_what_is_not_a_demo_stays(self, overwrite: bool, tmp_path: Path) -> None:
        precious = tmp_path / "data" / "train.txt"
        precious.parent.mkdir()
        precious.write_text("mine\n", encoding="utf-8")
        with pytest.raises(UsageError, match="something else than a demo"):
            check_folder(tmp_path, overwrite=overwrite)
        assert precious.read_text("utf-8") == "mine\n"
        assert os.listdir(tmp_path) == ["data"]

    def test_a_file_is_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("mine\n", encoding="utf-8")
        for place in ("file", "file/demo"):
            with pytest.raises(UsageError, match="cannot make the folder"):
                check_folder(tmp_path / place, overwrite=True)
        assert (tmp_path / "file").read_text("utf-8") == "mine\n"

    @pytest.mark.usefixtures("quick")
    def test_a_demo_is_replaced_only_if_asked(self, tmp_path: Path) -> None:
        plan = Plan(tmp_path / "demo", "sentences", "tiny")
        check_folder(plan.folder, overwrite=False)
        with pytest.raises(RunError, match="stopped here"):
            run_demo(plan, at_once=1)
        assert sorted(os.listdir(plan.folder)) == sorted([SCRIPT, "data", *(f"{order}.toml" for order in ORDERS)])
        assert Path(plan.text("test")).read_text("utf-8") == "Take the name now.\n"
        old_run, other = plan.folder / ORDERS[0], plan.folder / "notes.txt"
        old_run.mkdir()
        (old_run / "recipe.toml").write_text("", encoding="utf-8")
        other.write_text("mine\n", encoding="utf-8")
        with pytest.raises(UsageError, match="stands in this folder already") as fault:
            check_folder(plan.folder, overwrite=False)
        assert "--overwrite" in fault.value.fix
        assert old_run.exists()
        check_folder(plan.folder, overwrite=True)
        with pytest.raises(RunError, match="stopped here"):
            run_demo(plan, at_once=1)
        assert not old_run.exists()
        assert other.exists()


class TestShownOutput:
    def test_a_right_one_that_jumps_then_the_longest_then_the_one_that_jumps_most(self) -> None:
        references = [
            "one two three four five.",
            "one two three four five six.",
            "one two three four five seven.",
            "one two three four five six seven eight nine ten eleven.",
            "one two three four five six seven eight.",
            "one two three four five nine.",
            "one two three four five six seven.",
        ]
        straight, jumps, once = (0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0), (0, 1, 2, 3, 5, 4)
        outputs = [
            _record(0, references[0], (4, 3, 2, 1, 0)),  # right, but short
            _record(1, references[1], straight),
            _record(2, references[2], jumps),
            _record(3, references[3], tuple(range(11))),  # right, but long
            _record(4, "eight one two three four five six seven.", tuple(range(8))),  # wrong
            _record(5, references[5], jumps),  # as good, but later
            _record(6, references[6], tuple(range(7))),  # longer, but from left to right
        ]
        assert choose(outputs, references, WORDS) == (outputs[2], True)
        fewer = [_record(1, references[1], once), *outputs[2:]]
        assert choose(fewer, references, WORDS) == (outputs[2], True)
        longer = [*outputs, _record(6, references[6], (0, 1, 2, 3, 4, 6, 5))]
        assert choose(longer, references, WORDS) == (longer[-1], True)
        assert choose([outputs[1], outputs[4]], references, WORDS) == (outputs[1], True)
        assert choose([outputs[1], *outputs[3:5], outputs[6]], references, WORDS) == (outputs[6], True)

    def test_the_surest_one_if_none_is_right(self) -> None:
        references = ["one two three four five six.", "one two three four five seven.", "one two three four."]
        outputs = [_record(i, "two", (0,), score) for i, score in enumerate((-3.0, -1.0, -0.5))]
        assert choose(outputs, references, WORDS) == (outputs[1], False)
        assert choose([outputs[2]], references, WORDS) == (outputs[2], False)


def _record(line: int, text: str, order: tuple[int, ...], score: float = -1.0) -> TraceRecord:
    """Return an output; probabilities do not matter."""
    zeros = (0.0,) * len(order)
    tokens = tuple(text.split())
    return TraceRecord(
        id=line,
        rank=1,
        score=score,
        log_prob=score,
        text=text,
        tokens=tokens,
        order=order,
        slots=order_to_slots(order),
        rounds=tuple(range(len(order))),
        word_log_probs=zeros,
        slot_log_probs=zeros,
        close_log_probs=(),
        end_log_prob=0.0,
        finished=True,
    )
