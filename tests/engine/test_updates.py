"""The update loop: accumulation is exact, and what it reports is what happened."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from indigo_cli.data.batch import Batch, MicroBatch
from indigo_cli.data.collate import collate
from indigo_cli.engine.optim import GuardedStep, learning_rate, make_optimizer
from indigo_cli.engine.updates import LossParts, StepReport, dropout_seed, updates
from indigo_cli.models import MODELS
from indigo_cli.models.protocol import Losses
from tests.marks import quick

SYSTEMS = ["transformer", "indigo", "lstm", "insertion"]
SENTENCES = 6
"""Of one update."""


def small_config(name: str, **settings: Any) -> Any:
    """Return a [model] section; sizes that a system does not have are left out. Control is on where there is any."""
    cls = MODELS[name].config
    sizes = {"model_dim": 16, "ff_dim": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "aca": True}
    return cls(**{key: value for key, value in {**sizes, **settings}.items() if key in cls.__dataclass_fields__})


def make_system(name: str) -> nn.Module:
    torch.manual_seed(5)
    config = small_config(name, dropout=0.0)
    system: nn.Module = MODELS[name].build(config, source_size=20, target_size=20, ordered_source=True)
    return system.train()


def sentence_batch(numbers: Sequence[int], *, order: str = "random") -> Batch:
    """A batch of sentences that depend on their numbers alone."""
    sources, targets, orders = [], [], []
    for number in numbers:
        generator = torch.Generator().manual_seed(number)
        length = int(torch.randint(0, 8, (), generator=generator))
        sources.append(torch.randint(4, 20, (length + 1,), generator=generator).tolist())
        targets.append(torch.randint(4, 20, (length,), generator=generator).tolist())
        orders.append([torch.randperm(length, generator=generator).tolist() if order == "random" else range(length)])
    return collate([f"train:{number}" for number in numbers], sources, targets, orders)


def run(
    name: str, cuts: Sequence[int], *, num_updates: int, smoothing: float = 0.0
) -> tuple[list[StepReport], nn.Module]:
    """Train on the same sentences whatever micro-batches an update is cut into."""
    system = make_system(name)

    def stream() -> Iterator[MicroBatch]:
        first = position = 0
        for _ in range(num_updates):
            for cut in cuts:
                yield MicroBatch(0, position, partial(sentence_batch, range(first, first + cut)))
                first, position = first + cut, position + 1

    guard = GuardedStep(make_optimizer(system), clip_norm=1.0)
    reports = updates(
        system,
        stream(),
        guard,
        accumulate=len(cuts),
        peak_rate=3e-3,
        warmup_steps=5,
        smoothing=smoothing,
        seed=1,
        autocast=torch.autocast("cpu", enabled=False),
    )
    return list(reports), system


@pytest.mark.parametrize("name", quick(SYSTEMS))
def test_many_micro_batches_are_one_batch_of_all(name: str) -> None:
    """Losses to 1e-5 and gradient norms to 1e-4, relative, over 20 updates; micro-batches of very unequal size."""
    whole, _ = run(name, [SENTENCES], num_updates=20)
    parts, _ = run(name, [1, 4, 1], num_updates=20)
    for one, many in zip(whole, parts, strict=True):
        assert many.parts.means() == pytest.approx(one.parts.means(), rel=1e-5)
        assert float(many.grad_norm) == pytest.approx(float(one.grad_norm), rel=1e-4)
        assert (many.num_tokens, many.ids, many.rate) == (one.num_tokens, one.ids, one.rate)
    assert whole[-1].parts.means()["loss"] < whole[0].parts.means()["loss"]


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_gradient_is_the_mean_over_all_predictions_of_the_update(name: str) -> None:
    """Against plain autograd, a sentence at a time: a mistake here hides behind Adam and clipping."""
    (report,), _ = run(name, [1, 5], num_updates=1, smoothing=0.1)
    system = make_system(name)
    predictions = 0
    for number in range(SENTENCES):
        batch = sentence_batch([number])
        losses: Losses = system(batch, 0.1)
        losses.objective.backward()
        predictions += int(batch.lengths.sum()) * (2 if MODELS[name].parallel else 1) + 1
    squares = sum(float(p.grad.double().square().sum()) for p in system.parameters() if p.grad is not None)
    assert float(report.grad_norm) == pytest.approx(squares**0.5 / predictions, rel=1e-4)
    assert report.parts.weight == predictions


def test_the_first_update_of_adam_moves_every_weight_by_the_rate() -> None:
    """With fresh moments Adam moves each weight by lr * g / (|g| + eps): the size of the gradient does not matter."""
    (report,), after = run("indigo", [2, 4], num_updates=1)
    before = make_system("indigo")
    pairs = zip(after.parameters(), before.parameters(), strict=True)
    moved = torch.cat([(a - b).detach().abs().flatten() for a, b in pairs])
    assert float(moved.max()) == pytest.approx(report.rate, rel=1e-3)
    assert (moved > 0.9 * report.rate).double().mean() > 0.5


def test_reports_number_updates_and_name_the_place_in_the_stream() -> None:
    places = [(3, 0), (3, 1), (3, 2), (4, 0), (4, 1)]
    stream = [MicroBatch(e, position, partial(sentence_batch, [10 * e + position])) for e, position in places]
    system = make_system("transformer")
    guard = GuardedStep(make_optimizer(system), clip_norm=0.0)
    reports = list(
        updates(
            system,
            stream,
            guard,
            accumulate=2,
            peak_rate=1e-3,
            warmup_steps=100,
            smoothing=0.0,
            seed=1,
            start_step=7,
            autocast=torch.autocast("cpu", enabled=False),
        )
    )
    assert [report.step for report in reports] == [8, 9, 10]
    assert [(report.epoch, report.position) for report in reports] == [(3, 1), (4, 0), (4, 1)]  # the last one is short
    assert [report.ids for report in reports] == [("train:30", "train:31"), ("train:32", "train:40"), ("train:41",)]
    assert [report.rate for report in reports] == [learning_rate(s, peak=1e-3, warmup_steps=100) for s in (8, 9, 10)]
    tokens = [int(batch.lengths.sum()) for batch in (micro_batch.load() for micro_batch in stream)]
    assert [report.num_tokens for report in reports] == [tokens[0] + tokens[1], tokens[2] + tokens[3], tokens[4]]


def test_smoothing_changes_what_is_learnt_but_not_what_is_reported() -> None:
    plain, _ = run("transformer", [SENTENCES], num_updates=2, smoothing=0.0)
    smooth, _ = run("transformer", [SENTENCES], num_updates=2, smoothing=0.3)
    assert smooth[0].parts.means() == plain[0].parts.means()
    assert float(smooth[0].grad_norm) != pytest.approx(float(plain[0].grad_norm), rel=1e-3)
    assert smooth[1].parts.means() != plain[1].parts.means()


def test_means_are_over_terms_not_over_batches() -> None:
    """Two batches: 3 words and 2 positions, then 1 word and no position."""
    total = LossParts()
    total.add(Losses(torch.tensor(0.0), {"word": (torch.tensor(6.0), 3), "position": (torch.tensor(1.0), 2)}, 3.0))
    later = LossParts()
    later.add(Losses(torch.tensor(0.0), {"word": (torch.tensor(2.0), 1), "position": (torch.tensor(0.0), 0)}, 1.0))
    total.merge(later)
    assert total.means() == {"loss": 9 / 4, "loss_word": 2.0, "loss_position": 0.5}
    assert later.means() == {"loss": 2.0, "loss_word": 2.0, "loss_position": 0.0}
    assert LossParts().means() == {"loss": 0.0}


def test_dropout_starts_anew_in_every_part_of_a_micro_batch() -> None:
    """The first part starts as a whole micro-batch does: what is not cut stays what it was."""
    places = [MicroBatch(epoch, position, partial(sentence_batch, [0])) for epoch in (0, 1) for position in (0, 1, 2)]
    seeds = [dropout_seed(7, place, part) for place in places for part in (1, 2, 3)]
    assert len(set(seeds)) == len(seeds)
    assert [dropout_seed(7, place) for place in places] == seeds[::3]
