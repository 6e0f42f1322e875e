"""The Insertion Transformer with absolute positions: random canvases, the choice of slots, rounds made anew."""

import random
from collections import Counter
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from indigo_cli.core.vocab import EOD, FIRST_WORD, NUM_SPECIALS, PAD
from indigo_cli.data.collate import collate_source
from indigo_cli.models import insertion_canvas
from indigo_cli.models.insertion_canvas import Standing, canvas_keys, draw_canvas
from indigo_cli.models.insertion_pass import slots_of
from indigo_cli.models.protocol import Canvas
from tests.models.histories import grow, open_log_probs, play_history
from tests.models.test_insertion import check_slope
from tests.models.tiny import SOURCES, A, B, C, D, E, make_batch, make_system
from tests.tensors import assert_close

TARGETS = [[B, A, B, C, D, A, A], [C], [], [D, E, D, A]]
ORDERS = [(4, 1, 0, 6, 3, 2, 5), (0,), (), (2, 3, 0, 1)]
WORDS = NUM_SPECIALS + 5 - FIRST_WORD
KINDS: dict[str, dict[str, Any]] = {
    "joint": {},
    "factorised": {"slot_choice": "factorised"},
    "none": {"slot_choice": "none"},
    "bias": {"vocabulary_bias": True},
    "sequence": {"termination": "sequence"},
}


def make(kind: str = "joint", **settings: Any) -> Any:
    return make_system("insertion", positions="absolute", **{**KINDS[kind], **settings})


def batch_of(targets: list[list[int]], orders: list[tuple[int, ...]]) -> Any:
    return make_batch(SOURCES[: len(targets)], targets, [[order] for order in orders])


def on_canvas(model: Any, source: list[int], words: list[int], *, opened: list[int] | None = None) -> Any:
    """Return the state of one canvas, all its gaps open if nothing else is said."""
    gaps = [[opened is None or gap in opened for gap in range(len(words) + 1)]]
    canvas = Canvas(torch.tensor([words], dtype=torch.int64), torch.tensor([len(words)]), torch.tensor(gaps))
    return model.start(collate_source([source]), canvas)


class TestCanvases:
    @pytest.mark.parametrize("aim", ["tree", "uniform"])
    def test_every_number_of_words_and_every_subset_is_as_likely(self, aim: Any) -> None:
        """3 words: 4 numbers, and the subsets of each alike; chi-square, 7 degrees of freedom, 99.99 %."""
        batch = make_batch([[A]] * 4000, [[A, B, C]] * 4000, [[(0, 1, 2)]] * 4000)
        canvas = draw_canvas(slots_of(batch).history, aim, canvas_keys(batch, training=False))
        assert canvas.stands_NR[:, [0, 4]].all()
        counts = Counter(tuple(row[1:4]) for row in canvas.stands_NR.tolist())
        chances = {stands: 1 / 4 / (1, 3, 3, 1)[sum(stands)] for stands in counts}
        assert len(chances) == 8
        assert sum((counts[s] - 4000 * p) ** 2 / (4000 * p) for s, p in chances.items()) < 30

    def test_other_orders_stop_after_some_round(self) -> None:
        history = slots_of(batch_of(TARGETS, ORDERS)).history
        seen: list[set[tuple[bool, ...]]] = [set() for _ in TARGETS]
        for visit in range(150):
            rows = draw_canvas(history, "first", torch.arange(4) + visit * 104729).stands_NR.tolist()
            for row, target, found in zip(rows, TARGETS, seen, strict=True):
                found.add(tuple(row[: len(target) + 2]))
                assert not any(row[len(target) + 2 :])
        for order, found in zip(ORDERS, seen, strict=True):
            stage = grow(order).stage
            assert found == {tuple(at <= rounds for at in stage) for rounds in range(max(stage) + 1)}

    def test_neighbours_on_a_canvas(self) -> None:
        stands = torch.tensor([[1, 0, 1, 1, 0, 1, 0]]) > 0
        canvas = Standing.of(stands)
        assert canvas.next_NR[0, [0, 2, 3, 5]].tolist() == [2, 3, 5, 7]
        assert canvas.slots_NR[0].tolist() == [True, False, True, True, False, False, False]
        assert canvas.empty_NR[0].tolist() == [False, False, True, False, False, False, False]

    def test_validation_sees_the_same_canvases_in_any_batch(self) -> None:
        batch = batch_of(TARGETS, ORDERS)
        keys = canvas_keys(batch, training=False)
        assert torch.equal(keys, canvas_keys(batch, training=False)) and len(set(keys.tolist())) == 4
        torch.manual_seed(3)
        drawn = canvas_keys(batch, training=True)
        assert not torch.equal(drawn, canvas_keys(batch, training=True))
        torch.manual_seed(3)
        assert torch.equal(drawn, canvas_keys(batch, training=True))
        history = slots_of(batch).history
        canvas = draw_canvas(history, "tree", keys)
        for i, (target, order) in enumerate(zip(TARGETS, ORDERS, strict=True)):
            alone = slots_of(make_batch([SOURCES[i]], [target], [[order]])).history
            row = draw_canvas(alone, "tree", keys[i : i + 1]).stands_NR[0]
            assert torch.equal(row, canvas.stands_NR[i, : len(row)])


