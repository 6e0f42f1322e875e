"""What a person sees on stderr: notes, warnings and progress. Data never goes through here; stdout is its own.

`--quiet` silences notes and progress, `--verbose` adds details; warnings and errors always show. Of several processes
of one run (`torchrun`) only the first speaks; what fails on another it says itself.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console


@dataclass
class _Verbosity:
    quiet: bool = False
    verbose: bool = False
    rank: int = 0


_state = _Verbosity()
PLAIN_SECONDS = 10.0
"""How often progress writes a line where there is no terminal."""


def set_verbosity(*, quiet: bool = False, verbose: bool = False) -> None:
    """Set what `--quiet` and `--verbose` ask for; for this process."""
    rank = os.environ.get("RANK", "0") if os.environ.get("WORLD_SIZE", "1") != "1" else "0"
    _state.rank = int(rank) if rank.isdecimal() else 0
    _state.quiet, _state.verbose = quiet or _state.rank > 0, verbose and not _state.rank


def rank() -> int:
    """Return which process of a run on several this is; the first, 0, speaks for all."""
    return _state.rank


def is_quiet() -> bool:
    """Tell whether only warnings and errors are wanted."""
    return _state.quiet


def note(text: str) -> None:
    """Say something a user may want to know; not with --quiet."""
    if not _state.quiet:
        _print(f"note: {text}")


def warn(text: str) -> None:
    """Say something that may make results wrong; always."""
    if not _state.rank:
        _print(f"warning: {text}")


def warn_of(texts: Iterable[str]) -> None:
    """Warn of each."""
    for text in texts:
        warn(text)


def status(text: str) -> None:
    """Write a line of a report, e.g. what a command did; not with --quiet."""
    if not _state.quiet:
        _print(text)


def detail(text: str) -> None:
    """Write a line that only --verbose shows."""
    if _state.verbose:
        _print(text)


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def stderr_console() -> "Console":
    """Return a Rich console on stderr; Rich itself obeys NO_COLOR and drops colour where there is no terminal."""
    return _console(stderr=True)


def stdout_console() -> "Console":
    """Return a Rich console on stdout, for tables that are a command's result."""
    return _console(stderr=False)


def _console(*, stderr: bool) -> "Console":
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, emoji=False, markup=False)


class Progress(Protocol):
    """How far a job is; whoever works calls this, whoever looks sees a bar or lines."""

    def advance(self, amount: int = 1, *, info: str = "") -> None:
        """Count `amount` more done; `info` (e.g. a loss) replaces the one shown before."""


class _Silent:
    def advance(self, amount: int = 1, *, info: str = "") -> None:
        return


class _Lines:
    """A plain line now and then: done, share, rate, time left."""

    def __init__(self, label: str, total: int | None, unit: str, start: int) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.start = self.done = start
        self.began = self.said = time.monotonic()

    def advance(self, amount: int = 1, *, info: str = "") -> None:
        self.done += amount
        now = time.monotonic()
        if now - self.said >= PLAIN_SECONDS:
            self.said = now
            _print(self.line(now - self.began, info))

    def line(self, seconds: float, info: str) -> str:
        rate = (self.done - self.start) / max(seconds, 1e-9)
        of_total = f"/{self.total:,}" if self.total else ""
        parts = [f"{self.done:,}{of_total} {self.unit}", f"{rate:,.1f} {self.unit}/s"]
        if self.total and rate > 0:
            parts.append(f"{clock((self.total - self.done) / rate)} left")
        return ", ".join([f"{self.label}: {parts[0]}", *parts[1:], *([info] if info else [])])


class _Bar:
    def __init__(self, bar: Any, task: Any) -> None:
        self.bar, self.task = bar, task
        self.info = ""

    def advance(self, amount: int = 1, *, info: str = "") -> None:
        self.info = info or self.info
        speed = self.bar.tasks[self.task].speed  # of the last half minute
        rate = f"{speed:,.1f}/s" if speed else ""
        self.bar.update(self.task, advance=amount, info=self.info, rate=rate)


@contextmanager
def progress(label: str, *, total: int | None = None, unit: str = "lines", start: int = 0) -> Iterator[Progress]:
    """Show how far a job is: a bar on a terminal, plain lines elsewhere, nothing with --quiet.

    Args:
        label: What is being done, e.g. "train".
        total: How many units there are, None if nobody knows.
        unit: Name of a unit, plural.
        start: How many were done before (a resumed run); they do not count towards the rate.
    """
    if _state.quiet:
        yield _Silent()
    elif not sys.stderr.isatty():
        yield _Lines(label, total, unit, start)
    else:
        from rich import progress as rich_progress

        columns = (
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TextColumn(unit),
            rich_progress.TextColumn("{task.fields[rate]}"),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TimeRemainingColumn(),
            rich_progress.TextColumn("{task.fields[info]}"),
        )
        with rich_progress.Progress(*columns, console=stderr_console(), transient=True) as bar:
            task = bar.add_task(label, total=total, completed=start, info="", rate="")
            yield _Bar(bar, task)


def clock(seconds: float) -> str:
    """Return a time span as `1:02:03`, or `2:03` below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
