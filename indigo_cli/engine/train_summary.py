"""What a training run came to, for people."""

import math
from dataclasses import dataclass
from pathlib import Path

from indigo_cli.engine.train_config import LOSS


@dataclass(frozen=True)
class TrainSummary:
    """What a run came to.

    Args:
        best_loss: Lowest loss of a validation; infinite where there was none.
        best_by, best_figure: What `best` was chosen by, and how good it is.
    """

    run: Path
    step: int
    parameters: int
    cpu_minutes: float
    best_loss: float
    best_by: str = LOSS
    best_figure: float = math.nan

    def text(self) -> str:
        """One line for people."""
        best = f", best validation loss {self.best_loss:.4f} nats a token" if math.isfinite(self.best_loss) else ""
        if self.best_by != LOSS and math.isfinite(self.best_figure):
            best += f", best {self.best_by} {self.best_figure:.2f}"
        return f"{self.run}: {self.step:,} updates, {self.cpu_minutes:.1f} CPU minutes{best}"
