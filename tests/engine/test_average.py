"""Averaged checkpoints: the numbers by hand, what is chosen, and that training never mistakes one for its own."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from indigo_cli.engine import checkpoint as checkpoints
from indigo_cli.engine.average import average, validations_of
from indigo_cli.engine.checkpoint import (
    FACTS_FILE,
    TRAINING_FILE,
    link,
    newest_whole_checkpoint,
    open_checkpoint,
    prune,
    save_checkpoint,
    step_folders,
    step_name,
)
from indigo_cli.engine.generate import generate
from indigo_cli.engine.run_folder import LOG_FILE, RECIPE_FILE
from indigo_cli.engine.score import score
from indigo_cli.errors import CheckpointError, RunError, UsageError
from tests.kill import killed_at
from tests.runs import same
from tests.tiny import RECIPE, Tiny

LOSSES = {1: 5.0, 2: 3.0, 3: 4.0, 4: 3.0, 6: 3.5}


def weights(step: int) -> dict[str, Tensor]:
    return {"a": torch.full((4, 3), 0.1 * step), "b.c": torch.arange(7.0) ** step}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with checkpoints of steps 1 to 6, of which step 5 was not validated."""
    folder = tmp_path / "run"
    for step in range(1, 7):
        facts = {"step": step, "vocabularies": ["0" * 64] * 2}
        save_checkpoint(folder / "checkpoints", weights=weights(step), training={}, facts=facts)
    (folder / RECIPE_FILE).write_text(RECIPE, "utf-8")
    (folder / "run.json").write_text('{"format": "indigo-run", "version": 1}', "utf-8")
    rows: list[dict[str, Any]] = [{"step": step, "loss": 0.0} for step in range(1, 7)]
    rows += [{"step": step, "split": "valid", "loss": loss} for step, loss in LOSSES.items()]
    (folder / LOG_FILE).write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return folder


def mean_of(*steps: int) -> dict[str, Tensor]:
    """The mean by another way: exact sums of fractions."""
    names = weights(1)
    stacked = {name: torch.stack([weights(step)[name].double() for step in steps]) for name in names}
    return {name: stack.mean(0).float() for name, stack in stacked.items()}


@pytest.mark.parametrize(
    ("options", "steps", "name"),
    [
        ({"last": 1}, [6], "average-last-1"),
        ({"last": 3}, [4, 5, 6], "average-last-3"),
        ({"last": 6}, [1, 2, 3, 4, 5, 6], "average-last-6"),
        ({"best": 1}, [4], "average-best-1"),  # of equal ones the later, as `best` does
        ({"best": 3}, [2, 4, 6], "average-best-3"),
        ({"best": 5}, [1, 2, 3, 4, 6], "average-best-5"),
    ],
)
def test_what_is_chosen_and_its_mean(run: Path, options: dict[str, Any], steps: list[int], name: str) -> None:
    summary = average(run, **options)
    assert summary.folder == run / "checkpoints" / name and list(summary.steps) == steps
    found = open_checkpoint(run, name)
    assert found.facts["averaged"] == steps and found.facts["step"] == steps[-1]
    assert found.facts["vocabularies"] == ["0" * 64] * 2
    assert same(found.weights(), mean_of(*steps))
    assert all(tensor.dtype == torch.float32 for tensor in found.weights().values())
    assert not list((run / "checkpoints").glob(".*"))
    assert name in summary.text() and str(steps[-1]) in summary.text()


def test_one_checkpoint_and_equal_ones_are_themselves_bit_for_bit(run: Path) -> None:
    folder, torn = run / "checkpoints", {"a": torch.randn(50, 50) * 1e-30, "b.c": torch.randn(9) * 1e30}
    for step in (7, 8, 9):
        facts = {"step": step, "vocabularies": ["0" * 64] * 2}
        save_checkpoint(folder, weights=torn, training={}, facts=facts)
    for count in (1, 2, 3):
        average(run, last=count)
        assert same(open_checkpoint(run, f"average-last-{count}").weights(), torn)


