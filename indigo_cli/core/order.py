"""Generation orders, the slots they mean, and the relations between placed tokens.

An order lists surface indices in the order of generation; a slot is a gap between the tokens placed so far. Both count
from 0 and know only real tokens; the papers count from 1 and count the boundaries too (`absolute_positions`).
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from indigo_cli.core.format import shorten

T = TypeVar("T")

Order = tuple[int, ...]
"""`order[t]` is the surface index of the token generated at step t."""
Slots = tuple[int, ...]
"""`slots[t]` is the gap it entered: 0 = left end, t = right end of the t tokens placed."""


def check_order(order: Sequence[int], length: int) -> None:
    """Make sure that an order places each of `length` tokens once.

    Raises:
        ValueError: with the first fault in words that need no context.
    """
    if len(order) != length:
        raise ValueError(f"order has {len(order)} steps but the target has {length} tokens")
    seen: set[int] = set()
    for step, index in enumerate(order):
        if type(index) is not int:  # bool and float would pass for numbers
            raise ValueError(f"step {step} of the order is {shorten(index)}, not a whole number")
        if not 0 <= index < length:
            raise ValueError(f"step {step} of the order is {index}, outside 0..{length - 1}")
        if index in seen:
            raise ValueError(f"the order places token {index} twice")
        seen.add(index)


def order_to_slots(order: Sequence[int]) -> Slots:
    """Return the slot of each step: how many of the tokens placed before stand to its left.

    Any run of distinct indices will do, so the first steps of an order have the first slots. Example: (1, 2, 0) enters
    the slots (0, 1, 0).
    """
    placed: list[int] = []
    slots: list[int] = []
    for index in order:
        slots.append(bisect_left(placed, index))
        insort(placed, index)
    return tuple(slots)


def slots_to_order(slots: Sequence[int]) -> Order:
    """Return the order that enters these slots: the inverse of `order_to_slots`.

    Raises:
        ValueError: a slot that does not exist at its step.
    """
    order = [0] * len(slots)
    for index, step in enumerate(replay(range(len(slots)), slots)):
        order[step] = index
    return tuple(order)


def replay(items: Sequence[T], slots: Sequence[int]) -> list[T]:
    """Insert items one by one at their slots and return them in surface order.

    Raises:
        ValueError: a slot that does not exist at its step, or not one slot an item.
    """
    canvas: list[T] = []
    for step, (item, slot) in enumerate(zip(items, slots, strict=True)):
        if not 0 <= slot <= step:
            raise ValueError(f"step {step} enters slot {slot}, but there are only the slots 0..{step}")
        canvas.insert(slot, item)
    return canvas


def slots_to_anchors(slots: Sequence[int]) -> tuple[int, ...]:
    """Name each slot by its left neighbour at that time: 0 is `<s>`, k the k-th generated token (from 1).

    An anchor keeps its meaning while other slots fill; slot numbers do not.
    """
    canvas: list[int] = [0]
    anchors: list[int] = []
    for step, slot in enumerate(slots, start=1):
        anchors.append(canvas[slot])
        canvas.insert(slot + 1, step)
    return tuple(anchors)


def anchors_to_slots(anchors: Sequence[int]) -> Slots:
    """Return slot numbers for anchors: the inverse of `slots_to_anchors`."""
    canvas: list[int] = [0]
    slots: list[int] = []
    for step, anchor in enumerate(anchors, start=1):
        slot = canvas.index(anchor)
        slots.append(slot)
        canvas.insert(slot + 1, step)
    return tuple(slots)


def absolute_positions(order: Sequence[int]) -> list[int]:
    """Return the paper's z: positions of `<s>`, `</s>` and then of the tokens in generation order.

    `<s>` stands at 0, tokens at 1..T and `</s>` at T + 1. Works for the first steps of an order too: the tokens placed
    so far are counted, as Eq. 4 does. Source: Gu et al. 2019 (TACL 7), section 3; PAPERS.md part A1.
    """
    rank = {index: place for place, index in enumerate(sorted(order), start=1)}
    return [0, len(order) + 1, *(rank[index] for index in order)]


def relative_positions(order: Sequence[int], *, boundaries: bool = False) -> list[list[int]]:
    """Return r with r[i][j] = 1, 0 or -1: j stands left of i, is i, or stands right of i.

    Rows and columns are in generation order; the matrix of the first steps is the upper left corner of the whole one.
    The positive entries of row i add up to the number of tokens left of i (Eq. 4). The paper's R is the transpose: its
    column i is our row i.

    Args:
        order: Distinct indices, one a step.
        boundaries: Put `<s>` and `</s>` in front as the paper does.
    """
    z = absolute_positions(order)
    if not boundaries:
        z = z[2:]
    return [[(a > b) - (a < b) for b in z] for a in z]


def stages(order: Sequence[int]) -> tuple[int, ...]:
    """Return the round, from 0, in which each token comes if every open slot takes the first token of its span.

    Those are the depths of the order's Cartesian tree, by surface index; orders with equal stages are one such history.
    """
    parent: dict[int, int] = {}
    step = {index: at for at, index in enumerate(order)}
    right_edge: list[int] = []  # of the tree so far, from its root down
    for index in range(len(order)):
        below = -1
        while right_edge and step[right_edge[-1]] > step[index]:
            below = right_edge.pop()
        if below >= 0:
            parent[below] = index
        if right_edge:
            parent[index] = right_edge[-1]
        right_edge.append(index)
    depth = [0] * len(order)
    for index in order:  # parents come first
        if index in parent:
            depth[index] = depth[parent[index]] + 1
    return tuple(depth)


def kendall_tau(order: Sequence[int]) -> float:
    """Return Kendall's rank correlation of an order with left to right: 1 the same, -1 right to left, 0 no relation.

    Orders of fewer than two tokens agree by definition: 1.
    """
    length = len(order)
    if length < 2:
        return 1.0
    agreeing = sum(order_to_slots(order))  # pairs generated in surface order
    return 4.0 * agreeing / (length * (length - 1)) - 1.0


def rightward_runs(order: Sequence[int]) -> int:
    """Return how many runs an order falls into, each step of a run being the right neighbour of the step before.

    Left to right is one run; right to left has as many as tokens.
    """
    return len(order) - sum(following == index + 1 for index, following in pairwise(order))
