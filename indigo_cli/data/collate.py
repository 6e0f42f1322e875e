"""Pad sources, targets and orders into a `Batch`. Padding is always on the right."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from indigo_cli.core.vocab import EOS, PAD
from indigo_cli.data.batch import Batch, Plan, Source

Ids = NDArray[np.int64] | Sequence[int]


def pad_rows(rows: Sequence[Ids], *, value: int, close: int | None = None) -> NDArray[np.int64]:
    """Return (N, longest) int64, filled with `value`; `close` is appended to every row if given."""
    extra = 0 if close is None else 1
    out = np.full((len(rows), max((len(row) for row in rows), default=0) + extra), value, dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
        if close is not None:
            out[i, len(row)] = close
    return out


def collate_source(rows: Sequence[Ids], wishes: Sequence[int] = ()) -> Source:
    """Close every source by `</s>` and pad; `wishes`, if there are any, are those of each (see `Source`)."""
    values = torch.from_numpy(pad_rows(rows, value=PAD, close=EOS))
    return Source(values, values != PAD, torch.tensor(wishes, dtype=torch.int64) if wishes else None)


def collate(
    ids: Sequence[str],
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    orders: Sequence[Sequence[Ids]],
    *,
    given: Sequence[int] = (),
    wishes: Sequence[int] = (),
) -> Batch:
    """Build a batch.

    Args:
        ids: Names of the examples.
        sources: Source ids of each.
        targets: Target ids of each, in surface order, without boundaries.
        orders: K orders of each, the same K for all; each weighs 1 / K.
        given: How many first words of its orders stand already, for each; none of any if empty.
        wishes: Length that each target is to have, see `Source`; empty = its own.
    """
    lengths = np.array([len(target) for target in targets], dtype=np.int64)
    width, num_orders = int(lengths.max(initial=0)), len(orders[0])
    plan = np.tile(np.arange(width, dtype=np.int64), (len(ids), num_orders, 1))
    for i, candidates in enumerate(orders):
        for k, order in enumerate(candidates):
            plan[i, k, : len(order)] = order
    return Batch(
        ids=tuple(ids),
        source=collate_source(sources, wishes),
        target=torch.from_numpy(pad_rows(targets, value=PAD)),
        lengths=torch.from_numpy(lengths),
        plan=Plan(
            torch.from_numpy(plan),
            torch.full((len(ids), num_orders), 1.0 / num_orders),
            torch.tensor(given) if given else None,
        ),
        num_tokens=int(lengths.sum()),
        num_given=sum(given),
    )
