"""A training run: updates, validation, checkpoints, log; stopped, resumed and ended cleanly."""

import math
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from indigo_cli.core import console
from indigo_cli.core.settings import Count, NonNegativeFloat, NonNegativeInt, PositiveFloat, Rate
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import sha256_file
from indigo_cli.data.orders_file import read_order_rows
from indigo_cli.engine import checkpoint as checkpoints
from indigo_cli.engine.assign import OrderConfig
from indigo_cli.engine.optim import GuardedStep, make_optimizer
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.prepare import default_corpus_folder
from indigo_cli.engine.run_folder import FACTS_FILE, LOG_FILE, RECIPE_FILE, Log, RunFolder, vocabulary_digests
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.signals import StopRequest, stop_requests
from indigo_cli.engine.updates import LossParts, StepReport, updates
from indigo_cli.errors import CheckpointError, RunError, UsageError
from indigo_cli.models import MODELS

if TYPE_CHECKING:
    from indigo_cli.recipe import Recipe

FREE_ON_RESUME = (
    "name",
    "decode.",
    "evaluate.",
    "train.max_",
    "train.log_every",
    "train.validate_every",
    "train.save_every",
    "train.keep",
)
"""Keys that may change when a run is resumed: they do not touch what an update computes."""


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


def default_run_folder(recipe: "Recipe") -> Path:
    """Return `runs/NAME/ORDER` under the working directory."""
    return Path("runs") / recipe.name / recipe.order.name


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
    corpus_folder = corpus_folder or default_corpus_folder(recipe)
    if not (corpus_folder / "manifest.json").exists():
        raise UsageError(
            "there is no corpus folder here",
            where=str(corpus_folder),
            fix="run `indigo preprocess RECIPE` first, or give --corpus",
        )
    corpus = Corpus.open(corpus_folder)
    order_of = _orders_by_split(recipe, corpus, orders)
    run_path = output or default_run_folder(recipe)
    facts: dict[str, Any] = {
        "corpus": str(corpus_folder.resolve()),
        "corpus_digest": corpus.digest,
        "task": recipe.data.task,
        "orders": {name: _orders_fact(order) for name, order in order_of.items()},
    }
    _check_run_folder(run_path, recipe, facts, resume=resume)
    torch.manual_seed(recipe.seed)
    system = build_system(recipe, corpus.codecs, ordered_source=not corpus.codecs.source_is_bag).to(device)
    if init is not None:
        _load_init(system, init, corpus)
    run = RunFolder.create(run_path, recipe_text=_recipe_text(recipe), codecs=corpus.codecs, facts=facts)
    return _Fit(recipe, corpus, order_of, system, run, device=device, runtime=runtime).run(resume=resume)


def build_system(recipe: "Recipe", codecs: Any, *, ordered_source: bool) -> nn.Module:
    """Build the recipe's model for the vocabularies of some codecs."""
    if recipe.model.share_embeddings and not codecs.joint:
        raise UsageError(
            "the two sides have their own vocabularies, so embeddings cannot be shared",
            where="model.share_embeddings",
            fix="set model.share_embeddings = false, or preprocess with joint = true",
        )
    system: nn.Module = MODELS[recipe.system].build(
        recipe.model,
        source_size=len(codecs.source.vocabulary),
        target_size=len(codecs.target.vocabulary),
        ordered_source=ordered_source,
    )
    return system


def _recipe_text(recipe: "Recipe") -> str:
    from indigo_cli.recipe import dump_recipe

    return dump_recipe(recipe)


def _check_run_folder(path: Path, recipe: "Recipe", facts: dict[str, Any], *, resume: bool) -> None:
    """Refuse to write over a run, or to resume one under other settings or with other data."""
    recipe_file = path / RECIPE_FILE
    if not recipe_file.exists():
        if path.exists() and not all(entry.name.endswith(".partial") for entry in path.iterdir()):
            raise UsageError("the folder is not empty and holds no run", where=str(path), fix="choose another -o")
        return
    if not resume:
        raise UsageError("a run stands here already", where=str(path), fix="go on with --resume, or choose another -o")
    changed = differing_keys(recipe_file.read_text("utf-8"), _recipe_text(recipe))
    changed = [line for line in changed if not line.startswith(FREE_ON_RESUME)]
    if changed:
        raise UsageError(
            "the run was started with other settings: " + "; ".join(changed),
            where=str(recipe_file),
            fix="resume with the settings it has, or start another run with -o",
        )
    before = RunFolder.open(path).facts if (path / FACTS_FILE).exists() else {}
    for key in ("corpus_digest", "orders"):
        if before.get(key, facts[key]) != facts[key]:
            raise UsageError(
                f"the run was started with another {key}: {before[key]} -> {facts[key]}",
                where=str(path / FACTS_FILE),
                fix="give the --corpus and --orders it had, or start another run with -o",
            )


def differing_keys(old: str, new: str) -> list[str]:
    """Return `section.key: old -> new` for every key that differs between two resolved recipes."""
    before, after = _flat_keys(tomllib.loads(old)), _flat_keys(tomllib.loads(new))
    return [
        f"{key}: {before.get(key, 'not set')} -> {after.get(key, 'not set')}"
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]


