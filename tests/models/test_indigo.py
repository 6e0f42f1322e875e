"""InDIGO against a slow second implementation, the vectors of PAPERS.md A1, and what insertion must leave alone."""

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor

from indigo_cli.core.order import absolute_positions, order_to_slots, relative_positions, slots_to_anchors
from indigo_cli.core.vocab import BOS, EOD, EOS, FIRST_WORD
from indigo_cli.data.collate import collate_source
from indigo_cli.models.indigo_config import IndigoConfig
from indigo_cli.nn.positions.ternary import left_matrix, row_positions
from tests import reference
from tests.marks import quick
from tests.models.tiny import A, B, C, D, E, make_batch, make_config, make_system
from tests.tensors import assert_close

SETTINGS: list[dict[str, Any]] = [
    {},
    {"attention_scale": "head"},
    {"relation_table": "shared"},
    {"pointer_query": "plain"},
    {"pointer_scale": "none"},
    {"eod_position": True},
    {"source_positions": "sinusoidal"},
    {"source_positions": "none"},
    {"share_embeddings": False},
    {"attention_scale": "head", "relation_table": "shared", "pointer_query": "plain", "pointer_scale": "none",
     "eod_position": True, "source_positions": "ternary", "share_embeddings": False},
]  # fmt: skip
SENTENCES: list[tuple[list[int], list[int], list[int]]] = [
    ([A, B, C], [A, B, C], [1, 2, 0]),
    ([D], [], []),
    ([], [E], [0]),
    ([C, C, D, E, A], [B, A, B, D], [3, 0, 2, 1]),
]
"""Source, target, order."""


def ids(settings: dict[str, Any]) -> str:
    return "-".join(f"{key}={value}" for key, value in settings.items()) or "default"