def test_sums_are_exact_where_float32_is_not(run: Path) -> None:
    folder = run / "checkpoints"
    for step, value in ((7, 2.0**24), (8, 1.0), (9, 1.0), (10, -(2.0**24))):
        facts = {"step": step, "vocabularies": ["0" * 64] * 2}
        save_checkpoint(folder, weights={"a": torch.tensor([value])}, training={}, facts=facts)
    average(run, last=4)
    assert open_checkpoint(run, "average-last-4").weights()["a"].item() == 0.5


class TestTooFew:
    def test_last(self, run: Path) -> None:
        prune(run / "checkpoints", keep=2)
        with pytest.raises(CheckpointError, match="2 checkpoints stand, not 3") as caught:
            average(run, last=3)
        assert "--set train.keep=3" in caught.value.fix

    def test_best(self, run: Path) -> None:
        with pytest.raises(CheckpointError, match="5 of 6 checkpoints that stand were validated, not 6") as caught:
            average(run, best=6)
        assert "--set train.keep_best=6" in caught.value.fix
        assert validations_of(run).ranked() == [4, 2, 6, 3, 1]
        (run / LOG_FILE).unlink()
        with pytest.raises(UsageError, match="log of the run cannot be read"):
            average(run, best=1)


@pytest.mark.parametrize("options", [{}, {"last": 2, "best": 2}, {"last": -1}, {"best": -2}])
def test_one_choice_is_needed(run: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="one choice"):
        average(run, **options)


def test_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run folder"):
        average(tmp_path, last=1)


@pytest.mark.parametrize(
    ("facts", "tensors", "message"),
    [
        ({"vocabularies": ["1" * 64] * 2}, weights(7), "another vocabulary"),
        ({}, {"a": weights(7)["a"]}, "other weights"),
        ({}, {**weights(7), "d": torch.ones(1)}, "other weights"),
        ({}, {**weights(7), "a": torch.ones(3, 4)}, "other weights"),
    ],
)
def test_checkpoints_of_other_models_are_refused(
    run: Path, facts: dict[str, Any], tensors: dict[str, Tensor], message: str
) -> None:
    facts = {"step": 7, "vocabularies": ["0" * 64] * 2, **facts}
    save_checkpoint(run / "checkpoints", weights=tensors, training={}, facts=facts)
    with pytest.raises(CheckpointError, match=message) as caught:
        average(run, last=2)
    assert caught.value.where.endswith(step_name(7))
    assert not list((run / "checkpoints").glob("*average*"))


class TestOutput:
    def test_names_and_paths(self, run: Path, tmp_path: Path) -> None:
        assert average(run, last=2, output="mine").folder == run / "checkpoints" / "mine"
        elsewhere = tmp_path / "new" / "average"
        assert average(run, last=2, output=str(elsewhere)).folder == elsewhere
        assert same(open_checkpoint(elsewhere).weights(), mean_of(5, 6)), "a checkpoint's own folder can be opened"
        assert same(open_checkpoint(run, "mine").weights(), mean_of(5, 6))

    def test_what_stands_is_replaced_only_if_it_is_an_average_and_one_asks_for_it(self, run: Path) -> None:
        average(run, last=2, output="mine")
        with pytest.raises(UsageError, match="exists already"):
            average(run, last=3, output="mine")
        assert open_checkpoint(run, "mine").facts["averaged"] == [5, 6]
        average(run, last=3, output="mine", overwrite=True)
        assert open_checkpoint(run, "mine").facts["averaged"] == [4, 5, 6]
        for name in (
            "last",
            "best",
            "step-00000006",
            "step-x",
            "cpu-30m",
            ".hidden",
            str(run / "checkpoints" / "best"),
        ):
            with pytest.raises(UsageError, match="own checkpoints"):
                average(run, last=2, output=name, overwrite=True)
        shutil.copytree(run / "checkpoints" / step_name(3), run / "checkpoints" / "kept")
        with pytest.raises(UsageError, match="not an average"):
            average(run, last=2, output="kept", overwrite=True)
        (run / "thesis").mkdir()
        with pytest.raises(UsageError, match="not an average"):
            average(run, last=2, output=str(run / "thesis"), overwrite=True)
        assert (run / "thesis").is_dir()