def slot_sums(model: Any, i: int, stands: list[bool], smoothing: float) -> dict[str, float]:
    """Return the loss of a canvas by a decoder that is given it: a mean over slots, 0 where nothing is said of one."""
    target = TARGETS[i]
    standing = [k for k in range(len(target)) if stands[k + 1]]
    scores = model.slots(on_canvas(model, SOURCES[i], [target[k] for k in standing]))
    borders = [-1, *standing, len(target)]
    spans = [range(left + 1, right) for left, right in pairwise(borders)]
    scored = [
        slot for slot, span in enumerate(spans) if len(span) or not model.ends_at_once or not any(map(len, spans))
    ]
    sums = {"objective": 0.0, "word": 0.0, "close": 0.0, "position": 0.0, "weight": len(scored) / len(spans)}
    for slot in scored:
        log_probs = scores.logits[0, 0, slot] - scores.log_z[0, 0, slot]
        share = torch.zeros(WORDS)
        if span := spans[slot]:
            away = torch.tensor([abs((span[0] + span[-1]) / 2 - k) for k in span])
            for k, weight in zip(span, torch.softmax(-away, dim=0), strict=True):
                share[target[k] - FIRST_WORD] += weight
        else:
            share[EOD - FIRST_WORD] = 1.0
        nats = -float(log_probs @ share) / len(spans)
        sums["word" if span else "close"] += nats
        sums["objective"] += (1 - smoothing) * nats - smoothing * float(log_probs.mean()) / len(spans)
        if scores.slots is not None:
            sums["position"] -= float(scores.slots[0, 0, slot]) / len(spans)
    sums["objective"] += sums["position"]
    return sums


@pytest.mark.parametrize("kind", KINDS)
class TestLosses:
    @torch.no_grad()
    def test_the_loss_is_that_of_the_canvases_decoded(self, kind: str) -> None:
        model, batch = make(kind), batch_of(TARGETS, ORDERS)
        losses = model(batch, 0.1)
        canvas = draw_canvas(slots_of(batch).history, "tree", canvas_keys(batch, training=False))
        sums = [slot_sums(model, i, canvas.stands_NR[i].tolist(), 0.1) for i in range(4)]
        assert losses.objective.item() == pytest.approx(sum(row["objective"] for row in sums), rel=1e-5)
        for name, (nats, _) in losses.parts.items():
            assert nats.item() == pytest.approx(sum(row[name] for row in sums), rel=1e-4, abs=1e-6)
        assert losses.weight == 4
        weight = sum(float(losses.parts[name][1]) for name in ("word", "close"))
        assert weight == pytest.approx(sum(row["weight"] for row in sums))
        assert (weight == pytest.approx(4.0)) == (kind != "sequence")
        assert ("position" in losses.parts) == (kind != "none")

    def test_gradients_are_slopes(self, kind: str) -> None:
        check_slope(make(kind).double(), batch_of(TARGETS, ORDERS))

    def test_training_draws_again(self, kind: str) -> None:
        model, batch = make(kind, dropout=0.0).train(), batch_of(TARGETS, ORDERS)
        torch.manual_seed(0)
        values = [model(batch).objective.item() for _ in range(3)]
        torch.manual_seed(0)
        assert model(batch).objective.item() == values[0] and len(set(values)) == 3


