"""`indigo train` as a user meets it; what a run computes is tested in `tests/engine/test_fit.py`."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from indigo_cli.data.batch import Batch
from indigo_cli.data.collate import collate
from indigo_cli.engine import order_source
from indigo_cli.engine.checkpoint import open_checkpoint
from indigo_cli.recipe import load_recipe
from tests.tiny import Tiny

Run = Callable[..., Any]
SECONDS = 300.0
"""Longer than a subprocess needs on a busy machine."""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory is empty and thrown away."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def steps_of(run: Path) -> list[int]:
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    return [row["step"] for row in rows if "split" not in row]


def test_it_trains_into_a_folder_named_after_name_and_order(indigo: Run, tiny: Tiny) -> None:
    done = indigo("train", tiny.recipe_path, "--corpus", tiny.corpus, "--order", "odd", "--set", "train.max_steps=2")
    assert done.status == 0, done.err
    assert done.out == ""
    assert "runs/tiny/odd: 2 updates" in done.err
    assert steps_of(Path("runs/tiny/odd")) == [1, 2]
    assert load_recipe("runs/tiny/odd/recipe.toml").order.name == "odd"
    assert Path("runs/tiny/odd/checkpoints/last/model.safetensors").is_file()


def test_seed_and_quiet(indigo: Run, tiny: Tiny) -> None:
    done = indigo(
        "train", tiny.recipe_path, "--corpus", tiny.corpus, "-o", "run", "--seed", "5", "--quiet", "--set",
        "train.max_steps=1", "--threads", "1", "--device", "cpu", "--precision", "bf16",
    )  # fmt: skip
    assert (done.status, done.out, done.err) == (0, "", "")
    assert load_recipe("run/recipe.toml").seed == 5


def test_a_missing_corpus_names_the_command_that_makes_it(indigo: Run, tiny: Tiny) -> None:
    done = indigo("train", tiny.recipe_path)
    assert done.status == 2
    error, at, hint = done.err.splitlines()
    assert error.startswith("error: there is no corpus")
    assert at.endswith("runs/tiny/corpus")
    assert hint.startswith("hint: ") and "indigo preprocess" in hint
    assert not Path("runs").exists()


def test_case_79_twice_then_resumed_then_with_other_settings(indigo: Run, tiny: Tiny) -> None:
    line = ["train", tiny.recipe_path, "--corpus", tiny.corpus, "-o", "run", "--set"]
    assert indigo(*line, "train.max_steps=2").status == 0
    again = indigo(*line, "train.max_steps=3")
    assert again.status == 2 and "--resume" in again.err
    assert steps_of(Path("run")) == [1, 2]
    resumed = indigo(*line, "train.max_steps=3", "--resume")
    assert resumed.status == 0 and "resumed at step 2 from step-00000002" in resumed.err
    assert steps_of(Path("run")) == [1, 2, 3]
    other = indigo(*line, "model.ff_dim=8", "--resume")
    assert other.status == 2 and "model.ff_dim: 32 -> 8" in other.err
    assert steps_of(Path("run")) == [1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--order", "l2r", "--orders", "x"], "--order computes orders and --orders reads them"),
        (["--orders", "missing.jsonl"], "no such file"),
        (["--order", "l2x"], "did you mean `l2r`"),
        (["--order", "sao", "--set", "search.bootstrap_steps=6"], "the run would never search"),
        (["--set", "train.learning_rte=1"], "did you mean `learning_rate`"),
        (["--set", "train.max_steps=-1"], "train.max_steps"),
        (["--set", "train.max_steps=0"], "some limit is needed"),
        (["--set", "model.system=transformer"], "it generates l2r only"),
        (["--init", "nowhere"], "nowhere"),
        (["--device", "gpu"], "unknown device 'gpu'"),
        (["--precision", "fp8"], "unknown precision 'fp8'"),
        (["--threads", "-3"], "--threads"),
        (["--resum"], "--resume"),
    ],
)
def test_faults_have_three_lines_and_leave_nothing(indigo: Run, tiny: Tiny, arguments: list[str], message: str) -> None:
    done = indigo("train", tiny.recipe_path, "--corpus", tiny.corpus, *arguments)
    assert done.status == 2, done.err
    assert message in done.err
    assert done.err.startswith("error: ") and "Traceback" not in done.err
    assert list(Path().iterdir()) == []


def test_a_non_finite_gradient_exits_1(indigo: Run, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(ids: list[str], *rest: Any, **options: Any) -> Batch:
        batch = collate(ids, *rest, **options)
        batch.plan.weights[0] = math.nan
        return batch

    monkeypatch.setattr(order_source, "collate", poisoned)
    done = indigo("train", tiny.recipe_path, "--corpus", tiny.corpus, "-o", "run")
    assert done.status == 1
    error, at, hint = done.err.splitlines()
    assert error.startswith("error: the gradient of update 1 is not finite") and "train:" in error
    assert at == "at: run"
    assert hint.startswith("hint: no checkpoint was saved yet")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.slow
def test_signals_save_and_exit(
    indigo: Run, tiny: Tiny, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, status: int
) -> None:
    def asked_to_stop(ids: list[str], *rest: Any, **options: Any) -> Batch:
        monkeypatch.setattr(order_source, "collate", collate)
        os.kill(os.getpid(), number)
        return collate(ids, *rest, **options)

    monkeypatch.setattr(order_source, "collate", asked_to_stop)
    line = ["train", tiny.recipe_path, "--corpus", tiny.corpus, "-o", "run"]
    if number == signal.SIGTERM:
        with pytest.raises(SystemExit) as caught:
            indigo(*line)
        assert caught.value.code == status
    else:
        done = indigo(*line)
        assert done.status == status
        assert "stopped at step 1; resume with --resume" in done.err and "Traceback" not in done.err
    assert steps_of(Path("run")) == [1]
    assert indigo(*line, "--resume").status == 0
    assert steps_of(Path("run")) == [1, 2, 3, 4, 5, 6]


def test_orders_of_files_take_the_place_of_a_search_that_would_never_come(indigo: Run, tiny: Tiny) -> None:
    assert indigo("reorder", tiny.corpus, "odd", "--split", "train", "-o", "odd.jsonl").status == 0
    settings = ("train.max_steps=1", "order.name=sao", "search.bootstrap_steps=6000")
    options = [word for setting in settings for word in ("--set", setting)]
    done = indigo("train", tiny.recipe_path, "--corpus", tiny.corpus, "-o", "run", "--orders", "odd.jsonl", *options)
    assert done.status == 0, done.err
    assert load_recipe("run/recipe.toml").order.name == "file"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_case_75_a_signal_from_outside(tiny: Tiny, number: signal.Signals, status: int) -> None:
    """In a process of its own: a whole checkpoint of the last update, nothing else left, and it can be resumed."""
    options = ["--corpus", str(tiny.corpus), "-o", "run", "--set", "train.save_every=1000000"]
    options += ["--set", "train.validate_every=1000000", "--threads", "1", "--quiet"]
    command = [sys.executable, "-m", "indigo_cli", "train", str(tiny.recipe_path), *options]
    process = subprocess.Popen([*command, "--set", "train.max_steps=1000000"], stderr=subprocess.PIPE)
    log = Path("run/log.jsonl")
    began = time.monotonic()
    while not (log.exists() and len(log.read_bytes().splitlines()) >= 3):
        assert process.poll() is None and time.monotonic() - began < SECONDS
        time.sleep(0.02)
    process.send_signal(number)
    error = process.communicate(timeout=SECONDS)[1].decode("utf-8")
    assert process.returncode == status
    assert "Traceback" not in error
    steps = steps_of(Path("run"))
    assert steps == list(range(1, len(steps) + 1)) and len(steps) >= 3
    assert sorted(path.name for path in Path("run/checkpoints").iterdir()) == ["last", f"step-{len(steps):08d}"]
    found = open_checkpoint(Path("run"))
    assert found.facts["step"] == len(steps)
    assert all(bool(torch.isfinite(value).all()) for value in found.weights().values())
