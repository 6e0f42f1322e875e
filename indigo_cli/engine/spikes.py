"""Updates whose loss or gradient norm is far above what is usual, with the examples they were made of.

A value is far above where it exceeds

    median + factor * max(MAD, 0.02 * |median|)

of the same value over the last 100 updates before it (from 50 on); MAD is the median distance from the median. Both are
blind to single outliers, spikes themselves included, and follow a lasting change after half the window. Of several
spikes in a row the first one is reported. The outcome does not depend on when `check` is called.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor

from indigo_cli.engine.updates import StepReport

LAST, ENOUGH = 100, 50
LEAST = 0.02
SHOWN = 20
VALUES, LASTING = "spikes.values", "spikes.lasting"


class Spikes:
    """Watches losses and gradient norms.

    Args:
        factor: See above; 0 = nothing is watched.
    """

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._before: deque[tuple[float, float]] = deque(maxlen=LAST)
        self._lasting = False
        self._waiting: list[StepReport] = []

    def add(self, report: StepReport) -> None:
        """Take an update; its values stay on the device until `check`."""
        if self._factor:
            self._waiting.append(report)

    @property
    def many(self) -> bool:
        """Whether so many updates wait that it is time to check."""
        return len(self._waiting) >= LAST

    def check(self, ids_of_all: Callable[[Sequence[str]], Sequence[str]] = tuple) -> list[dict[str, Any]]:
        """Return a row for the log for each spike among the updates since the last call; waits for the device once.

        Args:
            ids_of_all: Turns the examples of this process into those of all.
        """
        rows = []
        for report, (loss, norm) in zip(self._waiting, self._values(), strict=True):
            usual_loss, loss_limit = self._usual(0)
            usual_norm, norm_limit = self._usual(1)
            spike = loss > loss_limit or norm > norm_limit
            if spike and not self._lasting:
                ids = ids_of_all(report.ids)
                rows.append(
                    {
                        "step": report.step,
                        "epoch": report.epoch,
                        "split": "spike",
                        "loss": loss,
                        "usual_loss": usual_loss,
                        "grad_norm": norm,
                        "usual_grad_norm": usual_norm,
                        "num_ids": len(ids),
                        "ids": list(ids[:SHOWN]),
                    }
                )
            self._lasting = spike
            self._before.append((loss, norm))
        self._waiting.clear()
        return rows

    def _values(self) -> list[list[float]]:
        """Return loss and gradient norm of each update that waits."""
        if not self._waiting:
            return []
        norms = torch.stack([report.grad_norm for report in self._waiting])
        sums = [
            torch.stack([nats.to(norms.dtype) for nats in report.parts.sums.values()]).sum() for report in self._waiting
        ]
        weights = torch.stack(
            [torch.as_tensor(report.parts.weight, dtype=norms.dtype, device=norms.device) for report in self._waiting]
        ).clamp(min=1.0)
        values: list[list[float]] = torch.stack([torch.stack(sums) / weights, norms], dim=1).tolist()
        return values

    def _usual(self, which: int) -> tuple[float, float]:
        """Return the median of a value, and above what it is a spike."""
        values = [value for both in self._before if math.isfinite(value := both[which])]
        if len(values) < ENOUGH:
            return math.nan, math.inf
        middle = median(values)
        deviation = median(abs(value - middle) for value in values)
        return middle, middle + self._factor * max(deviation, LEAST * abs(middle))

    def state(self) -> dict[str, Tensor]:
        """Return what a checkpoint keeps; `check` comes first."""
        if not self._before:
            return {}
        values = torch.tensor(list(self._before), dtype=torch.float64)
        return {VALUES: values, LASTING: torch.tensor(self._lasting)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint, from nothing if it has none of it."""
        if VALUES in state:
            self._before.extend((loss, norm) for loss, norm in state[VALUES].tolist())
            self._lasting = bool(state[LASTING])


def spike_line(row: Mapping[str, Any]) -> str:
    """Return what a person reads of a spike's row."""
    more = f" and {row['num_ids'] - SHOWN} more" if row["num_ids"] > SHOWN else ""
    return (
        f"step {row['step']}: loss {row['loss']:.3f} (usually {row['usual_loss']:.3f}), gradient norm "
        f"{row['grad_norm']:.3g} (usually {row['usual_grad_norm']:.3g}); batch: {' '.join(row['ids'])}{more}"
    )
