"""When a run ends by its clocks, however these behave."""

import time
from collections.abc import Callable, Sequence

from indigo_cli.core import console


class Stopwatch:
    """Seconds that have passed. A clock that is set back stands still until it runs on: no span is ever negative.

    Args:
        clock: What to read, in seconds.
        seconds: What has passed already.
    """

    def __init__(self, clock: Callable[[], float], seconds: float = 0.0) -> None:
        self._clock, self._seconds, self._seen = clock, seconds, clock()

    def seconds(self) -> float:
        """Return the time since the start."""
        now = self._clock()
        self._seconds += max(now - self._seen, 0.0)
        self._seen = now
        return self._seconds


def wall_watch(seconds: float = 0.0) -> Stopwatch:
    """Return a watch of the wall clock."""
    return Stopwatch(lambda: time.monotonic(), seconds)


def cpu_watch(seconds: float = 0.0) -> Stopwatch:
    """Return a watch of this process's CPU time."""
    return Stopwatch(lambda: time.process_time(), seconds)


class Limits:
    """The limits of a run that count minutes; 0 is none.

    Args:
        max_minutes: Wall time of this process.
        max_cpu_minutes: CPU time of all parts of the run.
        marks: CPU minutes at which a checkpoint gets a name.
    """

    def __init__(self, *, max_minutes: float, max_cpu_minutes: float, marks: Sequence[float] = ()) -> None:
        self.max_minutes, self.max_cpu_minutes, self._marks = max_minutes, max_cpu_minutes, marks
        self._wall, self._cpu, self._cpu_here = wall_watch(), cpu_watch(), cpu_watch()

    def go_on(self, cpu_seconds: float) -> None:
        """Count the CPU time of the parts before this one."""
        self._cpu = cpu_watch(cpu_seconds)

    def cpu_minutes(self) -> float:
        """Return the CPU time of the run so far, earlier parts included."""
        return self._cpu.seconds() / 60

    def out_of_time(self) -> bool:
        """Tell whether the wall time or the CPU time allowed is spent."""
        return bool(
            (self.max_minutes and self._wall.seconds() >= 60 * self.max_minutes)
            or (self.max_cpu_minutes and self.cpu_minutes() >= self.max_cpu_minutes)
        )

    def time_left(self) -> str:
        """Return what the steps cannot tell: how far the CPU time allowed is spent, and when it will be."""
        if not self.max_cpu_minutes:
            return ""
        spent = self.cpu_minutes()
        rate = self._wall.seconds() / max(self._cpu_here.seconds(), 1e-9)
        left = console.clock(60 * rate * max(self.max_cpu_minutes - spent, 0.0))
        return f", {spent:.0f} of {self.max_cpu_minutes:g} CPU minutes, {left} left"

    def marks_passed(self) -> list[str]:
        """Return the names of the CPU times that have come, `cpu-30m`."""
        spent = self.cpu_minutes()
        return [f"cpu-{minutes:g}m" for minutes in self._marks if minutes <= spent]