def reference_losses(
    model: Any, config: Any, sentence: tuple[list[int], list[int], list[int]], *, smoothing: float, ordered: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    source, target, order = sentence
    steps = reference.indigo_steps(model, config, source, target, order, ordered_source=ordered)
    return reference.losses(steps, target, order, smoothing=smoothing, eod_position=config.eod_position)


@pytest.mark.parametrize("settings", quick(SETTINGS, 3), ids=ids)
def test_losses_and_gradients_are_those_of_the_slow_implementation(settings: dict[str, Any]) -> None:
    config = make_config("indigo", **settings)
    model = make_system("indigo", **settings).double()
    batch = make_batch(
        [source for source, _, _ in SENTENCES],
        [target for _, target, _ in SENTENCES],
        [[order] for _, _, order in SENTENCES],
    )
    losses = model(batch, 0.3)
    expected = [reference_losses(model, config, sentence, smoothing=0.3) for sentence in SENTENCES]
    smooth, words, slots = (torch.stack([parts[i] for parts in expected]).sum() for i in range(3))

    assert_close(losses.objective, smooth + slots, rtol=1e-6, atol=0)
    assert_close(losses.parts["word"][0], words, rtol=1e-6, atol=0)
    assert_close(losses.parts["position"][0], slots, rtol=1e-6, atol=0)
    tokens = sum(len(target) for _, target, _ in SENTENCES)
    ends = len(SENTENCES)
    assert losses.weight == losses.parts["word"][1] == tokens + ends
    assert losses.parts["position"][1] == tokens + (ends if config.eod_position else 0)

    parameters = dict(model.named_parameters())
    wanted = torch.autograd.grad(smooth + slots, list(parameters.values()))
    got = torch.autograd.grad(losses.objective, list(parameters.values()))
    for name, one, other in zip(parameters, got, wanted, strict=True):
        assert_close(one, other, rtol=1e-5, atol=1e-6, what=name)


@pytest.mark.parametrize(
    "name", ["attention_scale", "relation_table", "pointer_query", "pointer_scale", "eod_position"]
)
def test_each_setting_changes_the_loss(name: str) -> None:
    """Or the comparison above would not have tested it."""
    other: dict[str, Any] = {
        "attention_scale": "head",
        "relation_table": "shared",
        "pointer_query": "plain",
        "pointer_scale": "none",
        "eod_position": True,
    }
    batch = make_batch([[A, B]], [[A, B, C]], [[[1, 2, 0]]])
    with torch.no_grad():
        changed = make_system("indigo", **{name: other[name]})(batch)
        usual = make_system("indigo")(batch)
    assert abs(changed.objective.item() - usual.objective.item()) > 1e-3


def test_a_bag_has_no_source_positions() -> None:
    config = make_config("indigo")
    model = make_system("indigo", ordered_source=False).double()
    sentence = SENTENCES[3]
    got = model(make_batch([sentence[0]], [sentence[1]], [[sentence[2]]])).objective
    _, words, slots = reference_losses(model, config, sentence, smoothing=0.0, ordered=False)
    assert_close(got, words + slots, rtol=1e-6, atol=0)


class TestVectorsOfThePaper:
    """Target "A B C" in order B, C, A: PAPERS.md A1, "Test vector"."""

    order = (1, 2, 0)
    relations = ((0, -1, -1, -1, -1), (1, 0, 1, 1, 1), (1, -1, 0, -1, 1), (1, -1, 1, 0, 1), (1, -1, -1, -1, 0))

    def test_reference(self) -> None:
        r = reference.relations_of(self.order)
        assert r == [list(row) for row in self.relations]
        assert reference.positions(r) == [0, 4, 2, 3, 1]

    def test_right_of_one_is_left_of_the_other(self) -> None:
        canvas = reference.relations_of(self.order[:2])
        right_of_start = reference.insert_next_to(canvas, 0, reference.RIGHT_OF)
        assert right_of_start == reference.insert_next_to(canvas, 2, reference.LEFT_OF)

    def test_masked_keys(self) -> None:
        model, config = make_system("indigo"), make_config("indigo")
        for t in (1, 2, 3):
            keys = reference.pointer(model, config, torch.randn(t + 1, 8), A)
            assert (keys == 0).nonzero()[:, 0].tolist() == [0, t + 2]

    def test_the_product(self) -> None:
        z = row_positions(torch.tensor([self.order]))
        left = left_matrix(z)[0, 0]
        assert (left - left.T).tolist() == [list(row) for row in self.relations]


@pytest.mark.parametrize("length", range(5))
def test_three_ways_to_the_same_relations(length: int) -> None:
    """Eqs. 5 and 6 step by step, the signs of Eq. 3, and the layer's matrix."""
    for order in permutations(range(length)):
        by_steps = reference.relations_of(order)
        assert by_steps == relative_positions(order, boundaries=True)
        assert reference.positions(by_steps) == absolute_positions(order)
        left = left_matrix(row_positions(torch.tensor([order], dtype=torch.int64)))[0, 0]
        assert (left == 1).tolist() == [[relation == 1 for relation in row] for row in by_steps]


def states_of(model: Any, source: Sequence[int], words: Sequence[int], order: Sequence[int]) -> Tensor:
    """Return the decoder's states (R, D) of a canvas; `words` in the order of generation."""
    sources = collate_source([source])
    embedded = model.embeddings.embed_source(sources, sinusoidal=False)
    hidden: Tensor = model.decoder(
        model.embeddings.embed_target(torch.tensor([[BOS, EOS, *words]])),
        model.encoder(embedded, sources.mask),
        sources.mask,
        left=left_matrix(row_positions(torch.tensor([order], dtype=torch.int64))),
    )[0]
    return hidden


def test_inserting_leaves_relations_and_states_alone() -> None:
    model, words, order = make_system("indigo"), [B, E, B, A, D], (3, 0, 4, 1, 2)
    whole = states_of(model, [A, C], words, order)
    for count in range(5):
        prefix = order[:count]
        ranks = tuple(sorted(prefix).index(index) for index in prefix)
        assert_close(states_of(model, [A, C], words[:count], ranks), whole[: count + 2])
    turned = states_of(model, [A, C], words, (0, 3, 4, 1, 2))
    assert not torch.allclose(turned[4:], whole[4:], atol=1e-3), "where earlier words stand must matter"


def test_the_cache_keeps_old_rows_bit_for_bit() -> None:
    model = make_system("indigo")
    with torch.inference_mode():
        state = model.start(collate_source([[A, B]]))
        one, zero = torch.tensor([[A]]), torch.tensor([[0]])
        for anchor in (0, 0, 2):
            before = state.decoder.cache.own().clone()
            state = model.advance(state, zero, one, torch.tensor([[anchor]]))
            assert torch.equal(state.decoder.cache.own()[:, :-1], before)


@pytest.mark.parametrize("settings", quick(SETTINGS, 3), ids=ids)
def test_cached_decoding_says_what_the_slow_implementation_says(settings: dict[str, Any]) -> None:
    """All words and all slots at each step, of the whole batch at once."""
    model, config = make_system("indigo", **settings), make_config("indigo", **settings)
    sentences = [sentence for sentence in SENTENCES if len(sentence[1]) == 3] + [
        ([E, D, A, A], [C, B, E], [0, 2, 1]),
        ([B], [A, A, A], [2, 0, 1]),
    ]
    expected = [
        reference.indigo_steps(model, config, source, target, order, ordered_source=True)
        for source, target, order in sentences
    ]
    anchors = [slots_to_anchors(order_to_slots(order)) for _, _, order in sentences]
    parent = torch.zeros(len(sentences), 1, dtype=torch.int64)
    with torch.inference_mode():
        state = model.start(collate_source([source for source, _, _ in sentences]))
        for step in range(4):
            scores = model.words(state)
            log_probs = (scores.logits - scores.log_z[..., None])[:, 0]
            gold = torch.tensor([[target[order[step]] if step < 3 else EOD] for _, target, order in sentences])
            slots = model.slots(state, parent, gold)[:, 0]
            for i, (_, _, order) in enumerate(sentences):
                assert_close(log_probs[i], expected[i][step].words[FIRST_WORD:], rtol=1e-4, atol=1e-5)
                # the reference lists slots from left to right, the decoder by the step that made the left neighbour
                by_surface = [0] + [1 + order.index(index) for index in sorted(order[:step])]
                wanted = expected[i][step].slots if step < 3 else torch.tensor([0.0] + [-math.inf] * 3)  # `<eod>`
                assert_close(slots[i, by_surface], wanted, rtol=1e-4, atol=1e-5)
            if step < 3:
                state = model.advance(state, parent, gold, torch.tensor([[row[step]] for row in anchors]))


def test_the_first_position_is_certain() -> None:
    """One slot is open at first, so its two keys have all of the probability."""
    losses = make_system("indigo")(make_batch([[A], [B]], [[C], [D]], [[[0]], [[0]]]))
    assert losses.parts["position"][0].item() == pytest.approx(0.0, abs=1e-6)


def test_a_width_that_heads_cannot_share() -> None:
    with pytest.raises(ValueError, match=r"model_dim \(10\).*num_heads \(4\)"):
        IndigoConfig(model_dim=10, num_heads=4)
