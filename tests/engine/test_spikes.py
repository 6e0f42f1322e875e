"""Loss spikes: the rule by hand, and that neither the time of a check nor a resume changes what is found."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from indigo_cli.engine.spikes import Spikes, spike_line
from indigo_cli.engine.updates import LossParts, StepReport


def report(step: int, loss: float, norm: float = 1.0) -> StepReport:
    """An update of 4 predictions whose mean loss is given."""
    parts = LossParts({"word": torch.tensor(3 * loss), "position": torch.tensor(loss)}, {"word": 4, "position": 3}, 4.0)
    ids = tuple(f"train:{step}.{i}" for i in range(25))
    return StepReport(step, 0, step, parts, torch.tensor(norm), 1e-3, 9, ids)


def found(values: Sequence[tuple[float, float]], *, factor: float = 10.0, every: int = 10**9) -> list[dict[str, Any]]:
    spikes, rows = Spikes(factor), []
    for step, (loss, norm) in enumerate(values, start=1):
        spikes.add(report(step, loss, norm))
        if step % every == 0:
            rows += spikes.check()
    return rows + spikes.check()


def quiet(count: int) -> list[tuple[float, float]]:
    """Losses 1.0, 1.1, ..., 1.4 in turn: median 1.2, median distance 0.1."""
    return [(1 + i % 5 / 10, 2 + i % 5 / 10) for i in range(count)]


def test_the_limit_is_that_of_the_formula() -> None:
    """1.2 + 10 * 0.1 = 2.2 for the loss, 2.2 + 10 * 0.1 = 3.2 for the norm."""
    for loss, norm, is_spike in ((2.19, 3.19, False), (2.21, 2, True), (1.2, 3.21, True), (0.0, 0.0, False)):
        rows = found([*quiet(60), (loss, norm), *quiet(3)])
        assert [row["step"] for row in rows] == ([61] if is_spike else [])
    (row,) = rows or found([*quiet(60), (5.0, 7.0)])
    assert row["split"] == "spike" and row["num_ids"] == 25 and row["ids"] == [f"train:61.{i}" for i in range(20)]
    assert row["loss"] == pytest.approx(5) and row["usual_loss"] == pytest.approx(1.2)
    assert row["grad_norm"] == pytest.approx(7) and row["usual_grad_norm"] == pytest.approx(2.2)
    line = spike_line(row)
    assert line.startswith("step 61: loss 5.000 (usually 1.200), gradient norm 7 (usually 2.2); batch: train:61.0 ")
    assert line.endswith(" train:61.19 and 5 more")


def test_steady_values_need_a_fifth_more() -> None:
    """Without any spread, 2 percent of the median stand for it."""
    assert not found([(1.0, 1.0)] * 60 + [(1.19, 1.19)])
    assert found([(1.0, 1.0)] * 60 + [(1.21, 1.0)])


def test_too_little_is_known_at_first_and_a_factor_of_0_is_off() -> None:
    assert not found([*quiet(49), (99.0, 99.0)])
    assert found([*quiet(50), (99.0, 99.0)])
    assert not found([*quiet(60), (99.0, 99.0)], factor=0)


def test_a_lasting_rise_is_reported_once_and_becomes_usual() -> None:
    high = [(9 + loss, norm) for loss, norm in quiet(120)]
    rows = found([*quiet(100), *high, *quiet(60), (99.0, 2.0)])
    assert [row["step"] for row in rows] == [101, 281]
    assert rows[1]["usual_loss"] == pytest.approx(1.4), "three fifths of the last 100 are low again"


def random_run(seed: int) -> list[tuple[float, float]]:
    draw = random.Random(seed)
    values = [(draw.gauss(3, 0.2), draw.gauss(1, 0.1)) for _ in range(200)]
    for step in draw.sample(range(60, 200), 6):
        values[step] = (draw.uniform(3, 12), draw.uniform(1, 5))
    return values


@pytest.mark.parametrize("seed", range(2))
def test_when_it_is_checked_does_not_matter(seed: int) -> None:
    rows = found(random_run(seed))
    assert rows
    for every in (1, 7, 50, 100):
        assert found(random_run(seed), every=every) == rows


@pytest.mark.parametrize("cut", [1, 49, 50, 151, 199])
def test_a_resumed_run_finds_the_same(cut: int) -> None:
    values = random_run(3)
    first, second = Spikes(10.0), Spikes(10.0)
    rows = []
    for step, (loss, norm) in enumerate(values, start=1):
        spikes = first if step <= cut else second
        spikes.add(report(step, loss, norm))
        if step == cut:
            rows += first.check()
            second.restore(first.state())
    assert rows + second.check() == found(values)
    assert torch.equal(second.state()["spikes.values"], _state_of(values)["spikes.values"])


def _state_of(values: Sequence[tuple[float, float]]) -> dict[str, torch.Tensor]:
    spikes = Spikes(10.0)
    for step, (loss, norm) in enumerate(values, start=1):
        spikes.add(report(step, loss, norm))
    spikes.check()
    return spikes.state()


def test_usual_noise_is_hardly_ever_a_spike() -> None:
    """Losses and norms as skewed as those of training are."""
    draw = random.Random(1)
    noise = [(draw.gammavariate(40, 0.1), draw.lognormvariate(0, 0.3)) for _ in range(1500)]
    assert len(found(noise, every=100)) <= 1
    assert len(found(noise, factor=3.0, every=100)) > 5


def test_values_that_are_not_finite_do_not_spoil_what_is_usual() -> None:
    rows = found([*quiet(60), (float("inf"), 1.0), (float("nan"), 1.0), *quiet(10), (9.0, 1.0)])
    assert [row["step"] for row in rows] == [61, 73]
    assert rows[1]["usual_loss"] == pytest.approx(1.2)
