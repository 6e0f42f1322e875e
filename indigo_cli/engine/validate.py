"""How good a model is on `valid`: losses, and scores on a sample.

Of several processes each takes a part, and all get the figures of the whole.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import nn

from indigo_cli.core import console
from indigo_cli.core.chunks import chunked
from indigo_cli.engine.distributed import Processes
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.sample import Sample
from indigo_cli.engine.signals import StopRequest
from indigo_cli.engine.train_config import LOSS
from indigo_cli.engine.updates import LossParts
from indigo_cli.engine.validations import Watcher


class ValidLosses(Protocol):
    """Adds up what the targets of `valid` cost."""

    def __call__(self, stop: StopRequest) -> LossParts:
        """Return the sums over this process' part, or over what a stop left of it; all processes know the same parts.

        The system is in evaluation mode.
        """
        ...

    def figures(self) -> dict[str, Any]:
        """Return what else the last call showed, by name in the log: of all processes, every one of which must call."""
        ...


class GivenLosses:
    """All of `valid` in given orders.

    Args:
        system: On its device, perhaps sharded.
        split: With the orders.
    """

    def __init__(self, system: nn.Module, split: OrderedSplit, *, processes: Processes, runtime: Runtime) -> None:
        self._system, self._split, self._processes, self._runtime = system, split, processes, runtime

    def __call__(self, stop: StopRequest) -> LossParts:
        """See `ValidLosses`."""
        parts = LossParts()
        rank, world = self._processes.rank, self._processes.world
        with torch.no_grad(), self._runtime.autocast(self._processes.device):
            for group in chunked(self._split.once(), world):
                has_own = rank < len(group)  # a sharded model needs every process to take part
                batch = group[rank if has_own else 0].load().to(self._processes.device)
                parts.add(self._system(batch), times=float(has_own))
                if stop and world == 1:
                    break
        return parts

    def figures(self) -> dict[str, Any]:
        """See `ValidLosses`."""
        return {}


class Validator:
    """Computes without dropout and smoothing, and leaves the random state alone.

    Args:
        system: In training mode between two calls.
        losses: What targets cost.
        sample: Sentences to decode, None for none.
        watchers: Are told the figures of every validation.
    """

    def __init__(
        self,
        system: nn.Module,
        losses: ValidLosses,
        sample: Sample | None,
        *,
        processes: Processes,
        watchers: Sequence[Watcher] = (),
    ) -> None:
        self._system, self._losses, self._sample, self._processes = system, losses, sample, processes
        self.watchers = watchers

    def figures(self, stop: StopRequest) -> dict[str, Any] | None:
        """Return losses, scores and more by their names in the log; None if a stop was asked for in between."""
        self._system.eval()
        try:
            parts, (stopped,) = self._losses(stop).over_all(self._processes, float(bool(stop)))
            if stopped:
                return None
            figures: dict[str, Any] = dict(parts.means())
            if self._sample is not None:
                scores = self._sample.figures(stop, self._processes)
                if scores is None:
                    return None
                figures |= scores
            return figures | self._losses.figures()
        finally:
            self._system.train()


def say_figures(step: int, figures: Mapping[str, Any]) -> None:
    """Tell the user losses and scores of a validation; without scores only one who wants details."""
    named = {name: value for name, value in figures.items() if isinstance(value, float) and not name.startswith(LOSS)}
    scores = "".join(f", {name} {value:.2f}" for name, value in named.items())
    say = console.status if scores else console.detail
    say(f"step {step}: validation loss {figures[LOSS]:.4f}{scores}")
