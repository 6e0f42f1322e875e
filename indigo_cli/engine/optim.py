"""Adam, its warm-up schedule, and the step that a non-finite gradient cannot get through."""

import math

import torch
from torch import Tensor, nn

from indigo_cli.engine.distributed import whole


def learning_rate(step: int, *, peak: float, warmup_steps: int, decay_steps: int = 0) -> float:
    """Rise linearly for `warmup_steps` updates (counted from 1), then fall with the inverse square root, or in a line.

    Source: the shape of Vaswani et al. 2017, section 5.3, scaled so that its highest value is `peak`.

    Args:
        decay_steps: Updates from the start of the run to the end of the line, where the rate comes to 0; 0 = no line.
    """
    warmup = max(warmup_steps, 1)
    if decay_steps and step > warmup:
        return peak * max(decay_steps + 1 - step, 0) / max(decay_steps + 1 - warmup, 1)
    return peak * min(step / warmup, math.sqrt(warmup / step))


def make_optimizer(system: nn.Module) -> torch.optim.Adam:
    """Return Adam with the paper's constants (PAPERS.md A2); fused, so that one call updates every parameter."""
    return torch.optim.Adam(system.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)


class GuardedStep:
    """Average, clip and apply gradients; from the first non-finite norm on, nothing is applied any more.

    The test stays on the device: the fused kernel skips the update itself, and `first_bad` is read when the caller
    waits for the device anyway.
    """

    def __init__(self, optimizer: torch.optim.Adam, *, clip_norm: float) -> None:
        self._optimizer = optimizer
        self._clip_norm = clip_norm
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]
        device = self._parameters[0].device
        self._first_bad = torch.zeros((), dtype=torch.int64, device=device)

    def __call__(self, step: int, *, weight: float | Tensor, rate: float) -> Tensor:
        """Divide the summed gradients by `weight`, clip to the norm and update; return the norm before clipping."""
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = (whole(torch.nn.utils.get_total_norm(gradients)) / weight).float()
        clip = (norm / self._clip_norm).clamp(min=1.0) if self._clip_norm else torch.ones_like(norm)
        bad = ~norm.isfinite() | (self._first_bad > 0)
        self._first_bad = torch.where(bad & (self._first_bad == 0), step, self._first_bad)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        # Attributes that torch's gradient scaler sets, too: fused kernels divide by the one and stop at the other.
        self._optimizer.grad_scale = (clip * weight).float()  # type: ignore[attr-defined]
        self._optimizer.found_inf = bad.to(norm.dtype)  # type: ignore[attr-defined]
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return norm

    def first_bad_step(self) -> int:
        """Return the first step whose gradient was not finite, 0 if none; waits for the device."""
        return int(self._first_bad)
