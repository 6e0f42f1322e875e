"""Checkpoints: a folder each, weights in safetensors, facts in JSON; nothing in them can run code.

    checkpoints/step-00000500/model.safetensors     weights
                              checkpoint.json       format, version, step, vocabulary digests, figures
                              training.safetensors  optimizer moments and random states, for --resume
    checkpoints/last, best, cpu-30m                 symbolic links to one of them
    checkpoints/average-last-3                      the mean of some, without training.safetensors

A folder is renamed into place when it is complete, and a link is replaced by renaming: a kill at any instant leaves
whole checkpoints only.
"""

import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from indigo_cli.core.format import check_header, check_seal, read_object, sealed
from indigo_cli.data.files import atomic_write_text, is_finite, leftovers, sha256_file, sync_folder
from indigo_cli.engine.disk import RESUME, writing
from indigo_cli.engine.distributed import like
from indigo_cli.errors import CheckpointError, DataError, RunError

FORMAT = "indigo-checkpoint"
VERSION = 1
MODEL_FILE, FACTS_FILE, TRAINING_FILE = "model.safetensors", "checkpoint.json", "training.safetensors"
PARTIAL = ".partial-"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read.

    Args:
        folder: Where it stands.
        facts: Content of `checkpoint.json`.
    """

    folder: Path
    facts: dict[str, Any]

    def weights(self) -> dict[str, Tensor]:
        """Return the model's tensors."""
        return self._tensors(MODEL_FILE)

    def _tensors(self, name: str) -> dict[str, Tensor]:
        """Read a file of tensors; a checkpoint of 0.1 does not know its sha256."""
        hashes = self.facts.get("sha256", {})
        return _read_tensors(self.folder / name, sha256=hashes.get(name, "") if isinstance(hashes, dict) else None)

    def count(self, key: str) -> int:
        """Return a fact that is a whole number, 0 or more."""
        value = self.facts.get(key)
        if type(value) is not int or not 0 <= value < 2**63:
            raise self._wrong(key)
        return value

    def seconds(self, key: str) -> float:
        """Return a fact that is a time, 0 or more."""
        value: Any = self.facts.get(key)
        if not is_finite(value) or value < 0:
            raise self._wrong(key)
        return float(value)

    def _wrong(self, key: str) -> CheckpointError:
        return CheckpointError(
            f"the checkpoint does not say its {key}", where=str(self.folder / FACTS_FILE), fix=_OTHER
        )

    def load_into(
        self, system: nn.Module, weights: Mapping[str, Tensor] | None = None, *, whose: str, fix: str
    ) -> None:
        """Give a system these weights.

        Args:
            weights: What was made of them; None = all of them as they stand.
            whose: What they may not fit, for the message.
            fix: How to mend it.

        Raises:
            CheckpointError: other names or shapes.
        """
        try:
            system.load_state_dict(self.weights() if weights is None else weights)
        except RuntimeError as error:
            what = f"the weights do not fit {whose}: " + " ".join(str(error).split())[:300]
            raise CheckpointError(what, where=str(self.folder), fix=fix) from error

    def training(self) -> dict[str, Tensor]:
        """Return the training state's tensors."""
        if "averaged" in self.facts:
            raise CheckpointError(
                "an averaged checkpoint has no training state, so no run can go on from it",
                where=str(self.folder),
                fix="start another run from its weights: `train --init` with this folder",
            )
        return self._tensors(TRAINING_FILE)


_OTHER = "take another checkpoint of the run: `decode --checkpoint NAME`; `train --resume` finds the newest whole one"


def _read_tensors(path: Path, *, sha256: str | None) -> dict[str, Tensor]:
    """Read a safetensors file.

    Args:
        sha256: What it must have; empty if nobody knows.
    """
    fix = _OTHER
    try:
        if sha256 != "" and sha256_file(path) != sha256:
            raise ValueError("another sha256 than when it was written")
        with safe_open(path, framework="pt") as stream:
            return {name: stream.get_tensor(name) for name in stream.keys()}
    except FileNotFoundError as error:
        raise CheckpointError("the checkpoint has no such file", where=str(path), fix=fix) from error
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(
            f"the file is not a plain checkpoint, or it is incomplete or damaged ({error})", where=str(path), fix=fix
        ) from error


def step_name(step: int) -> str:
    """Return the folder name of a step's checkpoint."""
    return f"step-{step:08d}"


def save_checkpoint(
    checkpoints: Path, *, weights: dict[str, Tensor], training: dict[str, Tensor], facts: dict[str, Any]
) -> Path:
    """Write the checkpoint of `facts["step"]` and point `last` at it; an older one of the same step is replaced.

    Raises:
        RunError: it cannot be written; what stood before stands.
    """
    final = checkpoints / step_name(facts["step"])
    with writing(final, then=RESUME):
        checkpoints.mkdir(parents=True, exist_ok=True)
        partial = checkpoints / f"{PARTIAL}{final.name}-{os.getpid()}"
        _write_folder(final, partial, {MODEL_FILE: weights, TRAINING_FILE: training}, facts)
    link(checkpoints, "last", final.name)
    return final


