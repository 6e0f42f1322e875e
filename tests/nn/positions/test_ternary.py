"""Relations and neighbours of whole orders against one insertion at a time."""

from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.nn.positions.ternary import FIRST_ROW, left_matrix, neighbours, row_positions, standing
from tests import reference

orders = st.integers(0, 12).flatmap(lambda length: st.permutations(range(length)))


def rows_of(*some: list[int]) -> torch.Tensor:
    return row_positions(torch.tensor(some, dtype=torch.int64).reshape(len(some), -1))


def slow_neighbours(order: list[int]) -> tuple[list[int], list[int]]:
    """Return the rows left and right of the gap that each word enters."""
    left, right = [], []
    for step, slot in enumerate(reference.gold_slots(order)):
        canvas = reference.surface(reference.relations_of(order[:step]))
        left.append(canvas[slot])
        right.append(canvas[slot + 1])
    return left, right


@given(orders)
def test_neighbours_are_those_of_the_canvas(order: list[int]) -> None:
    z = rows_of(order)
    left, right = neighbours(z, z[:, FIRST_ROW:])
    assert (left[0].tolist(), right[0].tolist()) == slow_neighbours(order)


@given(orders)
def test_left_matrix_is_the_positive_part_of_r(order: list[int]) -> None:
    left = left_matrix(rows_of(order))
    assert left.shape == (1, 1, len(order) + 2, len(order) + 2) and left.dtype == torch.float32
    wanted = [[float(max(0, relation)) for relation in row] for row in reference.relations_of(order)]
    assert left[0, 0].tolist() == wanted


def test_vector_of_the_paper() -> None:
    """PAPERS.md A1: "A B C" in order B, C, A. Keys: right key of the left neighbour, left key of the right one."""
    z = rows_of([1, 2, 0])
    left, right = neighbours(z, z[:, FIRST_ROW:])
    pairs = [
        (k, (t + 1) + j) for t, (j, k) in enumerate(zip(left[0].tolist(), right[0].tolist(), strict=True), start=1)
    ]
    assert pairs == [(1, 2), (1, 5), (2, 4)]


@pytest.mark.parametrize("length", range(4))
def test_shorter_sentences_in_a_wider_batch(length: int) -> None:
    """Padding steps carry their own index (see `Plan`); nothing changes for the real rows."""
    for order in permutations(range(length)):
        padded = [*order, *range(length, 5)]
        z, alone = rows_of(padded, list(range(5))), rows_of(list(order))
        rows = length + FIRST_ROW
        assert torch.equal(left_matrix(z)[0, :, :rows, :rows], left_matrix(alone)[0])
        left, right = neighbours(z, z[:, FIRST_ROW:])
        assert (left[0, :length].tolist(), right[0, :length].tolist()) == slow_neighbours(list(order))


def test_between_words() -> None:
    """A position may lie between two of z: here 2.5 words, in halves."""
    z = 2 * rows_of([2, 0, 1])
    left, right = neighbours(z, torch.tensor([[5, 5, 5, 5]]))
    assert left[0].tolist() == [0, 2, 2, 2]
    assert right[0].tolist() == [1, 1, 1, 1]


def test_standing() -> None:
    assert standing(3, 5, torch.device("cpu")).int().tolist() == [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]
