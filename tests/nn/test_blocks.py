"""Stacks: teacher forcing = cached steps, padding is not seen, several orders of a source."""

import math

import pytest
import torch
from torch import Tensor, nn

from indigo_cli.nn.attention import RelationTable
from indigo_cli.nn.blocks import Decoder, Encoder, initialise
from tests import reference
from tests.tensors import assert_close

DIM, HEADS, ROWS = 6, 2, 6
ORDERS = [[2, 0, 3, 1], [0, 1, 2, 3]]
tables = pytest.mark.parametrize("relations", ["none", "slices", "shared"])


def randomise(part: nn.Module) -> None:
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)


def make_decoder(relations: RelationTable) -> Decoder:
    torch.manual_seed(0)
    decoder = Decoder(2, DIM, 10, HEADS, 0.1, relations=relations).eval()
    randomise(decoder)
    return decoder


def left_for(relations: RelationTable, orders: list[list[int]] = ORDERS) -> Tensor | None:
    if relations == "none":
        return None
    return torch.stack([torch.tensor(reference.relations_of(order)).clamp(min=0).float() for order in orders])


MASK = torch.tensor([[True, True, True], [True, True, False]])


@tables
@pytest.mark.parametrize("pieces", [[6], [1] * 6, [2, 1, 3], [3, 3]], ids=str)
@torch.inference_mode()
def test_steps_of_any_size_are_the_whole(relations: RelationTable, pieces: list[int]) -> None:
    decoder, left = make_decoder(relations), left_for(relations)
    x, memory = torch.randn(2, ROWS, DIM), torch.randn(2, 3, DIM)
    whole = decoder(x, memory, MASK, left=None if left is None else left[:, None])
    state, done, found = decoder.start(memory, MASK, extra=2), 0, []
    for count in pieces:
        seen = done + count
        new_left = None if left is None else left[:, done:seen, :seen]
        hidden, own = decoder.extend(x[:, done:seen], state, left_PnR=new_left)
        assert own.shape == (count, 2, 2)
        found.append(hidden)
        done = seen
    assert_close(torch.cat(found, dim=1), whole, atol=1e-5)


@tables
def test_several_orders_of_a_source_stand_side_by_side(relations: RelationTable) -> None:
    decoder, memory = make_decoder(relations), torch.randn(2, 3, DIM)
    x = torch.randn(4, ROWS, DIM)
    left = left_for(relations, [*ORDERS, *ORDERS[::-1]])
    together = decoder(x, memory, MASK, left=None if left is None else left[:, None])
    for row in range(4):
        one = slice(row, row + 1)
        source = slice(row // 2, row // 2 + 1)
        alone = decoder(x[one], memory[source], MASK[source], left=None if left is None else left[one, None])
        assert_close(together[one], alone, atol=1e-5)


@tables
def test_a_row_does_not_see_later_rows(relations: RelationTable) -> None:
    decoder, left, memory = make_decoder(relations), left_for(relations), torch.randn(2, 3, DIM)
    x = torch.randn(2, ROWS, DIM)
    changed = x.clone()
    changed[:, 4:] = 7.0
    before, after = (decoder(y, memory, MASK, left=None if left is None else left[:, None]) for y in (x, changed))
    assert_close(after[:, :4], before[:, :4])
    assert not torch.allclose(after[:, 4:], before[:, 4:], atol=1e-2)


@tables
def test_padded_source_tokens_are_not_seen(relations: RelationTable) -> None:
    torch.manual_seed(1)
    encoder, decoder = Encoder(2, DIM, 10, HEADS, 0.1, relations=relations).eval(), make_decoder(relations)
    randomise(encoder)
    source, x, left = torch.randn(2, 3, DIM), torch.randn(2, ROWS, DIM), left_for(relations)
    padded = source.clone()
    padded[1, 2] = 50.0
    first, second = encoder(source, MASK), encoder(padded, MASK)
    assert_close(first[MASK], second[MASK])
    alone = encoder(source[1:, :2], MASK[1:, :2])
    assert_close(first[1:, :2], alone, atol=1e-5)
    together, single = (
        decoder(y, memory, mask, left=None if left is None else left[rows, None])
        for y, memory, mask, rows in ((x, second, MASK, slice(2)), (x[1:], alone, MASK[1:, :2], slice(1, 2)))
    )
    assert_close(together[1:], single, atol=1e-5)


@torch.inference_mode()
def test_keeping_some_sentences() -> None:
    decoder, memory, x = make_decoder("none"), torch.randn(2, 3, DIM), torch.randn(2, ROWS, DIM)
    state = decoder.start(memory, MASK)
    decoder.extend(x[:, :4], state)
    state = state.keep(torch.tensor([1]), torch.tensor([1]))
    hidden, _ = decoder.extend(x[1:, 4:], state)
    assert_close(hidden, decoder(x, memory, MASK)[1:, 4:], atol=1e-5)


def test_initial_values() -> None:
    torch.manual_seed(0)
    wide, square, table, norm = nn.Linear(30, 50), nn.Linear(8, 8, bias=False), nn.Embedding(2000, 64), nn.LayerNorm(5)
    initialise(nn.ModuleList([wide, square, table, norm]))
    for part in (wide, square):
        bound = math.sqrt(6 / (part.in_features + part.out_features))
        assert 0.8 * bound < part.weight.abs().max() <= bound
    assert not wide.bias.any()
    assert table.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
    assert norm.weight.tolist() == [1.0] * 5 and not norm.bias.any()
