"""The left-to-right Transformer against a slow second implementation."""

from typing import Any

import pytest
import torch

from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.models import transformer
from indigo_cli.models.serial import gold_words, places, places_of
from indigo_cli.models.transformer_config import TransformerConfig
from tests import reference
from tests.models.tiny import A, B, C, D, E, make_batch, make_config, make_system, play, word_log_probs
from tests.tensors import assert_close

SENTENCES = [([A, B, C], [A, B, C]), ([D], []), ([], [E]), ([C, C, D, E, A], [B, A, B, D])]
SETTINGS: list[dict[str, Any]] = [{}, {"share_embeddings": False}, {"source_positions": "none"}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_losses_and_gradients_are_those_of_the_slow_implementation(settings: dict[str, Any]) -> None:
    config = make_config("transformer", **settings)
    model = make_system("transformer", **settings).double()
    orders = [[range(len(target))] for _, target in SENTENCES]
    batch = make_batch([source for source, _ in SENTENCES], [target for _, target in SENTENCES], orders)
    losses = model(batch, 0.3)
    parts = [
        reference.losses(
            reference.transformer_steps(model, config, source, target, ordered_source=True),
            target,
            range(len(target)),
            smoothing=0.3,
        )
        for source, target in SENTENCES
    ]
    smooth, words = (torch.stack([part[i] for part in parts]).sum() for i in range(2))
    assert_close(losses.objective, smooth, rtol=1e-6)
    assert_close(losses.parts["word"][0], words, rtol=1e-6)
    assert losses.weight == losses.parts["word"][1] == 8 + 4
    parameters = dict(model.named_parameters())
    wanted = torch.autograd.grad(smooth, list(parameters.values()))
    got = torch.autograd.grad(losses.objective, list(parameters.values()))
    for name, one, other in zip(parameters, got, wanted, strict=True):
        assert_close(one, other, rtol=1e-5, atol=1e-6, what=name)


@pytest.mark.parametrize(("asked", "ordered"), [("auto", True), ("auto", False), ("sinusoidal", False), ("none", True)])
def test_source_positions(asked: str, ordered: bool) -> None:
    """A bag has none unless they are asked for."""
    settings: dict[str, Any] = {"source_positions": asked}
    model, config = (
        make_system("transformer", ordered_source=ordered, **settings),
        make_config("transformer", **settings),
    )
    steps = reference.transformer_steps(model, config, [A, B], [C], ordered_source=ordered)
    wanted, _, _ = reference.losses(steps, [C], [0])
    assert_close(model(make_batch([[A, B]], [[C]], [[[0]]])).objective, wanted)


@pytest.mark.parametrize("more", [1, 2, 64])
@torch.inference_mode()
def test_decoding_goes_on_where_its_codes_of_positions_end(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer, "MORE_POSITIONS", more)
    model, target = make_system("transformer"), [B, A, B, D, C]
    steps = model.log_probs(make_batch([[A, B]], [target], [[list(range(5))]]))
    for step, word in enumerate([*target, EOD]):
        found = word_log_probs(model, play(model, [A, B], target[:step], range(step)))
        assert_close(found[0, 0, word - FIRST_WORD], steps.words[0, 0, step], rtol=1e-5)


def test_an_odd_width() -> None:
    with pytest.raises(ValueError, match=r"model_dim \(9\)"):
        TransformerConfig(model_dim=9, num_heads=3)


def test_gold_words() -> None:
    """Columns of the softmax: `<eod>` is 0, ordinary token 5 is 2; index counts N * (T + 1) predictions."""
    gold, index = gold_words(torch.tensor([[5, 6], [7, 0], [0, 0]]), torch.tensor([2, 1, 0]), 6)
    assert gold.tolist() == [2, 3, 0, 4, 0, 0]
    assert index.tolist() == [0, 1, 2, 3, 4, 6]


def test_places() -> None:
    place, moved = places(torch.tensor([[0, 1, 1], [1, 0, 0]]), 4)
    assert place.tolist() == [0, 1, 1, 3, 2, 2] and moved
    assert places(torch.tensor([[0], [0]]), 4)[1], "fewer places than before"
    place, moved = places(torch.tensor([[0], [0]]), 2)
    assert place.tolist() == [0, 1] and not moved
    assert places_of(torch.tensor([0, 2]), 3).tolist() == [0, 1, 2, 6, 7, 8]
