"""The recipe's [train] section."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from indigo_cli.core.settings import (
    Count,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    Rate,
    did_you_mean,
)
from indigo_cli.engine.search_config import SEARCHED
from indigo_cli.metrics import METRICS
from indigo_cli.models import MODELS

LOSS = "loss"
LINEAR = "linear"


@dataclass(frozen=True)
class TrainConfig:
    """The recipe's [train] section. A limit of 0 is none; whichever limit comes first ends the run.

    Args:
        batch_tokens: Target tokens of one micro-batch, padding counted; a longer sentence is a batch of its own.
        accumulate: Micro-batches of one update on one process.
        sharding: `full` gives each of several processes a part of every layer, its gradients and its moments (FSDP2),
            for models too large for one device; `none` gives each the whole model (DDP).
        max_cpu_minutes: CPU time of this process (of several: the first), resumed parts added up.
        patience: Validations in a row without a better figure than any before that end the run; 0 = never.
        learning_rate: Its highest value, reached after `warmup_steps`.
        schedule: How it falls from there: with the inverse square root of the updates, or in a line that comes to 0
            behind update `max_steps`, which short runs end better with.
        label_smoothing: Of the word head, over the allowed words.
        clip_norm: Largest norm of the mean gradient; 0 = no clipping.
        log_every, validate_every, save_every: In updates.
        validate_decode: At each validation so many sentences of `valid` are decoded, too, and scored; 0 = none.
        validate_beam: Beam of that; 1 = greedy. Everything else is as [decode] says.
        best_by: Figure of a validation that `best`, `keep_best` and `patience` go by: `loss` or a metric.
        keep: How many of the newest step-numbered checkpoints to keep besides the best and named ones.
        keep_best: How many of the checkpoints with the best figures to keep.
        keep_cpu_minutes: At these CPU times a checkpoint is kept under the name `cpu-Nm`.
        spike_factor: An update is reported whose loss or gradient norm is so many median deviations above the median
            of the updates before it (`engine/spikes.py`); 0 = never.
        tensorboard: Whether to write events for TensorBoard; `auto` = where it is installed.
        bpe_dropout: Share of merges left out as each word is split anew for each visit (Provilkov et al. 2020; see
            `core/bpe_dropout.py`), in training only, on both sides; 0 = the stored pieces. Rule orders are those of the
            new pieces; with syn or an orders file the new pieces take the word's place, from left to right, and a word
            keeps its pieces where the order does not have them so. It keeps them too if the vocabulary lacks a new one.
            Micro-batches are cut by the stored lengths: at 0.1 they hold a quarter more tokens than `batch_tokens`.
        given_rate: Share of target words given as canvas in training: they come first, from left to right, and are not
            learnt. The share of a visit is drawn evenly from 0 to twice this (above 0.5, from 2 given_rate - 1 to 1),
            and each word, pieces together, is given with that chance. For `--canvas`; 0 = never.
    """

    batch_tokens: Count = 4096
    accumulate: Count = 1
    sharding: Literal["none", "full"] = "none"
    max_steps: NonNegativeInt = 20000
    max_epochs: NonNegativeInt = 0
    max_minutes: NonNegativeFloat = 0.0
    max_cpu_minutes: NonNegativeFloat = 0.0
    patience: NonNegativeInt = 0
    learning_rate: PositiveFloat = 5e-4
    warmup_steps: NonNegativeInt = 4000
    schedule: Literal["inverse_sqrt", "linear"] = "inverse_sqrt"
    label_smoothing: Rate = 0.1
    clip_norm: NonNegativeFloat = 1.0
    log_every: Count = 50
    validate_every: Count = 500
    validate_decode: NonNegativeInt = 0
    validate_beam: Count = 1
    best_by: str = LOSS
    save_every: Count = 500
    keep: Count = 3
    keep_best: Count = 1
    keep_cpu_minutes: list[PositiveFloat] = field(default_factory=list)
    spike_factor: NonNegativeFloat = 10.0
    tensorboard: Literal["auto", "on", "off"] = "auto"
    bpe_dropout: Rate = 0.0
    given_rate: Rate = 0.0

    def __post_init__(self) -> None:
        if not (self.max_steps or self.max_epochs or self.max_minutes or self.max_cpu_minutes):
            raise ValueError("some limit is needed", "set max_steps, max_epochs, max_minutes or max_cpu_minutes")
        if self.schedule == LINEAR and not self.max_steps:
            raise ValueError(
                'schedule = "linear" ends at max_steps, which has no limit', "set max_steps, or inverse_sqrt"
            )
        known = (LOSS, *METRICS)
        if self.best_by not in known:
            hint = did_you_mean(self.best_by, known)
            raise ValueError(f"best_by: there is no {self.best_by!r}", f"{hint} available: {', '.join(known)}".strip())
        if self.best_by != LOSS and not self.validate_decode:
            raise ValueError(f'best_by = "{self.best_by}" needs sentences to score', "set validate_decode, e.g. to 200")
        if self.sharding == "full" and self.validate_decode:
            raise ValueError(
                "validate_decode needs the whole model on each process", "set sharding to none, or it to 0"
            )

    @property
    def decay_steps(self) -> int:
        """Return the updates of the line that the learning rate falls in; 0 if it does not."""
        return self.max_steps if self.schedule == LINEAR else 0

    @property
    def free_on_resume(self) -> tuple[str, ...]:
        """Return the keys of this section that may change on resume with this schedule alone."""
        return () if self.decay_steps else ("train.max_steps",)

    @property
    def higher_is_better(self) -> bool:
        """Tell which way `best_by` points."""
        return self.best_by != LOSS and METRICS[self.best_by](tokenize="none").higher_is_better


def given_faults(system: str, order: object) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with `given_rate` above 0 for a system and the name of an order, and how to mend it."""
    other, name = 'set it to 0, or model.system = "indigo"', f'model.system = "{system}"'
    if MODELS[system].orders is not None:
        yield f"{name} only appends: nothing can come between words that are given", other
    elif MODELS[system].parallel:
        yield (
            f"{name} learns a target in one pass over its history, in which given words have no round; positions = "
            '"absolute" learns from random canvases as it is',
            other,
        )
    elif order == SEARCHED:
        what = f'given words do not go with order.name = "{SEARCHED}": the order of all words is searched'
        yield what, "set it to 0, or name the order that comes behind them"
