"""The Transformer that is told a length: slow second implementation, batches, caches, beams, and that it learns to."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from indigo_cli.core.vocab import EOD
from indigo_cli.data.collate import collate, collate_source
from indigo_cli.decoding.search import search_batch
from indigo_cli.models import MODELS
from tests import reference
from tests.models.lengths import SENTENCES, check_reached, count, follow_a_beam, learn_lengths, without_wishes
from tests.models.tiny import A, make_config, make_system, word_log_probs
from tests.tensors import assert_near

SCHEMES = ["ldpe", "lrpe", "ldpe+pe", "lrpe+pe"]


def make(positions: str, **settings: Any) -> Any:
    return make_system("transformer", positions=positions, **settings)


def codes(positions: str, words: Sequence[int], wish: int, dim: int, layout: str) -> list[Tensor]:
    """Return the code of each row, `<s>` first, from the formulas."""
    found = []
    for place in range(len(words) + 1):
        written = count(words[:place])
        position, base = max(wish - written, 0), 10000
        if positions.startswith("lrpe"):
            position, base = min(written, wish), max(wish, 2)
        code = torch.zeros(dim)
        for at, power in ((position, base), *([(place, 10000)] if positions.endswith("+pe") else [])):
            for k in range(dim // 2):
                angle = at / power ** (2 * k / dim if layout == "interleaved" else k / (dim // 2 - 1))
                sine, cosine = (2 * k, 2 * k + 1) if layout == "interleaved" else (k, dim // 2 + k)
                code[sine] += math.sin(angle)
                code[cosine] += math.cos(angle)
        found.append(code)
    return found


def slow_log_probs(model: Any, positions: str, sentence: tuple[list[int], list[int], int], layout: str) -> list[float]:
    """Return log p of each word and `<eod>`, every step from scratch."""
    source, target, wish = sentence
    config = make_config("transformer", positions=positions, position_layout=layout)
    memory = reference.encode(model, config, source, ordered_source=True)
    table = model.embeddings.target.weight
    code = codes(positions, target, wish, table.shape[1], layout)
    found = []
    for length, word in enumerate([*target, EOD]):
        rows = [reference.embed(table, token) + code[at] for at, token in enumerate([1, *target[:length]])]
        hidden = reference.decode(model, config, torch.stack(rows), memory, r=None)
        found.append(float(reference.word_log_probs(model, hidden[-1])[word]))
    return found


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("positions", SCHEMES)
@torch.no_grad()
def test_log_probs_are_those_of_the_slow_implementation(positions: str, layout: str) -> None:
    """Rows of different lengths and wishes in one batch."""
    model = make(positions, position_layout=layout)
    sources, targets, wishes = zip(*SENTENCES, strict=True)
    orders = [[range(len(target))] for target in targets]
    found = model.log_probs(collate([""] * 4, sources, targets, orders, wishes=wishes))
    for row, sentence in enumerate(SENTENCES):
        wanted = slow_log_probs(model, positions, sentence, layout)
        assert_near(found.words[row, 0, : len(wanted)], wanted, atol=1e-5)


@pytest.mark.parametrize("positions", SCHEMES)
@torch.no_grad()
def test_without_a_wish_training_takes_the_length_of_the_target(positions: str) -> None:
    model = make(positions)
    batch, told = without_wishes(model)
    losses = model(batch)
    assert_near(losses.parts["word"][0], -told.words.sum(), rtol=1e-5)


@pytest.mark.parametrize("positions", SCHEMES)
@torch.inference_mode()
def test_cached_decoding_with_a_beam_is_recomputation(positions: str) -> None:
    """Hypotheses of one sentence have written different lengths, change places, are copied, and sentences leave."""
    model = make(positions)

    def wanted(source: list[int], text: list[int], wish: int) -> float:
        return slow_log_probs(model, positions, (source, text, wish), "interleaved")[-1]

    follow_a_beam(model, wanted)


def test_a_wish_is_needed_and_said_to_be() -> None:
    model, plain = make("ldpe"), make_system("transformer")
    with pytest.raises(ValueError, match="no wishes"):
        model.start(collate_source([[A]]))
    with torch.inference_mode():
        told = word_log_probs(plain, plain.start(collate_source([[A]], [7])))
        assert torch.equal(told, word_log_probs(plain, plain.start(collate_source([[A]]))))
    facts: dict[str, Any] = {"source_size": 6, "target_size": 6, "ordered_source": True}
    with pytest.raises(ValueError, match="table of units"):
        MODELS["transformer"].build(make_config("transformer", positions="ldpe"), **facts)


@pytest.mark.slow
def test_a_model_learns_to_follow_the_wish() -> None:
    """Targets say nothing but how long they are; held-out lengths between those of training are reached too."""
    torch.manual_seed(1)
    model = make_system(
        "transformer",
        positions="ldpe",
        length_unit="token",
        dropout=0.0,
        model_dim=32,
        encoder_layers=1,
        decoder_layers=1,
    )
    learn_lengths(model, [n for n in range(1, 11) if n not in (4, 7)], steps=100, rate=3e-3)
    check_reached(partial(search_batch, width=2), model, 10, exact=8)