class TestAmongTheOthers:
    def test_training_neither_prunes_it_nor_resumes_from_it(self, run: Path) -> None:
        average(run, last=3)
        folder = run / "checkpoints"
        link(folder, "best", step_name(2))
        prune(folder, keep=1)
        assert [path.name for path in step_folders(folder)] == [step_name(2), step_name(6)]
        assert open_checkpoint(run, "average-last-3").facts["averaged"] == [4, 5, 6]
        assert open_checkpoint(run).facts["step"] == 2
        assert not (folder / "average-last-3" / TRAINING_FILE).exists()
        with pytest.raises(CheckpointError, match="an averaged checkpoint has no training state"):
            open_checkpoint(run, "average-last-3").training()
        (folder / "average-last-3").rename(folder / step_name(9))
        found, complaints = newest_whole_checkpoint(run)
        assert found is not None and found.facts["step"] == 6
        assert len(complaints) == 1 and "averaged checkpoint has no training state" in complaints[0]

    @pytest.mark.slow
    def test_a_kill_leaves_the_old_one_or_the_new_one_or_none(self, run: Path) -> None:
        average(run, last=2, output="mine")
        for instant in range(1, 30):
            copy = Path(shutil.copytree(run, run.with_name(f"copy{instant}"), symlinks=True))
            watched: list[tuple[Any, str]] = [(os, name) for name in ("rename", "replace", "unlink", "rmdir")]
            watched.append((checkpoints, "save_file"))
            if not killed_at(instant, lambda: average(copy, last=3, output="mine", overwrite=True), watched):  # noqa: B023
                break
            if (copy / "checkpoints" / "mine").exists():
                found = open_checkpoint(copy, "mine")
                assert found.weights() and found.facts["averaged"] in ([5, 6], [4, 5, 6])
            average(copy, last=1, output="mine", overwrite=True)
            assert not list((copy / "checkpoints").glob(".*")), "the next one clears up"
        assert instant >= 3

    def test_a_full_disk_leaves_no_rest(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(tensors: dict[str, Tensor], path: Path) -> None:
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(checkpoints, "save_file", fail)
        with pytest.raises(RunError, match="No space"):
            average(run, last=2)
        assert sorted(path.name for path in (run / "checkpoints").iterdir())[0] == "last"


@pytest.mark.slow
def test_a_trained_one_decodes_scores_and_starts_another_run(tiny: Tiny, tmp_path: Path) -> None:
    run = Path(shutil.copytree(tiny.run, tmp_path / "run", symlinks=True))
    assert len(average(run, last=2).steps) == 2
    single, mean = tmp_path / "single", tmp_path / "mean"
    for output, options in ((single, {"checkpoint": "last"}), (mean, {"checkpoint": "average-last-2"})):
        generate(run, split="test", output=str(output), **options)  # type: ignore[arg-type]
        assert len(output.read_text("utf-8").splitlines()) == 6
    losses = {name: score(run, checkpoint=name, output=str(tmp_path / f"{name}.jsonl")).nats() for name in (
        "step-00000060", "step-00000120", "average-last-2"
    )}  # fmt: skip
    assert len(set(losses.values())) == 3 and losses["average-last-2"] < losses["step-00000060"] + 0.5
    folder = run / "checkpoints" / "average-last-2"
    tiny.train(tmp_path / "next", "train.max_steps=1", "train.learning_rate=1e-30", "model.dropout=0", init=folder)
    started, mean_weights = open_checkpoint(tmp_path / "next", "last").weights(), open_checkpoint(folder).weights()
    assert all(torch.allclose(started[name], mean_weights[name], rtol=0, atol=1e-20) for name in mean_weights)
    (folder / FACTS_FILE).unlink()
    with pytest.raises(CheckpointError, match="damaged"):
        generate(run, split="test", output=str(tmp_path / "x"), checkpoint="average-last-2")
