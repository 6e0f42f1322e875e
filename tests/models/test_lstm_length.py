"""The LSTM that is told a length, LenEmb and LenInit, against the NumPy implementation of `test_lstm.py`."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch

from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.data.collate import collate, collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.search import Sentence, search_batch
from indigo_cli.models import MODELS
from tests.models.lengths import SENTENCES, check_reached, count, follow_a_beam, learn_lengths, without_wishes
from tests.models.test_lstm import Slow
from tests.models.tiny import A, B, C, D, E, make_config, make_system
from tests.tensors import assert_close

KINDS = ["lenemb", "leninit"]
every_kind = pytest.mark.parametrize("kind", KINDS)


def make(kind: str, **settings: Any) -> Any:
    return make_system("lstm", length_control=kind, **settings)


def slow_log_probs(model: Any, source: Sequence[int], target: Sequence[int], wish: int) -> list[float]:
    """Return log p of each word and `<eod>`."""
    slow = Slow(dict(model.named_parameters()), encoder_layers=2, decoder_layers=2)
    written = [count(target[:step]) for step in range(len(target) + 1)]
    steps = slow.log_probs(source, target, wish, written)
    return [float(step[word - FIRST_WORD]) for step, word in zip(steps, [*target, EOD], strict=True)]


@pytest.mark.parametrize("aca", [False, True])
@every_kind
@torch.no_grad()
def test_log_probs_are_those_of_the_slow_implementation(kind: str, aca: bool) -> None:
    """Rows of different lengths and wishes in one batch; a wish beyond the table is the last entry of it."""
    model = make(kind, aca=aca)
    rows = [*SENTENCES, ([A], [E, D], 1000 if kind == "lenemb" else 40)]
    sources, targets, wishes = zip(*rows, strict=True)
    orders = [[range(len(target))] for target in targets]
    found = model.log_probs(collate([""] * len(rows), sources, targets, orders, wishes=wishes))
    for row, (source, target, wish) in enumerate(rows):
        wanted = torch.tensor(slow_log_probs(model, source, target, wish))
        assert_close(found.words[row, 0, : len(wanted)], wanted, rtol=1e-5, atol=1e-5)


@every_kind
@torch.no_grad()
def test_without_a_wish_training_takes_the_length_of_the_target(kind: str) -> None:
    without_wishes(make(kind))


@every_kind
@torch.inference_mode()
def test_cached_decoding_with_a_beam_is_recomputation(kind: str) -> None:
    """Hypotheses of a sentence have written different lengths, change places, are copied, and sentences leave."""
    model = make(kind)

    def wanted(source: list[int], text: list[int], wish: int) -> float:
        return slow_log_probs(model, source, text, wish)[-1]

    follow_a_beam(model, wanted)


@every_kind
def test_scores_of_hypotheses_are_what_the_search_says(kind: str) -> None:
    """CONTRACT number 2, with a wish that no hypothesis need meet."""
    model, wishes = make(kind, seed=3), [9, 20]
    sources = [[A, B, C], [D]]
    sentences = [Sentence(i, 2, 6) for i in range(2)]
    found = search_batch(model, collate_source(sources, wishes), DecodeConfig(), sentences, width=3, seed=1)
    for source, wish, hypotheses in zip(sources, wishes, found, strict=True):
        for h in hypotheses:
            words = h.trace.tokens()
            steps = model.log_probs(collate([""], [source], [words], [[range(len(words))]], wishes=[wish])).words[0, 0]
            said = [part.word_log_prob for part in h.trace.insertions]
            assert_close(torch.tensor(said), steps[: len(words)], atol=1e-4)


@every_kind
def test_a_wish_is_needed_and_said_to_be(kind: str) -> None:
    model = make(kind)
    with pytest.raises(ValueError, match="no wishes"):
        model.start(collate_source([[A]]))
    facts: dict[str, Any] = {"source_size": 6, "target_size": 6, "ordered_source": True}
    with pytest.raises(ValueError, match="table of units"):
        MODELS["lstm"].build(make_config("lstm", length_control=kind), **facts)


@every_kind
def test_a_model_learns_to_follow_the_wish(kind: str) -> None:
    """Targets say nothing but how long they are."""
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"model_dim": 24, "encoder_layers": 1, "decoder_layers": 1}
    model = make(kind, length_unit="token", dropout=0.0, aca=False, **sizes)
    learn_lengths(model, range(1, 9), steps=60, rate=1e-2)
    check_reached(partial(search_batch, width=2), model, 8, exact=6)
