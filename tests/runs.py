"""What tests read off run folders: logs without clocks, states, names of files."""

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from indigo_cli.engine.checkpoint import open_checkpoint, save_checkpoint

CLOCKS = {"tokens_per_second", "cpu_minutes"}


def log_of(run: Path) -> list[dict[str, Any]]:
    """The rows of a log without what a clock says."""
    return [without_clocks(json.loads(line)) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]


def without_clocks(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in CLOCKS}


def training_rows(run: Path) -> list[dict[str, Any]]:
    return [row for row in log_of(run) if "split" not in row]


def valid_rows(run: Path) -> dict[int, dict[str, Any]]:
    return {row["step"]: row for row in log_of(run) if row.get("split") == "valid"}


def state_of(run: Path, name: str = "last") -> dict[str, Tensor]:
    """Everything that a run ends with: weights, moments, random state."""
    found = open_checkpoint(run, name)
    return {**found.weights(), **{f"training.{key}": value for key, value in found.training().items()}}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def names_in(run: Path) -> dict[str, str]:
    """What stands in the folder of checkpoints, and where links lead."""
    return {
        path.name: os.readlink(path) if path.is_symlink() else "" for path in sorted((run / "checkpoints").iterdir())
    }


def multiply_weights(run: Path, factor: float) -> None:
    """Replace a checkpoint by one with other weights, as a training run would have saved it."""
    found = open_checkpoint(run)
    weights = {name: factor * tensor for name, tensor in found.weights().items()}
    facts = {key: found.facts[key] for key in ("step", "vocabularies")}
    save_checkpoint(run / "checkpoints", weights=weights, training={}, facts=facts)
