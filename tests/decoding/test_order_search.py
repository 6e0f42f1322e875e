"""Order search against all permutations, against the model's own scores, and against what must not matter."""

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor

from indigo_cli.data.collate import collate_source
from indigo_cli.decoding.order_search import TIE, FoundOrders, SearchOptions, search_orders
from indigo_cli.models.protocol import Known
from indigo_cli.nn.sentence_dropout import SentenceDropout, sentence_keys
from tests.models.tiny import A, B, C, D, E, make_batch, make_system
from tests.tensors import assert_close

SOURCES = [[A, B, C], [D], [B, B], [], [C, C, D, E, A]]
TARGETS = [[B, A, D], [C], [D, D], [], [E, D, E, A, E]]
MANY = 130


def trained(*, times: float = 4.0, **settings: Any) -> Any:
    """Weights as large as training makes them: random small ones hide wrong normalisers (PERFORMANCE.md, trap 1)."""
    return make_system("indigo", scale=times, **settings)


def search(
    system: Any,
    sources: Sequence[Sequence[int]] = SOURCES,
    targets: Sequence[Sequence[int]] = TARGETS,
    *,
    beam: int = 4,
    rate: float = 0.0,
    lines: Sequence[int] | None = None,
    reference: Sequence[Sequence[int]] | None = None,
    first_piece: Sequence[Sequence[bool]] | None = None,
    with_end: bool = True,
    **options: float,
) -> FoundOrders:
    keys = sentence_keys(7, 2, lines if lines is not None else range(len(targets)))
    dropout = SentenceDropout(keys, rate) if rate else None
    source = collate_source(list(sources))
    width = max(map(len, targets))
    target = torch.tensor([[*row, *[0] * (width - len(row))] for row in targets], dtype=torch.int64).view(
        len(targets), width
    )

    def padded(rows: Sequence[Sequence[int]]) -> Tensor:
        return torch.tensor([[*row, *range(len(row), width)] for row in rows], dtype=torch.int64)

    return search_orders(
        system.known,
        system.known.encode(source, dropout),
        source.mask,
        target,
        torch.tensor([len(row) for row in targets]),
        SearchOptions(beam_size=beam, **options),
        dropout=dropout,
        keys=keys,
        reference=None if reference is None else padded(reference),
        first_piece=None if first_piece is None else padded(first_piece).bool(),
        with_end=with_end,
    )


def rows(found: FoundOrders, sentence: int, length: int) -> dict[tuple[int, ...], float]:
    """Return score by order of one sentence, in the order found."""
    return {
        tuple(order[:length].tolist()): float(score)
        for order, score, alive in zip(
            found.orders[sentence], found.score[sentence], found.alive[sentence], strict=True
        )
        if alive
    }


def taught(
    system: Any, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], orders: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (S, K) sums of words, slots and ends by teacher forcing."""
    batch = make_batch(sources, targets, orders)
    steps = system.log_probs(batch)
    at = batch.lengths[:, None, None].expand(-1, steps.words.shape[1], 1)
    end = steps.words.gather(2, at)[..., 0]
    return steps.words.sum(dim=2) - end, steps.slots.sum(dim=2), end


def prices(system: Any, source: list[int], target: list[int], ways: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return what words and slots cost along partial orders, all of one length, each taught alone: (W,) each."""
    canvases = [[target[index] for index in sorted(way)] for way in ways]
    orders = [[sorted(way).index(index) for index in way] for way in ways]
    word, slot, _ = taught(system, [source] * len(ways), canvases, [[order] for order in orders])
    return word[:, 0], slot[:, 0]


@pytest.mark.parametrize("target", [*TARGETS, [A, B, A, C, B, A]], ids=len)
@pytest.mark.parametrize("settings", [{}, {"pointer_scale": "none"}, {"pointer_query": "plain"}])
def test_a_wide_beam_finds_all_orders_at_their_price(settings: dict[str, Any], target: list[int]) -> None:
    """Repeated words included; on weights of a trained size."""
    system, everything = trained(**settings), list(permutations(range(len(target))))
    found = rows(search(system, [[A, C, E]], [target], beam=len(everything)), 0, len(target))
    parts = taught(system, [[A, C, E]] * len(everything), [target] * len(everything), [[way] for way in everything])
    wanted = (parts[0] + parts[1] + parts[2])[:, 0].tolist()
    assert found.keys() == set(everything)
    for order, score in zip(everything, wanted, strict=True):
        assert found[order] == pytest.approx(score, abs=max(1e-4, 1e-5 * abs(score)))
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert next(iter(found.values())) == pytest.approx(max(wanted), abs=max(1e-4, 1e-5 * abs(max(wanted))))


def slow_search(
    system: Any, source: list[int], target: list[int], beam: int, slot_weight: float
) -> list[tuple[int, ...]]:
    """Return the orders that a beam of plain lists keeps: all is scored from the start at every step."""
    standing: list[tuple[int, ...]] = [()]
    for _ in target:
        ways = [(*order, index) for order in standing for index in range(len(target)) if index not in order]
        word, slot = prices(system, source, target, ways)
        ranks = (word + slot_weight * slot).tolist()
        standing = [ways[i] for i in sorted(range(len(ways)), key=lambda i: -round(ranks[i] / TIE))[:beam]]
    return standing


