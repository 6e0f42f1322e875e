"""Attention to clipped distances against the paper's form, with a vector for each pair of rows."""

import torch
from torch import Tensor

from indigo_cli.nn.attention import merge_heads, split_heads
from indigo_cli.nn.clipped_attention import ClippedAttention
from tests.tensors import assert_close

HEADS, DIM, ROWS, MOST = 2, 6, 5, 2


def make() -> tuple[ClippedAttention, Tensor, Tensor, Tensor]:
    """Return an attention, inputs, a mask and distances."""
    torch.manual_seed(0)
    attention = ClippedAttention(DIM, HEADS, max_distance=MOST).double()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.normal_()
    x = torch.randn(3, ROWS, DIM, dtype=torch.float64, requires_grad=True)
    hidden = torch.rand(3, 1, ROWS, ROWS) < 0.3
    hidden.diagonal(dim1=2, dim2=3).fill_(False)
    mask = torch.zeros_like(hidden, dtype=torch.float64).masked_fill(hidden, -torch.inf)
    return attention, x, mask, torch.randint(2 * MOST + 1, (3, ROWS, ROWS))


def naive(attention: ClippedAttention, x: Tensor, mask: Tensor, left: Tensor) -> Tensor:
    """Shaw et al. 2018, Eqs. 3 and 4."""
    query, key, value = (split_heads(part, HEADS) for part in attention.qkv(x).chunk(3, dim=-1))
    keys = key[:, :, None] + attention.distance_keys[left][:, None]  # (N, H, Q, R, d)
    values = value[:, :, None] + attention.distance_values[left][:, None]
    logits = (query[:, :, :, None] * keys).sum(dim=-1) / (DIM // HEADS) ** 0.5 + mask
    mixed = (logits.softmax(dim=-1)[..., None] * values).sum(dim=3)
    attended: Tensor = attention.out(merge_heads(mixed))
    return attended


def test_values_and_gradients() -> None:
    attention, x, mask, left = make()
    got, wanted = attention(x, mask=mask, left=left), naive(attention, x, mask, left)
    assert_close(got, wanted, rtol=1e-10, atol=1e-12)
    leaves, seed = [x, *attention.parameters()], torch.randn_like(got)
    for one, two in zip(torch.autograd.grad(got, leaves, seed), torch.autograd.grad(wanted, leaves, seed), strict=True):
        assert_close(one, two, rtol=1e-9, atol=1e-11)


def test_new_rows_attend_as_in_the_whole() -> None:
    """The last two rows alone, with keys and values that lie ready."""
    attention, x, mask, left = make()
    joint = torch.nn.functional.linear(x, *attention.step_projection())
    query, key, value = (split_heads(part, HEADS) for part in joint.chunk(3, dim=-1))
    rows = torch.tensor([[3, 4]] * 3)
    seen = mask[:, 0, 3:].amax(dim=1, keepdim=True)  # one mask for all queries
    got = attention.attend_rows(
        query[:, :, 3:], joint[..., :0], key, value, mask_N1R=seen, left_NQR=left[:, 3:], own_NQ=rows
    )
    wanted = attention(x, mask=seen[:, None].expand(3, 1, ROWS, ROWS), left=left)[:, 3:]
    assert_close(attention.out(got), wanted, rtol=1e-10, atol=1e-12)
