"""Our left-to-right transformer: training by the engine's own update loop, decoding by its own search."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import workload

from indigo_cli.core.vocab import NUM_SPECIALS
from indigo_cli.data.batch import Batch, MicroBatch
from indigo_cli.data.collate import collate, collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.search import Sentence, search_batch
from indigo_cli.engine.optim import GuardedStep, make_optimizer
from indigo_cli.engine.updates import updates
from indigo_cli.models import MODELS


def build(system: str = "transformer", **settings: Any) -> Any:
    """Build a model of the fixed configuration."""
    entry = MODELS[system]
    config = entry.config(
        model_dim=workload.MODEL_DIM,
        ff_dim=workload.FF_DIM,
        num_heads=workload.HEADS,
        encoder_layers=workload.LAYERS,
        decoder_layers=workload.LAYERS,
        dropout=workload.DROPOUT,
        share_embeddings=False,
        **settings,
    )
    size = workload.VOCABULARY
    return entry.build(config, source_size=size, target_size=size, ordered_source=True)


def ids(words: list[int]) -> list[int]:
    """Turn words into ids."""
    return [NUM_SPECIALS + word for word in words]


def training_batch(pairs: Sequence[tuple[list[int], list[int]]]) -> Batch:
    """Collate pairs of the workload, left to right."""
    return collate(
        [f"train:{number}" for number in range(len(pairs))],
        [ids(source) for source, _ in pairs],
        [ids(target) for _, target in pairs],
        [[list(range(len(target)))] for _, target in pairs],
    )


def tasks() -> dict[str, Callable[[], None]]:
    """Return training and both searches; each has a model of its own."""
    trained, decoded = build().train(), build().eval()
    guard = GuardedStep(make_optimizer(trained), clip_norm=workload.CLIP_NORM)
    batches = workload.training_batches()
    sources = {name: workload.source_batches(name) for name in ("greedy", "beam")}

    def train() -> None:
        stream = (MicroBatch(0, i, partial(training_batch, batch)) for i, batch in enumerate(batches))
        for _ in updates(
            trained,
            stream,
            guard,
            accumulate=1,
            peak_rate=workload.LEARNING_RATE,
            warmup_steps=50,
            smoothing=workload.SMOOTHING,
            seed=1,
            autocast=torch.autocast("cpu", enabled=False),
        ):
            pass

    def decode(name: str) -> None:
        length = workload.LENGTH
        for rows in sources[name]:
            search_batch(
                decoded,
                collate_source([ids(row) for row in rows]),
                DecodeConfig(),
                [Sentence(line, min_length=length, max_length=length) for line in range(len(rows))],
                width=workload.BEAM_SIZE if name == "beam" else 1,
                seed=1,
            )

    return {"train": train, "greedy": lambda: decode("greedy"), "beam": lambda: decode("beam")}
