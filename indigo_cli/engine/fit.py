"""A training run: updates, validation, checkpoints, log; stopped, resumed and ended cleanly."""

import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from indigo_cli.core import console
from indigo_cli.core.settings import Count, NonNegativeFloat, NonNegativeInt, PositiveFloat, Rate
from indigo_cli.data.corpus import Corpus
from indigo_cli.engine import checkpoint as checkpoints
from indigo_cli.engine.assign import OrderConfig
from indigo_cli.engine.build import build_system
from indigo_cli.engine.optim import GuardedStep, make_optimizer
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.prepare import default_corpus_folder
from indigo_cli.engine.run_folder import LOG_FILE, Log, RunFolder, lock_folder, vocabulary_digests
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.signals import StopRequest, stop_requests
from indigo_cli.engine.start import check_corpus, check_start, init_fact, load_init
from indigo_cli.engine.training_orders import order_digest, orders_of_files, orders_of_recipe, training_splits
from indigo_cli.engine.updates import LossParts, StepReport, Window, updates
from indigo_cli.errors import CheckpointError, RunError, UsageError

if TYPE_CHECKING:
    from indigo_cli.recipe import Recipe


@dataclass(frozen=True)
class TrainConfig:
    """The recipe's [train] section. A limit of 0 is none; whichever limit comes first ends the run.

    Args:
        batch_tokens: Target tokens of one micro-batch, padding counted; a longer sentence is a batch of its own.
        accumulate: Micro-batches of one update.
        max_cpu_minutes: CPU time of this process, resumed parts added up.
        learning_rate: Its highest value, reached after `warmup_steps`, then falling with the inverse square root.
        label_smoothing: Of the word head, over the allowed words.
        clip_norm: Largest norm of the mean gradient; 0 = no clipping.
        log_every, validate_every, save_every: In updates.
        keep: How many step-numbered checkpoints to keep besides named ones.
        keep_cpu_minutes: At these CPU times a checkpoint is kept under the name `cpu-Nm`.
        given_rate: Share of target words given as canvas in training.
    """

    batch_tokens: Count = 4096
    accumulate: Count = 1
    max_steps: NonNegativeInt = 20000
    max_epochs: NonNegativeInt = 0
    max_minutes: NonNegativeFloat = 0.0
    max_cpu_minutes: NonNegativeFloat = 0.0
    learning_rate: PositiveFloat = 5e-4
    warmup_steps: NonNegativeInt = 4000
    label_smoothing: Rate = 0.1
    clip_norm: NonNegativeFloat = 1.0
    log_every: Count = 50
    validate_every: Count = 500
    save_every: Count = 500
    keep: Count = 3
    keep_cpu_minutes: list[PositiveFloat] = field(default_factory=list)
    given_rate: Rate = 0.0

    def __post_init__(self) -> None:
        if not (self.max_steps or self.max_epochs or self.max_minutes or self.max_cpu_minutes):
            raise ValueError("some limit is needed: max_steps, max_epochs, max_minutes or max_cpu_minutes")


@dataclass(frozen=True)
class TrainSummary:
    """What a run came to."""

    run: Path
    step: int
    parameters: int
    cpu_minutes: float
    best_loss: float

    def text(self) -> str:
        """One line for people."""
        best = f", best validation loss {self.best_loss:.4f} nats a token" if math.isfinite(self.best_loss) else ""
        return f"{self.run}: {self.step:,} updates, {self.cpu_minutes:.1f} CPU minutes{best}"


def train(
    recipe: "Recipe",
    *,
    output: Path | None = None,
    corpus_folder: Path | None = None,
    orders: Sequence[Path] = (),
    init: Path | None = None,
    resume: bool = False,
    runtime: Runtime | None = None,
) -> TrainSummary:
    """Train a recipe's model and return a summary.

    Args:
        recipe: Checked settings.
        output: Run folder; default `runs/NAME/ORDER`.
        corpus_folder: Default: where `indigo preprocess` puts it.
        orders: Orders files, at most one a split.
        init: A run whose best weights to start from.
        resume: Go on where the newest whole checkpoint stands.
        runtime: Device, precision, threads.

    Raises:
        UsageError: no corpus, a run folder in the way, settings that changed since the run to resume.
        RunError: a gradient was not finite.
    """
    runtime = runtime or Runtime()
    device = runtime.start()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError("this version trains on one process", where="WORLD_SIZE", fix="start it without torchrun")
    corpus_folder = corpus_folder or default_corpus_folder(recipe)
    if not (corpus_folder / "manifest.json").exists():
        raise UsageError(
            "there is no corpus folder here",
            where=str(corpus_folder),
            fix="run `indigo preprocess RECIPE` first, or give --corpus",
        )
    corpus = Corpus.open(corpus_folder)
    check_corpus(recipe, corpus)
    splits = training_splits(corpus)
    if orders:
        order_of, order_name = orders_of_files(recipe.system, orders, splits)
        recipe = replace(recipe, order=order_of["train"])
    else:
        order_of, order_name = orders_of_recipe(recipe, splits), recipe.order.name
    run_path = output or Path("runs") / recipe.name / order_name
    facts: dict[str, Any] = {
        "corpus": str(corpus_folder.resolve()),
        "corpus_digest": corpus.digest,
        "task": recipe.data.task,
        "orders": {name: order_digest(name, order) for name, order in order_of.items()},
        "precision": runtime.precision,
        "init": init_fact(init, run_path, resume=resume),
    }
    recipe_text = _recipe_text(recipe)
    check_start(run_path, recipe_text, facts, resume=resume)
    torch.manual_seed(recipe.seed)
    system = build_system(recipe, corpus.codecs).to(device)
    if facts["init"] and checkpoints.newest_whole_checkpoint(run_path)[0] is None:  # else it goes on from there
        load_init(system, Path(facts["init"]["run"]), corpus)
    with lock_folder(run_path):
        run = RunFolder.create(run_path, recipe_text=recipe_text, codecs=corpus.codecs, facts=facts)
        return _Fit(recipe, corpus, order_of, system, run, device=device, runtime=runtime).run(resume=resume)


