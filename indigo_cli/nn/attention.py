"""Multi-head attention, plain or with InDIGO's three relations, for whole sequences and for cached decoding.

Shape letters: N sequences, Q queries, R keys, H heads, D model width, d = D / H head width.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

Scale = Literal["model", "head"]
RelationTable = Literal["none", "slices", "shared"]


def split_heads(x_NQD: Tensor, num_heads: int) -> Tensor:
    """(N, Q, D) -> (N, H, Q, d)."""
    heads: Tensor = x_NQD.unflatten(-1, (num_heads, -1))
    return heads.transpose(1, 2)


def merge_heads(x_NHQd: Tensor) -> Tensor:
    """(N, H, Q, d) -> (N, Q, D)."""
    return x_NHQd.transpose(1, 2).flatten(2)


def attend(query_NHQd: Tensor, keys_MRd: Tensor, values_MRd: Tensor, bias: Tensor | None) -> Tensor:
    """Attend with a few queries to keys that lie ready, M = N * H, and return (N, Q, D).

    For one query or a handful the plain products take half the time of the fused kernel, which is made for many.
    `bias` is added to the products, which are scaled already, and broadcasts to (M, Q, R).
    """
    query, keys = query_NHQd.flatten(0, 1), keys_MRd.transpose(1, 2)
    logits = torch.bmm(query, keys) if bias is None else torch.baddbmm(bias, query, keys)
    mixed = torch.bmm(logits.softmax(dim=2), values_MRd)
    return merge_heads(mixed.view(query_NHQd.shape))


class SelfAttention(nn.Module):
    """Self-attention whose logits may depend on whether a key stands left of, is, or stands right of the query.

    Eq. 7: e_ij = (u_i Q) . (u_j K + A[r_ij])^T / sqrt(d_model). A softmax does not see a constant of its row, so the
    term of "right of me" is subtracted and two numbers a query and head remain: c for keys on my left, g for myself.
    Both are extra columns of the query projection (A folded into Q), so a T x T x d tensor never exists.

    Args:
        model_dim: D.
        num_heads: H.
        scale: Divisor of the logits: sqrt of the `model` width (Eq. 7 as printed, and Squirrel) or of the `head` width.
        relations: `none`; `slices`: A in R^(3 x D), each head its own slice, as printed; `shared`: one A in R^(3 x d)
            with a bias, shared by the heads of a layer, as in Squirrel.
    """

    def __init__(self, model_dim: int, num_heads: int, *, scale: Scale, relations: RelationTable) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = model_dim // num_heads
        self.scale = 1.0 / math.sqrt(model_dim if scale == "model" else self.head_dim)
        self.qkv = nn.Linear(model_dim, 3 * model_dim, bias=False)
        self.out = nn.Linear(model_dim, model_dim)
        self.relation_table: nn.Parameter | None = None  # rows: right of me (-1), myself (0), left of me (+1)
        self.relation_bias: nn.Parameter | None = None
        if relations != "none":
            width = model_dim if relations == "slices" else self.head_dim
            self.relation_table = nn.Parameter(torch.randn(3, width) * self.head_dim**-0.5)
            if relations == "shared":
                self.relation_bias = nn.Parameter(torch.zeros(3))

    @property
    def has_relations(self) -> bool:
        """Whether `left` must be given."""
        return self.relation_table is not None

    def projection(self) -> tuple[Tensor, Tensor | None]:
        """Return weight and bias of the joint projection to q, k, v and, with relations, the 2 H columns of c and g."""
        if self.relation_table is None:
            return self.qkv.weight, None
        model_dim = self.qkv.in_features
        query = self.qkv.weight[:model_dim].unflatten(0, (self.num_heads, self.head_dim))  # (H, d, D)
        table = self.relation_table.unflatten(1, (-1, self.head_dim))  # (3, H or 1, d)
        delta = torch.stack((table[2] - table[0], table[1] - table[0])).expand(2, self.num_heads, -1) * self.scale
        columns = torch.einsum("rhe,hed->rhd", delta, query).flatten(0, 1)
        weight = torch.cat((self.qkv.weight, columns))
        if self.relation_bias is None:
            return weight, None
        offsets = torch.stack(
            (self.relation_bias[2] - self.relation_bias[0], self.relation_bias[1] - self.relation_bias[0])
        )
        bias = torch.cat((weight.new_zeros(3 * model_dim), offsets.repeat_interleave(self.num_heads) * self.scale))
        return weight, bias

    def step_projection(self) -> tuple[Tensor, Tensor | None]:
        """Return what `projection` does with the scale of the logits in the queries: for `attend`."""
        weight, bias = self.projection()
        model_dim = self.qkv.in_features
        return torch.cat((weight[:model_dim] * self.scale, weight[model_dim:])), bias

    def step_bias(self, relation_GQE: Tensor, left_GQR: Tensor, mask: Tensor | None) -> Tensor:
        """Turn the columns of c and g, E = 2 H, into what `attend` adds, (G * H, Q, R); the new rows are the last Q."""
        to_left, to_self = relation_GQE.unflatten(2, (2, self.num_heads)).permute(2, 0, 3, 1)
        bias: Tensor = to_left[..., None] * left_GQR[:, None].to(to_left.dtype)
        if mask is not None:
            bias += mask[:, None]
        queries, rows = bias.shape[2:]
        bias.diagonal(offset=rows - queries, dim1=2, dim2=3).add_(to_self)
        return bias.flatten(0, 1)

    def attend_rows(
        self,
        query_NHQd: Tensor,
        relation_NQE: Tensor,
        keys_NHRd: Tensor,
        values_NHRd: Tensor,
        *,
        mask_N1R: Tensor | None,
        left_NQR: Tensor | None,
        own_NQ: Tensor,
    ) -> Tensor:
        """Attend with new rows to all that stand, the new ones among them, and return (N, Q, D).

        Args:
            query_NHQd: As `step_projection` gives them: scaled.
            relation_NQE: What it gives beside queries, keys and values: E = 2 H columns with relations, else none.
            keys_NHRd, values_NHRd: Of all rows.
            mask_N1R: Additive float, which rows there are; None = all.
            left_NQR: With relations, see `forward`.
            own_NQ: Which row each query is.
        """
        bias = None
        if left_NQR is not None:
            to_left, to_self = relation_NQE.unflatten(2, (2, self.num_heads)).permute(2, 0, 3, 1)
            bias = to_left[..., None] * left_NQR[:, None].to(to_left.dtype)
            if mask_N1R is not None:
                bias += mask_N1R[:, None]
            bias.scatter_add_(3, own_NQ[:, None, :, None].expand(-1, self.num_heads, -1, -1), to_self[..., None])
            bias = bias.flatten(0, 1)
        elif mask_N1R is not None:
            bias = mask_N1R.repeat_interleave(self.num_heads, dim=0)
        return attend(query_NHQd, keys_NHRd.flatten(0, 1), values_NHRd.flatten(0, 1), bias)

    def project(self, x_NQD: Tensor) -> tuple[Tensor, ...]:
        """Return q, k, v, each (N, Q, D), and with relations c and g, each (N, H, Q), already scaled."""
        model_dim = self.qkv.in_features
        joint = functional.linear(x_NQD, *self.projection())
        if not self.has_relations:
            query, key, value = joint.split(model_dim, dim=-1)
            return query, key, value
        query, key, value, left, self_ = joint.split([model_dim] * 3 + [self.num_heads] * 2, dim=-1)
        return query, key, value, left.transpose(1, 2), self_.transpose(1, 2)

    def forward(
        self, x_NRD: Tensor, *, mask: Tensor | None, causal: bool = False, left: Tensor | None = None
    ) -> Tensor:
        """Attend over a whole sequence.

        Args:
            x_NRD: Inputs.
            mask: Keys that may be seen, broadcastable to (N, H, R, R): additive float (0 or -inf); plain: bool, too, or
                None.
            causal: Plain attention to this and earlier rows only; with relations `mask` must say so itself.
            left: With relations, float, broadcastable to (N, 1, R, R), 1 where the key stands left of the query.
        Returns: (N, R, D).
        """
        query, key, value, *relation = self.project(x_NRD)
        bias = mask
        if relation:
            assert left is not None and mask is not None
            to_left, to_self = relation
            bias = torch.addcmul(mask.to(to_left.dtype), to_left[..., None], left.to(to_left.dtype))
            bias.diagonal(dim1=-2, dim2=-1).add_(to_self)
        mixed = functional.scaled_dot_product_attention(
            split_heads(query, self.num_heads),
            split_heads(key, self.num_heads),
            split_heads(value, self.num_heads),
            attn_mask=bias,
            is_causal=causal,
            scale=self.scale,
        )
        attended: Tensor = self.out(merge_heads(mixed))
        return attended


class CrossAttention(nn.Module):
    """Attention from the decoder to the source. Keys and values of a source are computed once."""

    def __init__(self, model_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.scale = 1.0 / math.sqrt(model_dim // num_heads)
        self.query = nn.Linear(model_dim, model_dim, bias=False)
        self.key_value = nn.Linear(model_dim, 2 * model_dim, bias=False)
        self.out = nn.Linear(model_dim, model_dim)

    def memory(self, memory_SXD: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of the source, each (S, H, X, d)."""
        key, value = self.key_value(memory_SXD).chunk(2, dim=-1)
        return split_heads(key, self.num_heads), split_heads(value, self.num_heads)

    def step_memory(self, memory_SXD: Tensor) -> tuple[Tensor, Tensor]:
        """Return scaled keys and values of the source, each (S * H, X, d), for `step`."""
        keys, values = self.memory(memory_SXD)
        return (keys * self.scale).reshape(-1, *keys.shape[2:]), values.reshape(-1, *values.shape[2:])

    def step(self, x_SQD: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        """Attend to the source; `mask` is (S * H, 1, X), 0 or -inf. A source's hypotheses are its queries."""
        query = split_heads(self.query(x_SQD), self.num_heads)
        attended: Tensor = self.out(attend(query, *memory, mask))
        return attended

    def forward(self, x_SQD: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        """Attend to the source; `mask` is (S, 1, 1, X) bool, True = real."""
        key, value = memory
        query = split_heads(self.query(x_SQD), self.num_heads)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        attended: Tensor = self.out(merge_heads(mixed))
        return attended