def _flat_keys(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat_keys(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def _orders_by_split(recipe: "Recipe", corpus: Corpus, files: Sequence[Path]) -> dict[str, OrderConfig]:
    """Decide how the targets of train and valid are ordered."""
    allowed = MODELS[recipe.system].orders
    names = [name for name in ("train", "valid") if name in corpus.splits]
    if "train" not in names or not len(corpus.split("train")):
        raise UsageError("the corpus has no training pairs", where=str(corpus.folder), fix="add data.splits.train")
    if not files:
        if allowed is not None and recipe.order.name not in allowed:
            raise UsageError(
                f"system {recipe.system!r} knows the order {' '.join(sorted(allowed))} only, not {recipe.order.name}",
                where="order.name",
                fix='model.system = "indigo" learns any order',
            )
        return dict.fromkeys(names, recipe.order)
    if allowed is not None:
        raise UsageError(f"system {recipe.system!r} cannot follow an orders file", where="--orders")
    found: dict[str, OrderConfig] = {}
    for path in files:
        split = str(read_order_rows(path)[0].get("split", ""))
        if split in found:
            raise UsageError(f"two orders files for split {split!r}", where=str(path), fix="give one a split")
        found[split] = OrderConfig(name="file", file=str(path))
    if "train" not in found:
        raise UsageError("no orders file is for split `train`", where="--orders", fix="add one")
    for name in names:
        if name not in found:
            console.note(f"split {name} has no orders file: it is validated in l2r")
    return {name: found.get(name, OrderConfig()) for name in names}


def _orders_fact(order: OrderConfig) -> str:
    """Return what tells whether a resumed run follows the same orders."""
    from_file = order.name == "file" and Path(order.file).is_file()
    return f"file {sha256_file(order.file)}" if from_file else order.name


def _load_init(system: nn.Module, init: Path, corpus: Corpus) -> None:
    """Start from the weights of another run of the same vocabularies and sizes."""
    found = checkpoints.open_checkpoint(init)
    RunFolder.open(init).check_checkpoint(found.facts, corpus.codecs)
    try:
        system.load_state_dict(found.weights())
    except RuntimeError as error:
        raise CheckpointError(
            "the weights do not fit this model: " + " ".join(str(error).split())[:300],
            where=str(found.folder),
            fix="give --init a run of the same system and sizes",
        ) from error


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
        self.best_loss = math.inf if facts["best_loss"] is None else facts["best_loss"]
        self.cpu_before = facts["cpu_seconds"]
        console.status(f"resumed at step {self.step} from {found.folder.name}")

    def _loop(self, log: Log, stop: StopRequest) -> None:
        config = self.config
        window, recent_ids = _Window(), dict[int, tuple[str, ...]]()
        validated = log.validated
        info = ""
        if self.step and self.step % config.validate_every == 0 and validated != self.step:
            self._validate(log, stop)  # the run was stopped before it had done so
            validated = self.step
        with console.progress("train", total=config.max_steps or None, unit="steps", start=self.step) as bar:
            for report in self._reports():
                self.step, self.epoch, self.skip = report.step, report.epoch, report.position + 1
                window.add(report)
                recent_ids[report.step] = report.ids
                on_cpu = self.device.type == "cpu"
                log_now = self.step % config.log_every == 0
                validate_now = self.step % config.validate_every == 0
                save_now = self.step % config.save_every == 0
                if on_cpu or log_now or validate_now or save_now or stop:
                    self._check_gradients(recent_ids)
                    recent_ids.clear()
                if log_now:
                    row = window.row(report)
                    log.write(row)
                    info = f"loss {row['loss']:.3f}"
                    if config.max_cpu_minutes:
                        info += f", {self.cpu_minutes():.0f} of {config.max_cpu_minutes:g} CPU minutes"
                    window = _Window()
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
        self._check_gradients(recent_ids)
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

    def _passed_marks(self) -> list[str]:
        """Names of CPU-time checkpoints that are due and do not stand yet."""
        spent = self.cpu_minutes()
        due = [f"cpu-{minutes:g}m" for minutes in self.config.keep_cpu_minutes if minutes <= spent]
        return [name for name in due if not (self.checkpoints / name).is_symlink()]

    def _check_gradients(self, recent_ids: dict[int, tuple[str, ...]]) -> None:
        bad = self.guard.first_bad_step()
        if not bad:
            return
        ids = recent_ids.get(bad, ())
        shown = " ".join(ids[:20]) + (f" and {len(ids) - 20} more" if len(ids) > 20 else "")
        last = self.checkpoints / "last"
        good = f"the last good checkpoint is {last.resolve().name}" if last.exists() else "no checkpoint was saved yet"
        raise RunError(
            f"the gradient of update {bad} is not finite; the weights were left as they were. Batch: {shown}",
            where=str(self.run_folder.path),
            fix=f"{good}: look at these examples; --init RUN -o NEW with a lower train.learning_rate starts from it",
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
                    "best_loss": self.best_loss if math.isfinite(self.best_loss) else None,
                    "vocabularies": self.digests,
                },
            )
            self.saved_step = self.step
        for name in names:
            checkpoints.link(self.checkpoints, name, target)
        checkpoints.prune(self.checkpoints, keep=self.config.keep)


@dataclass
class _Window:
    """What has happened since the last row of the log."""

    parts: LossParts = field(default_factory=LossParts)
    tokens: int = 0
    began: float = field(default_factory=time.monotonic)

    def add(self, report: StepReport) -> None:
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


def with_order(recipe: "Recipe", name: str) -> "Recipe":
    """Return the recipe with another order."""
    return replace(recipe, order=replace(recipe.order, name=name))
