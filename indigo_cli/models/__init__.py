"""The systems: one a file, and one line each in `MODELS`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from indigo_cli.models import indigo, transformer


@dataclass(frozen=True)
class ModelEntry:
    """What the rest of the program knows of a system.

    Args:
        config: Its `[model]` section.
        build: Makes it from the section and two vocabulary sizes.
        orders: The generation orders it can learn; None = any.
    """

    config: type[Any]
    build: Callable[..., Any]
    orders: frozenset[str] | None = None


MODELS = {
    "transformer": ModelEntry(transformer.TransformerConfig, transformer.build, frozenset({"l2r"})),
    "indigo": ModelEntry(indigo.IndigoConfig, indigo.build),
}
