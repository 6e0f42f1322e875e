"""The mean of several checkpoints of a run, as a checkpoint that decodes and scores like any other."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from indigo_cli.data.files import refuse_existing
from indigo_cli.engine.checkpoint import Checkpoint, read_checkpoint, save_average, step_folders
from indigo_cli.engine.run_folder import LOG_FILE, RECIPE_FILE, RunFolder
from indigo_cli.engine.run_log import read_log
from indigo_cli.engine.validations import Validations
from indigo_cli.errors import CheckpointError, UsageError
from indigo_cli.recipe import load_recipe

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
        best: How many of the best in the run's log, by what `best` was chosen by (of equal ones the later).
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
    chosen = _last(checkpoints, last) if last else _best(checkpoints, best, validations_of(run))
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
        raise _too_few(
            checkpoints, f"{len(folders)} checkpoints stand, not {count}", f"keep={count} (and save as often)"
        )
    return [read_checkpoint(folder) for folder in folders[-count:]]


def _best(checkpoints: Path, count: int, validations: Validations) -> list[Checkpoint]:
    found = {found.facts["step"]: found for found in map(read_checkpoint, step_folders(checkpoints))}
    validated = [step for step in validations.ranked() if step in found]
    if len(validated) < count:
        what = f"{len(validated)} of {len(found)} checkpoints that stand were validated, not {count}"
        raise _too_few(checkpoints, what, f"keep_best={count} (and validate as often)")
    return [found[step] for step in sorted(validated[:count])]


def _too_few(checkpoints: Path, what: str, setting: str) -> CheckpointError:
    return CheckpointError(what, where=str(checkpoints), fix=f"train with --set train.{setting}, or average fewer")


def validations_of(run: Path) -> Validations:
    """Return how good each validated step of a run is, by what its recipe chooses `best` by."""
    config = load_recipe(run / RECIPE_FILE).train
    validations = Validations(config.best_by, higher_is_better=config.higher_is_better)
    try:
        validations.restore(row for _, row in read_log(run / LOG_FILE) if row.get("split") == "valid")
    except OSError as error:
        what = f"the log of the run cannot be read ({error})"
        raise UsageError(what, where=str(run / LOG_FILE), fix="--last N needs no log") from error
    return validations


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
