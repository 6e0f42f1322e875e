"""The demo's processes: side by side, watched, and never left running."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.demo import steps
from indigo_cli.demo.steps import Step, program, run, train
from indigo_cli.errors import RunError

pytestmark = pytest.mark.slow  # each starts processes


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Every process that is started."""
    found: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def start(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        found.append(real(*args, **options))
        return found[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    return found


@pytest.fixture
def endless(tmp_path: Path) -> Step:
    """A command that waits for ever: nobody writes into the pipe that it reads."""
    os.mkfifo(tmp_path / "pipe")
    return Step("wait", ("show", str(tmp_path / "pipe")))


def test_a_failure_is_told_in_the_words_of_the_command_and_ends_the_others(
    endless: Step, started: list[subprocess.Popen[bytes]], tmp_path: Path, indigo: Any
) -> None:
    other = tmp_path / "another file"
    other.write_text('{"format": "another"}\n', encoding="utf-8")
    told = indigo("show", other).err
    assert [line.split(": ")[0] for line in told.splitlines()] == ["error", "at", "hint"]
    with pytest.raises(RunError) as fault:
        run([endless, Step("look", ("show", str(other)))], at_once=2)
    assert fault.value.render() + "\n" == told.replace("error: ", "error: look: ", 1)
    assert [process.poll() is not None for process in started] == [True, True]
    assert started[1].returncode == 2


def test_a_process_that_dies_is_a_failure(endless: Step, started: list[subprocess.Popen[bytes]]) -> None:
    def look() -> None:
        started[0].kill()

    with pytest.raises(RunError, match="signal 9"):
        run([endless], at_once=1, look=look)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_ends_all(
    interruption: type[BaseException], endless: Step, started: list[subprocess.Popen[bytes]]
) -> None:
    def look() -> None:
        raise interruption

    with pytest.raises(interruption):
        run([endless, endless, endless], at_once=2, look=look)
    assert [process.poll() is not None for process in started] == [True, True]


def test_a_process_that_does_not_want_to_end_is_killed(
    endless: Step, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(steps._Process, "ask_to_end", lambda process: None)

    def look() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([endless], at_once=1, look=look)
    assert started[0].returncode == -9


def test_warnings_come_through(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tokenised, reference = tmp_path / "tokenised", tmp_path / "reference"
    tokenised.write_text("the red cat .\n", encoding="utf-8")
    reference.write_text("The red cat.\n", encoding="utf-8")
    run([Step("count", ("evaluate", str(tokenised), "--reference", str(reference)))], at_once=1)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("warning: count: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_so_many_run_at_once(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    running, most, ended = set[str](), list[int](), list[str]()

    class Fake:
        def __init__(self, step: Step) -> None:
            self.title, self.looks = step.title, int(step.args[0])
            running.add(self.title)

        def has_ended(self) -> bool:
            self.looks -= 1
            return self.looks < 0

        def report(self) -> None:
            running.remove(self.title)
            ended.append(self.title)

    monkeypatch.setattr(steps, "_Process", Fake)
    monkeypatch.setattr(steps, "LOOK_SECONDS", 0.0)
    run([Step(str(i), (str(i % 3),)) for i in range(4)], at_once=at_once, look=lambda: most.append(len(running)))
    assert sorted(ended) == ["0", "1", "2", "3"]
    assert max(most) == min(at_once, 4)


def test_progress_is_read_off_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    states = [
        None,
        '{"step": 5, "loss": 3.25}\n{"step": 10, "loss": 2.5}\n{"step": 10, "split": "valid", "loss": 9.0}\n{"ste',
        '{"step": 5, "loss": 3.25}\n{"step": 10, "loss": 2.5}\n{"step": 15, "loss": 1.75}\n',
    ]

    def fake_run(commands: Any, *, at_once: int, look: Any) -> None:
        for state in states:
            if state is not None:
                (tmp_path / "log.jsonl").write_text(state, encoding="utf-8")
            look()

    monkeypatch.setattr(steps, "run", fake_run)
    monkeypatch.setattr("indigo_cli.core.console.PLAIN_SECONDS", 0.0)
    train([Step("train l2r", ())], [tmp_path], num_updates=20, at_once=1)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(", ")[0] for line in lines] == ["train l2r: 10/20 updates", "train l2r: 15/20 updates"]
    assert [line.split(", ")[-1] for line in lines] == ["loss 2.50", "loss 1.75"]


class TestHowToCallIt:
    def test_by_name_where_the_shell_finds_the_same(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        script = tmp_path / "indigo"
        script.write_text("#!/bin/sh\n", encoding="utf-8")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(sys, "argv", [str(script), "demo"])
        assert program() == "indigo"

    def test_by_its_path_elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(sys, "argv", ["my env/bin/indigo", "demo"])
        assert program() == "'my env/bin/indigo'"

    def test_as_a_module(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "argv", ["/somewhere/indigo_cli/__main__.py", "demo"])
        monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
        assert program() == "/usr/bin/python3 -m indigo_cli"
        assert Step("", ("show", "a b")).command() == "/usr/bin/python3 -m indigo_cli show 'a b'"


def test_a_file_in_the_way_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`python -m` would look in the working directory first."""
    (tmp_path / "typer.py").write_text("raise SystemExit('the wrong file')\n", encoding="utf-8")
    text = tmp_path / "text"
    text.write_text("The red cat.\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run([Step("count", ("evaluate", str(text), "--reference", str(text)))], at_once=1)
