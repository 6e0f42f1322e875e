"""Draws: their numbers, the distribution they come from, and that nothing but their key matters."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.sampling import _mixed, draw, uniform
from tests.decoding.tables import A, B, History, TableDecoder, by_hand, history_of, random_table, search

SAMPLE = DecodeConfig(search="sample", ban_unk=False)
ALMOST_ONE = math.nextafter(1.0, 0.0)
INF = math.inf


def tail_bound(cells: int) -> float:
    """Return what chi-square with `cells - 1` degrees exceeds with a chance below 1e-6 (Wilson-Hilferty, z = 4.9)."""
    degrees = cells - 1
    return degrees * (1 - 2 / (9 * degrees) + 4.9 * math.sqrt(2 / (9 * degrees))) ** 3


def shaped(probabilities: Sequence[float], config: DecodeConfig) -> list[float]:
    """Return the distribution that is drawn from, with lists: temperature, then top-k, then top-p."""
    weights = [p ** (1 / config.temperature) for p in probabilities]
    order = sorted(range(len(weights)), key=lambda i: -weights[i])
    kept = order[: config.top_k] if config.top_k else order
    whole, held, nucleus = math.fsum(weights[i] for i in kept), 0.0, []
    for i in kept:
        if held < config.top_p * whole or config.top_p == 1.0:
            nucleus.append(i)
        held += weights[i]
    total = math.fsum(weights[i] for i in nucleus)
    return [w / total if i in nucleus else 0.0 for i, w in enumerate(weights)]


def traces(decoder: TableDecoder, config: DecodeConfig, *, limit: int) -> Iterator[tuple[History, bool, float]]:
    """Yield every trace that can be drawn for source A with its probability."""

    def grow(history: History, chance: float) -> Iterator[tuple[History, bool, float]]:
        if len(history) == limit:
            yield history, False, chance
            return
        for column, p in enumerate(shaped(decoder.word_table(A, history), config)):
            word = FIRST_WORD + column
            if word == EOD and p:
                yield history, True, chance * p
            elif p:
                slots = [1.0] if decoder.slot_table is None else decoder.slot_table(A, history, word)
                for anchor, q in enumerate(shaped(slots, config)):
                    if q:
                        place = len(history) if decoder.slot_table is None else anchor
                        yield from grow((*history, (word, place)), chance * p * q)

    return grow((), 1.0)


class TestUniform:
    def test_the_mixer_is_splitmix64(self) -> None:
        """The first numbers of the published generator from seed 0; it adds its constant once a number."""
        weyl = 0x9E3779B97F4A7C15
        states = np.array([0, weyl, 2 * weyl % 2**64], dtype=np.uint64)
        assert _mixed(states).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]

    def test_a_number_depends_on_all_of_its_key_and_on_nothing_else(self) -> None:
        lines = np.array([5, 0, 2**40])
        numbers = uniform(3, lines, 4, step=2, what=1)
        for i, line in enumerate(lines):
            assert (uniform(3, np.array([line]), 4, step=2, what=1) == numbers[i]).all()
        assert (uniform(3, lines, 2, step=2, what=1) == numbers[:, :2]).all()
        others = [uniform(4, lines, 4, step=2, what=1), uniform(3, lines + 1, 4, step=2, what=1)]
        others += [uniform(3, lines, 4, step=3, what=1), uniform(3, lines, 4, step=2, what=0)]
        assert len({float(n) for part in (numbers, *others) for n in part.flat}) == 5 * 12

    @pytest.mark.parametrize("what", ["lines", "samples", "steps", "kinds", "seeds"])
    def test_numbers_are_even_along_every_part_of_the_key(self, what: str) -> None:
        """Each in its sixteenth, and each pair of neighbours in its one of 64 squares."""
        one, count = np.array([7]), 20_000
        numbers = {
            "lines": lambda: uniform(1, np.arange(count), 1, step=0, what=0),
            "samples": lambda: uniform(1, one, count, step=0, what=0),
            "steps": lambda: np.concatenate([uniform(1, np.arange(200), 1, step=s, what=0).T for s in range(100)]),
            "kinds": lambda: np.stack([uniform(1, np.arange(count // 2), 1, step=0, what=k) for k in (0, 1)], axis=1),
            "seeds": lambda: np.concatenate([uniform(s, np.arange(200), 1, step=0, what=0).T for s in range(100)]),
        }[what]().reshape(-1)
        assert numbers.dtype == np.float64 and (numbers >= 0).all() and (numbers < 1).all()
        counts = np.bincount((numbers * 16).astype(int), minlength=16)
        assert ((counts - count / 16) ** 2 / (count / 16)).sum() < tail_bound(16)
        squares = np.bincount((numbers[::2] * 8).astype(int) * 8 + (numbers[1::2] * 8).astype(int), minlength=64)
        assert ((squares - count / 128) ** 2 / (count / 128)).sum() < tail_bound(64)


class TestDraw:
    @given(
        weights=st.lists(st.sampled_from([0.0, 0.3, 1.0, 2.5, 7.0, 1e-30]), min_size=1, max_size=7),
        temperature=st.sampled_from([0.5, 1.0, 2.0]),
        top_k=st.integers(0, 8),
        top_p=st.sampled_from([0.2137, 0.7561, 0.9993, 1.0]),
    )
    def test_each_thing_owns_its_share_of_the_numbers_in_its_own_order(
        self, weights: list[float], temperature: float, top_k: int, top_p: float
    ) -> None:
        # no ties, so that top-k and top-p have one answer
        weights = [w * (1 + i / 16) for i, w in enumerate(weights)]
        logits = torch.tensor(weights).log()
        numbers = torch.tensor([*np.arange(0.005, 1, 0.01), 0.0, ALMOST_ONE], dtype=torch.float64)
        index, possible = draw(
            logits.expand(1, len(numbers), -1), numbers[None], temperature=temperature, top_k=top_k, top_p=top_p
        )
        if not any(weights):
            assert not possible.any()
            return
        assert possible.all()
        wanted = shaped(weights, replace(SAMPLE, temperature=temperature, top_k=top_k, top_p=top_p))
        edges = np.cumsum(wanted)
        for i, number in zip(index[0].tolist(), numbers.tolist(), strict=True):
            assert wanted[i] > 0
            assert edges[i] - wanted[i] - 1e-6 <= number <= edges[i] + 1e-6

    @pytest.mark.parametrize("size", [1, 3, 1000])
    @pytest.mark.parametrize("scale", [1.0, 30.0, 1e-3])
    def test_the_last_number_draws_nothing_impossible(self, size: int, scale: float) -> None:
        logits = torch.randn(50, 1, size, generator=torch.Generator().manual_seed(0)) * scale
        logits = torch.cat((torch.full((50, 1, 2), -INF), logits, torch.full((50, 1, 3), -INF)), dim=2)
        for number, wanted in ((0.0, 2), (ALMOST_ONE, size + 1)):
            index, possible = draw(logits, torch.full((50, 1), number, dtype=torch.float64))
            assert possible.all()
            assert (logits.gather(2, index[..., None]) > -INF).all()
            if scale <= 1.0:
                assert (index == wanted).all()

    def test_temperatures_near_nothing_and_near_infinity(self) -> None:
        logits = torch.tensor([[[1.0, 3.0, 2.0, -INF]]])
        for number in (0.0, 0.5, ALMOST_ONE):
            numbers = torch.tensor([[number]], dtype=torch.float64)
            assert draw(logits, numbers, temperature=1e-300)[0].item() == 1
            assert draw(logits, numbers, temperature=1e300)[0].item() == int(3 * number)

    def test_what_stands_beside_a_row_does_not_matter(self) -> None:
        logits = torch.randn(6, 3, 40, generator=torch.Generator().manual_seed(1))
        numbers = torch.rand(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        padded = torch.cat((logits, torch.full((6, 3, 9), -INF)), dim=2)
        for top_k, top_p in ((0, 1.0), (5, 1.0), (0, 0.7), (9, 0.5)):
            together, _ = draw(logits, numbers, top_k=top_k, top_p=top_p)
            assert torch.equal(draw(padded, numbers, top_k=top_k, top_p=top_p)[0], together)
            for i in range(6):
                alone, _ = draw(logits[i : i + 1], numbers[i : i + 1], top_k=top_k, top_p=top_p)
                assert torch.equal(alone[0], together[i])


@pytest.mark.parametrize(
    "config",
    [
        SAMPLE,
        replace(SAMPLE, temperature=0.5),
        replace(SAMPLE, temperature=2.0, top_k=2),
        replace(SAMPLE, top_p=0.7),
        replace(SAMPLE, temperature=1.5, top_k=3, top_p=0.8),
    ],
    ids=["plain", "cold", "hot-top-k", "top-p", "all"],
)
@pytest.mark.parametrize("with_slots", [True, False])
@pytest.mark.slow
def test_traces_are_as_frequent_as_they_are_probable(config: DecodeConfig, with_slots: bool) -> None:
    decoder = random_table(11, num_words=4, with_slots=with_slots)
    found = search(decoder, config, width=150, limits=[2] * 40, keys=[A] * 40)
    counts = Counter((history_of(h), h.finished) for samples in found for h in samples)
    whole = counts.total()
    assert whole == 6000
    exact = {(history, finished): p for history, finished, p in traces(decoder, config, limit=2)}
    assert math.fsum(exact.values()) == pytest.approx(1.0)
    assert set(counts) <= set(exact)
    rare = [key for key, p in exact.items() if p * whole < 5]
    cells = [(counts[key], p) for key, p in exact.items() if key not in rare]
    if rare:  # chi-square needs cells of some size
        cells.append((sum(counts[key] for key in rare), math.fsum(exact[key] for key in rare)))
    distance = math.fsum((count - whole * p) ** 2 / (whole * p) for count, p in cells)
    assert distance < tail_bound(len(cells))


def test_log_probs_are_the_models_own() -> None:
    """Whatever the temperature, and whatever is cut off."""
    decoder = random_table(4, num_words=5)
    for h in search(decoder, replace(SAMPLE, temperature=0.3, top_k=3, top_p=0.9), width=20, limits=[4])[0]:
        history, log_prob = history_of(h), 0.0
        for step, (word, anchor) in enumerate(history):
            log_prob += math.log(decoder.word_table(A, history[:step])[word - FIRST_WORD])
            log_prob += math.log(decoder.slot_table(A, history[:step], word)[anchor])  # type: ignore[misc]
        if h.finished:
            log_prob += math.log(decoder.word_table(A, history)[0])
        assert h.trace.log_prob == pytest.approx(log_prob, abs=1e-5)
        assert h.score == pytest.approx(log_prob / (len(history) + 1), abs=1e-5)


def test_a_sample_depends_on_its_line_and_number_only() -> None:
    decoder = random_table(3, num_words=6, end=0.3)
    keys, lines, limits = [A, B, A, 7], [10, 3, 8, 999], [7, 3, 7, 1]

    def samples(rows: Sequence[int], width: int, seed: int = 5) -> list[list[tuple[History, bool]]]:
        found = search(
            decoder,
            SAMPLE,
            width=width,
            limits=[limits[i] for i in rows],
            keys=[keys[i] for i in rows],
            lines=[lines[i] for i in rows],
            seed=seed,
        )
        return [[(history_of(h), h.finished) for h in row] for row in found]

    together = samples([0, 1, 2, 3], 6)
    assert all(len(row) == 6 for row in together)
    assert together[0] != together[2], "the same source on another line"
    assert len(set(together[0])) > 3
    assert samples([3, 1, 0, 2], 6) == [together[i] for i in (3, 1, 0, 2)]
    assert [samples([i], 6)[0] for i in range(4)] == together
    assert samples([0, 1, 2, 3], 2) == [row[:2] for row in together]
    assert samples([0, 1, 2, 3], 6, seed=6) != together
    assert samples([0, 1, 2, 3], 6, seed=5) == together


@pytest.mark.parametrize("with_slots", [True, False])
def test_the_one_most_probable_thing_is_greedy(with_slots: bool) -> None:
    decoder = random_table(9, num_words=6, end=0.4, with_slots=with_slots)
    greedy = search(decoder, replace(SAMPLE, search="beam"), width=1, limits=[8, 5, 2])
    for config in (replace(SAMPLE, top_k=1), replace(SAMPLE, top_p=1e-9), replace(SAMPLE, temperature=1e-6)):
        for (wanted,), found in zip(greedy, search(decoder, config, width=3, limits=[8, 5, 2]), strict=True):
            assert [(history_of(h), h.finished) for h in found] == [(history_of(wanted), wanted.finished)] * 3
            assert found[0].score == pytest.approx(wanted.score)


def test_repeats_and_the_order_of_draws_are_kept() -> None:
    decoder = by_hand({"": [0.5, 0, 0.5, 0]}, otherwise=[1, 0, 0, 0])
    (found,) = search(decoder, SAMPLE, width=30, limits=[4])
    tokens = [h.trace.tokens() for h in found]
    assert 5 < tokens.count([]) < 25 and len(tokens) == 30
    assert tokens != sorted(tokens) and tokens != sorted(tokens, reverse=True)


def test_a_sample_that_cannot_go_on_ends_there() -> None:
    """After A there is nothing but `<unk>`, which is banned; after B comes the end."""
    decoder = by_hand({"": [0, 0, 0.5, 0.5], "A": [0, 1, 0, 0]}, otherwise=[1, 0, 0, 0])
    (found,) = search(decoder, replace(SAMPLE, ban_unk=True), width=12, limits=[4])
    assert {(tuple(h.trace.tokens()), h.finished) for h in found} == {((A,), False), ((B,), True)}
    stuck = next(h for h in found if not h.finished)
    assert stuck.trace.end_log_prob is None
    assert stuck.trace.log_prob == pytest.approx(math.log(0.5))
    assert stuck.score == pytest.approx(math.log(0.5) / 2)
