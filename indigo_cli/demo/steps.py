"""Commands of indigo run as processes of their own: side by side, watched, and ended with this one."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indigo_cli.core import console
from indigo_cli.engine.run_folder import LOG_FILE
from indigo_cli.errors import RunError

LOOK_SECONDS = 0.2
"""How often somebody looks how far the processes are."""
GRACE_SECONDS = 20.0
"""How long a process may take to end when asked; then it is killed."""


@dataclass(frozen=True)
class Step:
    """One command line.

    Args:
        title: What it does, for people.
        args: The words after `indigo`.
    """

    title: str
    args: tuple[str, ...]

    def command(self) -> str:
        """Return what to paste into a shell to run it again."""
        return f"{program()} {shlex.join(self.args)}"


def program() -> str:
    """Return how a shell in this folder calls indigo, in the words with which this process was called."""
    script = sys.argv[0]
    if os.path.basename(script) == "indigo":
        found = shutil.which("indigo")
        return "indigo" if found and os.path.samefile(found, script) else shlex.quote(script)
    return shlex.join([sys.executable, "-m", "indigo_cli"])


def num_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(steps: Sequence[Step], *, at_once: int, look: Callable[[], None] = lambda: None) -> None:
    """Run commands in processes of their own, `at_once` side by side; however this ends, none of them is left running.

    Args:
        look: Called a few times a second.
    Raises: RunError if one fails; the others are ended.
    """
    waiting, running = list(steps), list[_Process]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_Process(waiting.pop(0)))
            time.sleep(LOOK_SECONDS)
            look()
            for process in [process for process in running if process.has_ended()]:
                process.report()
                running.remove(process)
        look()
    finally:
        for process in running:
            process.ask_to_end()
        for process in running:
            process.end()


class _Process:
    """A command that was started. What it says goes into a file without a name; only warnings and errors come out."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, *_path_options(), "-m", "indigo_cli", *step.args],
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=subprocess.STDOUT,
        )

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def report(self) -> None:
        """Pass on its warnings; raise RunError if it failed."""
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").splitlines()
        self._said.close()
        for line in lines:
            if line.startswith("warning: "):
                console.warn(f"{self.step.title}: {line.removeprefix('warning: ')}")
        status = self._process.returncode
        if status:
            parts = dict(line.split(": ", 1) for line in lines if line.startswith(("error: ", "at: ", "hint: ")))
            ending = f"signal {-status} ended it" if status < 0 else f"it ended with status {status}"
            raise RunError(
                f"{self.step.title}: {parts.get('error') or '; '.join([*lines[-1:], ending])}",
                where=parts.get("at") or self.step.command(),
                fix=parts.get("hint", ""),
            )

    def ask_to_end(self) -> None:
        self._process.terminate()

    def end(self) -> None:
        """Wait for the end, and make one if it does not come."""
        try:
            self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()


def _path_options() -> list[str]:
    """Return -P unless this process, too, finds modules in the working directory: a file there could be in the way."""
    return [] if sys.path[0] in ("", os.getcwd()) else ["-P"]


def train(steps: Sequence[Step], runs: Sequence[Path], *, num_updates: int, at_once: int) -> None:
    """Run trainings and show how far each is, read off the log of its run folder."""
    with _bars([step.title for step in steps], total=num_updates) as bars:
        watches = [_Watch(folder / LOG_FILE, bar) for folder, bar in zip(runs, bars, strict=True)]

        def look() -> None:
            for watch in watches:
                watch.look()

        run(steps, at_once=at_once, look=look)


class _Watch:
    """Follows the log of a run."""

    def __init__(self, log: Path, bar: console.Progress) -> None:
        self._log, self._bar = log, bar
        self._step = 0

    def look(self) -> None:
        row = self._last_row()
        if row is not None and row["step"] > self._step:
            self._bar.advance(row["step"] - self._step, info=f"loss {row['loss']:.2f}")
            self._step = row["step"]

    def _last_row(self) -> dict[str, Any] | None:
        """Return the last whole row of training."""
        try:
            lines = self._log.read_text("utf-8").split("\n")[:-1]
        except OSError:
            return None  # not begun
        rows = (json.loads(line) for line in reversed(lines))
        return next((row for row in rows if "split" not in row), None)


@contextmanager
def _bars(labels: Sequence[str], *, total: int) -> Iterator[list[console.Progress]]:
    """Show several jobs of `total` updates: a bar each on a terminal, as `console.progress` does it elsewhere."""
    if console.is_quiet() or not sys.stderr.isatty():
        with ExitStack() as stack:
            jobs = [console.progress(label, total=total, unit="updates") for label in labels]
            yield [stack.enter_context(job) for job in jobs]
        return
    from rich import progress

    columns = (
        progress.TextColumn("  {task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("updates"),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[info]}", style="dim"),
    )
    with progress.Progress(*columns, console=console.stderr_console(), transient=True) as bar:
        yield [_Bar(bar, bar.add_task(label, total=total, info="")) for label in labels]


class _Bar:
    """One of several bars."""

    def __init__(self, bar: Any, task: Any) -> None:
        self._bar, self._task = bar, task

    def advance(self, amount: int = 1, *, info: str = "") -> None:
        self._bar.update(self._task, advance=amount, info=info)


@contextmanager
def working(text: str) -> Iterator[None]:
    """Say what is being done: a spinner on a terminal, a line elsewhere."""
    if console.is_quiet() or not sys.stderr.isatty():
        console.status(text)
        yield
        return
    with console.stderr_console().status(text):
        yield
