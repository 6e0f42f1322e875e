"""InDIGO with a length budget: slow second implementation, trees, caches, beams, and the search for known orders."""

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor

from indigo_cli.core.order import order_to_slots, slots_to_anchors
from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.data.collate import collate, collate_source
from indigo_cli.models import MODELS
from indigo_cli.models.protocol import StepLogProbs
from tests import reference
from tests.models.lengths import check_under_wishes, code, weight
from tests.models.tiny import A, B, C, D, E, make_config, make_system, word_log_probs
from tests.tensors import assert_close, assert_near

SCHEMES = ["ldpe", "lrpe"]
SENTENCES: list[tuple[list[int], list[int], list[int], int]] = [
    ([A, B, C], [A, B, C], [1, 2, 0], 25),
    ([D], [], [], 3),
    ([], [E], [0], 9),
    ([C, C, D, E, A], [B, A, B, D], [3, 0, 2, 1], 11),
]
"""Source, target, order and wish."""


def make(scheme: str, **settings: Any) -> Any:
    return make_system("indigo", length_control=scheme, **settings)


def codes(scheme: str, words: Sequence[int], wish: int) -> list[Tensor]:
    """Return the codes of `<s>`, `</s>` and the words in order of generation."""
    return [code(scheme, weight(words[:stand]), wish) for stand in (0, 0, *range(1, len(words) + 1))]


def slow(
    model: Any, scheme: str, source: list[int], target: list[int], order: Sequence[int], wish: int
) -> tuple[list[float], list[float]]:
    """Return log p of the words and `<eod>`, and of the slots."""
    config = make_config("indigo", length_control=scheme)
    words = [target[index] for index in order]
    told = codes(scheme, words, wish)
    steps = reference.indigo_steps(model, config, source, target, order, ordered_source=True, codes=told)
    log_probs = [float(step.words[word]) for step, word in zip(steps, [*words, EOD], strict=True)]
    return log_probs, [float(step.slots[slot]) for step, slot in zip(steps, order_to_slots(tuple(order)), strict=False)]


@pytest.mark.parametrize("scheme", SCHEMES)
@torch.no_grad()
def test_log_probs_are_those_of_the_slow_implementation(scheme: str) -> None:
    """Under wishes that are met, missed and passed; without one, of the weight of the target."""
    model = make(scheme)

    def check(
        found: StepLogProbs, row: int, source: list[int], target: list[int], order: list[int], length: int
    ) -> None:
        words, slots = slow(model, scheme, source, target, order, length)
        assert_near(found.words[row, 0, : len(words)], words, atol=1e-5)
        assert_near(found.slots[row, 0, : len(slots)], slots, atol=1e-5)

    check_under_wishes(model, SENTENCES, check)


@pytest.mark.parametrize("scheme", SCHEMES)
@torch.no_grad()
def test_a_tree_of_orders_is_the_orders_one_by_one(scheme: str) -> None:
    model = make(scheme)
    orders = [[0, 1, 2], [2, 0, 1], [0, 2, 1], [1, 2, 0]]
    for wishes in ((), (13,)):
        found = model.log_probs(collate(["x"], [[A]], [[B, C, B]], [orders], wishes=wishes))
        for k, order in enumerate(orders):
            one = model.log_probs(collate(["x"], [[A]], [[B, C, B]], [[order]], wishes=wishes))
            assert_close(found.words[:, k], one.words[:, 0], atol=1e-5)
            assert_close(found.slots[:, k], one.slots[:, 0], atol=1e-5)


