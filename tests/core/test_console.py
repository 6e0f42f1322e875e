"""What a person sees on stderr while a job runs."""

import io
import sys
from typing import Any

import pytest

from indigo_cli.cli import main
from indigo_cli.core import console


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moving = Clock()
    monkeypatch.setattr(console, "time", moving)
    return moving


def test_quiet_leaves_warnings_and_verbose_adds_details(capsys: pytest.CaptureFixture[str]) -> None:
    def say() -> list[str]:
        console.note("n")
        console.warn("w")
        console.status("s")
        console.detail("d")
        out, err = capsys.readouterr()
        assert out == ""
        return err.splitlines()

    assert say() == ["note: n", "warning: w", "s"]
    console.set_verbosity(quiet=True)
    assert console.is_quiet() and say() == ["warning: w"]
    console.set_verbosity(verbose=True)
    assert say() == ["note: n", "warning: w", "s", "d"]


@pytest.mark.parametrize(("world", "heard"), [(None, True), ("1", True), ("2", False)])
def test_a_rank_silences_only_one_of_several_processes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: str | None, heard: bool
) -> None:
    """A scheduler may have left a rank in the environment of a program that runs alone."""
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("LOCAL_RANK", "3")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if world:
        monkeypatch.setenv("WORLD_SIZE", world)
    assert main(["train", "/no/such/recipe.toml"]) == 2
    assert ("no/such/recipe" in capsys.readouterr().err) == heard
    console.warn("w")
    assert capsys.readouterr().err == ("warning: w\n" if heard else "")


def test_without_a_terminal_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    with console.progress("train", total=1000, unit="steps", start=500) as progress:
        for _ in range(100):
            clock.now += 0.25
            progress.advance(4, info="loss 4.2")
    assert capsys.readouterr().err.splitlines() == [
        "train: 660/1,000 steps, 16.0 steps/s, 0:21 left, loss 4.2",
        "train: 820/1,000 steps, 16.0 steps/s, 0:11 left, loss 4.2",
    ]


def test_an_unknown_total_has_no_time_left(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    with console.progress("read") as progress:
        clock.now += console.PLAIN_SECONDS
        progress.advance(12345)
    assert capsys.readouterr().err == "read: 12,345 lines, 1,234.5 lines/s\n"


def test_quiet_progress_says_nothing(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    console.set_verbosity(quiet=True)
    with console.progress("read", total=2) as progress:
        clock.now += 3600
        progress.advance(2, info="x")
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_a_terminal_gets_a_bar_whose_colour_obeys_no_color(
    monkeypatch: pytest.MonkeyPatch, no_color: str, coloured: bool
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("NO_COLOR", no_color)
    with console.progress("train", total=10, unit="steps") as progress:
        progress.advance(5, info="loss 4.2")
        console.note("in between")
    written = terminal.getvalue()
    assert "loss 4.2" in written and "5/10" in written and "note: in between" in written
    assert ("\x1b[38;5;" in written or "\x1b[3" in written) == coloured


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (61, "1:01"), (3600, "1:00:00"), (90061, "25:01:01")]
)
def test_clock(seconds: float, text: str) -> None:
    assert console.clock(seconds) == text


def test_consoles_print_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    text: Any = "[bold]a[/bold] :smile: 1.5"
    console.stdout_console().print(text)
    console.stderr_console().print(text)
    assert capsys.readouterr() == (f"{text}\n", f"{text}\n")
