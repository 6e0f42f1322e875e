"""Adaptive control of attention (Lin et al. 2018): gates and a memory that decide how much context each step uses.

The memory never feeds back into the decoder's states. So all gates are made for all steps at once, and only
m_t = r_t m_{t-1} + x_t, one multiplication and one addition, is a loop over the steps.

Shape letters: S sentences, T steps, N rows, G gates that share their input, D width.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional


class Mlp(nn.Module):
    """The non-linear map g of the paper: linear, SELU, dropout, linear, to D numbers."""

    def __init__(self, input_dim: int, model_dim: int, dropout: float) -> None:
        super().__init__()
        self.inner = nn.Linear(input_dim, model_dim)
        self.outer = nn.Linear(model_dim, model_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., input_dim) -> (..., D)."""
        y: Tensor = self.outer(self.dropout(functional.selu(self.inner(x), inplace=True)))
        return y


class SharedMlps(nn.Module):
    """Several `Mlp` of one input, each with its own parameters, as two products."""

    def __init__(self, count: int, input_dim: int, model_dim: int, dropout: float) -> None:
        super().__init__()
        self.count = count
        self.inner = nn.Linear(input_dim, count * model_dim)
        self.outer = nn.Parameter(torch.empty(count, model_dim, model_dim))
        self.bias = nn.Parameter(torch.zeros(count, 1, model_dim))
        self.dropout = nn.Dropout(dropout)
        self.initialise()

    def initialise(self) -> None:
        """Xavier for each map on its own, as for any other linear map; zero biases."""
        for part in (*self.inner.weight.chunk(self.count), *self.outer):
            nn.init.xavier_uniform_(part)
        nn.init.zeros_(self.inner.bias)
        nn.init.zeros_(self.bias)

    def forward(self, x_NI: Tensor) -> Tensor:
        """Return (G, N, D)."""
        hidden_NGD = self.dropout(functional.selu(self.inner(x_NI), inplace=True)).unflatten(1, (self.count, -1))
        return torch.baddbmm(self.bias, hidden_NGD.transpose(0, 1), self.outer)


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, keep_STD: Tensor, feed_STD: Tensor, start_SD: Tensor) -> Tensor:
        memory_STD = torch.empty_like(feed_STD)
        last = start_SD
        for keep, feed, memory in zip(keep_STD.unbind(1), feed_STD.unbind(1), memory_STD.unbind(1), strict=True):
            last = torch.addcmul(feed, keep, last, out=memory)
        ctx.save_for_backward(keep_STD, memory_STD, start_SD)
        return memory_STD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_STD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keep_STD, memory_STD, start_SD = ctx.saved_tensors
        total_STD = grad_STD.clone(memory_format=torch.contiguous_format)  # of all that comes after, too
        keep, total = keep_STD.unbind(1), total_STD.unbind(1)
        for step in range(len(keep) - 1, 0, -1):
            total[step - 1].addcmul_(keep[step], total[step])
        grad_keep = torch.empty_like(total_STD)
        torch.mul(total_STD[:, 1:], memory_STD[:, :-1], out=grad_keep[:, 1:])
        torch.mul(total_STD[:, 0], start_SD, out=grad_keep[:, 0])
        return grad_keep, total_STD, total_STD[:, 0] * keep_STD[:, 0]


def scan(keep_STD: Tensor, feed_STD: Tensor, start_SD: Tensor) -> Tensor:
    """Return (S, T, D) m_t = keep_t m_{t-1} + feed_t with m_0 = start, T at least 1; with gradients."""
    memory: Tensor = _Scan.apply(keep_STD, feed_STD, start_SD)  # type: ignore[no-untyped-call]
    return memory


class AdaptiveControl(nn.Module):
    """Remove gate r, feed gate f, update gate u, and the memory m (PAPERS.md C, Eqs. 17-21).

    r_t = sigmoid(g_r([s_t; c_t])), f_t = sigmoid(g_f([s_t; c_t])), m_t = r_t m_{t-1} + f_t tanh(g_i([s_t; c_t])),
    u_t = sigmoid(g_u([m_t; s_t])); what the output sees in place of c_t is u_t c_t. Each g is an `Mlp`; the tanh keeps
    what is fed in the range of m_0, a hidden state.
    """

    def __init__(self, model_dim: int, dropout: float) -> None:
        super().__init__()
        self.feeds = SharedMlps(3, 2 * model_dim, model_dim, dropout)
        self.update = Mlp(2 * model_dim, model_dim, dropout)

    def forward(self, states_STD: Tensor, contexts_STD: Tensor, start_SD: Tensor) -> Tensor:
        """Return the (S, T, D) controlled contexts of all steps.

        Args:
            states_STD: s_t.
            contexts_STD: c_t.
            start_SD: m_0.
        """
        keep, feed = self._gates(states_STD.flatten(0, 1), contexts_STD.flatten(0, 1))
        steps = states_STD.shape[:2]
        memory = scan(keep.unflatten(0, steps), feed.unflatten(0, steps), start_SD.to(keep.dtype))
        return self._controlled(memory, states_STD, contexts_STD)

    def step(self, states_ND: Tensor, contexts_ND: Tensor, memory_ND: Tensor) -> tuple[Tensor, Tensor]:
        """Return (N, D) controlled contexts of one step, and the memory after it."""
        keep, feed = self._gates(states_ND, contexts_ND)
        memory_ND = torch.addcmul(feed, keep, memory_ND)
        return self._controlled(memory_ND, states_ND, contexts_ND), memory_ND

    def _gates(self, states_ND: Tensor, contexts_ND: Tensor) -> tuple[Tensor, Tensor]:
        """Return r and f tanh(g_i), (N, D) each, at least in float32: they add up over the steps."""
        found_GND = self.feeds(torch.cat((states_ND, contexts_ND), dim=1))
        if found_GND.dtype == torch.bfloat16:
            found_GND = found_GND.float()
        remove, feed, content = found_GND.unbind(0)
        return remove.sigmoid(), feed.sigmoid() * content.tanh()

    def _controlled(self, memory: Tensor, states: Tensor, contexts: Tensor) -> Tensor:
        update: Tensor = self.update(torch.cat((memory, states), dim=-1)).sigmoid()
        return update * contexts
