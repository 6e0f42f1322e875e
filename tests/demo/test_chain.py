"""The demo's plan: recipes, places, commands, and which sentence is shown."""

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
from indigo_cli.demo.chain import BAG, HEAD, METRICS, ORDERS, SCRIPT, Plan, choose, find_sentences, run_demo
from indigo_cli.demo.report import DIGITS, HEADINGS, TITLES
from indigo_cli.demo.sentences import Sentences
from indigo_cli.errors import RunError, UsageError
from indigo_cli.orders import ORDERS as KNOWN_ORDERS
from indigo_cli.recipe import Recipe, load_recipe

SENTENCES = Sentences(train=["Sort the list now."], valid=["Read the file now."], test=["Take the name now."])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few sentences, and the first process cannot be started."""

    def broken(steps: object, *, at_once: int) -> None:
        raise RunError("stopped here")

    monkeypatch.setattr(chain, "find_sentences", lambda size: SENTENCES)
    monkeypatch.setattr(chain, "run", broken)


class TestRecipes:
    @pytest.mark.parametrize("size", ["small", "tiny"])
    def test_two_orders_differ_in_nothing_else(self, size: str, tmp_path: Path) -> None:
        plan = Plan(tmp_path, size)
        recipes: list[Recipe] = []
        for order in ORDERS:
            Path(plan.recipe(order)).write_text(plan.recipe_text(order), encoding="utf-8")
            recipe = load_recipe(plan.recipe(order))
            assert recipe.order.name == order
            assert recipe.name == f"demo-{size}-{order}"
            recipes.append(replace(recipe, name="", order=recipes[0].order if recipes else recipe.order))
        assert recipes[0] == recipes[1]
        assert recipes[0].data.task == "word_ordering"
        assert {split: config.target for split, config in recipes[0].data.splits.items()} == {
            split: [plan.text(split)] for split in ("train", "valid", "test")
        }

    def test_small_ends_in_time_even_on_a_slow_core(self, tmp_path: Path) -> None:
        plan = Plan(tmp_path, "small")
        Path(plan.recipe("l2r")).write_text(plan.recipe_text("l2r"), encoding="utf-8")
        assert 0 < load_recipe(plan.recipe("l2r")).train.max_cpu_minutes <= 6

    def test_everything_shown_has_a_name(self) -> None:
        assert set(ORDERS) <= set(KNOWN_ORDERS)
        assert {BAG, *ORDERS} <= set(TITLES)
        assert set(METRICS) == set(HEADINGS) == set(DIGITS)


class TestCommands:
    @pytest.mark.parametrize("folder", ["runs/demo", "-x", "my runs/it's one"])
    def test_the_command_line_takes_them(self, folder: str) -> None:
        options = ("--device", "cpu", "--threads", "2")
        plan = Plan(Path(folder), "tiny", training=("--seed", "7"), computing=options)
        group = typer.main.get_command(app)
        for step in plan.steps(3):
            args = shlex.split(step.command())
            args = args[args.index(step.args[0]) :]
            context = group.make_context("indigo", args.copy())
            name, command, rest = group.resolve_command(context, args)  # type: ignore[attr-defined]
            inner = command.make_context(name, rest)
            paths = [str(value) for value in inner.params.values() if folder in str(value)]
            assert len(paths) >= (1 if name == "show" else 2)
            if name == "train":
                assert (inner.params["seed"], inner.params["device"], inner.params["threads"]) == (7, "cpu", 2)

    def test_the_script_runs_them_in_this_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        plan = Plan(Path("demo"), "tiny")
        first, second, *others = plan.script(5).splitlines()
        assert first == HEAD
        assert shlex.split(second) == ["cd", os.getcwd()]
        assert others == [step.command() for step in plan.steps(5)]
        assert others[-1].endswith("--id 5")


class TestFolder:
    @pytest.mark.parametrize("overwrite", [False, True])
    def test_what_is_not_a_demo_stays(self, overwrite: bool, tmp_path: Path) -> None:
        precious = tmp_path / "data" / "train.txt"
        precious.parent.mkdir()
        precious.write_text("mine\n", encoding="utf-8")
        with pytest.raises(UsageError, match="something else than a demo"):
            run_demo(Plan(tmp_path, "tiny"), overwrite=overwrite, at_once=1)
        assert precious.read_text("utf-8") == "mine\n"
        assert os.listdir(tmp_path) == ["data"]

    def test_a_file_is_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("mine\n", encoding="utf-8")
        for place in ("file", "file/demo"):
            with pytest.raises(UsageError, match="cannot make the folder"):
                run_demo(Plan(tmp_path / place, "tiny"), overwrite=True, at_once=1)
        assert (tmp_path / "file").read_text("utf-8") == "mine\n"

    @pytest.mark.usefixtures("quick")
    def test_a_demo_is_replaced_only_if_asked(self, tmp_path: Path) -> None:
        plan = Plan(tmp_path / "demo", "tiny")
        with pytest.raises(RunError, match="stopped here"):
            run_demo(plan, overwrite=False, at_once=1)
        assert sorted(os.listdir(plan.folder)) == sorted([SCRIPT, "data", *(f"{order}.toml" for order in ORDERS)])
        assert Path(plan.text("test")).read_text("utf-8") == "Take the name now.\n"
        old_run, other = plan.folder / ORDERS[0], plan.folder / "notes.txt"
        old_run.mkdir()
        (old_run / "recipe.toml").write_text("", encoding="utf-8")
        other.write_text("mine\n", encoding="utf-8")
        Path(plan.text("test")).write_text("old\n", encoding="utf-8")
        with pytest.raises(UsageError, match="stands in this folder already") as fault:
            run_demo(plan, overwrite=False, at_once=1)
        assert "--overwrite" in fault.value.fix
        assert old_run.exists()
        with pytest.raises(RunError, match="stopped here"):
            run_demo(plan, overwrite=True, at_once=1)
        assert not old_run.exists()
        assert other.exists()
        assert Path(plan.text("test")).read_text("utf-8") == "Take the name now.\n"


class TestShownSentence:
    def test_the_longest_right_one_that_jumps_most(self) -> None:
        references = [
            "one two three four five.",
            "one two three four five six.",
            "one two three four five seven.",
            "one two three four five six seven eight nine ten eleven.",
            "one two three four five six seven eight.",
            "one two three four five nine.",
        ]
        straight, jumps = (0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0)
        outputs = [
            _record(0, references[0], (4, 3, 2, 1, 0)),  # right, but short
            _record(1, references[1], straight),
            _record(2, references[2], jumps),
            _record(3, references[3], tuple(range(11))),  # right, but long
            _record(4, "eight one two three four five six seven.", tuple(range(8))),  # wrong
            _record(5, references[5], jumps),  # as good, but later
        ]
        assert choose(outputs, references) == (outputs[2], True)
        assert choose([outputs[1], *outputs[3:5]], references) == (outputs[1], True)

    def test_the_surest_one_if_none_is_right(self) -> None:
        references = ["one two three four five six.", "one two three four five seven.", "one two three four."]
        outputs = [_record(i, "two", (0,), score) for i, score in enumerate((-3.0, -1.0, -0.5))]
        assert choose(outputs, references) == (outputs[1], False)
        assert choose([outputs[2]], references) == (outputs[2], False)


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


@pytest.mark.slow
def test_tiny_sentences_come_from_the_standard_library_alone() -> None:
    found = find_sentences("tiny")
    assert len(found.train) > 500
    assert len(found.valid) == len(found.test) == chain.TINY_HELD_OUT