def _recipe_text(recipe: "Recipe") -> str:
    from indigo_cli.recipe import dump_recipe

    return dump_recipe(recipe)


class _Fit:
    """The state of a run in progress."""

    def __init__(
        self,
        recipe: "Recipe",
        corpus: Corpus,
        order_of: dict[str, OrderConfig],
        system: nn.Module,
        run: RunFolder,
        *,
        device: torch.device,
        runtime: Runtime,
    ) -> None:
        self.config: TrainConfig = recipe.train
        self.system, self.run_folder, self.device, self.runtime = system, run, device, runtime
        self.digests = vocabulary_digests(corpus.codecs)
        self.splits = {
            name: OrderedSplit(corpus, name, order, seed=recipe.seed, batch_tokens=recipe.train.batch_tokens)
            for name, order in order_of.items()
        }
        self.optimizer = make_optimizer(system)
        self.guard = GuardedStep(self.optimizer, clip_norm=self.config.clip_norm)
        self.step = self.epoch = self.skip = 0
        self.best_loss = math.inf
        self.cpu_before = 0.0
        self.cpu_start, self.wall_start = time.process_time(), time.monotonic()
        self.saved_step = -1
        self.recent_ids: dict[int, tuple[str, ...]] = {}  # of the updates that were not checked yet

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.run_folder.path / "checkpoints"

    def cpu_minutes(self) -> float:
        """CPU time of the run so far, earlier parts included."""
        return (self.cpu_before + time.process_time() - self.cpu_start) / 60

    def run(self, *, resume: bool) -> TrainSummary:
        """Train until a limit, a signal or a fault."""
        if resume:
            self._resume()
        log = Log(self.run_folder.path / LOG_FILE, last_step=self.step)
        self.best_loss = log.best_loss
        try:
            with stop_requests() as stop:
                self._loop(log, stop)
                if stop:
                    console.status(f"stopped at step {self.step}; resume with --resume")
                    stop.leave()
        finally:
            log.close()
        parameters = sum(p.numel() for p in self.system.parameters())
        return TrainSummary(self.run_folder.path, self.step, parameters, self.cpu_minutes(), self.best_loss)

    def _resume(self) -> None:
        found, complaints = checkpoints.newest_whole_checkpoint(self.run_folder.path)
        for complaint in complaints:
            console.warn(complaint)
        if found is None:
            console.note("nothing was saved yet: starting at the beginning")
            return
        if found.facts.get("vocabularies") != self.digests:
            raise CheckpointError("the vocabulary does not belong to this checkpoint", where=str(found.folder))
        self.system.load_state_dict(found.weights())
        checkpoints.restore_training_state(found.training(), self.optimizer, dict(self.system.named_parameters()))
        checkpoints.link(self.checkpoints, "last", found.folder.name)  # a kill may have come before it
        facts = found.facts
        self.step = self.saved_step = facts["step"]
        self.epoch, self.skip = facts["epoch"], facts["skip"]
        self.cpu_before = facts["cpu_seconds"]
        console.status(f"resumed at step {self.step} from {found.folder.name}")

    def _loop(self, log: Log, stop: StopRequest) -> None:
        config = self.config
        window = Window()
        validated = log.validated
        info = ""
        if self.step and self.step % config.validate_every == 0 and validated != self.step:
            self._validate(log, stop)  # the run was stopped before it had done so
            validated = self.step
        with console.progress("train", total=config.max_steps or None, unit="steps", start=self.step) as bar:
            for report in self._reports():
                self.step, self.epoch, self.skip = report.step, report.epoch, report.position + 1
                window.add(report)
                self.recent_ids[report.step] = report.ids
                on_cpu = self.device.type == "cpu"
                log_now = self.step % config.log_every == 0
                validate_now = self.step % config.validate_every == 0
                save_now = self.step % config.save_every == 0
                if on_cpu or log_now or validate_now:
                    self._check_gradients()
                if log_now:
                    row = window.row(report)
                    log.write(row)
                    info = f"loss {row['loss']:.3f}"
                    info += self._time_left()
                    window = Window()
                bar.advance(info=info)
                if stop:
                    self._save()
                    return
                if validate_now:
                    self._validate(log, stop)
                    validated = self.step
                passed = self._passed_marks()
                if save_now or passed or stop:
                    self._save(passed)
                if stop:
                    return
                if self._limit_reached():
                    break
        self._check_gradients()
        if validated != self.step:
            self._validate(log, stop)
        self._save(self._passed_marks())

    def _reports(self) -> Iterator[StepReport]:
        config = self.config
        if self._limit_reached():
            return
        stream = self.splits["train"].stream(epoch=self.epoch, skip=self.skip, max_epochs=config.max_epochs)
        self.system.train()
        yield from updates(
            self.system,
            ((epoch, position, batch.to(self.device)) for epoch, position, batch in stream),
            self.guard,
            accumulate=config.accumulate,
            peak_rate=config.learning_rate,
            warmup_steps=config.warmup_steps,
            smoothing=config.label_smoothing,
            start_step=self.step,
            autocast=self.runtime.autocast(self.device),
        )

    def _limit_reached(self) -> bool:
        config = self.config
        return bool(
            (config.max_steps and self.step >= config.max_steps)
            or (config.max_minutes and time.monotonic() - self.wall_start >= 60 * config.max_minutes)
            or (config.max_cpu_minutes and self.cpu_minutes() >= config.max_cpu_minutes)
        )

    def _time_left(self) -> str:
        """Return what the steps cannot tell: how far the CPU time allowed is spent, and when it will be."""
        if not self.config.max_cpu_minutes:
            return ""
        spent = self.cpu_minutes()
        rate = (time.monotonic() - self.wall_start) / max(time.process_time() - self.cpu_start, 1e-9)
        left = console.clock(60 * rate * max(self.config.max_cpu_minutes - spent, 0.0))
        return f", {spent:.0f} of {self.config.max_cpu_minutes:g} CPU minutes, {left} left"

    def _passed_marks(self) -> list[str]:
        """Names of CPU-time checkpoints that are due and do not stand yet."""
        spent = self.cpu_minutes()
        due = [f"cpu-{minutes:g}m" for minutes in self.config.keep_cpu_minutes if minutes <= spent]
        return [name for name in due if not (self.checkpoints / name).is_symlink()]

    def _check_gradients(self) -> None:
        """End the run if the gradient of some update was not finite; waits for the device."""
        bad = self.guard.first_bad_step()
        ids = self.recent_ids.get(bad, ())
        self.recent_ids.clear()
        if not bad:
            return
        shown = " ".join(ids[:20]) + (f" and {len(ids) - 20} more" if len(ids) > 20 else "")
        last = self.checkpoints / "last"
        good = f"the last good checkpoint is {last.resolve().name}" if last.exists() else "no checkpoint was saved yet"
        raise RunError(
            f"the gradient of update {bad} is not finite; the weights were left as they were. Batch: {shown}",
            where=str(self.run_folder.path),
            fix=f"{good}; look at these examples, or start another run with a lower train.learning_rate",
        )

    def _validate(self, log: Log, stop: StopRequest) -> None:
        """Log losses on `valid`, without smoothing or dropout, and remember the best step."""
        if "valid" not in self.splits or not len(self.splits["valid"]):
            return
        parts = LossParts()
        self.system.eval()
        with torch.no_grad(), self.runtime.autocast(self.device):
            for batch in self.splits["valid"].once():
                parts.add(self.system(batch.to(self.device)))
                if stop:
                    break
        self.system.train()
        if stop:
            return
        means = parts.means()
        if means["loss"] <= self.best_loss:  # equal where a run that was killed right here does it again
            self.best_loss = means["loss"]
            self._save(("best",))
        log.write(
            {"step": self.step, "epoch": self.epoch, "split": "valid", **means, "cpu_minutes": self.cpu_minutes()}
        )
        console.detail(f"step {self.step}: validation loss {means['loss']:.4f}")

    def _save(self, names: Sequence[str] = ()) -> None:
        """Save this step unless it stands already, and give it more names."""
        target = checkpoints.step_name(self.step)
        self._check_gradients()
        if self.saved_step != self.step:
            optimizer_names = {id(p): name for name, p in self.system.named_parameters()}
            checkpoints.save_checkpoint(
                self.checkpoints,
                weights=self.system.state_dict(),
                training=checkpoints.training_state(self.optimizer, optimizer_names),
                facts={
                    "step": self.step,
                    "epoch": self.epoch,
                    "skip": self.skip,
                    "cpu_seconds": 60 * self.cpu_minutes(),
                    "vocabularies": self.digests,
                },
            )
            self.saved_step = self.step
        for name in names:
            checkpoints.link(self.checkpoints, name, target)
        checkpoints.prune(self.checkpoints, keep=self.config.keep)
