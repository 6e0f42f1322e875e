"""Position schemes of growing canvases: by hand, by plain loops, and gradients by plain autograd."""

from itertools import permutations

import pytest
import torch
from torch import Tensor

from indigo_cli.data.collate import collate
from indigo_cli.models.insertion_history import history_of
from indigo_cli.nn.positions import POSITIONS
from indigo_cli.nn.positions.canvas import GrownCanvas
from indigo_cli.nn.positions.fractional import Fractional
from indigo_cli.nn.positions.sinusoidal import sinusoid
from tests.models.histories import grow
from tests.tensors import assert_close

DIM = 4


def canvas_of(orders: list[tuple[int, ...]]) -> GrownCanvas:
    targets = [[10] * len(order) for order in orders]
    batch = collate([str(i) for i in range(len(orders))], targets, targets, [[order] for order in orders])
    return history_of(batch.target, batch.plan.orders[:, 0], batch.lengths).canvas


def make_fractional() -> Fractional:
    torch.manual_seed(0)
    scheme: Fractional = POSITIONS["fractional"].build(DIM, max_distance=1).double()
    with torch.no_grad():
        scheme.bias.normal_()
    return scheme


def by_hand(scheme: Fractional, order: tuple[int, ...]) -> Tensor:
    """One row after another, in the order of the stages."""
    length = len(order)
    code = {0: scheme.ends[0], length + 1: scheme.ends[1]}
    for _, left, right, word, _ in sorted(grow(order).taken):
        code[word + 1] = scheme.weight @ torch.cat((code[left], code[right])) + scheme.bias
    return torch.stack([code[row] for row in range(length + 2)])


class TestFractional:
    def test_all_orders_of_up_to_four_words_in_one_batch(self) -> None:
        scheme = make_fractional()
        orders = [order for length in range(5) for order in permutations(range(length))]
        codes = scheme.codes(canvas_of(orders))
        assert codes.shape == (len(orders), 6, DIM)
        for got, order in zip(codes, orders, strict=True):
            assert_close(got[: len(order) + 2], by_hand(scheme, order), rtol=1e-10)
            assert not got[len(order) + 2 :].any()

    def test_gradients(self) -> None:
        scheme, orders = make_fractional(), [(2, 0, 1, 3, 4), (0, 1, 2), (), (1, 0)]
        codes = scheme.codes(canvas_of(orders))
        weight = torch.randn_like(codes)
        wanted = sum((by_hand(scheme, o) * w[: len(o) + 2]).sum() for o, w in zip(orders, weight, strict=True))
        assert isinstance(wanted, Tensor)
        parameters = list(scheme.parameters())
        for one, two in zip(
            torch.autograd.grad((codes * weight).sum(), parameters),
            torch.autograd.grad(wanted, parameters),
            strict=True,
        ):
            assert_close(one, two, rtol=1e-9, atol=1e-12)

    def test_targets_without_words(self) -> None:
        scheme = make_fractional()
        assert_close(scheme.codes(canvas_of([(), ()])), scheme.ends.expand(2, 2, DIM))

    def test_codes_are_as_large_in_deep_trees(self) -> None:
        """At the start, a word of stage 60 is no larger than one of stage 1 by more than a small factor."""
        torch.manual_seed(0)
        scheme: Fractional = POSITIONS["fractional"].build(256, max_distance=1)
        zigzag = tuple(i // 2 if i % 2 == 0 else 59 - i // 2 for i in range(60))
        norms = scheme.codes(canvas_of([zigzag, tuple(range(60))])).norm(dim=2).detach()
        assert float(norms.min()) > 4 and float(norms.max()) < 30


class TestClipped:
    @pytest.mark.parametrize("most", [1, 2, 50])
    def test_distances_are_those_of_a_plain_loop(self, most: int) -> None:
        """Between two rows lie those that stand after the round of the querying one."""
        scheme = POSITIONS["relative"].build(DIM, max_distance=most)
        orders = [(2, 0, 1, 3, 5, 4), (0, 1, 2), (), (6, 1, 0, 4, 3, 2, 5)]
        left = scheme.left(canvas_of(orders))
        for i, order in enumerate(orders):
            stage = grow(order).stage
            for query in range(len(stage)):
                standing = [row for row in range(len(stage)) if stage[row] <= stage[query]]
                for place, key in enumerate(standing):
                    distance = place - standing.index(query)
                    assert left[i, query, key] == min(max(distance, -most), most) + most
        assert left.min() >= 0 and left.max() <= 2 * most

    def test_a_round_of_new_words(self) -> None:
        scheme = POSITIONS["relative"].build(DIM, max_distance=2)
        got = scheme.new_left(torch.tensor([[1, 3]]), torch.tensor([[0, 4, 2, 1, 3]]))
        assert got.tolist() == [[[1, 4, 3, 2, 4], [0, 3, 1, 0, 2]]]


class TestTernary:
    def test_left_is_left(self) -> None:
        scheme = POSITIONS["ternary"].build(DIM, max_distance=1)
        assert scheme.left(canvas_of([(0, 1)])).tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]
        assert scheme.new_left(torch.tensor([[1]]), torch.tensor([[0, 2, 1]])).tolist() == [[[True, False, False]]]


def test_absolute_codes_count_what_stands() -> None:
    scheme = POSITIONS["absolute"].build(DIM, max_distance=1)
    stage = torch.tensor([[0, 1, 0, 1, 0, 1]])
    codes = scheme.codes(GrownCanvas(stage, stage, stage, torch.tensor([4])))
    assert_close(codes[0, [0, 2, 4]], sinusoid(torch.arange(3), DIM))


def test_what_a_row_sees() -> None:
    """Its own and earlier stages, never padding."""
    visible = canvas_of([(1, 0, 2), (0,)]).visible_NRR
    assert visible[0].int().tolist() == [[1, 0, 0, 0, 1], [1] * 5, [1, 0, 1, 0, 1], [1] * 5, [1, 0, 0, 0, 1]]
    assert not visible[1, :3, 3:].any() and visible[1, 1, :3].all()
    mask = canvas_of([(1, 0, 2), (0,)]).mask(torch.float32)
    assert torch.equal(mask[:, 0] == 0, visible) and torch.equal(mask[:, 0].isneginf(), ~visible)
