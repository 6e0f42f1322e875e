"""Cross entropy of words through the output layer, without ever holding all logits.

Shape letters: N predictions, D width, V words of the softmax (PAD, `<s>` and `</s>` have no row, so they are
impossible and smoothing spreads over allowed words only).
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 27}
"""Logits held at a time: large enough for the kernels, small enough for the memory."""


def _chunk_rows(hidden_ND: Tensor, num_words: int) -> int:
    return max(1, CHUNK_ELEMENTS.get(hidden_ND.device.type, 1 << 24) // num_words)


class _WordLoss(torch.autograd.Function):
    """Computes the gradients in the forward pass, chunk by chunk: three GEMMs and no (N, V) tensor kept."""

    @staticmethod
    def forward(
        ctx: Any, hidden_ND: Tensor, words_VD: Tensor, gold_N: Tensor, weight_N: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        num_words = words_VD.shape[0]
        chunk = _chunk_rows(hidden_ND, num_words)
        mean_word_D = words_VD.mean(dim=0)
        grad_hidden = torch.empty_like(hidden_ND)
        grad_words = torch.zeros_like(words_VD, dtype=torch.float32)
        nll_N = torch.empty(hidden_ND.shape[0], dtype=torch.float32, device=hidden_ND.device)
        smooth_N = torch.empty_like(nll_N)
        for start in range(0, hidden_ND.shape[0], chunk):
            part = slice(start, start + chunk)
            hidden, gold, weight = hidden_ND[part], gold_N[part, None], weight_N[part, None]
            logits = (hidden @ words_VD.T).float()
            log_z = logits.logsumexp(dim=1, keepdim=True)
            gold_logit = logits.gather(1, gold)
            nll_N[part] = (log_z - gold_logit)[:, 0]
            smooth_N[part] = (log_z - (hidden @ mean_word_D).float()[:, None])[:, 0]
            grad = logits.sub_(log_z).exp_().mul_(weight)  # softmax, in place
            grad.scatter_add_(1, gold, weight * (smoothing - 1.0))
            grad = grad.to(hidden.dtype)
            grad_hidden[part] = grad @ words_VD
            if grad.dtype == grad_words.dtype:
                grad_words.addmm_(grad.T, hidden)
            else:  # the product in half precision, the sum over chunks in full
                grad_words += (grad.T @ hidden).float()
        if smoothing:  # the uniform part of the targets is of rank one
            grad_hidden.addcmul_(
                weight_N[:, None].to(hidden_ND.dtype), mean_word_D.to(hidden_ND.dtype)[None], value=-smoothing
            )
            grad_words.sub_((weight_N @ hidden_ND.float()) * (smoothing / num_words))
        ctx.save_for_backward(grad_hidden, grad_words.to(words_VD.dtype))
        objective = ((1.0 - smoothing) * nll_N + smoothing * smooth_N) @ weight_N
        ctx.mark_non_differentiable(nll_N)
        return objective, nll_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_objective: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        grad_hidden, grad_words = ctx.saved_tensors
        return grad_hidden * grad_objective, grad_words * grad_objective, None, None, None


def word_loss(
    hidden_ND: Tensor, words_VD: Tensor, gold_N: Tensor, weight_N: Tensor, *, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Score gold words by softmax over `hidden @ words.T`.

    Args:
        hidden_ND: Features of each prediction.
        words_VD: Output embedding of the allowed words.
        gold_N: Row of `words_VD` that is right, int64.
        weight_N: Weight of each prediction, float32.
        smoothing: Share of the target mass that is spread evenly over all V words.
    Returns: The weighted sum of smoothed negative log-probabilities, to backpropagate, and the plain negative
        log-probability of each prediction (N,), without gradient; nats.
    """
    if torch.is_grad_enabled() and (hidden_ND.requires_grad or words_VD.requires_grad):
        if torch.is_autocast_enabled(hidden_ND.device.type):
            words_VD = words_VD.to(hidden_ND.dtype)
        with torch.autocast(hidden_ND.device.type, enabled=False):
            objective, nll = _WordLoss.apply(  # type: ignore[no-untyped-call]
                hidden_ND, words_VD, gold_N, weight_N, smoothing
            )
        return objective, nll
    chunk = _chunk_rows(hidden_ND, words_VD.shape[0])
    parts = []
    for hidden, gold in zip(hidden_ND.split(chunk), gold_N.split(chunk), strict=True):
        logits = (hidden @ words_VD.T).float()
        log_z = logits.logsumexp(1)
        parts.append(torch.stack((log_z - logits.gather(1, gold[:, None])[:, 0], log_z - logits.mean(1))))
    nll, smooth = torch.cat(parts, dim=1)
    return ((1.0 - smoothing) * nll + smoothing * smooth) @ weight_N, nll
