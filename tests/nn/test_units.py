"""Counting on the device, at once or step by step, is counting in plain Python."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.units import UNITS, LengthUnit, unit_table
from indigo_cli.core.vocab import PAD, UNK
from indigo_cli.nn.units import UnitCounter
from tests.core.test_units import make_codec

TABLES = {
    (tokenizer, lang, unit): unit_table(make_codec(tokenizer, lang, 60), unit)
    for tokenizer in ("moses", "char")
    for lang in ("en", "ja")
    for unit in UNITS
}


@pytest.mark.parametrize("unit", list(UNITS))
@pytest.mark.parametrize("tokenizer", ["moses", "char"])
@pytest.mark.parametrize("lang", ["en", "ja"])
@given(data=st.data())
def test_a_batch_and_single_steps_count_like_the_table(
    lang: str, tokenizer: str, unit: LengthUnit, data: st.DataObject
) -> None:
    """Any ids in any sequence, in rows of different length."""
    table = TABLES[tokenizer, lang, unit]
    counter = UnitCounter(table)
    rows = data.draw(st.lists(st.lists(st.integers(UNK, len(table) - 1), max_size=12), min_size=1, max_size=4))
    width = max(map(len, rows))
    words = torch.tensor([row + [PAD] * (width - len(row)) for row in rows], dtype=torch.long).reshape(len(rows), width)
    counts = counter(words)
    progress = counter.start(len(rows))
    assert progress.count.tolist() == [0] * len(rows)
    for place in range(width):
        progress = counter.extend(progress, words[:, place])
        assert torch.equal(progress.count, counts[:, place])
    for row, count in zip(rows, counts.tolist(), strict=True):
        assert count[: len(row)] == table.cumulative(row)
        assert count[len(row) :] == [table.count(row)] * (width - len(row))
    assert counter.lengths(words).tolist() == [table.count(row) for row in rows]


def test_progress_follows_the_beam() -> None:
    """Places that are chosen again, in another order and twice, go on from what stands in them."""
    codec = make_codec("moses", "en", 60)
    table = unit_table(codec, "character")
    counter = UnitCounter(table)
    begun = [codec.encode(text) for text in ("(today), or", '"it')]
    width = max(map(len, begun))
    progress = counter.start(2)
    rows = torch.tensor([row + [PAD] * (width - len(row)) for row in begun])
    for place in range(width):
        on = counter.extend(progress, rows[:, place])
        both = [
            on.choose(torch.tensor([i])) if place < len(begun[i]) else progress.choose(torch.tensor([i]))
            for i in (0, 1)
        ]
        progress = type(on)(*(torch.cat(pair) for pair in zip(*(vars(one).values() for one in both), strict=True)))
    end = codec.encode('"')[0]
    after = counter.extend(progress.choose(torch.tensor([1, 0, 1])), torch.tensor([end, end, begun[0][0]]))
    assert after.count.tolist() == [
        table.count([*begun[1], end]),
        table.count([*begun[0], end]),
        table.count([*begun[1], begun[0][0]]),
    ]
