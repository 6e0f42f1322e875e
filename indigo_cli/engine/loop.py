"""The loop of a training run: updates, log, validations, checkpoints, until a limit, a signal or a fault.

Several processes go through it in step: what one alone knows (a signal, its clock) goes along with the sums of an
update, and all act on the sums.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from torch import nn

from indigo_cli.core import console
from indigo_cli.engine import checkpoint as checkpoints
from indigo_cli.engine.distributed import Processes
from indigo_cli.engine.events import Events
from indigo_cli.engine.keep import Keeper
from indigo_cli.engine.limits import Limits
from indigo_cli.engine.optim import GuardedStep, make_optimizer
from indigo_cli.engine.order_policy import OrderPolicy
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.run_folder import LOG_FILE
from indigo_cli.engine.run_log import Log
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.signals import StopRequest, stop_requests
from indigo_cli.engine.spikes import Spikes, spike_line
from indigo_cli.engine.train_config import LOSS, TrainConfig
from indigo_cli.engine.train_summary import TrainSummary
from indigo_cli.engine.updates import Number, StepReport, updates
from indigo_cli.engine.validate import Validator, say_figures
from indigo_cli.engine.validations import Validations, Watcher
from indigo_cli.engine.window import Window
from indigo_cli.errors import PeerError, RunError


class Loop:
    """The state of a run in progress.

    Args:
        config: The recipe's [train].
        system: On its device, perhaps sharded.
        called: What training calls, see `Processes.spread`.
        stream: Where its micro-batches come from.
        policy: In which orders they are trained on.
        validator: None where there is nothing to validate on.
        run: Run folder; it stands and is locked.
        seed: Of dropout.
        digests: Of the vocabularies.
        events: Whether to write TensorBoard events.
    """

    def __init__(
        self,
        config: TrainConfig,
        system: nn.Module,
        called: nn.Module,
        stream: OrderedSplit,
        policy: OrderPolicy,
        validator: Validator | None,
        run: Path,
        *,
        seed: int,
        digests: list[str],
        events: bool,
        processes: Processes,
        runtime: Runtime,
    ) -> None:
        self.config, self.system, self.called, self.run_path = config, system, called, run
        self.seed, self.digests = seed, digests
        self.processes, self.runtime, self.with_events = processes, runtime, events
        self.stream, self.policy, self.validator = stream, policy, validator
        self.optimizer = make_optimizer(system)
        self.names = {id(parameter): name for name, parameter in system.named_parameters()}  # of the optimizer's own
        self.guard = GuardedStep(self.optimizer, clip_norm=config.clip_norm)
        self.limits = Limits(
            max_minutes=config.max_minutes,
            max_cpu_minutes=config.max_cpu_minutes,
            marks=config.keep_cpu_minutes,
        )
        self.keeper = Keeper(run, keep=config.keep, writes=processes.is_first)
        self.losses = Validations(LOSS, higher_is_better=False)
        self.validations = Validations(config.best_by, higher_is_better=config.higher_is_better)
        self.watchers: list[Watcher] = [self.losses, self.validations, *(validator.watchers if validator else ())]
        self.window, self.spikes = Window(), Spikes(config.spike_factor)
        self.step = self.epoch = self.skip = self.validated = 0
        self.recent_ids: dict[int, tuple[str, ...]] = {}  # of the updates that were not checked yet
        self.log: Log | None = None  # of process 0, as the events
        self.events: Events | None = None
        self.asked: Sequence[Number] = (0.0, 0.0, 0.0)  # of the update before

    def run(self, found: checkpoints.Checkpoint | None) -> TrainSummary:
        """Train to the end, from a checkpoint on if one was found; its weights are in the system already."""
        if found is not None:
            self._resume(found)
        with ExitStack() as stack:
            valid_rows = self.processes.first_does(lambda: self._open_writers(stack))
            for watcher in self.watchers:
                watcher.restore(valid_rows)
            self.validated = max((row["step"] for row in valid_rows), default=0)
            with stop_requests() as stop:
                if self._loop(stop):
                    stop.agree()
                    console.status(f"stopped at step {self.step}; resume with --resume")
                    stop.leave()
        best_loss = self.losses.best_figure()
        return TrainSummary(
            run=self.run_path,
            step=self.step,
            parameters=sum(p.numel() for p in self.system.parameters()),
            cpu_minutes=self.limits.cpu_minutes(),
            best_loss=math.inf if math.isnan(best_loss) else best_loss,
            best_by=self.config.best_by,
            best_figure=self.validations.best_figure(),
        )

    def _open_writers(self, stack: ExitStack) -> list[dict[str, Any]]:
        """Open what is written row by row; return the rows of earlier validations."""
        self.log = stack.enter_context(Log(self.run_path / LOG_FILE, last_step=self.step))
        if self.with_events:
            self.events = stack.enter_context(closing(Events(self.run_path, last_step=self.step)))
        return self.log.valid_rows

    def _resume(self, found: checkpoints.Checkpoint) -> None:
        facts, training = found.facts, found.training()
        checkpoints.restore_training_state(training, self.optimizer, dict(self.system.named_parameters()))
        # A checkpoint of an older version has none of these: the next row is about the updates from here on.
        seconds = found.seconds("window_seconds") if "window_seconds" in facts else 0.0
        self.window = Window.restored(training, seconds=seconds, device=self.processes.device)
        self.spikes.restore(training)
        self.policy.restore(training)
        self.step, self.epoch, self.skip = found.count("step"), found.count("epoch"), found.count("skip")
        self.limits.go_on(found.seconds("cpu_seconds"))
        self.keeper.took(found)
        console.status(f"resumed at step {self.step} from {found.folder.name}")

    def _loop(self, stop: StopRequest) -> bool:
        """Train until the end; return whether it ended because some process was asked to stop."""
        config = self.config
        info = ""
        if self.step and self.step % config.validate_every == 0 and self.validated != self.step:
            if self._validate(stop):  # the run was stopped before it had done so
                return True
        with console.progress("train", total=config.max_steps or None, unit="steps", start=self.step) as bar:
            for report in self._reports(stop):
                self.step, self.epoch, self.skip = report.step, report.epoch, report.position + 1
                self.window.add(report)
                self.spikes.add(report)
                self.recent_ids[report.step] = report.ids
                log_now = self.step % config.log_every == 0
                validate_now = self.step % config.validate_every == 0
                if self.processes.device.type == "cpu" or log_now or self.spikes.many:
                    self._check_gradients()
                if log_now or self.spikes.many:
                    self._report_spikes()
                if log_now:
                    row = self.window.row(report)
                    self._write(row)
                    self.window = Window()
                    info = f"loss {row['loss']:.3f}{self.limits.time_left()}"
                bar.advance(info=info)
                stopping, out_of_time, mark = self._agreed(report, stop)
                if not stopping and validate_now:
                    stopping = self._validate(stop)
                if self.step % config.save_every == 0 or mark or stopping:
                    self._save(self._marks())
                if stopping:
                    return True
                if out_of_time or self._at_last_step():
                    break
        if self.validated != self.step and self._validate(stop):
            self._save()
            return True
        self._save(self._marks())
        if self._out_of_patience():
            count = self.validations.since_better()
            console.status(f"ended early at step {self.step}: no better {config.best_by} in {count} validations")
        return False

    def _asks(self, stop: StopRequest) -> tuple[float, float, float]:
        """Return whether this process is asked to stop, and, of the first one's clock, whether the time is up and
        whether a checkpoint is due."""
        first = self.processes.is_first
        return float(bool(stop)), float(first and self.limits.out_of_time()), float(first and bool(self._marks()))

    def _agreed(self, report: StepReport, stop: StopRequest) -> tuple[bool, bool, bool]:
        """Return what `_asks` says somewhere. On a device it is what was asked an update earlier: nobody waits."""
        if self.processes.world == 1:
            asked: Sequence[Number] = self._asks(stop)
        elif self.processes.device.type == "cpu":
            asked = report.asked
        else:
            asked, self.asked = self.asked, report.asked
        stopping, out_of_time, mark = (bool(number) for number in asked)
        return stopping, out_of_time, mark

    def _marks(self) -> list[str]:
        """Return the names of CPU times that have come and that no checkpoint has yet; nothing but on process 0."""
        return self.keeper.lacks(self.limits.marks_passed())

    def _reports(self, stop: StopRequest) -> Iterator[StepReport]:
        config = self.config
        if self._at_last_step() or self.processes.first_does(self.limits.out_of_time):
            return
        stream = self.stream.stream(epoch=self.epoch, skip=self.skip, max_epochs=config.max_epochs)
        self.system.train()
        yield from updates(
            self.called,
            stream,
            self.guard,
            accumulate=config.accumulate,
            peak_rate=config.learning_rate,
            warmup_steps=config.warmup_steps,
            decay_steps=config.decay_steps,
            smoothing=config.label_smoothing,
            seed=self.seed,
            start_step=self.step,
            autocast=self.runtime.autocast(self.processes.device),
            processes=self.processes,
            asking=lambda: self._asks(stop),
            policy=self.policy,
        )

    def _at_last_step(self) -> bool:
        return 0 < self.config.max_steps <= self.step or self._out_of_patience()

    def _out_of_patience(self) -> bool:
        return 0 < self.config.patience <= self.validations.since_better()

    def _check_gradients(self) -> None:
        """End the run if the gradient of some update was not finite; waits for the device."""
        bad = self.guard.first_bad_step()
        ids: Sequence[str] = self.recent_ids.get(bad, ())
        self.recent_ids.clear()
        if not bad:
            return
        ids = self.processes.lists(ids)
        if not self.processes.is_first:
            raise PeerError("a gradient is not finite")
        shown = " ".join(ids[:20]) + (f" and {len(ids) - 20} more" if len(ids) > 20 else "")
        fix = "look at these examples, or start another run with a lower train.learning_rate"
        raise RunError(
            f"the gradient of update {bad} is not finite; the weights were left as they were. Batch: {shown}",
            where=str(self.run_path),
            fix=f"{self.keeper.last_good()}; {fix}",
        )

    def _report_spikes(self) -> None:
        """Log the spikes of the updates so far. It comes before any other row, so their places are always the same."""
        for row in self.spikes.check(self.processes.lists):
            self._write(row)
            console.note(spike_line(row))

    def _write(self, row: dict[str, Any]) -> None:
        """Report a row to whoever reads it."""
        if self.log is not None:
            self.log.write(row)
        if self.events is not None:
            self.events.write(row)

    def _validate(self, stop: StopRequest) -> bool:
        """Log the figures of this step and save it if it is among the best; return whether to stop instead."""
        if self.validator is None:
            return False
        self._check_gradients()
        self._report_spikes()
        figures = self.validator.figures(stop)
        if figures is None:
            return True
        for watcher in self.watchers:
            watcher.add(self.step, figures)
        best = self._best()
        if self.step in best:  # saved before the row: a run that is killed in between validates again
            self._save(["best"] if self.step == best[0] else [])
        cpu_minutes = self.limits.cpu_minutes()
        self._write({"step": self.step, "epoch": self.epoch, "split": "valid", **figures, "cpu_minutes": cpu_minutes})
        self.validated = self.step
        say_figures(self.step, figures)
        return False

    def _best(self) -> list[int]:
        """Return the steps to keep for their figures, best first."""
        return self.validations.ranked()[: self.config.keep_best]

    def _save(self, names: Sequence[str] = ()) -> None:
        """Save this step unless it stands already, and give it more names."""
        self._check_gradients()
        self._report_spikes()
        if self.keeper.saved_step != self.step:
            if self.log is not None:
                self.log.sync()  # a checkpoint never knows more than the log
            training = self.processes.gathered(checkpoints.training_state(self.optimizer, self.names))
            self.keeper.save(
                weights=self.processes.gathered(self.system.state_dict()),
                training={**training, **self.window.state(), **self.spikes.state(), **self.policy.state()},
                facts={
                    "step": self.step,
                    "epoch": self.epoch,
                    "skip": self.skip,
                    "cpu_seconds": 60 * self.limits.cpu_minutes(),
                    "window_seconds": self.window.seconds(),
                    "vocabularies": self.digests,
                    "micro_batches": self.processes.world * self.config.accumulate,
                },
            )
        self.keeper.tidy(names, best=self._best())
