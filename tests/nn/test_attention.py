"""Attention with relations against Eq. 7 with A[r] materialised, pair by pair."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from indigo_cli.models.indigo_config import IndigoConfig
from indigo_cli.nn.attention import (
    CrossAttention,
    RelationTable,
    Scale,
    SelfAttention,
    attend,
    merge_heads,
    split_heads,
)
from tests import reference
from tests.tensors import assert_close

HEADS, DIM, ROWS = 2, 6, 5
CAUSAL = torch.full((ROWS, ROWS), -torch.inf).triu(1)
scales = pytest.mark.parametrize("scale", ["model", "head"])
tables = pytest.mark.parametrize("relations", ["slices", "shared"])


def make(scale: Scale, relations: RelationTable) -> SelfAttention:
    torch.manual_seed(0)
    attention = SelfAttention(DIM, HEADS, scale=scale, relations=relations).double()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return attention


def config(scale: Scale, relations: RelationTable) -> IndigoConfig:
    table = "slices" if relations == "none" else relations
    return IndigoConfig(model_dim=DIM, num_heads=HEADS, attention_scale=scale, relation_table=table)


def left_of(order: list[int]) -> Tensor:
    return torch.tensor(reference.relations_of(order)).clamp(min=0).double()


@scales
@tables
def test_values_and_gradients_are_those_of_eq_7(scale: Scale, relations: RelationTable) -> None:
    attention, order = make(scale, relations), [2, 0, 1]
    x = torch.randn(2, ROWS, DIM, dtype=torch.float64, requires_grad=True)
    got = attention(x, mask=CAUSAL, left=left_of(order))
    wanted = torch.stack(
        [
            reference.self_attention(
                attention, config(scale, relations), row, r=reference.relations_of(order), causal=True
            )
            for row in x
        ]
    )
    assert_close(got, wanted, rtol=1e-10, atol=1e-10)
    leaves = [x, *attention.parameters()]
    seed = torch.randn_like(got)
    for one, other in zip(
        torch.autograd.grad(got, leaves, seed), torch.autograd.grad(wanted, leaves, seed), strict=True
    ):
        assert_close(one, other, rtol=1e-8, atol=1e-10)


@tables
def test_gradient_is_the_slope(relations: RelationTable) -> None:
    attention, left = make("model", relations), left_of([2, 0, 1])
    x = torch.randn(1, ROWS, DIM, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: attention(y, mask=CAUSAL, left=left), (x,))


@scales
def test_plain_attention(scale: Scale) -> None:
    attention = make(scale, "none")
    assert not attention.has_relations
    x = torch.randn(1, ROWS, DIM, dtype=torch.float64)
    for causal in (True, False):
        wanted = reference.self_attention(attention, config(scale, "none"), x[0], r=None, causal=causal)
        assert_close(attention(x, mask=None, causal=causal)[0], wanted, rtol=1e-10, atol=1e-10)


@tables
def test_rows_may_be_renamed(relations: RelationTable) -> None:
    """Nothing but the relations says where a row stands."""
    attention, left, turn = make("model", relations), left_of([2, 0, 1]), torch.tensor([3, 0, 4, 1, 2])
    x, mask = torch.randn(1, ROWS, DIM, dtype=torch.float64), torch.zeros(ROWS, ROWS)
    whole = attention(x, mask=mask, left=left)
    assert_close(attention(x[:, turn], mask=mask, left=left[turn][:, turn]), whole[:, turn])


def test_each_relation_has_its_own_row_of_the_table() -> None:
    """Rows of A: right of me, myself, left of me. A huge number in one of them draws all attention there."""
    attention = make("head", "shared")
    assert attention.relation_bias is not None
    with torch.no_grad():
        attention.out.weight.copy_(torch.eye(DIM))
        attention.out.bias.zero_()
        attention.qkv.weight[: 2 * DIM].zero_()
    x, left = torch.randn(1, ROWS, DIM, dtype=torch.float64), left_of([2, 0, 1])
    values = x[0] @ attention.qkv.weight[2 * DIM :].T
    r = torch.tensor(reference.relations_of([2, 0, 1]))
    for relation in (-1, 0, 1):
        with torch.no_grad():
            attention.relation_bias.zero_()
            attention.relation_bias[relation + 1] = 1e4
        got = attention(x, mask=torch.zeros(ROWS, ROWS), left=left)[0]
        for i in range(ROWS):
            chosen = values[r[i] == relation]
            assert_close(got[i], chosen.mean(0) if len(chosen) else values.mean(0))


def test_heads_are_split_and_merged() -> None:
    x = torch.arange(12.0).reshape(1, 2, 6)
    split = split_heads(x, 3)
    assert split.shape == (1, 3, 2, 2)
    assert split[0, 1].tolist() == [[2.0, 3.0], [8.0, 9.0]]
    assert torch.equal(merge_heads(split), x)


@pytest.mark.parametrize("queries", [1, 3])
def test_attention_of_a_few_queries(queries: int) -> None:
    query, keys, values = (torch.randn(2, HEADS, rows, 3, dtype=torch.float64) for rows in (queries, ROWS, ROWS))
    bias = torch.randn(2, HEADS, queries, ROWS, dtype=torch.float64)
    bias[0, :, :, 2] = -torch.inf
    for added in (None, bias):
        wanted = functional.scaled_dot_product_attention(query, keys, values, attn_mask=added, scale=1.0)
        got = attend(query, keys.flatten(0, 1), values.flatten(0, 1), None if added is None else added.flatten(0, 1))
        assert_close(got, merge_heads(wanted), rtol=1e-10, atol=1e-10)


def test_cross_attention_and_its_mask() -> None:
    torch.manual_seed(1)
    cross = CrossAttention(DIM, HEADS).double()
    rows, memory = torch.randn(2, 3, DIM, dtype=torch.float64), torch.randn(2, 4, DIM, dtype=torch.float64)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])[:, None, None]
    got = cross(rows, cross.memory(memory), mask)
    hidden = torch.zeros(2, 4, dtype=torch.float64).masked_fill(~mask[:, 0, 0], -torch.inf)
    step = cross.step(rows, cross.step_memory(memory), hidden.repeat_interleave(HEADS, dim=0)[:, None])
    assert_close(step, got, rtol=1e-10, atol=1e-10)
    assert_close(got[0], reference.cross_attention(cross, rows[0], memory[0]), rtol=1e-10, atol=1e-10)
    assert_close(got[1], reference.cross_attention(cross, rows[1], memory[1, :2]), rtol=1e-10, atol=1e-10)
