"""The update loop: a generator of reports. The caller logs, validates, saves and stops."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from indigo_cli.core.chunks import chunked
from indigo_cli.data.batch import Batch
from indigo_cli.engine.optim import GuardedStep, learning_rate
from indigo_cli.models.protocol import Losses


@dataclass
class LossParts:
    """Sums of loss parts over many batches; they stay on the device until `means` is asked for."""

    sums: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    weight: float = 0.0

    def add(self, losses: Losses) -> None:
        """Add the parts of one batch."""
        self.weight += losses.weight
        for name, (nats, count) in losses.parts.items():
            self.sums[name] = self.sums[name] + nats.detach() if name in self.sums else nats.detach()
            self.counts[name] = self.counts.get(name, 0.0) + count

    def merge(self, other: "LossParts") -> None:
        """Add the parts of another sum."""
        self.weight += other.weight
        for name, nats in other.sums.items():
            self.sums[name] = self.sums[name] + nats if name in self.sums else nats
            self.counts[name] = self.counts.get(name, 0.0) + other.counts[name]

    def means(self) -> dict[str, float]:
        """Return `loss` (all parts, a prediction) and `loss_NAME` of each part (a term of its own), nats."""
        total = sum((float(nats) for nats in self.sums.values()), 0.0)
        rows = {"loss": total / self.weight if self.weight else 0.0}
        for name, nats in self.sums.items():
            rows[f"loss_{name}"] = float(nats) / self.counts[name] if self.counts[name] else 0.0
        return rows


@dataclass(frozen=True)
class StepReport:
    """One update.

    Args:
        step: From 1.
        epoch, position: Where in the stream its last micro-batch stands.
        parts: Loss parts of all its micro-batches.
        grad_norm: Norm before clipping, of the mean gradient; on the device.
        rate: Learning rate.
        num_tokens: Real target tokens.
        ids: Examples it was made of.
    """

    step: int
    epoch: int
    position: int
    parts: LossParts
    grad_norm: Tensor
    rate: float
    num_tokens: int
    ids: tuple[str, ...]


@dataclass
class Window:
    """What has happened since the last row of the log."""

    parts: LossParts = field(default_factory=LossParts)
    tokens: int = 0
    began: float = field(default_factory=time.monotonic)

    def add(self, report: StepReport) -> None:
        """Count one update more."""
        self.parts.merge(report.parts)
        self.tokens += report.num_tokens

    def row(self, report: StepReport) -> dict[str, Any]:
        """Return the row of the log; waits for the device."""
        return {
            "step": report.step,
            "epoch": report.epoch,
            **self.parts.means(),
            "lr": report.rate,
            "tokens_per_second": self.tokens / max(time.monotonic() - self.began, 1e-9),
            "grad_norm": float(report.grad_norm),
        }


def updates(
    system: nn.Module,
    batches: Iterable[tuple[int, int, Batch]],
    guarded_step: GuardedStep,
    *,
    accumulate: int,
    peak_rate: float,
    warmup_steps: int,
    smoothing: float,
    start_step: int = 0,
    autocast: torch.autocast,
) -> Iterator[StepReport]:
    """Yield one report an update.

    The gradient is the sum over all micro-batches of the update, divided once by the number of predictions: so
    accumulating is exact, whatever the sizes of the micro-batches.
    """
    for step, group in enumerate(chunked(batches, accumulate), start=start_step + 1):
        parts = LossParts()
        for _, _, batch in group:
            with autocast:
                losses: Losses = system(batch, smoothing)
            losses.objective.backward()
            parts.add(losses)
        rate = learning_rate(step, peak=peak_rate, warmup_steps=warmup_steps)
        norm = guarded_step(step, weight=parts.weight, rate=rate)
        yield StepReport(
            step=step,
            epoch=group[-1][0],
            position=group[-1][1],
            parts=parts,
            grad_norm=norm,
            rate=rate,
            num_tokens=sum(batch.num_tokens for _, _, batch in group),
            ids=tuple(name for _, _, batch in group for name in batch.ids),
        )