@pytest.mark.parametrize("slot_weight", [1.0, 3.0])
@pytest.mark.parametrize("beam", [1, 3])
def test_it_is_a_beam_search_and_with_a_beam_of_one_greedy(beam: int, slot_weight: float) -> None:
    """Also where a wider beam would find better orders; with equal words, and beside longer sentences."""
    system = trained(times=2.0)
    sources, targets = [[A, C, E], [D, B], [B]], [[E, D, E, A, B, C], [A, A, B, A], [C, D]]
    found = search(system, sources, targets, beam=beam, slot_weight=slot_weight)
    for place, (source, target) in enumerate(zip(sources, targets, strict=True)):
        assert set(rows(found, place, len(target))) == set(slow_search(system, source, target, beam, slot_weight))
    best = search(system, sources, targets, beam=720, slot_weight=slot_weight)
    assert not torch.equal(found.orders[:, 0], best.orders[:, 0]), "else this shows nothing"


@pytest.mark.parametrize("beam", [1, 3, 8])
def test_parts_are_those_of_teacher_forcing(beam: int) -> None:
    system = trained()
    found = search(system, beam=beam)
    orders = [[order[: len(target)].tolist() for order in found.orders[s]] for s, target in enumerate(TARGETS)]
    for part, wanted in zip((found.word, found.slot, found.end), taught(system, SOURCES, TARGETS, orders), strict=True):
        assert_close(part, wanted, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("gumbel", [0.0, 2.0])
def test_the_batch_does_not_matter(rate: float, gumbel: float) -> None:
    """Neither who stands beside a sentence, nor where it stands, nor how long the others are."""
    system = trained(times=2.0, dropout=0.3)
    together = search(system, beam=3, rate=rate, gumbel=gumbel)
    turned = search(system, SOURCES[::-1], TARGETS[::-1], beam=3, rate=rate, gumbel=gumbel, lines=[4, 3, 2, 1, 0])
    for line, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        alone = rows(search(system, [source], [target], beam=3, rate=rate, gumbel=gumbel, lines=[line]), 0, len(target))
        for found in (rows(together, line, len(target)), rows(turned, len(TARGETS) - 1 - line, len(target))):
            assert list(found) == list(alone)
            assert list(found.values()) == pytest.approx(list(alone.values()), abs=1e-4)


def test_dropout_and_noise_are_those_of_the_sentence_and_visit() -> None:
    system = trained(times=2.0)
    clean, noisy = search(system), search(system, rate=0.3)
    assert not torch.allclose(clean.score, noisy.score)
    other = search(system, rate=0.3, lines=range(10, 10 + len(TARGETS)))
    assert not torch.allclose(other.score, noisy.score)
    assert torch.equal(search(system, rate=0.3).score, noisy.score)
    wild = search(system, beam=1, gumbel=50.0)
    assert not torch.equal(wild.orders, search(system, beam=1).orders)
    for part, wanted in zip(
        (wild.word, wild.slot),
        taught(system, SOURCES, TARGETS, [[wild.orders[s, 0, : len(t)].tolist()] for s, t in enumerate(TARGETS)]),
        strict=False,
    ):
        assert_close(part, wanted, atol=1e-4)  # noise ranks, and is no part of the price


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_the_reference_rides_along(beam: int) -> None:
    system = trained(times=2.0)
    backwards = [list(range(len(target)))[::-1] for target in TARGETS]
    free, found = search(system, beam=beam), search(system, beam=beam, reference=backwards)
    assert torch.equal(found.orders[:, :-1], free.orders) and torch.equal(found.alive[:, :-1], free.alive)
    assert_close(found.score[:, :-1], free.score, atol=1e-4)
    wanted = sum(taught(system, SOURCES, TARGETS, [[order] for order in backwards]))
    assert isinstance(wanted, Tensor)
    assert_close(found.score[:, -1:], wanted, atol=1e-4)
    for sentence, target in enumerate(TARGETS):
        doubled = tuple(backwards[sentence]) in rows(free, sentence, len(target))
        assert bool(found.alive[sentence, -1]) == (not doubled)


def test_what_fills_up_is_a_copy_of_the_best() -> None:
    found = search(trained(), beam=9)
    for sentence, target in enumerate(TARGETS):
        exist = math.factorial(len(target))
        assert int(found.alive[sentence].sum()) == min(exist, 9)
        for order in found.orders[sentence, exist:]:
            assert torch.equal(order, found.orders[sentence, 0])
        assert len(rows(found, sentence, len(target))) == min(exist, 9)


def test_pieces_of_a_word_follow_each_other() -> None:
    system, target = trained(), [A, B, C, D, E, A]
    begins = [True, False, True, True, False, False]
    found = rows(search(system, [[A]], [target], beam=MANY, first_piece=[begins]), 0, len(target))
    words = [(0, 1), (2,), (3, 4, 5)]
    assert found.keys() == {sum(order, ()) for order in permutations(words)}


def test_the_slot_can_weigh_more() -> None:
    system = trained(times=2.0)
    light, heavy = search(system, beam=1, slot_weight=0.0), search(system, beam=1, slot_weight=20.0)
    assert not torch.equal(light.orders, heavy.orders)
    assert float(heavy.slot.sum()) > float(light.slot.sum()) and float(light.word.sum()) > float(heavy.word.sum())


def test_more_hypotheses_than_share_a_cache() -> None:
    """Above 32 each has nodes of its own (`nn/cache.py`)."""
    system, target = trained(), [E, D, E, A, B]
    few = rows(search(system, [[A]], [target], beam=30), 0, len(target))
    many = rows(search(system, [[A]], [target], beam=60), 0, len(target))
    assert next(iter(many)) == max(many, key=many.__getitem__) and next(iter(few)) in many
    for order in many.keys() & few.keys():
        assert many[order] == pytest.approx(few[order], abs=1e-4, rel=1e-5)


class Table:
    """A decoder of given prices: of each step (the last ones for all that follow), then of each word; slots are free.

    Args:
        rounding: Scale of what is added, another number in every batch.
    """

    def __init__(self, prices: list[list[float]], *, rounding: float = 0.0, seed: int = 0) -> None:
        self.prices, self.rounding, self.step = prices, rounding, 0
        self.generator = torch.Generator().manual_seed(seed)

    def start_known(self, memory: Tensor, source_mask: Tensor, target: Tensor, dropout: None) -> None:
        pass

    def known(self, state: None, anchor_SBT: Tensor) -> Known:
        noise = self.rounding * torch.randn(anchor_SBT.shape, generator=self.generator)
        price = torch.tensor(self.prices[min(self.step, len(self.prices) - 1)])
        return Known(noise - price, torch.zeros_like(noise), noise[..., 0])

    def advance_known(self, *choice: Any) -> None:
        self.step += 1

    def search(self, lengths: list[int], beam: int, gumbel: float = 0.0) -> FoundOrders:
        sentences, length = len(lengths), max(lengths)
        return search_orders(
            self,  # type: ignore[arg-type]
            torch.zeros(sentences, 1, 1),
            torch.ones(sentences, 1, dtype=torch.bool),
            torch.ones(sentences, length, dtype=torch.int64),
            torch.tensor(lengths),
            SearchOptions(beam, gumbel=gumbel),
            keys=sentence_keys(7, 2, range(sentences)),
        )


@pytest.mark.parametrize("seed", range(4))
def test_of_equal_hypotheses_the_first_ones_go_on(seed: int) -> None:
    """Not those that rounding favours: equal words make such hypotheses in pairs."""
    found = Table([[1.0] * 5], rounding=1e-5, seed=seed).search([5, 3], beam=3)
    assert set(rows(found, 0, 5)) == {(0, 1, 2, 3, 4), (0, 1, 2, 4, 3), (0, 1, 3, 2, 4)}
    assert set(rows(found, 1, 3)) == {(0, 1, 2), (0, 2, 1), (1, 0, 2)}


def test_every_step_has_noise_of_its_own() -> None:
    """Of the last two words one is chosen at step 1 or at step 2; half of the sentences choose alike."""
    dear = 1e3
    first, second, any_of_two = [1.0, dear, dear, dear], [1.0, 1.0, dear, dear], [1.0, dear, 1.0, 1.0]
    early = Table([first, any_of_two]).search([4] * 200, beam=1, gumbel=1.0).orders[:, 0, 1]
    late = Table([first, second, any_of_two]).search([4] * 200, beam=1, gumbel=1.0).orders[:, 0, 2]
    assert set(early.tolist()) == set(late.tolist()) == {2, 3}
    assert 0.3 < float((early == late).float().mean()) < 0.7


@pytest.mark.slow
@pytest.mark.parametrize("beam", [3, 40])
def test_nobody_waits_for_the_device(beam: int) -> None:
    """Tensors of the device `meta` have no numbers: whoever asked for one would fail."""
    system, batch = make_system("indigo").to("meta"), make_batch(SOURCES, TARGETS, [[range(len(t))] for t in TARGETS])
    source, keys = batch.source.to(torch.device("meta")), sentence_keys(1, 0, range(5)).to("meta")
    dropout = SentenceDropout(keys, 0.1)
    found = search_orders(
        system.known,
        system.known.encode(source, dropout),
        source.mask,
        batch.target.to("meta"),
        batch.lengths.to("meta"),
        SearchOptions(beam, gumbel=1.0),
        dropout=dropout,
        keys=keys,
        reference=batch.plan.orders[:, 0].to("meta"),
        first_piece=torch.ones_like(batch.target, dtype=torch.bool, device="meta"),
        with_end=True,
    )
    assert found.orders.shape == (5, beam + 1, 5)
