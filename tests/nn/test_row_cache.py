"""The cache of hypotheses of different lengths against lists of rows."""

import random

import pytest
import torch
from torch import Tensor

from indigo_cli.nn.row_cache import RowCache

LAYERS, HEADS, DIM, OWN = 2, 3, 2, 1


def numbered(rows: list[list[int]], width: int) -> Tensor:
    """Return keys and values (2, P, H, n, d) that tell row, layer-free, head and side apart."""
    padded = torch.tensor([row + [-9] * (width - len(row)) for row in rows], dtype=torch.float32)
    side = torch.arange(2)[:, None, None, None, None] * 0.5
    head = torch.arange(HEADS)[:, None, None] * 100.0
    return (padded[None, :, None, :, None] + side + head).expand(2, len(rows), HEADS, width, DIM)


@pytest.mark.parametrize("capacity", [1, 4, 64])
@pytest.mark.parametrize("seed", range(4))
def test_each_hypothesis_has_its_own_rows(capacity: int, seed: int) -> None:
    choose = random.Random(seed)
    cache = RowCache(LAYERS, HEADS, DIM, own=OWN, places=2, like=torch.zeros(1), capacity=capacity)
    wanted: list[list[int]] = [[], []]
    names = iter(range(1000))
    for step in range(6):
        counts = [choose.randint(0, 4) for _ in wanted]
        counts[0] = max(counts[0], 1)
        new = [[next(names) for _ in range(count)] for count in counts]
        wanted = [row + more for row, more in zip(wanted, new, strict=True)]
        longest = max(map(len, wanted))
        row = cache.grow(torch.tensor(counts), max(counts), longest)
        assert [r[:c] for r, c in zip(row.tolist(), counts, strict=True)] == [
            list(range(len(all_) - c, len(all_))) for all_, c in zip(wanted, counts, strict=True)
        ]
        content = numbered(new, max(counts))
        for layer in range(LAYERS):
            keys, values = cache.write(layer, content + layer)
            assert keys.shape == values.shape == (len(wanted), HEADS, longest, DIM)
            for place, rows in enumerate(wanted):
                expected = numbered([rows], len(rows))[:, 0] + layer
                assert torch.equal(keys[place, :, : len(rows)], expected[0])
                assert torch.equal(values[place, :, : len(rows)], expected[1])
            assert keys.isfinite().all()
        cache.write_own(content[0, :, 0, :, :OWN])
        index = torch.tensor(
            [[choose.randrange(len(rows)) for _ in range(3)] for rows in (row or [0] for row in wanted)]
        )
        for place, rows in enumerate(wanted):
            if rows:
                got = cache.own(index, slice(None))[place, :, 0]
                assert got.tolist() == [rows[i] for i in index[place].tolist()]
        mask = cache.mask()
        if len(wanted) == 1:
            assert mask is None
        else:
            assert mask is not None and mask.shape == (len(wanted), 1, longest)
            assert (mask[:, 0] == 0).sum(dim=1).tolist() == list(map(len, wanted))
        if step % 2:
            places = [choose.randrange(len(wanted)) for _ in range(choose.randint(1, 4))]
            places[0] = max(range(len(wanted)), key=lambda i: len(wanted[i]))
            cache.choose(torch.tensor(places))
            wanted = [list(wanted[i]) for i in places]
