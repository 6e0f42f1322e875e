"""What a long run needs: early stopping, the best kept, whole rows and events after a stop, full disks, a lock."""

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.data.batch import Batch
from indigo_cli.data.collate import collate
from indigo_cli.engine import checkpoint as checkpoints
from indigo_cli.engine import fit, order_source, run_log, spikes
from indigo_cli.engine.average import average
from indigo_cli.engine.checkpoint import newest_whole_checkpoint, open_checkpoint, step_folders
from indigo_cli.engine.run_folder import lock_folder
from indigo_cli.engine.validate import Validator
from indigo_cli.errors import CheckpointError, RunError, UsageError
from tests.engine.test_events import scalars
from tests.runs import log_of, names_in, same, state_of, valid_rows
from tests.tiny import Tiny

pytestmark = pytest.mark.slow

INDIGO = ("train.accumulate=2", "model.dropout=0.3")
RESTLESS = ("train.learning_rate=1e-1", "train.validate_every=2", "model.dropout=0.3")
"""Losses that rise and fall."""


class TestPatience:
    def test_it_ends_after_so_many_validations_without_a_better_one(
        self, tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Nothing is learnt, so the first validation stays the best; equal ones are no better."""
        options = ("train.learning_rate=1e-30", "train.max_steps=50", "train.patience=2")
        assert tiny.train(tmp_path / "run", *options).step == 9
        assert "ended early at step 9: no better loss in 2 validations" in capsys.readouterr().err
        assert names_in(tmp_path / "run")["last"] == "step-00000009"
        before = log_of(tmp_path / "run")
        assert tiny.train(tmp_path / "run", *options, resume=True).step == 9
        assert log_of(tmp_path / "run") == before

    @pytest.mark.slow
    @pytest.mark.parametrize("stop", [2, 6])
    def test_it_survives_a_stop(self, tiny: Tiny, tmp_path: Path, stop: int) -> None:
        options = (*RESTLESS, "train.patience=3", "train.max_steps=60")
        whole = tiny.train(tmp_path / "whole", *options)
        assert stop < whole.step < 60, "or the test says nothing"
        tiny.train(tmp_path / "parts", *options, f"train.max_steps={stop}")
        assert tiny.train(tmp_path / "parts", *options, resume=True).step == whole.step
        assert log_of(tmp_path / "parts") == log_of(tmp_path / "whole")
        assert same(state_of(tmp_path / "parts"), state_of(tmp_path / "whole"))
        losses = [row["loss"] for row in valid_rows(tmp_path / "whole").values()]
        assert losses.index(min(losses)) == len(losses) - 4


class TestKeepBest:
    """Losses are made up: the best of steps 2, 4, ... 20 are those of 10, 4 and 6, and of equal ones the later."""

    LOSSES = (5.0, 3.0, 4.0, 6.0, 2.0, 7.0, 8.0, 9.0, 9.0, 4.0 + 1e-6)
    OPTIONS = ("train.validate_every=2", "train.keep=1", "train.save_every=7")

    @pytest.fixture(autouse=True)
    def _losses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        left = iter(self.LOSSES)
        monkeypatch.setattr(Validator, "figures", lambda *_: {"loss": next(left)})

    def steps(self, run: Path) -> list[int]:
        return [int(folder.name.removeprefix("step-")) for folder in step_folders(run / "checkpoints")]

    @pytest.mark.parametrize("stop", [0, 8])
    def test_the_best_validated_ones_stay(self, tiny: Tiny, tmp_path: Path, stop: int) -> None:
        run = tmp_path / "run"
        options = (*self.OPTIONS, "train.keep_best=3")
        if stop:
            tiny.train(run, *options, f"train.max_steps={stop}")
        tiny.train(run, *options, "train.max_steps=20", resume=bool(stop))
        assert self.steps(run) == [4, 6, 10, 20]
        assert names_in(run)["best"] == "step-00000010"
        assert list(average(run, best=3).steps) == [4, 6, 10]
        assert list(average(run, best=1).steps) == [10]
        with pytest.raises(CheckpointError, match="4 of 4 checkpoints that stand were validated, not 5") as caught:
            average(run, best=5)
        assert "--set train.keep_best=5" in caught.value.fix

    def test_how_many_may_change(self, tiny: Tiny, tmp_path: Path) -> None:
        run = tmp_path / "run"
        tiny.train(run, *self.OPTIONS, "train.max_steps=6")
        assert self.steps(run) == [4, 6]
        tiny.train(run, *self.OPTIONS, "train.max_steps=8", "train.keep_best=9", resume=True)
        assert self.steps(run) == [4, 6, 8]
        tiny.train(run, *self.OPTIONS, "train.max_steps=10", "train.keep_best=1", resume=True)
        assert self.steps(run) == [10]


class TestAfterAStop:
    @pytest.mark.parametrize("stop", [1, 4, 5])
    def test_a_row_is_about_all_updates_since_the_last_one(
        self, tiny: Tiny, undisturbed: Callable[..., Path], tmp_path: Path, stop: int
    ) -> None:
        options = (*INDIGO, "train.log_every=3", "train.max_steps=9", "train.validate_every=9")
        whole = undisturbed(*options)
        tiny.train(tmp_path / "parts", *options, f"train.max_steps={stop}")
        tiny.train(tmp_path / "parts", *options, resume=True)
        rows = [[row for row in log_of(run) if "split" not in row] for run in (whole, tmp_path / "parts")]
        assert rows[0] == rows[1] and [row["step"] for row in rows[0]] == [3, 6, 9]
        assert same(state_of(tmp_path / "parts"), state_of(whole))

    def test_a_checkpoint_of_before_these_things(
        self, tiny: Tiny, undisturbed: Callable[..., Path], tmp_path: Path
    ) -> None:
        """The first release kept weights, moments and the random state; a run of it goes on."""
        run = tmp_path / "run"
        whole = undisturbed(*INDIGO)
        tiny.train(run, *INDIGO, "train.max_steps=3")
        found = newest_whole_checkpoint(run)[0]
        assert found is not None
        training = {k: v for k, v in found.training().items() if k.startswith(("optimizer.", "random."))}
        facts = {key: found.facts[key] for key in ("step", "epoch", "skip", "cpu_seconds", "vocabularies")}
        checkpoints.save_checkpoint(run / "checkpoints", weights=found.weights(), training=training, facts=facts)
        lines = (run / "recipe.toml").read_text("utf-8").splitlines(keepends=True)
        new = ("patience", "validate_", "best_by", "keep_best", "spike_factor", "tensorboard")
        kept = [line for line in lines if line.startswith("validate_every") or not line.startswith(new)]
        assert len(kept) == len(lines) - 7
        (run / "recipe.toml").write_text("".join(kept), "utf-8")
        tiny.train(run, *INDIGO, "train.tensorboard=auto", resume=True)
        assert same(open_checkpoint(run, "last").weights(), open_checkpoint(whole, "last").weights())
        assert log_of(run) == log_of(whole)

    @pytest.mark.slow
    @pytest.mark.parametrize("stop", [12, 21])
    def test_spikes(self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int) -> None:
        """An example whose loss counts a hundred times is named each time it comes."""

        def heavy(ids: list[str], *rest: Any, **options: Any) -> Batch:
            batch = collate(ids, *rest, **options)
            if "train:7" in ids:
                batch.plan.weights[ids.index("train:7")] = 100
            return batch

        monkeypatch.setattr(order_source, "collate", heavy)
        monkeypatch.setattr(spikes, "ENOUGH", 5)
        options = ("train.max_steps=40", "train.log_every=7", "train.validate_every=4", "train.spike_factor=20")
        tiny.train(tmp_path / "whole", *options)
        rows = log_of(tmp_path / "whole")
        found = [row for row in rows if row.get("split") == "spike"]
        assert len(found) > 1 and all("train:7" in row["ids"] and row["loss"] > row["usual_loss"] for row in found)
        steps = [row["step"] for row in rows]
        assert steps == sorted(steps), "a spike comes before the row of its update, wherever that is"
        tiny.train(tmp_path / "parts", *options, f"train.max_steps={stop}")
        tiny.train(tmp_path / "parts", *options, resume=True)
        rows = [row for row in rows if row["step"] != stop or row.get("split") != "valid"]
        assert [row for row in log_of(tmp_path / "parts") if (row["step"], row.get("split")) != (stop, "valid")] == rows

    @pytest.mark.parametrize("choice", ["auto", "on"])
    def test_tensorboard_shows_the_log(self, tiny: Tiny, tmp_path: Path, choice: str) -> None:
        options = (f"train.tensorboard={choice}", "train.save_every=2", "train.validate_every=2")
        tiny.train(tmp_path / "run", *options)
        shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000006")  # as if killed at step 5
        tiny.train(tmp_path / "run", *options, resume=True)
        rows = log_of(tmp_path / "run")
        shown = scalars(tmp_path / "run")
        for split, tag in ((None, "train"), ("valid", "valid")):
            wanted = [(row["step"], row["loss"]) for row in rows if row.get("split") == split]
            assert [step for step, _ in shown[f"{tag}/loss"]] == [step for step, _ in wanted]
            assert [value for _, value in shown[f"{tag}/loss"]] == pytest.approx([value for _, value in wanted])
        assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == 2

    def test_no_tensorboard(self, tiny: Tiny, tmp_path: Path) -> None:
        tiny.train(tmp_path / "run", "train.tensorboard=off", "train.max_steps=1")
        assert not (tmp_path / "run" / "tensorboard").exists()


class TestOneRunAFolder:
    def test_a_run_in_progress_is_not_resumed(self, tiny: Tiny, tmp_path: Path) -> None:
        tiny.train(tmp_path / "run", "train.max_steps=3")
        before = log_of(tmp_path / "run"), names_in(tmp_path / "run")
        with lock_folder(tmp_path / "run"), pytest.raises(UsageError, match="another process trains") as caught:
            tiny.train(tmp_path / "run", resume=True)
        assert caught.value.exit_code == 2
        assert before == (log_of(tmp_path / "run"), names_in(tmp_path / "run"))

    def test_a_folder_that_takes_nothing_is_said_before_the_work(
        self, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def work(*_: object) -> None:
            raise AssertionError("too late")

        monkeypatch.setattr(fit, "build_system", work)
        with pytest.raises(UsageError, match="nothing can be written here"):
            tiny.train(Path("/proc/indigo/run"))


def full_at(instant: int) -> tuple[Callable[[Callable[..., Any]], Callable[..., Any]], Callable[[], int]]:
    """Return a way to make the n-th call of some functions, and all after it, find a full disk; and the count."""
    count = 0

    def limited(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count >= instant:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return function(*args, **options)

        return call

    return limited, lambda: count


def check_left(run: Path) -> None:
    """Every checkpoint that stands reads, and every name leads to one."""
    for folder in step_folders(run / "checkpoints"):
        found = checkpoints.read_checkpoint(folder)
        assert found.weights() and found.training()
    for name, target in names_in(run).items() if (run / "checkpoints").exists() else ():
        assert name.startswith(".") or not target or (run / "checkpoints" / target).is_dir()


class TestFullDisk:
    @pytest.mark.slow
    def test_at_every_write(self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Exit 1, whole files, and once there is room a resumed run ends as one that had it all the time."""
        options = (*INDIGO, "train.tensorboard=on")
        tiny.train(tmp_path / "whole", *options)
        writes: list[tuple[Any, str]] = [
            (os, "fsync"),
            (os, "replace"),
            (os, "mkdir"),
            (Path, "symlink_to"),
            (run_log, "append"),
            (checkpoints, "save_file"),
        ]
        for instant in range(1, 200, 5):
            run = tmp_path / "run"
            run.mkdir()
            limited, count = full_at(instant)
            with monkeypatch.context() as patch:
                for owner, name in writes:
                    patch.setattr(owner, name, limited(getattr(owner, name)))
                try:
                    tiny.train(run, *options)
                except RunError as error:
                    assert "No space left" in error.what and "free some space" in error.fix and error.where
            if count() < instant:
                break
            check_left(run)
            tiny.train(run, *options, resume=True)
            assert same(state_of(tmp_path / "whole"), state_of(run)), instant
            assert log_of(run) == log_of(tmp_path / "whole"), instant
            assert not list((run / "checkpoints").glob(".*")), instant
            shutil.rmtree(run)
        assert 30 < instant < 199

    def test_a_limit_on_the_size_of_files(self, tiny: Tiny, tmp_path: Path) -> None:
        """`ulimit -f`, really: the checkpoint is larger, the log is not."""
        usual = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, usual[1]))
        try:
            with pytest.raises(RunError, match="File too large"):
                tiny.train(tmp_path / "run", *INDIGO)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        assert [row["step"] for row in log_of(tmp_path / "run")] == [1, 2, 3]
        assert not step_folders(tmp_path / "run" / "checkpoints")
        tiny.train(tmp_path / "whole", *INDIGO)
        tiny.train(tmp_path / "run", *INDIGO, resume=True)
        assert log_of(tmp_path / "run") == log_of(tmp_path / "whole")
        assert same(state_of(tmp_path / "run"), state_of(tmp_path / "whole"))

    @pytest.mark.slow
    @pytest.mark.parametrize("kibibytes", [64, 512, 768])
    def test_a_small_disk(self, tiny: Tiny, tmp_path: Path, kibibytes: int) -> None:
        """A file system of its own, really full."""
        with disk(tmp_path / "disk", kibibytes) as folder:
            with pytest.raises(RunError, match="No space left"):
                tiny.train(folder / "run", *INDIGO, "train.save_every=1", "train.keep=99", "train.max_steps=99")
            check_left(folder / "run")
            saved = newest_whole_checkpoint(folder / "run")[0]
            assert (saved is None) == (kibibytes == 64)
            for step_folder in step_folders(folder / "run" / "checkpoints")[:-1]:
                shutil.rmtree(step_folder)
            if saved is not None:
                step = saved.facts["step"]
                tiny.train(folder / "run", *INDIGO, f"train.max_steps={step + 1}", "train.keep=1", resume=True)
                tiny.train(tmp_path / "whole", *INDIGO, f"train.max_steps={step + 1}")
                assert same(state_of(folder / "run"), state_of(tmp_path / "whole"))


@contextmanager
def disk(folder: Path, kibibytes: int) -> Iterator[Path]:
    """Mount a file system of a size, where one may."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
