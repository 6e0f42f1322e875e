"""The update loop: a generator of reports. The caller logs, validates, saves and stops."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from indigo_cli.core.chunks import chunked
from indigo_cli.data.batch import Batch, MicroBatch
from indigo_cli.engine.distributed import Processes, accumulating
from indigo_cli.engine.optim import GuardedStep, learning_rate
from indigo_cli.engine.order_policy import GivenOrders, OrderPolicy, TrainPart
from indigo_cli.models.protocol import Losses

Number = float | Tensor
"""A number of the host, or a 0-d tensor that nobody waits for before it is needed."""
TALLY = ("searched", "sentences", "nodes", "steps")
"""Names of what is counted where orders are searched or grow trees: sentences that were searched, all sentences; nodes
of trees, and the steps of all their orders."""


@dataclass
class LossParts:
    """Sums of loss parts over many batches; they stay on the device until `means` is asked for."""

    sums: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, Number] = field(default_factory=dict)
    weight: Number = 0.0

    def add(self, losses: Losses, *, times: float = 1.0) -> None:
        """Add the parts of one batch; `times` 0 takes down their names only."""
        self.merge(
            LossParts(
                {name: nats.detach() * times for name, (nats, _) in losses.parts.items()},
                {name: count * times for name, (_, count) in losses.parts.items()},
                losses.weight * times,
            )
        )

    def merge(self, other: "LossParts") -> None:
        """Add the parts of another sum."""
        self.weight = self.weight + other.weight
        for name, nats in other.sums.items():
            self.sums[name] = self.sums[name] + nats if name in self.sums else nats
            self.counts[name] = self.counts.get(name, 0.0) + other.counts[name]

    def means(self) -> dict[str, float]:
        """Return `loss` (all parts, a prediction) and `loss_NAME` of each part (a term of its own), nats."""
        total = sum((float(nats) for nats in self.sums.values()), 0.0)
        weight = float(self.weight)
        rows = {"loss": total / weight if weight else 0.0}
        for name, nats in self.sums.items():
            count = float(self.counts[name])
            rows[f"loss_{name}"] = float(nats) / count if count else 0.0
        return rows

    def over_all(self, processes: Processes, *more: Number) -> tuple["LossParts", list[Number]]:
        """Return the sums over all processes, of the parts and of further numbers; every process must call.

        All must know the same parts: one that had no batch takes part with `times` 0.
        """
        if processes.world == 1:
            return self, list(more)
        names = sorted(self.sums)
        numbers = [*(self.sums[name] for name in names), *(self.counts[name] for name in names), self.weight, *more]
        sums = processes.total(
            torch.stack([torch.as_tensor(x, dtype=torch.float64, device=processes.device) for x in numbers])
        ).unbind()
        counts: dict[str, Number] = dict(zip(names, sums[len(names) :], strict=False))
        weight, *rest = sums[2 * len(names) :]
        return LossParts(dict(zip(names, sums, strict=False)), counts, weight), [*rest]


@dataclass(frozen=True)
class StepReport:
    """One update.

    Args:
        step: From 1.
        epoch, position: Where in the stream its last micro-batch stands.
        parts: Loss parts of all its micro-batches, on all processes.
        grad_norm: Norm before clipping, of the mean gradient; on the device.
        rate: Learning rate.
        num_tokens: Real target tokens, of all processes.
        ids: Examples it was made of, on this process.
        asked: Sums over all processes of what each asked for (see `updates`).
        tally: Numbers of `TALLY`, of all processes; empty for given orders.
    """

    step: int
    epoch: int
    position: int
    parts: LossParts
    grad_norm: Tensor
    rate: float
    num_tokens: Number
    ids: tuple[str, ...]
    asked: tuple[Number, ...] = ()
    tally: dict[str, Number] = field(default_factory=dict)


def updates(
    system: nn.Module,
    stream: Iterable[MicroBatch],
    guarded_step: GuardedStep,
    *,
    accumulate: int,
    peak_rate: float,
    warmup_steps: int,
    decay_steps: int = 0,
    smoothing: float,
    seed: int,
    autocast: torch.autocast,
    processes: Processes | None = None,
    start_step: int = 0,
    asking: Callable[[], Sequence[float]] = tuple,
    policy: OrderPolicy | None = None,
) -> Iterator[StepReport]:
    """Yield one report an update.

    The gradient is the sum over all micro-batches of the update, divided once by the number of predictions: so
    accumulating is exact, whatever the sizes of the micro-batches. Of N processes, process r takes the micro-batches
    r, r + N, ... of every update, so that N processes accumulating A do what one does that accumulates N * A.

    Args:
        system: As `Processes.spread` returned it.
        accumulate: Micro-batches of one update on one process.
        seed: Of dropout, which depends on the micro-batch alone: not on the process, nor on where a run was resumed.
        asking: Numbers of this process that all are to know the sums of, the same way of counting everywhere; called
            once an update, before its step.
        policy: In which orders micro-batches are trained on; default: as they are loaded.
    """
    processes, policy = processes or Processes(), policy or GivenOrders()
    for step, group in enumerate(chunked(stream, accumulate * processes.world), start=start_step + 1):
        rounds = list(chunked(group, processes.world))
        parts = LossParts()
        tokens = 0
        ids: list[str] = []
        tally: dict[str, Number] = dict.fromkeys(TALLY, 0) if policy.tallied else {}
        for number, turn in enumerate(rounds, start=1):
            has_own = processes.rank < len(turn)  # where the stream ends one borrows: all take part in every exchange
            micro_batch = turn[processes.rank if has_own else 0]
            given = policy.parts(step, micro_batch) if has_own else [TrainPart(micro_batch.load())]
            for count, part in enumerate(given, start=1):
                batch = part.batch.to(processes.device)
                seed_dropout(dropout_seed(seed, micro_batch, count), processes.device)
                with accumulating(system, last=number == len(rounds) and count == len(given)):
                    with autocast:
                        losses = _losses(system, batch, smoothing, part)
                    (losses.objective if has_own else losses.objective * 0.0).backward()
                parts.add(losses, times=float(has_own))
                if has_own:
                    tokens += batch.num_tokens
                    ids += batch.ids
                    numbers = (part.num_searched, len(batch.ids), losses.num_nodes, losses.num_steps)
                    tally = {name: tally[name] + more for name, more in zip(TALLY, numbers, strict=True) if tally}
        policy.settle(processes)
        parts, (num_tokens, *rest) = parts.over_all(processes, tokens, *tally.values(), *asking())
        tally, asked = dict(zip(tally, rest, strict=False)), rest[len(tally) :]
        rate = learning_rate(step, peak=peak_rate, warmup_steps=warmup_steps, decay_steps=decay_steps)
        norm = guarded_step(step, weight=parts.weight / processes.world, rate=rate)  # the processes' mean stands there
        yield StepReport(
            step=step,
            epoch=group[-1].epoch,
            position=group[-1].position,
            parts=parts,
            grad_norm=norm,
            rate=rate,
            num_tokens=num_tokens,
            ids=tuple(ids),
            asked=tuple(asked),
            tally=tally,
        )


def _losses(system: nn.Module, batch: Batch, smoothing: float, part: TrainPart) -> Losses:
    losses: Losses = system(batch, smoothing, *(() if part.planner is None else (part.planner,)))
    return losses


def dropout_seed(seed: int, micro_batch: MicroBatch, part: int = 1) -> int:
    """Return what the random numbers of a part of a micro-batch start from."""
    place = (seed, micro_batch.epoch, micro_batch.position)
    sequence = np.random.SeedSequence(place if part == 1 else (*place, part))
    return int(sequence.generate_state(1, np.uint64)[0])


def seed_dropout(number: int, device: torch.device) -> None:
    """Start the device's random numbers anew; `torch.manual_seed` asks every kind of device, which takes longer."""
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.manual_seed(number)
