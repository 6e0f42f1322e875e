"""`indigo demo`: the whole chain, and that its commands do what it did."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ORDERS = ("l2r", "rf")


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_tiny_demo_and_its_commands_by_hand(indigo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = indigo("demo", "--size", "tiny", "-o", "my demo", "--seed", "3")
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert "\x1b" not in done.out
    assert all(len(line) <= 120 for line in lines if "indigo_cli" not in line)
    demo = tmp_path / "my demo"
    made = files_below(demo)

    # Every command can be pasted where everything stands: nothing changes.
    commands = [shlex.split(line) for line in lines if " -m indigo_cli " in line]
    assert [command[3] for command in commands] == [
        *("preprocess", "train", "train", "decode", "decode", "evaluate", "show")
    ]
    for command in commands:
        again = indigo(*command[3:])
        assert again.status == 0, again.err
    assert shown(again.out) <= shown(done.out)
    outputs = [name for name in made if name.endswith((".jsonl", ".txt")) and not name.endswith("log.jsonl")]
    assert {f"test.{order}.traces.jsonl" for order in ORDERS} <= set(outputs)
    assert {name: (demo / name).read_bytes() for name in outputs} == {name: made[name] for name in outputs}

    # And where only texts and recipes stand, they make the same again.
    for name in ("corpus", *ORDERS):
        shutil.rmtree(demo / name)
    for command in commands[:5]:
        assert indigo(*command[3:]).status == 0
    assert {name: (demo / name).read_bytes() for name in outputs} == {name: made[name] for name in outputs}

    # The figures are those of `evaluate`.
    scored = json.loads(indigo(*commands[5][3:], "--format", "json").out)
    rows = {name: line for name in ("the bag as given", *ORDERS) for line in lines if line.strip().startswith(name)}
    for name, system in zip(rows, scored["systems"], strict=True):
        bleu = system["metrics"]["bleu"]
        assert f"{bleu['score']:.1f}  [{bleu['ci'][0]:.1f}, {bleu['ci'][1]:.1f}]" in " ".join(
            rows[name].split()
        ).replace(" [", "  [")
    assert indigo("demo", "--size", "tiny", "-o", "my demo").status == 2


def shown(text: str) -> set[str]:
    """Return the lines of the table of a growing sentence."""
    return {" ".join(line.split()) for line in text.splitlines() if "/" in line and ("▁" in line or "█" in line)}


@pytest.mark.slow
def test_ended_in_the_middle_it_takes_everything_with_it(tmp_path: Path) -> None:
    demo = tmp_path / "demo"
    command = [sys.executable, "-m", "indigo_cli", "demo", "--size", "tiny", "-o", str(demo)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        while not (demo / "corpus").exists():
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(1.0)  # the trainings have been started
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)  # nobody of its group is left
    assert not [path for path in demo.rglob("*") if ".partial" in path.name]
    assert not list(demo.glob("*.traces.jsonl"))


@pytest.mark.parametrize("task", ["star-graph", "all"])
def test_star_graph_comes_later(task: str, indigo: Any, tmp_path: Path) -> None:
    done = indigo("demo", "--task", task, "-o", tmp_path / "demo")
    assert done.status == 2
    assert (
        done.err
        == f"error: task {task}: the star-graph demo is not in this version\nat: --task\nhint: --task sentences\n"
    )
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("wrong", [["--device", "tpu"], ["--precision", "fp8"], ["--threads", "-1"], ["--size", "big"]])
def test_what_cannot_be_had_is_said_at_once(wrong: list[str], indigo: Any, tmp_path: Path) -> None:
    done = indigo("demo", *wrong, "-o", tmp_path / "demo")
    assert done.status == 2
    assert "\nat: " in done.err
    assert not (tmp_path / "demo").exists()
