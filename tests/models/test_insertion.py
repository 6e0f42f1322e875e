"""The Insertion Transformer whose words keep their states: one pass, rounds with the cache, the loss written out."""

import random
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor

from indigo_cli.core.vocab import EOD, FIRST_WORD, NUM_SPECIALS, PAD, UNK
from indigo_cli.data.collate import collate_source
from indigo_cli.models import MODELS, insertion_pass
from indigo_cli.models.protocol import Canvas
from indigo_cli.orders import ORDERS as ORDERS_TABLE
from indigo_cli.orders import Example, OrderContext
from tests.models.histories import grow, open_log_probs, play_history
from tests.models.tiny import SOURCES, A, B, C, D, E, make_batch, make_config, make_system
from tests.tensors import assert_close

TARGETS = [[B, A, B, C, D, A, A], [C], [], [D, E, D, A]]
ORDERS = [(4, 1, 0, 6, 3, 2, 5), (0,), (), (2, 3, 0, 1)]
WORDS = NUM_SPECIALS + 5 - FIRST_WORD
KEPT: dict[str, dict[str, Any]] = {
    "fractional": {},
    "relative": {"positions": "relative", "max_distance": 2},
    "ternary": {"positions": "ternary"},
    "bias": {"vocabulary_bias": True},
}
kept = pytest.mark.parametrize("kind", KEPT)


