"""Models with random weights, for benchmarks of steps whose time does not depend on what was learnt."""

from collections.abc import Callable
from typing import Any

import torch

from indigo_cli.data.batch import Batch
from indigo_cli.engine.optim import GuardedStep, make_optimizer
from indigo_cli.models import MODELS


def build(system: str, *, model_dim: int, layers: int, heads: int, vocabulary: int, **settings: Any) -> Any:
    """Build a system: so many layers on both sides, the inner dimension four times the model's."""
    torch.manual_seed(0)
    entry = MODELS[system]
    config = entry.config(
        model_dim=model_dim,
        ff_dim=4 * model_dim,
        num_heads=heads,
        encoder_layers=layers,
        decoder_layers=layers,
        dropout=0.1,
        **settings,
    )
    return entry.build(config, source_size=vocabulary, target_size=vocabulary, ordered_source=True)


def update(system: Any, batch: Batch) -> Callable[[], None]:
    """Return an update on a batch: forward, backward, clipping, Adam."""
    guard = GuardedStep(make_optimizer(system), clip_norm=1.0)

    def step() -> None:
        losses = system(batch, 0.1)
        losses.objective.backward()
        guard(1, weight=losses.weight, rate=1e-4)

    return step
