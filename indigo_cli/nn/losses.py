"""Cross entropy of words through the output layer, without ever holding all logits.

Shape letters: N predictions, D width, V words of the softmax (PAD, `<s>` and `</s>` have no row, so they are
impossible and smoothing spreads over allowed words only), J gold words of a prediction.
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
        ctx: Any,
        hidden_ND: Tensor,
        words_VD: Tensor,
        gold_NJ: Tensor,
        share_NJ: Tensor | None,
        weight_N: Tensor,
        smoothing: float,
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
            hidden, gold, weight = hidden_ND[part], gold_NJ[part], weight_N[part, None]
            share = None if share_NJ is None else share_NJ[part]
            logits = (hidden @ words_VD.T).float()
            log_z = logits.logsumexp(dim=1, keepdim=True)
            nll_N[part] = log_z[:, 0] - _gold_logit(logits, gold, share)
            smooth_N[part] = (log_z - (hidden @ mean_word_D).float()[:, None])[:, 0]
            grad = logits.sub_(log_z).exp_().mul_(weight)  # softmax, in place
            pull = weight * (smoothing - 1.0)
            grad.scatter_add_(1, gold, pull if share is None else pull * share)
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
    def backward(ctx: Any, grad_objective: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        grad_hidden, grad_words = ctx.saved_tensors
        return grad_hidden * grad_objective, grad_words * grad_objective, None, None, None, None


def _gold_logit(logits_NV: Tensor, gold_NJ: Tensor, share_NJ: Tensor | None) -> Tensor:
    """Return (N,) the mean logit of the gold words of each prediction, by their shares."""
    gold_logit = logits_NV.gather(1, gold_NJ)
    return gold_logit[:, 0] if share_NJ is None else (gold_logit * share_NJ).sum(dim=1)


def word_loss(
    hidden_ND: Tensor,
    words_VD: Tensor,
    gold: Tensor,
    weight_N: Tensor,
    *,
    share_NJ: Tensor | None = None,
    smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Score gold words by softmax over `hidden @ words.T`.

    Args:
        hidden_ND: Features of each prediction.
        words_VD: Output embedding of the allowed words.
        gold: Row of `words_VD` that is right, int64: (N,); or (N, J) the right ones, where there are several. A word
            may stand twice among them.
        weight_N: Weight of each prediction, float32.
        share_NJ: What part of a prediction each of its J gold words is, float32, sums of 1; 0 on padding.
        smoothing: Share of the target mass that is spread evenly over all V words.
    Returns: The weighted sum of smoothed cross entropies, to backpropagate, and the plain cross entropy of each
        prediction (N,), without gradient; nats. With one gold word that is its negative log-probability.
    """
    gold_NJ = gold[:, None] if gold.dim() == 1 else gold
    if torch.is_grad_enabled() and (hidden_ND.requires_grad or words_VD.requires_grad):
        if torch.is_autocast_enabled(hidden_ND.device.type):
            words_VD = words_VD.to(hidden_ND.dtype)
        with torch.autocast(hidden_ND.device.type, enabled=False):
            objective, nll = _WordLoss.apply(  # type: ignore[no-untyped-call]
                hidden_ND, words_VD, gold_NJ, share_NJ, weight_N, smoothing
            )
        return objective, nll
    chunk = _chunk_rows(hidden_ND, words_VD.shape[0])
    parts = []
    for start in range(0, max(1, len(hidden_ND)), chunk):
        part = slice(start, start + chunk)
        logits = (hidden_ND[part] @ words_VD.T).float()
        log_z = logits.logsumexp(1)
        gold_logit = _gold_logit(logits, gold_NJ[part], None if share_NJ is None else share_NJ[part])
        parts.append(torch.stack((log_z - gold_logit, log_z - logits.mean(1))))
    nll, smooth = torch.cat(parts, dim=1)
    return ((1.0 - smoothing) * nll + smoothing * smooth) @ weight_N, nll


class _LogNormalisers(torch.autograd.Function):
    """Makes the logits again for the gradient, chunk by chunk: no (N, V) tensor is kept."""

    @staticmethod
    def forward(ctx: Any, hidden_ND: Tensor, words_VD: Tensor) -> Tensor:
        chunk = _chunk_rows(hidden_ND, words_VD.shape[0])
        log_z_N = torch.cat([(some @ words_VD.T).float().logsumexp(dim=1) for some in hidden_ND.split(chunk)])
        ctx.save_for_backward(hidden_ND, words_VD, log_z_N)
        return log_z_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_N: Tensor) -> tuple[Tensor, Tensor]:
        hidden_ND, words_VD, log_z_N = ctx.saved_tensors
        chunk = _chunk_rows(hidden_ND, words_VD.shape[0])
        grad_hidden = torch.empty_like(hidden_ND)
        grad_words = torch.zeros_like(words_VD, dtype=torch.float32)
        for start in range(0, hidden_ND.shape[0], chunk):
            part = slice(start, start + chunk)
            logits = (hidden_ND[part] @ words_VD.T).float()
            grad = logits.sub_(log_z_N[part, None]).exp_().mul_(grad_N[part, None]).to(hidden_ND.dtype)
            grad_hidden[part] = grad @ words_VD
            grad_words += (grad.T @ hidden_ND[part]).float()
        return grad_hidden, grad_words.to(words_VD.dtype)


def log_normalisers(hidden_ND: Tensor, words_VD: Tensor) -> Tensor:
    """Return (N,) float32 log sum exp(hidden @ words.T), with gradient."""
    if torch.is_autocast_enabled(hidden_ND.device.type):
        words_VD = words_VD.to(hidden_ND.dtype)
    with torch.autocast(hidden_ND.device.type, enabled=False):
        log_z: Tensor = _LogNormalisers.apply(hidden_ND, words_VD)  # type: ignore[no-untyped-call]
    return log_z
