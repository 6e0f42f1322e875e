"""Which validations of a run were the best: what `best`, `keep_best` and `patience` go by."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from indigo_cli.data.files import is_finite


class Watcher(Protocol):
    """Looks at the figures of one validation after the other."""

    def restore(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take over rows of a log."""
        ...

    def add(self, step: int, figures: Mapping[str, Any]) -> None:
        """Look at the validation of a step; it may be done again (a run killed in between)."""
        ...


class Validations:
    """The figure of every validation of a run, in their order.

    Args:
        by: Key of the figure in a row of the log.
        higher_is_better: Which way it points.
    """

    def __init__(self, by: str, *, higher_is_better: bool) -> None:
        self.by = by
        self._sign = -1.0 if higher_is_better else 1.0
        self._costs: dict[int, float] = {}  # by step; lower is better

    def restore(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take over rows of a log; those without the figure (`best_by` was another one then) do not count."""
        for row in rows:
            self.add(row["step"], row)

    def add(self, step: int, figures: Mapping[str, Any]) -> None:
        """Count the validation of a step; one that is done again (a run killed in between) takes its own place."""
        figure: Any = figures.get(self.by)
        if isinstance(figure, float) or is_finite(figure):
            self._costs[step] = math.inf if math.isnan(figure) else self._sign * figure

    def ranked(self) -> list[int]:
        """Return all steps, the best first, of equal ones the later."""
        return sorted(self._costs, key=lambda step: (self._costs[step], -step))

    def best_figure(self) -> float:
        """Return the best figure; NaN where there is none."""
        return self._sign * min(self._costs.values()) if self._costs else math.nan

    def since_better(self) -> int:
        """Return how many validations have come since the last one that was better than all before it."""
        costs = list(self._costs.values())
        return len(costs) - 1 - costs.index(min(costs)) if costs else 0