def trained(kind: str, *, order: str = "", seed: int = 0) -> Any:
    """Return a system after a few steps of training, in evaluation mode."""
    model = make_system("insertion", seed=seed, order=order, **KEPT[kind]).train()
    batch = make_batch(SOURCES, TARGETS, [[order] for order in ORDERS])
    for _ in range(3):
        gradients = torch.autograd.grad(model(batch).objective, list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.sub_(gradient, alpha=0.005)
    return model.eval()


@pytest.fixture(scope="module")
def systems() -> dict[str, Any]:
    """One trained system of each kind that learns the word that comes first."""
    return {kind: trained(kind, order="l2r") for kind in KEPT}


@kept
class TestOnePass:
    def test_it_is_the_history_played_round_by_round(self, systems: dict[str, Any], kind: str) -> None:
        """A batch of unequal lengths, T = 0 and 1 among them, against each target alone with the cache."""
        model = systems[kind]
        batch = make_batch(SOURCES, TARGETS, [[order] for order in ORDERS])
        steps, parts = model.log_probs(batch), model(batch).parts
        nats = [0.0, 0.0]
        for i, (target, order) in enumerate(zip(TARGETS, ORDERS, strict=True)):
            words, closes = play_history(model, SOURCES[i], target, order)
            length = len(target)
            assert steps.words[i, 0, :length].tolist() == pytest.approx([words[k] for k in order], abs=1e-5)
            assert steps.closes[i, 0, : length + 1].tolist() == pytest.approx(closes, abs=1e-5)
            assert steps.words[i, 0, length].item() == pytest.approx(sum(closes), abs=1e-4)
            assert not steps.words[i, 0, length + 1 :].any() and not steps.closes[i, 0, length + 1 :].any()
            nats = [nats[0] - sum(words), nats[1] - sum(closes)]
        assert not steps.slots.any() and steps.slots.shape == (4, 1, 7)
        assert [parts[name][0].item() for name in ("word", "close")] == pytest.approx(nats, abs=1e-4)

    def test_every_order_of_a_target_at_once(self, systems: dict[str, Any], kind: str) -> None:
        model, target, source = systems[kind], [B, A, B, C], [C, D]
        orders = list(permutations(range(4)))[::5]
        steps = model.log_probs(make_batch([source], [target], [orders]))
        for k, order in enumerate(orders):
            words, closes = play_history(model, source, target, order)
            assert steps.words[0, k, :4].tolist() == pytest.approx([words[i] for i in order], abs=1e-5)
            assert steps.closes[0, k].tolist() == pytest.approx(closes, abs=1e-5)

    def test_neighbours_and_padding_do_not_matter(self, systems: dict[str, Any], kind: str) -> None:
        model = systems[kind]
        together = model.log_probs(make_batch(SOURCES, TARGETS, [[order] for order in ORDERS]))
        for i, (target, order) in enumerate(zip(TARGETS, ORDERS, strict=True)):
            alone = model.log_probs(make_batch([SOURCES[i]], [target], [[order]]))
            assert_close(together.words[i, :, : len(target) + 1], alone.words[0])
            assert_close(together.closes[i, :, : len(target) + 1], alone.closes[0])


def naive_objective(model: Any, batch: Any, orders: Sequence[Sequence[int]], smoothing: float) -> Tensor:
    """The multi-target loss, a slot at a time, from the features of the slots."""
    slots = insertion_pass.slots_of(batch)
    features = insertion_pass._features(model, slots, model.encode(batch.source), batch)
    objective = features.new_zeros(())
    numbers = iter(range(len(features)))

    def nats(target: Tensor) -> Tensor:
        logits: Tensor = model.embeddings.words @ features[next(numbers)]
        return -(logits.log_softmax(dim=0) @ (target * (1 - smoothing) + smoothing / WORDS))

    for i, order in enumerate(orders):
        for _, _, _, word, (low, high) in sorted(grow(order).taken, key=lambda slot: slot[3]):
            target = torch.zeros(WORDS)
            if model.aim == "first":
                target[TARGETS[i][word] - FIRST_WORD] = 1.0
            else:
                away = torch.tensor([abs((low + high - 1) / 2 - k) for k in range(low, high)])
                weights = torch.softmax(-away / (model.temperature if model.aim == "tree" else 1e9), dim=0)
                for k, weight in zip(range(low, high), weights, strict=True):
                    target[TARGETS[i][k] - FIRST_WORD] += weight
            objective = objective + nats(target)
    for _ in range(sum(map(len, TARGETS)) + len(TARGETS)):
        objective = objective + nats(torch.eye(WORDS)[EOD - FIRST_WORD])
    return objective


def check_slope(model: Any, batch: Any) -> None:
    """Compare the gradient along a random direction of all parameters with a central difference."""
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(model(batch, 0.1).objective, parameters)
    torch.manual_seed(1)
    direction = [torch.randn_like(parameter) for parameter in parameters]
    norm = sum(float(way.square().sum()) for way in direction) ** 0.5
    values = []
    for step in (1e-3, -2e-3):  # small: a maximum has kinks
        with torch.no_grad():
            for parameter, way in zip(parameters, direction, strict=True):
                parameter.add_(way, alpha=step / norm)
            values.append(model(batch, 0.1).objective.item())
    slope = sum((gradient * way).sum().item() for gradient, way in zip(gradients, direction, strict=True)) / norm
    assert (values[0] - values[1]) / 2e-3 == pytest.approx(slope, rel=1e-2, abs=6e-3)


class TestLoss:
    @pytest.mark.parametrize("order", ["blt", "rnd", "l2r"])
    @pytest.mark.parametrize("smoothing", [0.0, 0.1])
    def test_value_and_gradient_are_those_of_a_naive_form(self, order: str, smoothing: float) -> None:
        model = make_system("insertion", order=order, tree_temperature=0.7)
        batch = make_batch(SOURCES, TARGETS, [[order] for order in ORDERS])
        losses, naive = model(batch, smoothing), naive_objective(model, batch, ORDERS, smoothing)
        assert_close(losses.objective, naive, rtol=1e-5)
        assert losses.weight == 2 * 12 + 4
        assert {name: count for name, (_, count) in losses.parts.items()} == {"word": 12, "close": 16}
        parameters = dict(model.named_parameters())
        wanted = torch.autograd.grad(naive, list(parameters.values()))
        got = torch.autograd.grad(losses.objective, list(parameters.values()))
        for name, one, two in zip(parameters, got, wanted, strict=True):
            assert_close(one, two, rtol=1e-4, atol=1e-5, what=name)

    @kept
    def test_gradients_are_slopes(self, kind: str) -> None:
        """Along a random direction of all parameters, by central differences."""
        check_slope(
            make_system("insertion", seed=3, **KEPT[kind]).double(),
            make_batch(SOURCES, TARGETS, [[order] for order in ORDERS]),
        )

    def test_the_vocabulary_bias_looks_at_the_slots_of_its_round(self) -> None:
        model = make_system("insertion", vocabulary_bias=True).double()
        features = torch.randn(9, 8, dtype=torch.float64, requires_grad=True)
        pool = torch.tensor([0, 0, 1, 3, 3, 3, 0, 1, 5])
        wanted = torch.stack(
            [row + model.bias_map(features[pool == at].amax(dim=0)) for row, at in zip(features, pool, strict=True)]
        )
        got, seed = model.biased_by_pool(features, pool, 7), torch.randn(9, 8, dtype=torch.float64)
        assert_close(got, wanted)
        assert_close(*(torch.autograd.grad((biased * seed).sum(), features)[0] for biased in (got, wanted)))
        marked = torch.tensor([[True, False, True], [False] * 3, [True] * 3])
        rows = features.view(3, 3, 8)
        for got, row, mark in zip(model.biased(rows, marked), rows, marked, strict=True):
            assert_close(got, row + model.bias_map(row[mark].amax(dim=0)) if mark.any() else row)

    def test_bf16_takes_the_same_way(self) -> None:
        model = make_system("insertion", positions="relative", vocabulary_bias=True)
        batch = make_batch(SOURCES, TARGETS, [[order] for order in ORDERS])
        with torch.autocast("cpu", torch.bfloat16):
            slots = insertion_pass.slots_of(batch)
            features = insertion_pass._features(model, slots, model.encode(batch.source), batch)
            rough = model(batch, 0.1).objective
        assert features.dtype == torch.bfloat16, "the output layer is half of the cost"
        assert rough.item() == pytest.approx(model(batch, 0.1).objective.item(), rel=0.03)


@kept
class TestRounds:
    @torch.inference_mode()
    def test_every_open_slot_adds_up_to_one(self, systems: dict[str, Any], kind: str) -> None:
        """CONTRACT number 1, in a padded batch; words and no insertion are columns of one softmax."""
        model = systems[kind]
        state = model.start(collate_source(SOURCES))
        for _ in range(3):
            scores = model.slots(state)
            assert scores.logits.shape == (*scores.open.shape, WORDS) and scores.logits.dtype == torch.float32
            assert scores.slots is None
            assert_close(scores.logits.logsumexp(dim=-1)[scores.open], scores.log_z[scores.open])
            word = torch.tensor([A, EOD, UNK])[torch.arange(scores.open.shape[2]) % 3].expand(scores.open.shape)
            state = model.insert(state, torch.zeros(4, 1, dtype=torch.int64), word)

    @pytest.mark.slow
    @torch.inference_mode()
    def test_hypotheses_may_change_places_multiply_and_go(self, systems: dict[str, Any], kind: str) -> None:
        """A state reached through any parents, without some sentences, is that of each hypothesis played alone."""
        model, choose, sources = systems[kind], random.Random(5), SOURCES
        state = model.start(collate_source(sources))
        histories: list[list[list[list[int]]]] = [[[]] for _ in sources]
        for made, beam in enumerate((3, 2, 4, 1, 2)):
            if made == 2:
                sources, histories = [sources[i] for i in (0, 2, 3)], [histories[i] for i in (0, 2, 3)]
                state = model.keep(state, torch.tensor([0, 2, 3]))
            opened = model.slots(state).open
            parents = [[choose.randrange(len(row)) for _ in range(beam)] for row in histories]
            words = torch.full((len(sources), beam, opened.shape[2]), EOD)
            grown: list[list[list[list[int]]]] = []
            for i, row in enumerate(histories):
                grown.append([])
                for j, parent in enumerate(parents[i]):
                    count = int(opened[i, parent].sum())
                    chosen = [choose.choice([A, B, UNK, EOD]) for _ in range(count)]
                    words[i, j, :count] = torch.tensor(chosen, dtype=torch.int64)
                    words[i, j, count:] = choose.choice([EOD, PAD, A])  # ignored
                    grown[-1].append([*row[parent], chosen])
            histories, state = grown, model.insert(state, torch.tensor(parents), words)
            for i, row in enumerate(histories):
                for j, history in enumerate(row):
                    alone = model.start(collate_source([sources[i]]))
                    for chosen in history:
                        alone = model.insert(alone, torch.tensor([[0]]), torch.tensor([[chosen]], dtype=torch.int64))
                    got, wanted = open_log_probs(model, state, i, j), open_log_probs(model, alone)
                    assert len(got) == len(wanted) == 2 * sum(word != EOD for word in history[-1])
                    for one, two in zip(got, wanted, strict=True):
                        assert_close(one, two, rtol=1e-4, atol=1e-5)

    @torch.inference_mode()
    def test_a_canvas_of_nothing_is_plain_decoding(self, systems: dict[str, Any], kind: str) -> None:
        model, source = systems[kind], collate_source(SOURCES)
        canvas = Canvas(torch.zeros(4, 0, dtype=torch.int64), torch.zeros(4, dtype=torch.int64), torch.ones(4, 1) > 0)
        one, two = model.slots(model.start(source)), model.slots(model.start(source, canvas))
        assert torch.equal(one.logits, two.logits) and torch.equal(one.open, two.open)


@pytest.mark.parametrize("kind", ["fractional", "relative", "ternary"])
@torch.inference_mode()
def test_words_of_a_canvas_come_as_a_balanced_tree_inserts_them(systems: dict[str, Any], kind: str) -> None:
    """Its open gaps score as in that history; none but they are open."""
    model, words = systems[kind], [[A, B, C, D, A, C], [], [E], [B, B]]
    opened = [[0, 2, 3, 6], [0], [], [0, 1, 2]]
    canvas = Canvas(
        torch.tensor([row + [PAD] * (7 - len(row)) for row in words]),
        torch.tensor([len(row) for row in words]),
        torch.tensor([[gap in gaps for gap in range(8)] for gaps in opened]),
    )
    state = model.start(collate_source(SOURCES), canvas)
    for i, row in enumerate(words):
        order = ORDERS_TABLE["blt"].order(Example(0, row), OrderContext())
        _, closes = play_history(model, SOURCES[i], row, order)
        found = open_log_probs(model, state, i)
        assert [float(log_prob[0]) for log_prob in found] == pytest.approx([closes[g] for g in opened[i]], abs=1e-5)
    assert (
        model.slots(model.insert(state, torch.zeros(4, 1, dtype=torch.int64), torch.full((4, 1, 4), A))).open.sum()
        == 16
    )


@pytest.mark.parametrize("positions", ["fractional", "relative", "absolute"])
@torch.inference_mode()
def test_the_longest_may_end_first(positions: str) -> None:
    """Others go on as they do alone, whether what ended is still in the batch or not."""
    model = make_system("insertion", positions=positions)
    canvas = Canvas(
        torch.tensor([[A, B, C, D, A, B], [PAD] * 6]),
        torch.tensor([6, 0]),
        torch.tensor([[gap == 6 for gap in range(7)], [gap == 0 for gap in range(7)]]),
    )
    for drops in (False, True):
        state, alone = model.start(collate_source(SOURCES[:2]), canvas), model.start(collate_source(SOURCES[1:2]))
        for made in range(4):
            for one, two in zip(open_log_probs(model, state, -1), open_log_probs(model, alone), strict=True):
                assert_close(one, two, rtol=1e-4, atol=1e-5)
            words = torch.full(model.slots(state).open.shape, C)
            words[:-1] = EOD
            state = model.insert(state, torch.zeros(len(words), 1, dtype=torch.int64), words)
            alone = model.insert(alone, torch.zeros(1, 1, dtype=torch.int64), words[-1:])
            if drops and made == 1:
                state = model.keep(state, torch.tensor([1]))


def test_settings_that_do_not_go_together() -> None:
    for settings, fault in (
        ({"termination": "sequence"}, "termination"),
        ({"slot_choice": "joint", "positions": "relative"}, "slot_choice"),
        ({"termination": "sequence", "positions": "absolute", "slot_choice": "none"}, "slot_choice"),
        ({"model_dim": 7}, "model_dim"),
    ):
        with pytest.raises(ValueError, match=fault):
            make_config("insertion", **settings)


def test_defaults() -> None:
    """Defaults: fractional positions, blt."""
    config = MODELS["insertion"].config()
    assert (config.position_scheme, config.chosen_slots, config.reusable) == ("fractional", "none", True)
    assert MODELS["insertion"].default_order == "blt"
