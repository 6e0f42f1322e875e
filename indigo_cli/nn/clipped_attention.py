"""Self-attention with learned keys and values of clipped distances, for whole sequences and for cached rounds.

Shape letters: N sequences, Q queries, R keys, H heads, D model width, d = D / H head width, C = 2 k + 1 distances.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from indigo_cli.nn.attention import merge_heads, split_heads


class ClippedAttention(nn.Module):
    """Shaw, Uszkoreit & Vaswani (2018), Eqs. 3 and 4: e_ij = u_i Q . (u_j K + a[c_ij]) / sqrt(d), and b[c_ij] is added
    to the values; a and b are shared by the heads of a layer.

    Products with a are taken for each distance and then picked, weights of keys at one distance are added up before
    they meet b: a Q x R x d tensor never exists.

    Args:
        model_dim: D.
        num_heads: H.
        max_distance: k.
    """

    has_relations = True

    def __init__(self, model_dim: int, num_heads: int, *, max_distance: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = model_dim // num_heads
        self.scale = 1.0 / math.sqrt(self.head_dim)
        self.qkv = nn.Linear(model_dim, 3 * model_dim, bias=False)
        self.out = nn.Linear(model_dim, model_dim)
        self.distance_keys = nn.Parameter(torch.randn(2 * max_distance + 1, self.head_dim) * self.head_dim**-0.5)
        self.distance_values = nn.Parameter(torch.randn(2 * max_distance + 1, self.head_dim) * self.head_dim**-0.5)

    def step_projection(self) -> tuple[Tensor, None]:
        """Return the projection to q, k and v with the scale of the logits in the queries."""
        model_dim = self.qkv.in_features
        weight = self.qkv.weight
        return torch.cat((weight[:model_dim] * self.scale, weight[model_dim:])), None

    def forward(
        self, x_NRD: Tensor, *, mask: Tensor | None, causal: bool = False, left: Tensor | None = None
    ) -> Tensor:
        """Attend over a whole sequence.

        Args:
            x_NRD: Inputs.
            mask: Additive float (0 or -inf), broadcastable to (N, H, R, R).
            causal: Not here: `mask` must say so itself.
            left: (N, R, R) int64 distance class, 0..2 k, of the key (last dimension) as the query sees it.
        Returns: (N, R, D).
        """
        assert left is not None and mask is not None
        query, key, value = (split_heads(x, self.num_heads) for x in self.qkv(x_NRD).chunk(3, dim=-1))
        mixed = self._mix(query * self.scale, key, value, mask, left[:, None])
        attended: Tensor = self.out(merge_heads(mixed))
        return attended

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
        """See `SelfAttention.attend_rows`; `left_NQR` as in `forward`."""
        assert left_NQR is not None
        mask = None if mask_N1R is None else mask_N1R[:, None]
        return merge_heads(self._mix(query_NHQd, keys_NHRd, values_NHRd, mask, left_NQR[:, None]))

    def _mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, distance_N1QR: Tensor) -> Tensor:
        """Return (N, H, Q, d) for scaled queries."""
        logits = query @ key.transpose(2, 3)
        distance = distance_N1QR.expand(-1, self.num_heads, -1, -1)
        logits = logits + functional.linear(query, self.distance_keys).gather(3, distance)
        if mask is not None:
            logits = logits + mask.to(logits.dtype)
        weights = logits.softmax(dim=3)
        of_distance = weights.new_zeros(*weights.shape[:3], len(self.distance_values))
        of_distance = of_distance.scatter_add(3, distance, weights)
        return weights @ value + of_distance @ self.distance_values
