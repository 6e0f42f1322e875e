"""The schedule, and the guarded step against torch's Adam and clipping in plain code."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from indigo_cli.engine.optim import GuardedStep, learning_rate, make_optimizer

WEIGHTS = [3.0, 17.0, 1.0, 240.0, 9.0, 31.0]
RATES = [1e-3, 2e-3, 3e-3, 2e-3, 1e-3, 5e-4]


def test_case_81_shape_of_vaswani_et_al() -> None:
    """lr = d^-0.5 min(s^-0.5, s w^-1.5), whose highest value is (d w)^-0.5."""
    dim, warmup = 512, 4000
    peak = (dim * warmup) ** -0.5
    assert learning_rate(1, peak=peak, warmup_steps=warmup) == pytest.approx(1.746928e-07, rel=1e-6)
    assert learning_rate(1001, peak=peak, warmup_steps=warmup) == pytest.approx(1.748675e-04, rel=1e-6)
    for step in (1, 17, 3999, 4000, 4001, 90_000):
        printed = dim**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert learning_rate(step, peak=peak, warmup_steps=warmup) == pytest.approx(printed, rel=1e-12)


def test_the_peak_is_reached_once_and_fallen_from_by_the_inverse_square_root() -> None:
    rates = [learning_rate(step, peak=5e-4, warmup_steps=100) for step in range(1, 1601)]
    assert max(rates) == rates[99] == 5e-4
    assert rates[:100] == sorted(rates[:100])
    assert rates[99:] == sorted(rates[99:], reverse=True)
    assert rates[49] == pytest.approx(2.5e-4)
    assert rates[399] == pytest.approx(2.5e-4)  # four times the warm-up: half the rate
    assert rates[1599] == pytest.approx(1.25e-4)


def test_no_warm_up_starts_at_the_peak() -> None:
    assert learning_rate(1, peak=1e-3, warmup_steps=0) == 1e-3
    assert learning_rate(4, peak=1e-3, warmup_steps=0) == pytest.approx(5e-4)


def test_a_line_from_the_peak_comes_to_zero_behind_the_last_update() -> None:
    rates = [learning_rate(step, peak=8e-4, warmup_steps=3, decay_steps=10) for step in range(1, 12)]
    assert rates[:3] == [learning_rate(step, peak=8e-4, warmup_steps=3) for step in (1, 2, 3)]
    falls = [before - after for before, after in pairwise(rates[2:])]
    assert falls == pytest.approx([1e-4] * 8)
    assert rates[9] == pytest.approx(1e-4) and rates[10] == 0


def test_a_warm_up_that_outlasts_the_line_is_all_there_is() -> None:
    rates = [learning_rate(step, peak=1.0, warmup_steps=20, decay_steps=10) for step in (1, 10)]
    assert rates == [0.05, 0.5]


def network() -> nn.Module:
    """Parameters of several shapes, one of which never gets a gradient."""
    torch.manual_seed(3)
    module = nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 3, bias=False))
    module.register_parameter("unused", nn.Parameter(torch.ones(2)))
    return module


def set_gradients(module: nn.Module, step: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(step)
    for name, parameter in module.named_parameters():
        if name != "unused":
            parameter.grad = torch.randn(parameter.shape, generator=generator) * scale


def weights_of(module: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in module.parameters()]


@pytest.mark.parametrize("clip_norm", [1.0, 0.0, 1e6])
def test_a_guarded_step_is_adam_on_the_clipped_mean_gradient(clip_norm: float) -> None:
    """Gradients come in as sums; some of the means are over the norm of 1, some are not."""
    ours, plain = network(), network()
    guard = GuardedStep(make_optimizer(ours), clip_norm=clip_norm)
    adam = torch.optim.Adam(plain.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, foreach=False)
    norms = []
    for step, (weight, rate) in enumerate(zip(WEIGHTS, RATES, strict=True), start=1):
        set_gradients(ours, step, scale=20.0)
        set_gradients(plain, step, scale=20.0)
        norms.append(float(guard(step, weight=weight, rate=rate)))
        gradients = [parameter.grad for parameter in plain.parameters() if parameter.grad is not None]
        for gradient in gradients:
            gradient /= weight
        expected = math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients))
        assert norms[-1] == pytest.approx(expected, rel=1e-5)
        if clip_norm:
            torch.nn.utils.clip_grad_norm_(plain.parameters(), clip_norm)
        adam.param_groups[0]["lr"] = rate
        adam.step()
        adam.zero_grad()
        assert all(parameter.grad is None for parameter in ours.parameters())
        for mine, other in zip(ours.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)
    assert min(norms) < 1.0 < max(norms)
    assert guard.first_bad_step() == 0


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_a_non_finite_gradient_changes_nothing_and_neither_does_any_later_one(poison: float) -> None:
    module = network()
    optimizer = make_optimizer(module)
    guard = GuardedStep(optimizer, clip_norm=1.0)
    set_gradients(module, 1, scale=1.0)
    guard(1, weight=2.0, rate=1e-2)
    before = weights_of(module)
    moments = [value.clone() for state in optimizer.state.values() for value in state.values()]

    for step in (2, 3, 4):
        set_gradients(module, step, scale=1.0)
        if step != 3:  # the clean gradient of step 3 comes too late
            gradient = module.get_parameter("0.weight").grad
            assert gradient is not None
            gradient[1, 2] = poison
        norm = guard(step, weight=2.0, rate=1e-2)
        assert bool(norm.isfinite()) == (step == 3)
        assert guard.first_bad_step() == 2
    assert all(torch.equal(a, b) for a, b in zip(before, weights_of(module), strict=True))
    after = [value for state in optimizer.state.values() for value in state.values()]
    assert all(torch.equal(a, b) for a, b in zip(moments, after, strict=True))


def test_finite_gradients_whose_norm_overflows_count_as_bad() -> None:
    module = network()
    guard = GuardedStep(make_optimizer(module), clip_norm=1.0)
    before = weights_of(module)
    set_gradients(module, 1, scale=1e30)
    guard(1, weight=1.0, rate=1e-2)
    assert guard.first_bad_step() == 1
    assert all(torch.equal(a, b) for a, b in zip(before, weights_of(module), strict=True))
