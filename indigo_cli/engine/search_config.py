"""The recipe's [search] section: how generation orders are searched, and what is learnt from those found."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from indigo_cli.core.settings import Count, NonNegativeFloat, NonNegativeInt, PositiveFloat, Rate

SEARCHED = "sao"
"""Name of the order that the model finds itself."""
NO_REFERENCE = "none"
PRESETS: dict[str, dict[str, Any]] = {
    "language": {
        "bootstrap_order": "l2r",
        "bootstrap_steps": 0.5,
        "beam_size": 8,
        "train_on": "best",
        "reference": "l2r",
    },
    "structured": {
        "bootstrap_order": "rnd",
        "bootstrap_steps": 0.25,
        "beam_size": 4,
        "train_on": "average",
        "reference": NO_REFERENCE,
    },
    "paper": {
        "bootstrap_order": "l2r",
        "bootstrap_steps": 6000,
        "beam_size": 8,
        "train_on": "average",
        "reference": NO_REFERENCE,
    },
}
"""Values that go together: `language` has the defaults (SAO.md 5.1), `structured` is for targets whose order matters
more than fluency (SAO.md 5.2), `paper` has what Gu, Liu and Cho (2019) trained with (PAPERS.md A4)."""


@dataclass(frozen=True)
class SearchConfig:
    """The recipe's [search] section, for `order.name = "sao"` and `search-orders`; some also for files of orders.

    Args:
        preset: Of PRESETS, whose values the keys have that a recipe leaves out; see `with_preset`.
        beam_size: Orders that are found for a target.
        dropout: Rate while training searches; one mask a sentence and layer, drawn for each visit. Where it is that of
            the model, the encoder runs once for search and training.
        refresh: An example is searched again at every so many visits; in between its orders and scores are kept (in
            the checkpoint, too).
        train_on: `best` = the best of the candidates; `sample` = one of them, drawn anew at each visit; `average` = the
            beam_size best ones, all with the same weight, as one prefix tree. Of a file with several orders of a target
            `best` is the first one.
        temperature: Of `sample`: candidates have the chances softmax(log p / temperature).
        reference: An order that is one more candidate in training, and in the loss of validations; `none` for none. In
            files of `search-orders` only `l2r` can be; it takes the place of a worse order.
        slot_weight: Of log p(slot) beside log p(word) while the beam chooses. Candidates are compared by log p.
        gumbel: Scale of Gumbel noise on the ranks of each step, in training.
        whole_words: Place the pieces of a word one after another, from left to right.
        bootstrap_order: What the first updates train on.
        bootstrap_steps: How many they are; below 1 a share of train.max_steps. A run keeps the number that it began
            with, whatever max_steps it is resumed with.
        sentences: Of `valid`, drawn once, whose orders are searched at validations; 0 = all.
        batch_tokens: Target tokens times beam of a batch of `search-orders`; 0 = what suits the device.
    """

    preset: Literal["language", "structured", "paper"] = "language"
    beam_size: Count = 8
    dropout: Rate = 0.1
    refresh: Count = 1
    train_on: Literal["best", "sample", "average"] = "best"
    temperature: PositiveFloat = 0.5
    reference: str = "l2r"
    slot_weight: NonNegativeFloat = 1.0
    gumbel: NonNegativeFloat = 0.0
    whole_words: bool = False
    bootstrap_order: str = "l2r"
    bootstrap_steps: NonNegativeFloat = 0.5
    sentences: NonNegativeInt = 256
    batch_tokens: NonNegativeInt = 0

    @property
    def has_reference(self) -> bool:
        """Tell whether an order competes with the found ones."""
        return self.reference != NO_REFERENCE

    def bootstrap_updates(self, max_steps: int) -> int:
        """Return how many updates train on `bootstrap_order`."""
        share = self.bootstrap_steps < 1
        return round(self.bootstrap_steps * max_steps) if share else int(self.bootstrap_steps)


_WITHOUT_EFFECT = ("search.preset", "search.sentences", "search.batch_tokens")
"""Keys on which no update depends; of a preset the values count, which stand under their own keys."""

Fault = tuple[tuple[str, str], str, str]
"""Key, what is wrong, how to mend it."""


def free_on_resume(order_name: str) -> tuple[str, ...]:
    """Return the keys of [search] that a run in this order may change when it is resumed."""
    return _WITHOUT_EFFECT if order_name in (SEARCHED, "file") else ("search.",)


def with_preset(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of [search] as it was written with the values of its preset; a preset there is not is left."""
    name = table.get("preset")
    return {**(PRESETS.get(name, {}) if isinstance(name, str) else {}), **table}


def keys_set(search: SearchConfig) -> list[str]:
    """Return the keys that have another value than they have by default or by the preset; and that, if it is one."""
    usual = {key.name: key.default for key in fields(search)} | PRESETS[search.preset]
    return [f"search.{name}" for name, value in usual.items() if getattr(search, name) != value]


def searched_faults(tables: Mapping[str, Mapping[str, Any]], search: SearchConfig, max_steps: int) -> Iterator[Fault]:
    """Yield what keeps a recipe with `order.name = "sao"` from searching.

    Args:
        tables: Sections of the recipe as they were written.
        search, max_steps: As read.
    """
    steps = search.bootstrap_steps
    key = ("search", "bootstrap_steps")
    if 0 < steps < 1 and not max_steps:
        what = "search.bootstrap_steps below 1 is a share of train.max_steps, which has no limit"
        yield key, what, "set train.max_steps, or a number of updates, e.g. bootstrap_steps = 2000"
    elif max_steps and search.bootstrap_updates(max_steps) >= max_steps:
        what = f"the run would never search: all of its {max_steps} updates are for bootstrapping"
        yield key, what, "set a share below 1, e.g. bootstrap_steps = 0.5"
    if tables.get("model", {}).get("predict") == "position_first":
        what = f'order.name = "{SEARCHED}" does not go with model.predict = "position_first"'
        yield ("order", "name"), what, 'orders are searched word first: predict = "word_first"'
    if tables.get("train", {}).get("sharding") == "full":
        what = f'order.name = "{SEARCHED}" does not go with train.sharding = "full": the search calls single layers'
        yield ("order", "name"), what, 'sharding = "none"'
    if search.refresh > 1 and tables.get("train", {}).get("bpe_dropout"):
        what = "orders that are kept do not fit words that are split anew"
        yield ("search", "refresh"), what, "set search.refresh = 1, or train.bpe_dropout = 0"
