"""A trained run, ready to compute: settings, codecs, weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from indigo_cli.core.text import Codecs
from indigo_cli.engine.build import build_system
from indigo_cli.engine.checkpoint import Checkpoint, open_checkpoint
from indigo_cli.engine.run_folder import RECIPE_FILE, RunFolder
from indigo_cli.errors import CheckpointError

if TYPE_CHECKING:
    from indigo_cli.recipe import Recipe


@dataclass(frozen=True)
class LoadedRun:
    """What decoding and scoring need; everything comes from the run folder.

    Args:
        folder: The run.
        recipe: As trained, with the overrides of the command.
        codecs: Text to ids and back.
        system: In evaluation mode, on its device.
        checkpoint: Whose weights it has.
    """

    folder: RunFolder
    recipe: "Recipe"
    codecs: Codecs
    system: Any
    checkpoint: Checkpoint

    def header(self) -> dict[str, Any]:
        """Return what a traces file says about where it came from."""
        return {
            "run": self.folder.path.name,
            "checkpoint": self.checkpoint.folder.resolve().name,
            "system": self.recipe.system,
            "source_lang": self.recipe.data.source_lang,
            "target_lang": self.recipe.data.target_lang,
            "vocabulary": self.codecs.target.vocabulary.digest,
        }


def load_run(run: Path, *, checkpoint: str = "", overrides: Sequence[str] = (), device: torch.device) -> LoadedRun:
    """Load a run.

    Args:
        run: Run folder.
        checkpoint: Name under `checkpoints/`; default `best` where it exists, else `last`.
        overrides: `section.key=value`.
        device: Where to put the weights.

    Raises:
        UsageError: not a run folder.
        CheckpointError: no such checkpoint, damaged, or of another vocabulary.
    """
    from indigo_cli.recipe import load_recipe

    folder = RunFolder.open(run)
    recipe = load_recipe(run / RECIPE_FILE, overrides)
    codecs = folder.codecs()
    found = open_checkpoint(run, checkpoint)
    folder.check_checkpoint(found.facts, codecs)
    system: nn.Module = build_system(recipe, codecs)
    try:
        system.load_state_dict(found.weights())
    except RuntimeError as error:
        raise CheckpointError(
            "the weights do not fit the recipe of the run: " + " ".join(str(error).split())[:300],
            where=str(found.folder),
            fix="restore the run's recipe.toml",
        ) from error
    return LoadedRun(folder, recipe, codecs, system.to(device).eval(), found)
