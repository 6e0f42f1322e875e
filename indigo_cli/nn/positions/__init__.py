"""Position schemes of a canvas that grows: a file here for each, and one line in `POSITIONS`; read without torch.

A scheme says what is added to the embedding of a word and what attention is told of two words. Where neither changes
when words are inserted, the states of words that stand can be kept; else they are made anew in every round.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Scheme:
    """What the rest of the program knows of a scheme.

    Args:
        module: The file here whose `build` makes it: a `CanvasPositions`.
        reusable: Whether the states of words that stand can be kept.
    """

    module: str
    reusable: bool

    def build(self, model_dim: int, *, max_distance: int) -> Any:
        """Make it; only now is torch loaded."""
        return import_module(f"{__name__}.{self.module}").build(model_dim, max_distance=max_distance)


POSITIONS = {
    "absolute": Scheme("absolute", reusable=False),
    "relative": Scheme("clipped", reusable=True),
    "fractional": Scheme("fractional", reusable=True),
    "ternary": Scheme("ternary_canvas", reusable=True),
}
