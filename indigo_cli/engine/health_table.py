"""Figures of searched orders (`OrderHealth.row`) for people: prices by length, and all others by name."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from indigo_cli.engine.order_health import QUANTILES

COLUMNS = ("tokens", "targets", "best found", "all found", "left to right", "gain", "")


def length_table(figures: Mapping[str, Any]) -> Table:
    """Return what targets cost in the best order, in all orders together and left to right, by length."""
    title = "-log p of a target with <eod>, nats, without dropout"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", expand=False)
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    buckets: Sequence[Mapping[str, Any]] = figures["lengths"]
    for bucket in buckets:
        table.add_row(_label(bucket["low"], bucket["high"]), *_cells(bucket), end_section=bucket is buckets[-1])
    if len(buckets) > 1:
        table.add_row("all", *_cells(figures))
    return table


def named_figures(figures: Mapping[str, Any]) -> dict[str, str]:
    """Return the other figures by name, always the same names."""
    cost, parts = figures["best"], (("words", "word"), ("slots", "slot"), ("<eod>", "end"))
    shares = [f"{name} {100 * figures[part] / cost:.1f} %" for name, part in parts] if cost else []
    costs = (("best found", "best"), ("all found", "log_sum"), ("left to right", "l2r"))
    return {
        "of -log p": ", ".join(shares),
        "order entropy": f"{figures['entropy']:.3f} nats",
        "targets with p > 0.5": ", ".join(f"{name} {_percent(figures['likely'][key])}" for name, key in costs),
        **{f"-log p, {name}": _quantiles(figures["quantiles"][key]) for name, key in costs},
        "strictly left to right": _percent(figures["is_l2r"]),
        "strictly right to left": _percent(figures["is_r2l"]),
        "Kendall tau to left to right": f"{figures['tau']:+.3f}",
        "mean run of rightward neighbours": f"{figures['run']:.2f}",
        "first word at (0 left, 1 right)": f"{figures['first_place']:.3f}",
        "generated first": _words(figures["first_words"]),
        "first from left to right": _words(figures["first_words_l2r"]),
        "different orders": _percent(figures["different"]),
        "orders found a target": f"{figures['orders']:.2f}",
        "u, nodes of trees a step": f"{figures['u']:.3f}",
    }


def _cells(means: Mapping[str, Any]) -> list[str]:
    best, log_sum, l2r = (means[name] for name in ("best", "log_sum", "l2r"))
    nats = [f"{value:.3f}" for value in (best, log_sum, l2r, l2r - best)]
    return [f"{means['targets']:,}", *nats, f"{means['gain']:.1f} %" if l2r else ""]


def _label(low: int, high: int | None) -> str:
    """Return a range of lengths as text."""
    if high is None:
        return f"{low}+"
    return f"{low}" if low == high else f"{low}–{high}"  # noqa: RUF001


def _quantiles(nats: Sequence[float]) -> str:
    return ", ".join(f"{100 * quantile:.0f} % {value:.2f}" for quantile, value in zip(QUANTILES, nats, strict=True))


def _words(words: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{found['word']} {_percent(found['share'])}" for found in words)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
