"""Which systems follow a wished length, told from their section of the recipe alone."""

from typing import Any

from indigo_cli.core.units import LengthUnit


def length_unit(config: Any) -> LengthUnit | None:
    """Return the unit of the lengths that a system is told; None where it takes no wish.

    Args:
        config: A `[model]` section. One that can make a system which takes wishes says so by the property
            `counts_length`, and has the key `length_unit`; the system is then built with a `UnitTable`, `units`.
    """
    return config.length_unit if getattr(config, "counts_length", False) else None
