"""Stacks: teacher forcing = cached steps, padding is not seen, several orders of a source."""

import math
import random

import pytest
import torch
from torch import Tensor, nn

from indigo_cli.nn import cache
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
    state, done, found = decoder.start(memory, MASK), 0, []
    for count in pieces:
        seen = done + count
        new_left = None if left is None else left[:, done:seen, :seen]
        found.append(decoder.extend(x[:, done:seen], state, left_PnR=new_left))
        done = seen
    assert_close(torch.cat(found, dim=1), whole, atol=1e-5)


@tables
@pytest.mark.parametrize("most", [0, 3, 99], ids=["copies", "both", "shared"])
@torch.inference_mode()
def test_hypotheses_that_branch_are_each_the_whole(
    relations: RelationTable, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever parents a step takes: the newest row is that of the hypothesis alone, from nothing."""
    for name, value in (("MAX_SHARED", most), ("SWEEP_EVERY", 2), ("SPARE", 1.0)):
        monkeypatch.setattr(cache, name, value)
    decoder, memory, choose = make_decoder(relations), torch.randn(2, 3, DIM), random.Random(1)
    state = decoder.start(memory, MASK)
    inputs = torch.randn(2, 1, 1, DIM)  # (S, B, R, D)
    left = torch.zeros(2, 1, 1, 1)  # (S, B, R, R)
    for beam in (1, 3, 5, 2, 2, 4, 1, 1, 3):
        hypotheses = inputs.flatten(0, 1)
        relation = None if relations == "none" else left.flatten(0, 1)
        new = decoder.extend(
            hypotheses[:, -1:], state, left_PnR=None if relation is None else relation[:, -1:].contiguous()
        )
        whole = decoder(hypotheses, memory, MASK, left=None if relation is None else relation[:, None])
        assert_close(new, whole[:, -1:], atol=1e-5)
        old, rows = inputs.shape[1:3]
        parent = torch.tensor([[choose.randrange(old) for _ in range(beam)] for _ in range(2)])
        state.cache.choose(parent)
        at = torch.arange(2)[:, None]
        inputs = torch.cat((inputs[at, parent], torch.randn(2, beam, 1, DIM)), dim=2)
        left = torch.nn.functional.pad(left[at, parent], (0, 1, 0, 1))
        left[:, :, rows, :rows] = torch.randint(0, 2, (2, beam, rows)).float()
        left[:, :, :rows, rows] = 1.0 - left[:, :, rows, :rows]


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
    assert_close(decoder.extend(x[1:, 4:], state), decoder(x, memory, MASK)[1:, 4:], atol=1e-5)


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