def save_average(folder: Path, *, weights: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write a checkpoint without training state; `facts["averaged"]` are the steps it is the mean of.

    A training run in the same folder neither prunes it nor clears away the part that is being written.
    """
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        for rest in leftovers(folder, "partial") + leftovers(folder, "old"):
            shutil.rmtree(rest, ignore_errors=True)
        _write_folder(folder, folder.with_name(f".{folder.name}.{os.getpid()}.partial"), {MODEL_FILE: weights}, facts)


def _write_folder(final: Path, partial: Path, files: dict[str, dict[str, Tensor]], facts: dict[str, Any]) -> None:
    """Write a checkpoint beside its place and move it there; what stands there is replaced."""
    old = partial.with_suffix(".old")  # deleted under this name, so that a kill leaves no half under its own
    for rest in (partial, old):
        shutil.rmtree(rest, ignore_errors=True)
    partial.mkdir()
    try:
        for name, tensors in files.items():
            _write_tensors(tensors, partial / name)
        for name in files:
            with open(partial / name, "rb") as stream:
                os.fsync(stream.fileno())
        hashes = {name: sha256_file(partial / name) for name in files}
        facts = sealed({"format": FORMAT, "version": VERSION, **facts, "sha256": hashes})
        atomic_write_text(partial / FACTS_FILE, json.dumps(facts, indent=1) + "\n")
        if final.exists():
            os.rename(final, old)
        os.replace(partial, final)
    except BaseException:
        if old.exists() and not final.exists():
            os.rename(old, final)
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sync_folder(final.parent)
    shutil.rmtree(old, ignore_errors=True)


def _write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:  # its own way to tell of a full disk
        raise RunError(f"cannot write: {error}", where=str(path), fix="free some space") from error


def link(checkpoints: Path, name: str, target: str) -> None:
    """Point a name at a checkpoint folder, atomically."""
    partial = checkpoints / f"{PARTIAL}{name}"
    with writing(checkpoints / name, then=RESUME):
        partial.unlink(missing_ok=True)
        partial.symlink_to(target, target_is_directory=True)
        os.replace(partial, checkpoints / name)
        sync_folder(checkpoints)


def step_folders(checkpoints: Path) -> list[Path]:
    """Return the step-numbered checkpoints, oldest first."""
    return sorted(folder for folder in checkpoints.glob("step-*") if folder.is_dir() and not folder.is_symlink())


def prune(checkpoints: Path, *, keep: int, best: Collection[int] = ()) -> None:
    """Delete step-numbered checkpoints and clean up after a kill.

    The newest `keep` stay, those of the steps in `best`, and those that a name points at.
    """
    stay = {Path(os.readlink(entry)).name for entry in checkpoints.iterdir() if entry.is_symlink()}
    stay |= {step_name(step) for step in best}
    folders = step_folders(checkpoints)
    with writing(checkpoints, then=RESUME):
        for folder in folders[: max(0, len(folders) - keep)]:
            if folder.name not in stay:
                # Deleted under another name, so that a kill leaves no half under this one.
                os.rename(folder, checkpoints / f"{PARTIAL}{folder.name}-{os.getpid()}.old")
        for rest in checkpoints.glob(f"{PARTIAL}*"):
            shutil.rmtree(rest) if rest.is_dir() and not rest.is_symlink() else rest.unlink()


def open_checkpoint(run: Path, name: str = "") -> Checkpoint:
    """Open a checkpoint of a run by name; without one, `best` where it exists, else `last`.

    Args:
        run: Run folder, or the folder of a checkpoint itself.

    Raises:
        CheckpointError: there is none of this name, or it is damaged.
    """
    if not name and (run / FACTS_FILE).is_file():
        return read_checkpoint(run)
    checkpoints = run / "checkpoints"
    chosen = name or ("best" if (checkpoints / "best").exists() else "last")
    folder = checkpoints / chosen
    if not folder.is_dir():
        known = sorted(entry.name for entry in checkpoints.glob("[!.]*")) if checkpoints.is_dir() else []
        raise CheckpointError(
            f"there is no checkpoint {chosen!r}",
            where=str(folder),
            fix=f"one of {' '.join(known)}" if known else "give a run folder that `indigo train` wrote",
        )
    return read_checkpoint(folder)


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read the facts of a checkpoint folder."""
    path = folder / FACTS_FILE
    try:
        facts = read_object(path.read_bytes())
        check_header(facts, where=str(path), format=FORMAT, version=VERSION, fix=_OTHER)
        check_seal(facts, required="sha256" in facts)  # 0.1 wrote neither
    except DataError as error:
        raise CheckpointError(error.what, where=error.where, fix=error.fix) from error
    except (OSError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"the checkpoint is incomplete or damaged ({error})",
            where=str(path),
            fix=_OTHER,
        ) from error
    return Checkpoint(folder, facts)


def newest_whole_checkpoint(run: Path) -> tuple[Checkpoint | None, list[str]]:
    """Find where to resume: the newest checkpoint that reads, and a line about every newer one that does not."""
    complaints: list[str] = []
    for folder in reversed(step_folders(run / "checkpoints")):
        try:
            checkpoint = read_checkpoint(folder)
            checkpoint.weights()
            checkpoint.training()
            return checkpoint, complaints
        except CheckpointError as error:
            complaints.append(f"{folder.name} cannot be used: {error.what}")
    return None, complaints


def training_state(optimizer: torch.optim.Optimizer, names: dict[int, str]) -> dict[str, Tensor]:
    """Return optimizer moments by parameter name; `names` maps id(parameter). Moments are sharded as parameters are.

    No random state is needed: dropout depends on the micro-batch alone.
    """
    return {
        f"optimizer.{names[id(parameter)]}.{key}": value
        for parameter, moments in optimizer.state.items()
        for key, value in moments.items()
    }


def restore_training_state(
    state: dict[str, Tensor], optimizer: torch.optim.Optimizer, parameters: dict[str, torch.nn.Parameter]
) -> None:
    """Undo `training_state`, from whole tensors."""
    for name, parameter in parameters.items():
        prefix = f"optimizer.{name}."
        moments = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        if moments:
            optimizer.state[parameter] = {key: like(value, parameter) for key, value in moments.items()}
