"""Runs `indigo score` in this process and reads back what it wrote."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from indigo_cli.core.format import Format
from indigo_cli.data.collate import collate
from indigo_cli.data.orders_file import OrdersRow, read_order_rows
from indigo_cli.data.traces_file import TraceRecord, read_traces
from indigo_cli.engine.generate import generate
from indigo_cli.engine.loaded_run import load_run
from indigo_cli.engine.score import score
from indigo_cli.engine.score_summary import ScoreSummary

CPU = torch.device("cpu")


class Score:
    """Scores and returns the rows read back, with summary and header kept."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.summary, self.header = ScoreSummary(), dict[str, Any]()

    def __call__(self, run: Path, *overrides: str, **options: Any) -> list[OrdersRow]:
        self.count += 1
        output = self.folder / f"{self.count}.scores.jsonl"
        self.summary = score(run, overrides=overrides, output=str(output), **options)
        self.header, rows = read_order_rows(output)
        return list(rows)

    def text(self, run: Path, pairs: Sequence[tuple[str, str]], *overrides: str, **options: Any) -> list[OrdersRow]:
        """Score pairs of raw lines."""
        sides = {}
        for name, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            path = self.folder / f"{self.count}.{name}"
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
            sides[name] = str(path)
        return self(run, *overrides, **sides, **options)


def decoded(run: Path, folder: Path, *overrides: str, **options: Any) -> tuple[str, list[TraceRecord]]:
    """Decode into a traces file and read it back."""
    path = folder / "out.traces.jsonl"
    generate(run, output=str(path), form=Format.jsonl, overrides=overrides, overwrite=True, **options)
    return str(path), list(read_traces(path)[1])


def near(value: Any, *, abs: float = 1e-4, rel: float = 0.0) -> Any:
    """`pytest.approx` that mypy compares with anything."""
    return pytest.approx(value, abs=abs, rel=rel)


def tolerance(log_prob: float) -> float:
    """CONTRACT number 2."""
    return max(1e-4, 1e-5 * abs(log_prob))


def steps_of(run: Path, record: TraceRecord, source: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return log-probabilities of each word (and `<eod>`) and slot by teacher forcing."""
    assert record.ids is not None
    found = load_run(run, device=CPU).system.log_probs(collate(["x"], [source], [record.ids], [[record.order]]))
    return found.words[0, 0].tolist(), found.slots[0, 0].tolist()


def strip(row: OrdersRow) -> Any:
    """Return what a row says, without where it stands; log-probabilities without the noise of their batch."""
    return row.id, set(row.orders), [near(p, abs=1e-3) for p in row.log_probs or ()]
