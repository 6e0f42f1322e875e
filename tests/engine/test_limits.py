"""Clocks and limits of a run, also when a clock is set back, stands still or jumps."""

import math
import time
from collections.abc import Callable

import pytest

from indigo_cli.engine import limits as module
from indigo_cli.engine.limits import Limits, Stopwatch
from indigo_cli.engine.window import Window

READINGS = [
    ([10.0, 11.0, 13.5], 3.5),
    ([10.0, 12.0, 5.0, 6.0], 3.0),  # set back: two seconds before it, one after it
    ([10.0, 9.0, 8.0, 7.0], 0.0),
    ([10.0, 10.0, 10.0], 0.0),
    ([0.0, 1e9, -1e9, -1e9 + 2], 1e9 + 2),
]


@pytest.mark.parametrize(("readings", "passed"), READINGS)
def test_a_stopwatch_counts_what_goes_forward(readings: list[float], passed: float) -> None:
    left = iter(readings)
    watch = Stopwatch(lambda: next(left), 100.0)
    seen = [watch.seconds() for _ in readings[1:]]
    assert seen[-1] == 100 + passed
    assert seen == sorted(seen) and seen[0] >= 100


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Callable[[float, float], None]:
    """A way to set the wall clock and the CPU clock that limits read."""
    now = {"wall": 1000.0, "cpu": 50.0}

    class Clocks:
        monotonic = staticmethod(lambda: now["wall"])
        process_time = staticmethod(lambda: now["cpu"])

    monkeypatch.setattr(module, "time", Clocks)
    return lambda wall, cpu: now.update(wall=wall, cpu=cpu)


def make(**limits: float) -> Limits:
    return Limits(**{"max_minutes": 0, "max_cpu_minutes": 0, **limits})  # type: ignore[arg-type]


def test_limits_by_hand(clocks: Callable[[float, float], None]) -> None:
    assert not make().out_of_time()
    wall, cpu, marked = make(max_minutes=2), make(max_cpu_minutes=2), make()
    marked._marks = [0.5, 1, 90]
    cpu.go_on(30)
    clocks(1119, 139)
    assert not wall.out_of_time() and not cpu.out_of_time()
    assert cpu.cpu_minutes() == (30 + 89) / 60
    assert cpu.time_left() == ", 2 of 2 CPU minutes, 0:01 left"
    assert marked.marks_passed() == ["cpu-0.5m", "cpu-1m"]
    clocks(1120, 140)
    assert wall.out_of_time() and cpu.out_of_time()


@pytest.mark.parametrize("jump", [-1e9, -1.0, 0.0, 1e9])
def test_a_clock_that_jumps_never_gives_nonsense(clocks: Callable[[float, float], None], jump: float) -> None:
    limits, window = make(max_minutes=10, max_cpu_minutes=10), Window()
    window.tokens = 500
    clocks(1000 + jump, 50 + jump)
    for _ in range(3):
        assert limits.out_of_time() == (jump == 1e9)
        assert limits.cpu_minutes() >= 0
        assert "-" not in limits.time_left() and "nan" not in limits.time_left()
        assert window.seconds() >= 0
    clocks(1000 + jump + 3, 50 + jump + 3)
    assert window.seconds() == max(jump, 0) + 3


def test_the_real_clocks_run() -> None:
    limits = make(max_cpu_minutes=1e-9)
    began = time.process_time()
    while time.process_time() == began:
        pass
    assert limits.out_of_time() and math.isfinite(limits.cpu_minutes())
