"""The fast selection finds what `topk` finds."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.decoding.topk import MAX_COUNT, STRIPES, top_words


@given(
    seed=st.integers(0, 2**32),
    num_words=st.one_of(st.integers(1, 40), st.integers(STRIPES, 40 * STRIPES)),
    count=st.integers(1, MAX_COUNT + 2),
    levels=st.sampled_from([2, 30, 10**6]),
    impossible=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_values_are_those_of_topk(seed: int, num_words: int, count: int, levels: int, impossible: float) -> None:
    """With few levels most values tie; which of equals is chosen is free, but none may be chosen twice."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(levels, (2, 3, num_words), generator=generator).float()
    logits[torch.rand(logits.shape, generator=generator) < impossible] = -torch.inf
    values, columns = top_words(logits, count)
    assert values.shape == columns.shape == (2, 3, min(count, num_words))
    assert torch.equal(values, logits.topk(min(count, num_words), dim=-1).values)
    assert torch.equal(logits.gather(-1, columns), values)
    assert (columns.sort(dim=-1).values.diff(dim=-1) > 0).all()


@pytest.mark.parametrize("best", [0, STRIPES - 1, STRIPES, 16 * STRIPES - 1, 16 * STRIPES, 16 * STRIPES + 7])
def test_the_best_is_found_wherever_it_stands(best: int) -> None:
    """Also in the columns that fill no stripe."""
    logits = torch.zeros(1, 16 * STRIPES + 8)
    logits[0, best] = 1.0
    values, columns = top_words(logits, 3)
    assert columns[0, 0] == best
    assert values.tolist() == [[1.0, 0.0, 0.0]]


def test_the_best_may_share_a_stripe() -> None:
    logits = torch.zeros(1, 16 * STRIPES)
    wanted = [5, 5 + STRIPES, 5 + 2 * STRIPES, 5 + 9 * STRIPES]
    logits[0, wanted] = torch.tensor([4.0, 3.0, 2.0, 1.0])
    assert top_words(logits, 4)[1].tolist() == [wanted]