@pytest.mark.parametrize("kind", ["joint", "bias"])
def test_log_probs_are_the_history_played_round_by_round(kind: str) -> None:
    model = make(kind)
    steps = model.log_probs(batch_of(TARGETS, ORDERS))
    for i, (target, order) in enumerate(zip(TARGETS, ORDERS, strict=True)):
        words, closes = play_history(model, SOURCES[i], target, order) if kind == "joint" else _anew(model, i)
        assert steps.words[i, 0, : len(target)].tolist() == pytest.approx([words[k] for k in order], abs=1e-5)
        assert steps.closes[i, 0, : len(target) + 1].tolist() == pytest.approx(closes, abs=1e-5)
        assert steps.words[i, 0, len(target)].item() == pytest.approx(sum(closes), abs=1e-4)


def _anew(model: Any, i: int) -> tuple[list[float], list[float]]:
    """The same from a canvas of each round, all its gaps open: the bias looks at all of them."""
    target, grown = TARGETS[i], grow(ORDERS[i])
    words, closes = [0.0] * len(target), [0.0] * (len(target) + 1)
    slots = [(made, left, target[k], k) for made, left, _, k, _ in grown.taken]
    for made, left, word, k in [*slots, *((made, left, EOD, left) for made, left, _ in grown.closed)]:
        rows = [row for row in range(1, len(target) + 1) if grown.stage[row] <= made]
        state = on_canvas(model, SOURCES[i], [target[row - 1] for row in rows])
        gap = sum(row <= left for row in rows)
        (words if word != EOD else closes)[k] = float(open_log_probs(model, state)[gap][word - FIRST_WORD])
    return words, closes


@pytest.mark.slow
@torch.inference_mode()
@pytest.mark.parametrize("kind", KINDS)
def test_rounds_in_a_padded_batch(kind: str) -> None:
    """Words, closings and slots that wait, any parents, fewer sentences: as a canvas that is given so."""
    model, choose, sources = make(kind), random.Random(2), SOURCES
    state = model.start(collate_source(sources))
    canvases: list[list[tuple[list[int], list[int]]]] = [[([], [0])] for _ in sources]
    for made, beam in enumerate((2, 3, 1, 2, 2)):
        if made == 3:
            sources, canvases = [sources[i] for i in (0, 3)], [canvases[i] for i in (0, 3)]
            state = model.keep(state, torch.tensor([0, 3]))
        width = model.slots(state).open.shape[2]
        parents = [[choose.randrange(len(row)) for _ in range(beam)] for row in canvases]
        chosen = torch.full((len(sources), beam, width), A)
        grown: list[list[tuple[list[int], list[int]]]] = []
        for i, row in enumerate(canvases):
            grown.append([])
            for j, parent in enumerate(parents[i]):
                words, gaps = row[parent]
                new_words, new_gaps, moved = list(words), [], 0
                for g, gap in enumerate(gaps):
                    word = choose.choice([A, B, C, EOD, PAD, PAD])
                    chosen[i, j, g] = word
                    if word not in (EOD, PAD):
                        new_words.insert(gap + moved, word)
                        new_gaps += [gap + moved, gap + moved + 1]
                        moved += 1
                    elif word == PAD:
                        new_gaps.append(gap + moved)
                grown[-1].append((new_words, new_gaps))
        canvases, state = grown, model.insert(state, torch.tensor(parents), chosen)
        scores = model.slots(state)
        for i, row in enumerate(canvases):
            for j, (words, gaps) in enumerate(row):
                alone = on_canvas(model, sources[i], words, opened=gaps)
                got, wanted = open_log_probs(model, state, i, j), open_log_probs(model, alone)
                assert len(got) == len(wanted) == len(gaps)
                for one, two in zip(got, wanted, strict=True):
                    assert_close(one, two, rtol=1e-4, atol=1e-5)
                if scores.slots is not None and gaps:
                    assert_close(scores.slots[i, j, : len(gaps)].exp().sum(), torch.tensor(1.0))
                    assert_close(scores.slots[i, j, : len(gaps)], model.slots(alone).slots[0, 0], rtol=1e-4, atol=1e-5)
    assert model.can_wait and model.ends_at_once == (kind == "sequence")


