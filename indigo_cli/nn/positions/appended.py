"""Positions of a text that only grows at its end: one line a scheme in `APPENDED`; read without torch."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class AppendedScheme:
    """What is added to the embedding of a word; the sum, where it is both.

    Args:
        place: The sinusoids of its place among the tokens.
        length: Function of `nn/positions/length.py` that encodes the wished length and what is written; empty = none.
    """

    place: bool
    length: str = ""

    def length_code(self) -> Callable[..., Any] | None:
        """Return the function; only now is torch loaded."""
        module = import_module(f"{__package__}.length") if self.length else None
        return getattr(module, self.length, None)


APPENDED: dict[str, AppendedScheme] = {
    "sinusoidal": AppendedScheme(place=True),
    "ldpe": AppendedScheme(place=False, length="length_difference"),
    "lrpe": AppendedScheme(place=False, length="length_ratio"),
    "ldpe+pe": AppendedScheme(place=True, length="length_difference"),
    "lrpe+pe": AppendedScheme(place=True, length="length_ratio"),
}
