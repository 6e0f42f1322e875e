"""What has happened since the last row of the log; a checkpoint takes it along: no update drops out of a row."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from indigo_cli.engine.limits import wall_watch
from indigo_cli.engine.updates import LossParts, Number, StepReport

SUMS, COUNTS, TALLIES, TOTALS = "window.sums.", "window.counts.", "window.tally.", "window.totals"


class Window:
    """Sums over the updates since the last row.

    Args:
        parts: Their loss parts.
        tokens: Real target tokens.
        seconds: Wall time they took before now (a resumed run).
        tally: See `StepReport`.
    """

    def __init__(
        self,
        parts: LossParts | None = None,
        *,
        tokens: Number = 0,
        seconds: float = 0.0,
        tally: Mapping[str, Number] | None = None,
    ) -> None:
        self.parts, self.tokens, self._watch = parts or LossParts(), tokens, wall_watch(seconds)
        self.tally = dict(tally or {})

    def add(self, report: StepReport) -> None:
        """Count one update more."""
        self.parts.merge(report.parts)
        self.tokens = self.tokens + report.num_tokens
        for name, count in report.tally.items():
            self.tally[name] = self.tally.get(name, 0) + count

    def seconds(self) -> float:
        """Return the wall time since the last row, without the time between two parts of a run."""
        return self._watch.seconds()

    def row(self, report: StepReport) -> dict[str, Any]:
        """Return the row of the log; waits for the device."""
        seconds = self.seconds()
        return {
            "step": report.step,
            "epoch": report.epoch,
            **self.parts.means(),
            "lr": report.rate,
            "tokens_per_second": float(self.tokens) / seconds if seconds else 0.0,
            "grad_norm": float(report.grad_norm),
            **self._shares(),
        }

    def _shares(self) -> dict[str, float]:
        """Return the shares of sentences that were searched, and of steps that are nodes of their own in trees."""
        tally = {name: float(count) for name, count in self.tally.items()}
        shares = {}
        if tally.get("sentences"):
            shares["searched"] = tally["searched"] / tally["sentences"]
        if tally.get("steps"):
            shares["tree_share"] = tally["nodes"] / tally["steps"]
        return shares

    def state(self) -> dict[str, Tensor]:
        """Return what a checkpoint keeps of it; the sums as they are, so that they go on bit for bit."""
        if not self.parts.weight:
            return {}
        counts = {
            prefix + name: torch.tensor(float(count), dtype=torch.float64)
            for prefix, numbers in ((COUNTS, self.parts.counts), (TALLIES, self.tally))
            for name, count in numbers.items()
        }
        totals = torch.tensor([float(self.parts.weight), float(self.tokens)], dtype=torch.float64)
        return {**{SUMS + name: nats for name, nats in self.parts.sums.items()}, **counts, TOTALS: totals}

    @classmethod
    def restored(cls, state: Mapping[str, Tensor], *, seconds: float, device: torch.device) -> "Window":
        """Return the window of a checkpoint; an empty one if it has none."""
        if TOTALS not in state:
            return cls()
        weight, tokens = state[TOTALS].tolist()
        parts = LossParts(
            {name.removeprefix(SUMS): nats.to(device) for name, nats in state.items() if name.startswith(SUMS)},
            _numbers(state, COUNTS),
            weight,
        )
        return cls(parts, tokens=int(tokens), seconds=seconds, tally=_numbers(state, TALLIES))


def _numbers(state: Mapping[str, Tensor], prefix: str) -> dict[str, Number]:
    return {name.removeprefix(prefix): float(n) for name, n in state.items() if name.startswith(prefix)}