def test_the_joint_choice_is_one_softmax_over_words_and_slots() -> None:
    """Its serial form adds up to one over all words and slots."""
    model = make("joint")
    scores = model.slots(on_canvas(model, [A, B], [C, D]))
    joint: Tensor = (scores.logits[0, 0] - scores.log_z[0, 0, :, None]) + scores.slots[0, 0, :, None]
    assert_close(joint, scores.logits[0, 0] - scores.logits[0, 0].logsumexp(dim=(0, 1)))


@torch.inference_mode()
@pytest.mark.parametrize("kind", ["joint", "factorised", "bias", "sequence"])
def test_serial_log_probs_are_those_of_one_word_at_a_time(kind: str) -> None:
    model, batch = make(kind), batch_of(TARGETS, ORDERS)
    steps = model.serial_log_probs(batch)
    assert steps.words.shape == (4, 1, 8) and steps.slots.shape == (4, 1, 7) and steps.closes is None
    if kind == "sequence":
        assert torch.equal(model.log_probs(batch).words, steps.words)
    for i, (target, order) in enumerate(zip(TARGETS, ORDERS, strict=True)):
        for step in range(len(target) + 1):
            standing = sorted(order[:step])
            scores = model.slots(on_canvas(model, SOURCES[i], [target[k] for k in standing]))
            of_words, of_slots = scores.logits[0, 0] - scores.log_z[0, 0, :, None], scores.slots[0, 0]
            both = (of_words + of_slots[:, None]).exp()
            assert_close(both.sum(), torch.tensor(1.0), what="CONTRACT number 1")
            if step == len(target):
                assert steps.words[i, 0, step].exp().item() == pytest.approx(
                    float(both[:, EOD - FIRST_WORD].sum()), rel=1e-4
                )
                continue
            slot = sum(k < order[step] for k in standing)
            word = of_words[slot, target[order[step]] - FIRST_WORD]
            assert steps.words[i, 0, step].item() == pytest.approx(float(word), abs=1e-4)
            assert steps.slots[i, 0, step].item() == pytest.approx(float(of_slots[slot]), abs=1e-4)
        assert not steps.words[i, 0, len(target) + 1 :].any() and not steps.slots[i, 0, len(target) :].any()


def test_padding_has_no_gradient() -> None:
    model = make("bias")
    (gradient,) = torch.autograd.grad(model(batch_of(TARGETS, ORDERS)).objective, [model.embeddings.target.weight])
    assert not gradient[PAD].any()


def canvas_of_key(key: Tensor, batch: Any, *, training: bool) -> Tensor:
    return key


@pytest.mark.parametrize("order", ["blt", "l2r"])
def test_a_slot_that_nothing_is_said_of_has_no_loss(order: str) -> None:
    """Sequence termination: closing is learnt from whole canvases only (PAPERS.md B1).

    Of other canvases the loss of a tree is still divided by all slots; that of left to right is of its one word.
    """
    model, batch = make("sequence", order=order), batch_of([[A, B, C]], [(0, 1, 2)])
    seen = set()
    for visit in range(16):
        key = torch.tensor([visit * 104729])
        canvas = draw_canvas(slots_of(batch).history, model.aim, key)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(insertion_canvas, "canvas_keys", partial(canvas_of_key, key))
            parts = model(batch).parts
        complete = bool(canvas.stands_NR.all())
        slots = int(canvas.slots_NR.sum())
        share = 1.0 if order == "l2r" else (slots - int(canvas.empty_NR.sum())) / slots
        assert (float(parts["close"][1]), float(parts["word"][1])) == pytest.approx(
            (1.0, 0.0) if complete else (0.0, share)
        )
        seen.add(complete)
    assert seen == {True, False}
