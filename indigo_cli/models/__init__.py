"""The systems: a file for each, one for its section of the recipe, and one line each in `MODELS`.

Reading a recipe loads the sections only: `preprocess` and its workers never pay for torch.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from indigo_cli.models.indigo_config import IndigoConfig
from indigo_cli.models.transformer_config import TransformerConfig


@dataclass(frozen=True)
class ModelEntry:
    """What the rest of the program knows of a system.

    Args:
        config: Its `[model]` section.
        module: The file here whose `build` makes it from the section and two vocabulary sizes.
        orders: The generation orders it can learn; None = any.
    """

    config: type[Any]
    module: str
    orders: frozenset[str] | None = None

    def build(self, config: Any, **sizes: Any) -> Any:
        """Make the system; only now is its code, and torch, loaded."""
        return import_module(f"{__name__}.{self.module}").build(config, **sizes)


MODELS = {
    "transformer": ModelEntry(TransformerConfig, "transformer", frozenset({"l2r"})),
    "indigo": ModelEntry(IndigoConfig, "indigo"),
}
