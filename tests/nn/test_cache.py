"""The store of nodes and paths against plain lists: what each hypothesis sees, however it came about."""

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indigo_cli.nn import cache as cache_module
from indigo_cli.nn.cache import NodeCache
from tests.tensors import assert_close

LAYERS, HEADS, HEAD_DIM, OWN = 2, 3, 4, 2
DIM = HEADS * HEAD_DIM
Place = list[float]
"""The stamps of the rows of one hypothesis, oldest first."""

choices = st.lists(st.integers(0, 99), min_size=1, max_size=5)
uses = st.lists(
    st.one_of(
        st.tuples(st.just("choose"), st.lists(choices, min_size=1, max_size=3)),
        st.tuples(st.just("keep"), st.lists(st.booleans(), min_size=3, max_size=3)),
        st.tuples(st.just("grow"), st.none()),
    ),
    max_size=12,
)


class Checked:
    """A cache and the lists that it must agree with, [sentence][hypothesis]."""

    def __init__(self, sentences: int, capacity: int, *, waits: bool = True) -> None:
        like = torch.zeros(1, dtype=torch.float64)
        options: dict[str, Any] = {"own": OWN, "groups": sentences, "like": like, "capacity": capacity, "waits": waits}
        self.cache = NodeCache(LAYERS, HEADS, HEAD_DIM, **options)
        self.wanted: list[list[Place]] = [[[]] for _ in range(sentences)]
        self.stamp = 0.0

    def grow(self, count: int = 1) -> None:
        """Write rows that hold nothing but a stamp of their own, and look at what is seen from them."""
        beam = len(self.wanted[0])
        stamps = self.stamp + 1.0 + torch.arange(len(self.wanted) * beam * count, dtype=torch.float64)
        self.stamp += stamps.numel()
        places = [place for row in self.wanted for place in row]
        for place, new in zip(places, stamps.view(-1, count).tolist(), strict=True):
            place.extend(new)
        self.cache.grow(count)
        self.cache.write_own(stamps.view(-1, count, 1).expand(-1, -1, OWN))
        mask = self.cache.mask(count)
        folded = stamps.view(self.cache.groups, 1, -1, 1).expand(-1, HEADS, -1, HEAD_DIM)
        for layer in range(LAYERS):
            keys, values = self.cache.write(layer, torch.stack((folded + layer, -folded - layer)))
            assert keys.shape == values.shape == (self.cache.groups * HEADS, self.cache.num_nodes, HEAD_DIM)
            assert torch.equal(values, -keys)
            assert (keys == keys[:, :, :1]).all()
            of_heads = (keys[:, :, 0] - layer).unflatten(0, (-1, HEADS))
            assert (of_heads == of_heads[:, :1]).all()
            seen = of_heads[:, 0]
            for sentence, row in enumerate(self.wanted):
                for hypothesis, place in enumerate(row):
                    group, queries = self.query(sentence, hypothesis, count)
                    for back, query in enumerate(reversed(queries)):
                        visible = torch.ones(self.cache.num_nodes, dtype=torch.bool)
                        if mask is not None:
                            assert mask.shape[2] == self.cache.num_nodes
                            visible = mask[group if len(mask) > 1 else 0, query] == 0
                        assert sorted(seen[group][visible].tolist()) == place[: len(place) - back]

    def query(self, sentence: int, hypothesis: int, count: int) -> tuple[int, list[int]]:
        """Return the group of a hypothesis and its queries there."""
        beam = len(self.wanted[0])
        first = hypothesis * count
        if self.cache.groups == len(self.wanted):
            return sentence, list(range(first, first + count))
        return sentence * beam + hypothesis, list(range(count))

    def choose(self, parents: list[list[int]]) -> None:
        self.cache.choose(torch.tensor(parents))
        self.wanted = [
            [list(row[parent]) for parent in chosen] for row, chosen in zip(self.wanted, parents, strict=True)
        ]

    def keep(self, kept: list[int]) -> None:
        beam = len(self.wanted[0])
        places = torch.tensor([sentence * beam + hypothesis for sentence in kept for hypothesis in range(beam)])
        self.cache.keep(torch.tensor(kept), places)
        self.wanted = [self.wanted[sentence] for sentence in kept]

    def check(self) -> None:
        """Compare every row of every hypothesis."""
        places = [place for row in self.wanted for place in row]
        assert self.cache.num_rows == len(places[0])
        for row in range(self.cache.num_rows):
            own = self.cache.own_of(torch.full((len(places),), row))
            assert own.tolist() == [[place[row]] * OWN for place in places]
        assert self.cache.own_rows(slice(1, 2))[..., 0].tolist() == places
        number = torch.arange(1.0, 1 + self.cache.num_rows, dtype=torch.float64)
        spread = self.cache.spread(number.expand(len(places), 1, -1))
        assert spread.shape[2] == self.cache.num_nodes
        back = (spread * self.cache.own()[:, None, :, 0]).sum(2).flatten()
        assert_close(back, torch.tensor([sum(a * b for a, b in enumerate(p, 1)) for p in places]).double())
        beam = len(self.wanted[0])
        for parents in (range(beam), [0, beam - 1, 0]):
            parent = torch.tensor([list(parents)] * len(self.wanted))
            queries = torch.tensor([[1.0, 0.0], [0.5, 0.5], [1.0, 1.0]]).double().expand(*parent.shape, 3, OWN)
            products = self.cache.own_products(queries, parent)
            wanted = torch.tensor([[row[p] for p in parents] for row in self.wanted]).double()[:, :, None]
            assert_close(products, wanted * torch.tensor([1.0, 1.0, 2.0])[:, None].double())
            assert torch.equal(self.cache.own_products(queries[..., :1], parent, slice(1)), queries[..., :1] * wanted)


