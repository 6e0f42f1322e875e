"""The Insertion Transformer with a length budget: slow second implementation, rounds, canvases, beams, learning."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from indigo_cli.core.vocab import BOS, EOD, EOS, FIRST_WORD
from indigo_cli.data.collate import collate, collate_source
from indigo_cli.decoding.one_slot import OneSlot
from indigo_cli.decoding.parallel import search_rounds
from indigo_cli.models import MODELS
from indigo_cli.models.insertion_pass import histories_of
from indigo_cli.models.protocol import Canvas, StepLogProbs
from indigo_cli.nn.positions.canvas import GrownCanvas
from indigo_cli.orders.balanced_tree import ranks
from tests.models.histories import grow, open_log_probs, play_history
from tests.models.lengths import check_reached, check_under_wishes, code, learn_lengths, weight
from tests.models.test_insertion import check_slope
from tests.models.tiny import A, B, C, D, E, make_batch, make_config, make_system
from tests.tensors import assert_close, assert_near

SENTENCES: list[tuple[list[int], list[int], list[int], int]] = [
    ([A, B, C], [A, B, C, B, D], [3, 1, 0, 4, 2], 40),
    ([D], [], [], 3),
    ([], [E], [0], 8),
    ([C, C, D, E, A], [B, A, B, D], [2, 3, 0, 1], 11),
]
"""Source, target, order and wish: passed, missed, met by one word, passed by words."""
POSITIONS = ["fractional", "relative", "ternary", "absolute"]
every = pytest.mark.parametrize(
    ("positions", "scheme"), [(positions, scheme) for positions in POSITIONS for scheme in ("ldpe", "lrpe")]
)


def make(positions: str, scheme: str = "ldpe", **settings: Any) -> Any:
    return make_system("insertion", positions=positions, length_control=scheme, **{"order": "l2r", **settings})


def balanced(length: int) -> list[int]:
    """Return the order of a balanced tree."""
    return sorted(range(length), key=ranks(length).tolist().__getitem__)


def rows_told(target: Sequence[int], stages: Sequence[int], scheme: str, wish: int, *, now: int | None) -> Tensor:
    """Return (R, D): what rows are told that see the words up to their stage, or up to that of the present round."""
    words = list(zip([BOS, *target, EOS], stages, strict=True))[1:-1]
    written = [weight([word for word, came in words if came <= (stage if now is None else now)]) for stage in stages]
    return torch.stack([code(scheme, one, wish) for one in written])


@torch.no_grad()
def slow(
    model: Any, scheme: str, source: list[int], target: list[int], order: list[int], wish: int
) -> tuple[list[float], list[float]]:
    """Return log p of the words in surface order and of the closed gaps: a forward pass over all that stands a slot."""
    sources = collate_source([source])
    grown, memory = grow(order), model.encode(sources)
    whole = histories_of(make_batch([source], [target], [[order]]))

    def log_probs(made: int, left: int, right: int) -> Tensor:
        rows = [row for row, stage in enumerate(grown.stage) if stage <= made]
        told = rows_told(target, grown.stage, scheme, wish, now=None if model.reusable else made)[rows]
        canvas = whole.canvas
        if model.reusable:  # numbers of rows are those of the whole target: hide what does not stand behind it
            places, hidden = model.positions.codes(canvas), torch.tensor(grown.stage) > made
            embedded = model.embeddings.target(whole.words_NR) * model.embeddings.scale
            full = rows_told(target, grown.stage, scheme, wish, now=None)[None]
            embedded = embedded + full + (0 if places is None else places)
            mask = canvas.mask(embedded.dtype).masked_fill(hidden, -torch.inf)
            mask = torch.where(hidden[:, None], canvas.mask(embedded.dtype), mask)  # of these nobody asks
            states = model.decoder(embedded, memory, sources.mask, left=model.positions.left(canvas), mask=mask)[0]
            around = states[left], states[right]
        else:
            words = torch.tensor([[[BOS, *target, EOS][row] for row in rows]])
            embedded = model.embeddings.target(words) * model.embeddings.scale + told
            embedded = embedded + model.positions.first_codes(len(rows), words.device)
            states = model.decoder(embedded, memory, sources.mask, mask=torch.zeros(1, 1, len(rows), len(rows)))[0]
            around = states[rows.index(left)], states[rows.index(right)]
        logits: Tensor = model.embeddings.words @ model.slot(torch.cat(around))
        return logits.log_softmax(dim=0)

    words, closes = [0.0] * len(target), [0.0] * (len(target) + 1)
    for made, left, right, word, _ in grown.taken:
        words[word] = float(log_probs(made, left, right)[target[word] - FIRST_WORD])
    for made, left, right in grown.closed:
        closes[left] = float(log_probs(made, left, right)[EOD - FIRST_WORD])
    return words, closes


@every
@torch.no_grad()
def test_log_probs_are_those_of_the_slow_implementation(positions: str, scheme: str) -> None:
    """Under wishes that are met, missed and passed; without one, of the weight of the target."""
    model = make(positions, scheme)

    def check(
        found: StepLogProbs, row: int, source: list[int], target: list[int], order: list[int], length: int
    ) -> None:
        words, closes = slow(model, scheme, source, target, order, length)
        assert found.closes is not None
        assert_near(found.words[row, 0, : len(words)], [words[i] for i in order], atol=1e-5)
        assert_near(found.closes[row, 0, : len(closes)], closes, atol=1e-5)

    told, own = check_under_wishes(model, SENTENCES, check)
    assert told.closes is not None and own.closes is not None
    assert not torch.allclose(told.closes, own.closes, atol=1e-3)


@every
@torch.no_grad()
def test_several_orders_of_a_target_have_its_wish(positions: str, scheme: str) -> None:
    model = make(positions, scheme)
    sources, targets, orders, wishes = zip(*SENTENCES, strict=True)
    both = [[order, sorted(order)] for order in orders]
    found = model.log_probs(collate([""] * 4, sources, targets, both, wishes=wishes))
    for k in range(2):
        one = model.log_probs(collate([""] * 4, sources, targets, [[pair[k]] for pair in both], wishes=wishes))
        assert_close(found.words[:, k], one.words[:, 0], atol=1e-5)
        assert_close(found.closes[:, k], one.closes[:, 0], atol=1e-5)


@every
def test_one_pass_is_the_history_played_round_by_round(positions: str, scheme: str) -> None:
    """From kept states, and from those made anew."""
    model = make(positions, scheme)
    for source, target, order, wish in SENTENCES:
        steps = model.log_probs(collate([""], [source], [target], [[order]], wishes=[wish]))
        words, closes = play_history(model, source, target, order, [wish])
        assert_near(steps.words[0, 0, : len(words)], [words[i] for i in order], atol=1e-5)
        assert_near(steps.closes[0, 0], closes, atol=1e-5)


@every
@torch.inference_mode()
def test_hypotheses_that_change_places_and_leave_are_those_alone(positions: str, scheme: str) -> None:
    """Each has spent a budget of its own, some slots are closed on the way."""
    model, sources, wishes = make(positions, scheme), [[A, B], [C], [D, D]], [30, 4, 60]
    steps = [  # parents of each hypothesis and what its open slots take
        ([0, 0, 0], [[A], [B], [C]]),
        ([2, 1, 0], [[E, EOD], [A, D], [EOD, B]]),
        ([1, 1, 2], [[C, EOD, B, A], [EOD, EOD, D, EOD], [E, E]]),
    ]
    state, kept = model.start(collate_source(sources, wishes)), [0, 1, 2]
    histories: list[list[list[int]]] = [[]]
    for number, (parents, words) in enumerate(steps):
        width = max(map(len, words))
        padded = torch.tensor([[*row, *[E] * (width - len(row))] for row in words])  # slots that nobody has open
        state = model.insert(state, torch.tensor([parents] * len(kept)), padded.expand(len(kept), -1, -1))
        histories = [[*histories[parent], row] for parent, row in zip(parents, words, strict=True)]
        if number == 1:
            state, kept = model.keep(state, torch.tensor([2, 0])), [2, 0]
        for row, sentence in enumerate(kept):
            for place, rounds in enumerate(histories):
                one = model.start(collate_source([sources[sentence]], [wishes[sentence]]))
                for decided in rounds:
                    one = model.insert(one, torch.tensor([[0]]), torch.tensor([[decided]]))
                found = open_log_probs(model, state, row, place)
                for log_probs, other in zip(found, open_log_probs(model, one), strict=True):
                    assert_close(log_probs, other, atol=1e-5)


def on_canvases(model: Any, words: list[list[int]], wishes: list[int]) -> Any:
    """Return the state of canvases whose gaps are all open."""
    most = max(map(len, words))
    canvas = Canvas(
        torch.tensor([[*row, *[0] * (most - len(row))] for row in words]),
        torch.tensor([len(row) for row in words]),
        torch.tensor([[gap <= len(row) for gap in range(most + 1)] for row in words]),
    )
    return model.start(collate_source([[A, B]] * len(words), wishes), canvas)


@every
@torch.inference_mode()
def test_given_words_are_told_what_is_left_when_all_of_them_stand(
    monkeypatch: pytest.MonkeyPatch, positions: str, scheme: str
) -> None:
    """Also those that a canvas with kept states takes in first; and what comes then goes on from there."""
    model, words, wishes = make(positions, scheme), [[A, C, B, B, E], [], [D]], [50, 9, 7]
    budget, state = model.budget, on_canvases(model, words, wishes)
    for row, (canvas, wish) in enumerate(zip(words, wishes, strict=True)):
        order = balanced(len(canvas))
        batch = collate([""], [[A, B]], [canvas], [[order]], wishes=[wish])
        history = histories_of(batch)
        whole = weight(canvas) + (1 if canvas else 0)  # before the blank that no text begins with is taken off
        spent = [whole if stage or not model.reusable else 0 for stage in grow(order).stage]
        told = budget.code(torch.tensor([spent]), torch.tensor([[wish]]))
        with monkeypatch.context() as patch:
            patch.setattr(type(budget), "seen", lambda *_, told=told: told)
            stages = history.canvas if model.reusable else all_stand(history.canvas)
            sides = model.sides(history.words_NR, stages, model.encode(batch.source), batch)[0]
        to_right, to_left = sides.chunk(2, dim=1)
        features = to_right[:-1] + to_left[1:]
        found = open_log_probs(model, state, row)
        assert len(found) == len(canvas) + 1
        for log_probs, feature in zip(found, features, strict=True):
            assert_close(log_probs, (model.embeddings.words @ feature).log_softmax(dim=0), atol=1e-5)
    everywhere = torch.full((3, 1, 6), EOD)
    everywhere[:, :, 0] = C
    after = model.insert(state, torch.zeros(3, 1, dtype=torch.int64), everywhere)
    assert after.spending.weight_P.tolist() == [int(budget.weigh(torch.tensor([*row, C])).sum()) for row in words]


def all_stand(canvas: GrownCanvas) -> GrownCanvas:
    return GrownCanvas(torch.zeros_like(canvas.stage_NR), canvas.left_NR, canvas.right_NR, canvas.last_N)


@pytest.mark.parametrize("positions", ["fractional", "absolute"])
def test_losses_are_of_the_budget_and_their_gradient_is_right(positions: str) -> None:
    model = make(positions)
    sources, targets, orders, wishes = zip(*SENTENCES, strict=True)
    batch = collate([f"{i}" for i in range(4)], sources, targets, [[order] for order in orders], wishes=wishes)
    check_slope(model, batch)
    other = collate([f"{i}" for i in range(4)], sources, targets, [[order] for order in orders])
    assert float(model(batch).parts["word"][0]) != pytest.approx(float(model(other).parts["word"][0]), rel=1e-3)


@pytest.mark.parametrize("termination", ["slot", "sequence"])
@torch.no_grad()
def test_one_slot_at_a_time_costs_what_training_says(termination: str) -> None:
    model = make("absolute", termination=termination)
    source, target, order, wish = SENTENCES[0]
    steps = model.serial_log_probs(collate([""], [source], [target], [[order]], wishes=[wish]))
    serial = OneSlot(model)
    state, standing = serial.start(collate_source([source], [wish])), list[int]()
    for step, index in enumerate(order):
        scores = model.slots(state.inner)
        slot = sum(one < index for one in standing)
        log_prob = (scores.logits - scores.log_z[..., None])[0, 0, slot, target[index] - FIRST_WORD]
        assert_close(log_prob, steps.words[0, 0, step], atol=1e-5)
        assert_close(scores.slots[0, 0, slot], steps.slots[0, 0, step], atol=1e-5)
        anchor = (
            1 + standing.index(before) if (before := max((i for i in standing if i < index), default=-1)) >= 0 else 0
        )
        state = serial.advance(state, *(torch.tensor([[part]]) for part in (0, target[index], anchor)))
        standing.append(index)


def test_a_wish_is_needed_and_said_to_be() -> None:
    for one in (make("fractional"), make("absolute")):
        with pytest.raises(ValueError, match="no wishes"):
            one.start(collate_source([[A]]))
    facts: dict[str, Any] = {"source_size": 6, "target_size": 6, "ordered_source": True}
    with pytest.raises(ValueError, match="table of units"):
        MODELS["insertion"].build(make_config("insertion", length_control="ldpe"), **facts)


@pytest.mark.slow
@pytest.mark.parametrize(("positions", "exact"), [("fractional", 8), ("absolute", 6)])
def test_a_model_learns_to_follow_the_wish(positions: str, exact: int) -> None:
    """Targets say nothing but how long they are; one length is held out of training.

    On random canvases of equal words no slot can tell how many of those that are left are its own.
    """
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"model_dim": 32, "ff_dim": 64, "encoder_layers": 1, "decoder_layers": 2}
    model = make(positions, length_unit="token", order="blt", tree_temperature=0.0, dropout=0.0, **sizes)
    learn_lengths(model, [n for n in range(1, 11) if n != 6], steps=400, rate=3e-3, order=balanced)
    check_reached(partial(search_rounds, width=1), model, 10, exact=exact)
