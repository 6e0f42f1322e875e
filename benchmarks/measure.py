"""How everything here is timed: one thread, CPU time of this process, variants in turn, ratios per round, median.

Wall-clock times on a shared machine are worth nothing; a ratio of two things that ran in the same second is.
"""

import statistics
import time
from collections.abc import Callable, Mapping

import torch

ROUNDS = 7
WARM_UP = 2


def interleaved(variants: Mapping[str, Callable[[], object]], *, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Run the variants in turn and return the CPU seconds of each round, warm-up left out."""
    torch.set_num_threads(1)
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(WARM_UP + rounds):
        for name, run in variants.items():
            start = time.process_time()
            run()
            if turn >= WARM_UP:
                seconds[name].append(time.process_time() - start)
    return seconds


def ratio(seconds: Mapping[str, list[float]], name: str, base: str) -> tuple[float, float, float]:
    """Return median, minimum and maximum of the ratio of two variants, round by round."""
    ratios = [a / b for a, b in zip(seconds[name], seconds[base], strict=True)]
    return statistics.median(ratios), min(ratios), max(ratios)


def show(title: str, figures: tuple[float, float, float], bar: float) -> None:
    """Print one row of a result."""
    median, low, high = figures
    verdict = "ok" if median <= bar else "MISSED"
    print(f"{title:58} {median:6.3f} ({low:.3f}-{high:.3f})  bar {bar:.2f}  {verdict}", flush=True)
