"""What `indigo show RUN` says: how healthy the orders are that a run finds, by its log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from indigo_cli.engine.display import printable
from indigo_cli.engine.health_flags import HealthWatch
from indigo_cli.engine.health_table import length_table, named_figures
from indigo_cli.engine.order_health import SEARCH, OrderHealth
from indigo_cli.engine.run_folder import LOG_FILE, RECIPE_FILE, RunFolder
from indigo_cli.engine.run_log import read_log
from indigo_cli.engine.side_by_side import Column, statistics
from indigo_cli.errors import DataError, UsageError


@dataclass(frozen=True)
class RunHealth:
    """The figures of a run.

    Args:
        path: Run folder.
        rows: Figures by step, see `OrderHealth.row`; one at least.
        bootstrap_updates: How many updates did not search.
        flags: What is wrong with the newest row, and what to do.
    """

    path: Path
    rows: Mapping[int, Mapping[str, Any]]
    bootstrap_updates: int
    flags: Sequence[str]


def read_health(path: Path) -> RunHealth:
    """Read the log of a run folder.

    Raises:
        UsageError: no run folder, or a run without such figures.
        DataError: a log that was changed.
    """
    from indigo_cli.recipe import load_recipe

    folder, log = RunFolder.open(path), path / LOG_FILE
    try:
        rows = [row for _, row in read_log(log) if row.get("split") == "valid" and SEARCH in row]
    except OSError as error:
        raise UsageError(f"the run's log cannot be read ({error.strerror})", where=str(log)) from error
    if not rows:
        raise UsageError(
            "no validation of this run has searched for orders",
            where=str(log),
            fix="only runs on searched orders do (`indigo train --order sao`), with sentences in split valid; show "
            "looks at traces and orders files of any run",
        )
    for row in rows:
        _check(row, str(log))
    bootstrap: Any = folder.facts.get("bootstrap_updates", 0)
    watch = HealthWatch(load_recipe(path / RECIPE_FILE).search, bootstrap)
    watch.restore(rows)
    return RunHealth(path, {row["step"]: row[SEARCH] for row in rows}, bootstrap, [flag.text for flag in watch.flags])


def _check(row: Mapping[str, Any], where: str) -> None:
    """Refuse a row that lacks a figure."""
    figures = row[SEARCH]
    missing = OrderHealth().row().keys() - (figures.keys() if isinstance(figures, dict) else set())
    if missing:
        what = f"the figures of step {row['step']} lack {', '.join(sorted(missing))}"
        raise DataError(what, where=where, fix="restore the log from a copy of the run")


def present_health(health: RunHealth) -> list[RenderableType]:
    """Return what to print of the last validation."""
    step, figures = max(health.rows.items())
    title = f"orders found at step {step:,} of {health.path}, in valid"
    facts = {"targets": f"{figures['targets']:,}", "tokens": f"{figures['tokens']:,}"}
    if step <= health.bootstrap_updates:
        facts["training"] = f"on given orders up to step {health.bootstrap_updates:,}"
    shown: list[RenderableType] = [
        statistics([Column("", title, facts, named_figures(figures))]),
        length_table(figures),
    ]
    return [*shown, *(Text(printable(f"warning: {flag}")) for flag in health.flags)]
