"""Adaptive control of attention: the scan against a loop, and what gates that are shut or open leave."""

import pytest
import torch
from torch import Tensor

from indigo_cli.nn.adaptive_control import AdaptiveControl, SharedMlps, scan
from tests.tensors import assert_close

OPEN, SHUT = 100.0, -100.0


def loop(keep: Tensor, feed: Tensor, start: Tensor) -> Tensor:
    found = []
    for step in range(keep.shape[1]):
        start = keep[:, step] * start + feed[:, step]
        found.append(start)
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("strided", [False, True])
def test_the_scan_and_its_gradient_are_those_of_a_loop(steps: int, strided: bool) -> None:
    generator = torch.Generator().manual_seed(steps)
    keep, feed, pull = (torch.randn(3, steps, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    start = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    if strided:
        keep, feed = (x.transpose(0, 1).contiguous().transpose(0, 1) for x in (keep, feed))
    inputs = [x.requires_grad_() for x in (keep, feed, start)]
    wanted, got = loop(*inputs), scan(*inputs)
    assert_close(got, wanted, rtol=1e-12, atol=1e-12)
    for one, other in zip(
        torch.autograd.grad(got, inputs, pull), torch.autograd.grad(wanted, inputs, pull), strict=True
    ):
        assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(scan, inputs)


def fixed(control: AdaptiveControl, which: int, value: float) -> None:
    """Make the last layer of a shared gate say one number."""
    control.feeds.outer[which].zero_()
    control.feeds.bias[which].fill_(value)


@torch.no_grad()
def control_with(remove: float, feed: float) -> tuple[AdaptiveControl, Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    control = AdaptiveControl(6, 0.0).eval()
    fixed(control, 0, remove)
    fixed(control, 1, feed)
    return control, torch.randn(2, 4, 6), torch.randn(2, 4, 6), torch.randn(2, 6)


def memories(control: AdaptiveControl, states: Tensor, contexts: Tensor, start: Tensor) -> Tensor:
    found, memory = [], start
    for step in range(states.shape[1]):
        _, memory = control.step(states[:, step], contexts[:, step], memory)
        found.append(memory)
    return torch.stack(found, dim=1)


@torch.no_grad()
def test_all_kept_and_nothing_fed_leaves_the_first_memory() -> None:
    control, states, contexts, start = control_with(OPEN, SHUT)
    assert_close(memories(control, states, contexts, start), start[:, None].expand(-1, 4, -1))
    update = control.update(torch.cat((start[:, None].expand(-1, 4, -1), states), dim=2)).sigmoid()
    assert_close(control(states, contexts, start), update * contexts)


@torch.no_grad()
def test_nothing_kept_and_all_fed_gives_what_is_fed() -> None:
    control, states, contexts, start = control_with(SHUT, OPEN)
    content = control.feeds(torch.cat((states, contexts), dim=2).flatten(0, 1))[2].tanh().unflatten(0, (2, 4))
    assert_close(memories(control, states, contexts, start), content)
    update = control.update(torch.cat((content, states), dim=2)).sigmoid()
    assert_close(control(states, contexts, start), update * contexts)


@torch.no_grad()
def test_step_by_step_is_all_at_once() -> None:
    torch.manual_seed(2)
    control = AdaptiveControl(6, 0.0).eval()
    states, contexts, memory = torch.randn(3, 5, 6), torch.randn(3, 5, 6), torch.randn(3, 6)
    wanted = control(states, contexts, memory)
    for step in range(5):
        got, memory = control.step(states[:, step], contexts[:, step], memory)
        assert_close(got, wanted[:, step])


@torch.no_grad()
def test_maps_of_one_input_are_each_their_own() -> None:
    torch.manual_seed(3)
    maps, x = SharedMlps(3, 5, 4, 0.0), torch.randn(7, 5)
    for which, found in enumerate(maps(x)):
        rows = slice(4 * which, 4 * which + 4)
        inner = torch.nn.functional.selu(x @ maps.inner.weight[rows].T + maps.inner.bias[rows])
        assert_close(found, inner @ maps.outer[which] + maps.bias[which])
    bound = (6 / (5 + 4)) ** 0.5
    assert maps.inner.weight.abs().max() <= bound, "as wide as one of the maps asks for, not as all together"
