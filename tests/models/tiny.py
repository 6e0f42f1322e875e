"""Systems small enough to enumerate, with parameters that hide nothing, and batches for them."""

import math
from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Any

import torch
from torch import Tensor, nn

from indigo_cli.core.order import Order, slots_to_anchors
from indigo_cli.core.units import NO_QUOTE, Joint, UnitTable
from indigo_cli.core.vocab import NUM_SPECIALS
from indigo_cli.data.batch import Batch
from indigo_cli.data.collate import collate, collate_source
from indigo_cli.models import MODELS
from indigo_cli.models.length_config import length_unit

SIZES = {"model_dim": 8, "ff_dim": 12, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2}
LARGEST = {"aca": True}
"""Settings with which a system has all its parts."""
A, B, C, D, E = range(NUM_SPECIALS, NUM_SPECIALS + 5)
"""Ids of ordinary tokens."""
SERIAL = [name for name, entry in MODELS.items() if not entry.parallel]
"""Systems that insert one word a step."""
SOURCES = [[A, B, C], [], [E, D, D, A, B], [C]]
"""Of unequal lengths, one of them empty."""


def make_config(system: str, **settings: Any) -> Any:
    """Return the model section of a tiny system."""
    cls = MODELS[system].config
    usual = {name: value for name, value in {**SIZES, **LARGEST}.items() if name in cls.__dataclass_fields__}
    return cls(**{**usual, **settings})


def make_system(
    system: str,
    *,
    tokens: int = 5,
    ordered_source: bool = True,
    seed: int = 0,
    scale: float = 1.0,
    order: str = "",
    **settings: Any,
) -> Any:
    """Return a tiny system in evaluation mode.

    Every parameter is moved away from its start, or zero biases and unit norms would hide mistakes.

    Args:
        tokens: Ordinary tokens of the vocabulary.
        scale: Multiplies all parameters, to be as sure of itself as a trained model.
        order: That it is told, if it is parallel.
    """
    torch.manual_seed(seed)
    config = make_config(system, **settings)
    size = NUM_SPECIALS + tokens
    facts = {"source_size": size, "target_size": size, "ordered_source": ordered_source}
    model: nn.Module = MODELS[system].build(
        config, **facts, **({"order": order} if order else {}), **_units(config, size)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2).mul_(scale)
    return model.eval()


def _units(config: Any, size: int) -> dict[str, UnitTable]:
    """Return the table of units that a system asks for: token i is as long as i, and every third joins the next."""
    unit = length_unit(config)
    if unit is None:
        return {}
    specials, words = [Joint.LEFT | Joint.BLANK] * 4, range(4, size)
    joints = [Joint.LEFT if unit == "token" else Joint.RIGHT if word % 3 == 0 else 0 for word in words]
    own = [1 if unit == "token" else word for word in words]
    return {"units": UnitTable(unit, (0,) * 4 + tuple(own), (*specials, *joints), (NO_QUOTE,) * size)}


def make_batch(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], orders: Sequence[Sequence[Sequence[int]]]
) -> Batch:
    """Collate sentences; `orders` holds the K orders of each."""
    return collate([f"train:{i}" for i in range(len(sources))], sources, targets, orders)


def allowed_orders(system: str, length: int) -> Iterable[Order]:
    """Yield every order of a length that a system can learn."""
    if MODELS[system].orders == frozenset({"l2r"}):
        return [tuple(range(length))]
    return permutations(range(length))


def play(model: Any, source: Sequence[int], words: Sequence[int], slots: Sequence[int]) -> Any:
    """Return the state of one hypothesis after these insertions, one after another."""
    state = model.start(collate_source([source]))
    for word, anchor in zip(words, slots_to_anchors(slots), strict=True):
        state = model.advance(state, torch.tensor([[0]]), torch.tensor([[word]]), torch.tensor([[anchor]]))
    return state


def word_log_probs(model: Any, state: Any) -> Tensor:
    """Return (S, B, V) log-probabilities of the words."""
    scores = model.words(state)
    log_probs: Tensor = scores.logits - scores.log_z[..., None]
    return log_probs


def slot_log_probs(model: Any, state: Any, words: Sequence[int], *, length: int) -> Tensor:
    """Return (S, B, W, A) log-probabilities of the slots of each word, by anchor, also where a system has no choice."""
    num_sentences, beam = model.words(state).log_z.shape
    parent = torch.arange(beam).repeat_interleave(len(words)).expand(num_sentences, -1)
    word = torch.tensor(words).repeat(beam).expand(num_sentences, -1)
    slots = model.slots(state, parent, word)
    if slots is None:
        slots = torch.full((*word.shape, length + 1), -torch.inf)
        slots[..., length] = 0.0
    unfolded: Tensor = slots.unflatten(1, (beam, len(words)))
    return unfolded


def nll(model: Any, source: Sequence[int], target: Sequence[int], order: Sequence[int]) -> float:
    """Return minus log p of a target in an order, by teacher forcing."""
    with torch.no_grad():
        parts = model(make_batch([source], [target], [[order]])).parts
    return math.fsum(float(nats) for nats, _ in parts.values())
