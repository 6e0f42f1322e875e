"""The systems: a file for each, one for its section of the recipe, and one line each in `MODELS`.

Reading a recipe loads the sections only: `preprocess` and its workers never pay for torch.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from indigo_cli.models.indigo_config import IndigoConfig
from indigo_cli.models.insertion_config import InsertionConfig
from indigo_cli.models.lstm_config import LstmConfig
from indigo_cli.models.transformer_config import TransformerConfig


@dataclass(frozen=True)
class ModelEntry:
    """What the rest of the program knows of a system.

    Args:
        config: Its `[model]` section.
        module: The file here whose `build` makes it from the section, two vocabulary sizes and more.
        orders: The generation orders it can learn; None = any.
        default_order: The one it learns where a recipe names none.
        parallel: Whether it fills many slots at once: it decodes by `ParallelDecoder`, and its `build` is told the
            order too, which says what a slot is to learn. Its orders are not searched.
    """

    config: type[Any]
    module: str
    orders: frozenset[str] | None = None
    default_order: str = "l2r"
    parallel: bool = False

    def build(self, config: Any, **facts: Any) -> Any:
        """Make the system; only now is its code, and torch, loaded."""
        return import_module(f"{__name__}.{self.module}").build(config, **facts)

    def unused(self, config: Any, order: str) -> dict[str, str]:
        """Return keys of the section that do nothing as a recipe stands, and because of what."""
        found: dict[str, str] = config.unused(order) if self.parallel else {}
        return found


MODELS = {
    "transformer": ModelEntry(TransformerConfig, "transformer", frozenset({"l2r"})),
    "indigo": ModelEntry(IndigoConfig, "indigo"),
    "lstm": ModelEntry(LstmConfig, "lstm", frozenset({"l2r"})),
    "insertion": ModelEntry(InsertionConfig, "insertion", default_order="blt", parallel=True),
}
