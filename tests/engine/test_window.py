"""The sums since the last row of the log, kept bit for bit in a checkpoint."""

from dataclasses import replace

import torch

from indigo_cli.engine.updates import LossParts, Number, StepReport
from indigo_cli.engine.window import Window


def report(step: int, dtype: torch.dtype = torch.float32) -> StepReport:
    draw = torch.Generator().manual_seed(step)
    sums = {name: torch.rand((), generator=draw).to(dtype) * 100 for name in ("word", "position")}
    counts: dict[str, Number] = {"word": 40.0 + step, "position": 37.0 + step}
    return StepReport(step, 0, step, LossParts(sums, counts, 40.0 + step), torch.tensor(1.5), 1e-3, 30 + step, ())


def test_a_cut_changes_nothing() -> None:
    whole, first = Window(), Window()
    for step in range(1, 8):
        whole.add(report(step))
    for step in range(1, 5):
        first.add(report(step))
    second = Window.restored(first.state(), seconds=first.seconds() + 100, device=torch.device("cpu"))
    for step in range(5, 8):
        second.add(report(step))
    rows = [window.row(report(7)) for window in (whole, second)]
    rates = [row.pop("tokens_per_second") for row in rows]
    assert rows[0] == rows[1] and rows[0].keys() >= {"loss", "loss_word", "loss_position"}
    assert 0 < rates[1] < (30 * 7 + 28) / 100 < rates[0], "the time before the cut counts"


def test_shares_are_over_all_updates_of_a_row() -> None:
    first = Window()
    first.add(replace(report(1), tally={"searched": 0, "sentences": 10, "nodes": 0, "steps": 0}))
    assert first.row(report(1))["searched"] == 0.0 and "tree_share" not in first.row(report(1))
    second = Window.restored(first.state(), seconds=0.0, device=torch.device("cpu"))
    second.add(replace(report(2), tally={"searched": 6, "sentences": 20, "nodes": 30, "steps": 40}))
    row = second.row(report(2))
    assert (row["searched"], row["tree_share"]) == (0.2, 0.75)
    assert "searched" not in Window().row(report(1))


def test_sums_keep_their_type() -> None:
    window = Window()
    window.add(report(1, torch.float64))
    again = Window.restored(window.state(), seconds=0.0, device=torch.device("cpu"))
    assert again.parts.sums["word"].dtype == torch.float64
    assert again.parts.counts == window.parts.counts and again.parts.weight == window.parts.weight


def test_an_empty_window_and_a_checkpoint_without_one() -> None:
    assert Window().state() == {}
    again = Window.restored({"random.cpu": torch.zeros(3)}, seconds=5.0, device=torch.device("cpu"))
    assert again.tokens == 0 and again.parts == LossParts() and again.seconds() < 1
