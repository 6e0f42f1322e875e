"""The mean of several checkpoints of a run, as a checkpoint that decodes and scores like any other."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from indigo_cli.data.files import refuse_existing
from indigo_cli.engine.checkpoint import Checkpoint, read_checkpoint, save_average, step_folders
from indigo_cli.engine.run_folder import LOG_FILE, RunFolder
from indigo_cli.errors import CheckpointError, UsageError

OWN_NAMES = re.compile(r"(last|best|step-.*|cpu-.*|\..*)")
"""Names that a training run gives its own checkpoints."""


@dataclass(frozen=True)
class AverageSummary:
    """What was averaged, and where it stands."""

    folder: Path
    steps: tuple[int, ...]

    def text(self) -> str:
        """One line for people."""
        steps = ", ".join(f"{step:,}" for step in self.steps)
        return f"{self.folder}: the mean of step{'s' * (len(self.steps) > 1)} {steps}"


def average(run: Path, *, last: int = 0, best: int = 0, output: str = "", overwrite: bool = False) -> AverageSummary:
    """Average the weights of step-numbered checkpoints.

    Args:
        run: Run folder.
        last: How many of the newest.
        best: How many of those with the lowest validation loss in the run's log (of equal ones the later, as `best`).
        output: A name under `checkpoints/`, or a path; default `average-last-N` or `average-best-N`.
        overwrite: Replace an average that stands.

    Raises:
        UsageError: not a run, both or none of the choices, an output in the way.
        CheckpointError: fewer checkpoints than asked for, or some that do not belong together.
    """
    if bool(last) == bool(best) or min(last, best) < 0:
        raise UsageError("one choice of checkpoints is needed", where="--last, --best", fix="e.g. --last 3")
    RunFolder.open(run)
    checkpoints = run / "checkpoints"
    folder = _folder(checkpoints, output or (f"average-last-{last}" if last else f"average-best-{best}"), overwrite)
    chosen = _last(checkpoints, last) if last else _best(checkpoints, best, validation_losses(run))
    facts = {
        "step": chosen[-1].facts["step"],
        "averaged": [checkpoint.facts["step"] for checkpoint in chosen],
        "vocabularies": chosen[-1].facts["vocabularies"],
    }
    save_average(folder, weights=mean_weights(chosen), facts=facts)
    return AverageSummary(folder, tuple(facts["averaged"]))


def _folder(checkpoints: Path, output: str, overwrite: bool) -> Path:
    """Return where the average goes; nothing but another average is ever replaced."""
    is_path = os.sep in output
    folder = Path(output) if is_path else checkpoints / output
    if (not is_path or folder.parent.resolve() == checkpoints.resolve()) and OWN_NAMES.fullmatch(folder.name):
        fix = "choose another, e.g. -o average"
        raise UsageError(f"{folder.name} is a name of the training run's own checkpoints", where="-o", fix=fix)
    refuse_existing(folder, overwrite)
    if os.path.lexists(folder) and not _is_average(folder):
        raise UsageError("what stands here is not an average", where=str(folder), fix="choose another -o")
    return folder


def _is_average(folder: Path) -> bool:
    try:
        return "averaged" in read_checkpoint(folder).facts
    except CheckpointError:
        return False


def _last(checkpoints: Path, count: int) -> list[Checkpoint]:
    folders = step_folders(checkpoints)
    if len(folders) < count:
        raise _too_few(checkpoints, count, f"{len(folders)} checkpoints stand")
    return [read_checkpoint(folder) for folder in folders[-count:]]


def _best(checkpoints: Path, count: int, losses: dict[int, float]) -> list[Checkpoint]:
    found = [read_checkpoint(folder) for folder in step_folders(checkpoints)]
    validated = [checkpoint for checkpoint in found if checkpoint.facts["step"] in losses]
    if len(validated) < count:
        raise _too_few(checkpoints, count, f"{len(validated)} of {len(found)} checkpoints that stand were validated")
    validated.sort(key=lambda checkpoint: (losses[checkpoint.facts["step"]], -checkpoint.facts["step"]))
    return sorted(validated[:count], key=lambda checkpoint: int(checkpoint.facts["step"]))


def _too_few(checkpoints: Path, count: int, what: str) -> CheckpointError:
    fix = f"train with --set train.keep={count} (and save and validate as often), or average fewer"
    return CheckpointError(f"{what}, not {count}", where=str(checkpoints), fix=fix)


def validation_losses(run: Path) -> dict[int, float]:
    """Return the validation loss of each step that the log of a run has one for."""
    try:
        rows = [json.loads(line) for line in (run / LOG_FILE).read_bytes().splitlines()]
    except (OSError, ValueError) as error:
        what = f"the log of the run cannot be read ({error})"
        raise UsageError(what, where=str(run / LOG_FILE), fix="--last N needs no log") from error
    return {row["step"]: row["loss"] for row in rows if row.get("split") == "valid"}


def mean_weights(checkpoints: list[Checkpoint]) -> dict[str, Tensor]:
    """Return the mean of each tensor, added up in float64 and rounded once; one checkpoint is held at a time.

    Raises:
        CheckpointError: other vocabularies, names or shapes than those of the first.
    """
    first, *others = checkpoints
    start = first.weights()
    sums = {name: tensor.double() for name, tensor in start.items()}
    for other in others:
        weights = other.weights()
        if other.facts.get("vocabularies") != first.facts.get("vocabularies"):
            raise _alien(other, "another vocabulary")
        if {name: x.shape for name, x in weights.items()} != {name: x.shape for name, x in sums.items()}:
            raise _alien(other, "other weights")
        for name, tensor in weights.items():
            sums[name] += tensor
    return {name: (total / len(checkpoints)).to(start[name].dtype) for name, total in sums.items()}


def _alien(checkpoint: Checkpoint, what: str) -> CheckpointError:
    fix = "average checkpoints of one run"
    return CheckpointError(f"this checkpoint has {what} than the first", where=str(checkpoint.folder), fix=fix)