@pytest.mark.parametrize(
    ("most", "waits"),
    [(0, True), (2, True), (99, True), (2, False)],
    ids=["copies", "both", "shared", "nobody waits"],
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), uses)
def test_any_use_is_that_of_lists(
    most: int,
    waits: bool,
    monkeypatch: pytest.MonkeyPatch,
    sentences: int,
    capacity: int,
    first: int,
    uses: list[tuple[str, Any]],
) -> None:
    for name, value in (("MAX_SHARED", most), ("SWEEP_EVERY", 1), ("SPARE", 1.0)):
        monkeypatch.setattr(cache_module, name, value)
    checked = Checked(sentences, capacity, waits=waits)
    checked.grow(first)
    for use, argument in uses:
        if use == "grow":
            checked.grow()
        elif use == "keep":
            kept = [i for i in range(len(checked.wanted)) if argument[i]]
            checked.keep(kept or [0])
        else:
            beam = len(argument[0])
            old = len(checked.wanted[0])
            rows = [argument[i % len(argument)] for i in range(len(checked.wanted))]
            checked.choose([[row[j % len(row)] % old for j in range(beam)] for row in rows])
        checked.check()


def test_nodes_on_no_path_are_thrown_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "SWEEP_EVERY", 4)
    checked = Checked(2, 4)
    checked.grow()
    checked.choose([[0] * 5] * 2)
    counts = []
    for _ in range(11):
        checked.grow()
        counts.append(checked.cache.num_nodes)
        checked.choose([[0] * 5, [0, 0, 0, 0, 1]])  # one line lives on, in the other sentence a second one for a while
    assert counts[:4] == [6, 11, 16, 10], "after 4 rows: 4 on the path of the first, 5 of the second, and 5 new ones"
    assert max(counts) < 30
    checked.check()


def test_hypotheses_that_stay_are_not_copied() -> None:
    """Samples: too many to share, and none ever goes."""
    checked = Checked(2, 4)
    checked.grow()
    checked.choose([[0] * 40] * 2)
    checked.grow()
    before = checked.cache.own().data_ptr()
    checked.choose([list(range(40))] * 2)
    assert checked.cache.own().data_ptr() == before
    checked.choose([[1, 0, *range(2, 40)]] * 2)
    assert checked.cache.own().data_ptr() != before
    checked.check()


def test_it_takes_after_a_tensor() -> None:
    cache = NodeCache(1, 1, 2, own=1, groups=3, like=torch.zeros(1, dtype=torch.float64))
    cache.grow(1)
    assert cache.own().shape == (3, 1, 1)
    assert cache.own().dtype == torch.float64
