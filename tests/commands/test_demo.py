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

ORDERS = ("l2r", "sao")
TASKS = ("star-graph", "sentences")


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
    outputs = [name for name in made if name.endswith((".jsonl", ".txt")) and not name.endswith("log.jsonl")]
    assert {f"{name}/test.{order}.traces.jsonl" for name in TASKS for order in ORDERS} <= set(outputs)

    # Every command can be pasted where everything stands: nothing changes.
    commands = [shlex.split(line)[3:] for line in lines if " -m indigo_cli " in line]
    assert [command[0] for command in commands] == [
        *("preprocess", "train", "train", "decode", "decode", "evaluate", "evaluate", "evaluate", "show"),
        *("preprocess", "train", "train", "decode", "decode", "evaluate", "show"),
    ]
    told: list[str] = []
    for command in commands:
        again = indigo(*command)
        assert again.status == 0, again.err
        told.append(again.out)
    for text in (told[8], told[-1]):
        assert shown(text)
        assert shown(text) <= shown(done.out)
    assert {name: (demo / name).read_bytes() for name in outputs} == {name: made[name] for name in outputs}

    # And where only texts and recipes stand, they make the same again.
    for name in TASKS:
        for folder in ("corpus", *ORDERS):
            shutil.rmtree(demo / name / folder)
    for command in commands:
        if command[0] in ("preprocess", "train", "decode"):
            assert indigo(*command).status == 0
    assert {name: (demo / name).read_bytes() for name in outputs} == {name: made[name] for name in outputs}

    # The figures are those of `evaluate`.
    whole, *parts, sentences = (
        json.loads(indigo(*command, "--format", "json").out)["systems"]
        for command in commands
        if "--metrics" in command
    )
    digits = {"bleu": 1, "exact": 3}
    wanted = [
        [(metric, part[row]["metrics"][metric]) for part in (whole, *parts) for metric in ("exact",)] for row in (0, 1)
    ] + [list(system["metrics"].items()) for system in sentences]
    told = [" ".join(line.split()) for line in lines]
    rows = [
        row for row, line in enumerate(told) if line.startswith(("the bag as given ", "l2r left ", "sao in orders "))
    ]
    for row, figures in zip(rows, wanted, strict=True):
        assert told[row].endswith(" ".join(f"{figure['score']:.{digits[metric]}f}" for metric, figure in figures))
        assert told[row + 1] == " ".join(
            f"[{figure['ci'][0]:.{digits[metric]}f}, {figure['ci'][1]:.{digits[metric]}f}]"
            for metric, figure in figures
        )
    assert indigo("demo", "--size", "tiny", "--task", "sentences", "-o", "my demo").status == 2


def shown(text: str) -> set[str]:
    """Return the lines of the table of a growing sentence."""
    return {" ".join(line.split()) for line in text.splitlines() if "/" in line and ("▁" in line or "█" in line)}


@pytest.mark.slow
def test_ended_in_the_middle_it_takes_everything_with_it(tmp_path: Path) -> None:
    demo = tmp_path / "demo"
    command = [sys.executable, "-m", "indigo_cli", "demo", "--size", "tiny", "-o", str(demo)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        while not (demo / "star-graph" / "corpus").exists():
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(1.0)  # the trainings have been started
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)  # nobody of its group is left
    assert not [path for path in demo.rglob("*") if ".partial" in path.name]
    assert not list(demo.rglob("*.traces.jsonl"))


@pytest.mark.parametrize("task", ["all", *TASKS])
def test_nothing_begins_while_a_folder_is_in_the_way(task: str, indigo: Any, tmp_path: Path) -> None:
    """The last task's: minutes of the first ones would be lost."""
    in_the_way = tmp_path / (TASKS[-1] if task == "all" else task) / "notes.txt"
    in_the_way.parent.mkdir()
    in_the_way.write_text("mine\n", encoding="utf-8")
    done = indigo("demo", "--task", task, "-o", tmp_path, "--overwrite")
    assert done.status == 2
    assert done.err.splitlines()[:2] == [
        "error: the folder holds something else than a demo",
        f"at: {in_the_way.parent}",
    ]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [in_the_way]


@pytest.mark.parametrize("wrong", [["--device", "tpu"], ["--precision", "fp8"], ["--threads", "-1"], ["--size", "big"]])
def test_what_cannot_be_had_is_said_at_once(wrong: list[str], indigo: Any, tmp_path: Path) -> None:
    done = indigo("demo", *wrong, "-o", tmp_path / "demo")
    assert done.status == 2
    assert "\nat: " in done.err
    assert not (tmp_path / "demo").exists()
