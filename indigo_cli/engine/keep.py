"""The checkpoints of a run in progress: what is saved under which names, and what is kept."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from indigo_cli.engine import checkpoint as checkpoints


class Keeper:
    """Writes checkpoints and deletes those that are not to be kept.

    Args:
        run: Run folder.
        keep: How many of the newest stay; disk use is bounded by these, the best, and those with a name.
        writes: Whether this process does so; of several, the others only know what was saved.
    """

    def __init__(self, run: Path, *, keep: int, writes: bool) -> None:
        self.folder = run / "checkpoints"
        self._keep, self._writes = keep, writes
        self.saved_step = -1

    def took(self, found: checkpoints.Checkpoint) -> None:
        """Go on from a checkpoint: it stands, and it is the last one, whatever a kill left undone."""
        if self._writes:
            checkpoints.link(self.folder, "last", found.folder.name)
        self.saved_step = int(found.facts["step"])

    def save(self, *, weights: dict[str, Tensor], training: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Write the checkpoint of `facts["step"]`."""
        if self._writes:
            checkpoints.save_checkpoint(self.folder, weights=weights, training=training, facts=facts)
        self.saved_step = facts["step"]

    def tidy(self, names: Sequence[str], *, best: Collection[int]) -> None:
        """Give the step that was saved more names, and delete what is not to be kept.

        Args:
            best: Steps that stay.
        """
        if not self._writes:
            return
        for name in names:
            checkpoints.link(self.folder, name, checkpoints.step_name(self.saved_step))
        checkpoints.prune(self.folder, keep=self._keep, best=best)

    def lacks(self, names: Sequence[str]) -> list[str]:
        """Return those names that no checkpoint has yet."""
        return [name for name in names if self._writes and not (self.folder / name).is_symlink()]

    def last_good(self) -> str:
        """Say where a run that failed can go on."""
        last = self.folder / "last"
        return f"the last good checkpoint is {last.resolve().name}" if last.exists() else "no checkpoint was saved yet"