@pytest.mark.parametrize("scheme", SCHEMES)
@torch.inference_mode()
def test_cached_decoding_with_a_beam_is_recomputation(scheme: str) -> None:
    """Hypotheses have spent different budgets, change places, are copied, and sentences leave."""
    model, sources, wishes = make(scheme), [[A, B], [C], [D, D]], [17, 4, 30]
    state = model.start(collate_source(sources, wishes))
    texts: list[list[list[tuple[int, int]]]] = [[[]], [[]], [[]]]  # word and anchor of each step
    steps = [
        ([0, 0, 0], [A, B, C], [0, 0, 0]),
        ([2, 1, 0], [E, A, D], [0, 1, 1]),
        ([1, 1, 0], [C, B, E], [2, 0, 1]),
        ([2, 0], [A, D], [3, 1]),
    ]
    kept = [0, 1, 2]
    for number, step in enumerate(steps):
        parent, word, anchor = (torch.tensor([part] * len(kept)) for part in step)
        state = model.advance(state, parent, word, anchor)
        texts = [[[*row[p], (w, a)] for p, w, a in zip(*step, strict=True)] for row in texts]
        if number == 1:
            state, kept, texts = model.keep(state, torch.tensor([2, 0])), [2, 0], [texts[2], texts[0]]
        found = word_log_probs(model, state)
        for row, sentence in enumerate(kept):
            for place, text in enumerate(texts[row]):
                target, order = surface(text)
                wanted, _ = slow(model, scheme, sources[sentence], target, order, wishes[sentence])
                assert_near(found[row, place, EOD - FIRST_WORD], wanted[-1], atol=1e-5)


def surface(steps: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return the target and the order of words put right of their anchors (0 = `<s>`, i = the i-th word)."""
    canvas: list[int] = []
    for number, (_, anchor) in enumerate(steps):
        canvas.insert(canvas.index(anchor - 1) + 1 if anchor else 0, number)
    return [steps[number][0] for number in canvas], [canvas.index(number) for number in range(len(steps))]


@pytest.mark.parametrize("scheme", SCHEMES)
@torch.inference_mode()
def test_the_search_for_known_orders_spends_the_weight_of_the_target(scheme: str) -> None:
    """Each step of every order costs what training says."""
    model, source, target = make(scheme), [A, D], [B, C, B]
    orders = list(permutations(range(3)))
    steps = model.log_probs(collate(["x"], [source], [target], [orders]))
    known, sources = model.known, collate_source([source])
    for k, order in enumerate(orders):
        state = known.start_known(known.encode(sources, None), sources.mask, torch.tensor([target]), None)
        for step, (index, anchor) in enumerate(zip(order, slots_to_anchors(order_to_slots(order)), strict=True)):
            scores = known.known(state, torch.full((1, 1, 3), anchor))
            assert_close(scores.word[0, 0, index], steps.words[0, k, step], atol=1e-5)
            assert_close(scores.slot[0, 0, index], steps.slots[0, k, step], atol=1e-5)
            one = torch.tensor([[0]])
            state = known.advance_known(state, one, torch.tensor([[index]]), torch.tensor([[anchor]]))
        assert_close(
            known.known(state, torch.zeros(1, 1, 3, dtype=torch.long)).end[0, 0], steps.words[0, k, 3], atol=1e-5
        )


def test_gradients_of_a_tree_are_those_of_one_by_one() -> None:
    model, orders = make("ldpe").double(), [[0, 1, 2], [2, 0, 1]]
    tree = model(collate(["x"], [[A]], [[B, C, D]], [orders])).objective
    parts = [model(collate(["x"], [[A]], [[B, C, D]], [[order]])).objective for order in orders]
    alone = (parts[0] + parts[1]) / 2
    assert_close(tree, alone, rtol=1e-6)
    parameters = list(model.parameters())
    for one, other in zip(torch.autograd.grad(tree, parameters), torch.autograd.grad(alone, parameters), strict=True):
        assert_close(one, other, rtol=1e-5, atol=1e-7)


def test_a_wish_is_needed_and_said_to_be() -> None:
    with pytest.raises(ValueError, match="no wishes"):
        make("ldpe").start(collate_source([[A]]))
    facts: dict[str, Any] = {"source_size": 6, "target_size": 6, "ordered_source": True}
    with pytest.raises(ValueError, match="table of units"):
        MODELS["indigo"].build(make_config("indigo", length_control="ldpe"), **facts)
