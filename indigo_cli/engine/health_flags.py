"""Signs that searched orders go wrong, read off the figures of `OrderHealth`, each with what to do about it."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from indigo_cli.core import console
from indigo_cli.core.vocab import Vocabulary
from indigo_cli.engine.order_health import SEARCH
from indigo_cli.engine.search_config import SearchConfig

FEW_WORDS = 0.3
"""Share of the words in -log p below which text is written easy words first (SAO.md 5.4; healthy: above 0.6, 2c)."""
MANY_FIRST = 0.15
"""Share of orders that begin with one frequent word (SAO.md 5.4); where left to right has as many, that is the text."""
UNUSUAL = 2.0
"""So many times its share from left to right; `the` at 16 % beside 14 % says nothing (SAO.md 2c)."""
FEWEST_FIRST = 8
"""So many targets must begin with it: of a handful, 15 % are one or two."""
FREQUENT_SHARE = 0.01
"""Of the types of a vocabulary: the ten of 1,000 are punctuation and function words (SAO.md 2c), in any language."""
NOTICEABLE = 0.005
"""Nats; by less two prices do not differ: the same order is rounded in other ways in a search and by itself."""
SAME_COST = 1.1
"""-log p up to so many times that of left to right counts as equal (SAO.md 1.5: 4.5 beside 4.5)."""
COLLAPSED = 0.5
"""Of the share of targets with p > 0.5 that left to right has had (SAO.md 2c: 2 % after 23 %)."""
FEWEST_LIKELY = 0.1
"""A smaller share that left to right has had cannot collapse."""
RANDOM = "rnd"
"""A model that has learnt from random orders pays for their choice in its slots, and unlearns it: few words are no sign
of anything there. Where they stay few, the other flags show."""


@dataclass(frozen=True)
class Flag:
    """One sign.

    Args:
        kind: Which of them; a run says each once.
        text: What is wrong and what to do.
        harmless: The settings deal with it already: a note, no warning.
    """

    kind: str
    text: str
    harmless: bool = False

    def say(self) -> None:
        """Tell the user."""
        (console.note if self.harmless else console.warn)(self.text)


def frequent_types(vocabulary: Vocabulary) -> frozenset[str]:
    """Return the most frequent types, `FREQUENT_SHARE` of them: what is punctuation or a function word in text."""
    return frozenset(vocabulary.tokens[: math.ceil(FREQUENT_SHARE * len(vocabulary.tokens))])


def red_flags(figures: Mapping[str, Any], config: SearchConfig) -> Iterator[Flag]:
    """Yield the signs in one row of figures, see `OrderHealth.row`.

    Args:
        config: What advice goes by: how the run that trained the model searches, or what competes in a file.
    """
    if not figures["targets"]:
        return
    mends = ["search.slot_weight = 3"]
    if config.reference != "l2r":
        mends.insert(0, 'search.reference = "l2r"')
    if (gap := figures["best"] - figures["l2r"]) > NOTICEABLE:
        what = f"the best orders found cost {gap:.2f} nats a target more than left to right"
        if config.reference == "l2r":
            what += "; that competes, and is taken where it is the better one"
            yield Flag("above_l2r", f"{what} (search.slot_weight = 3 may find better orders)", harmless=True)
        else:
            fix = 'search.reference = "l2r" lets it compete; a longer search.bootstrap_steps may help, too'
            yield Flag("above_l2r", f"{what}: {fix}")
    cost = figures["best"]
    if cost and figures["word"] / cost < FEW_WORDS and config.bootstrap_order != RANDOM:
        shares = f"words are {_percent(figures['word'] / cost)} of -log p, slots {_percent(figures['slot'] / cost)}"
        what = "easy words come first and where they go is left open"
        yield Flag("few_words", f"{shares}: in text, {what}; {' or '.join(mends)} keeps places certain")
    for first in figures["first_words"]:
        share, usual = first["share"], first["l2r"]
        enough = round(share * figures["targets"]) >= FEWEST_FIRST
        if first["frequent"] and enough and share > MANY_FIRST >= usual and share >= UNUSUAL * usual:
            what = f"{_percent(share)} of the orders begin with {first['word']!r}, {_percent(usual)} of the targets do"
            yield Flag("first_word", f"{what}: easy words come first; {' or '.join(mends)} holds against it")
            return


def flat_flag(figures: Mapping[str, Any], before: Iterable[Mapping[str, Any]]) -> Flag | None:
    """Return the sign that probability is spread thin: no target is likely any more although all cost the same.

    Args:
        before: Figures of validations of the same run, from which comes what left to right has had.
    """
    usual = max((*before, figures), key=lambda row: float(row["likely"]["l2r"]))
    share, had = figures["likely"]["log_sum"], usual["likely"]["l2r"]
    same = figures["log_sum"] <= SAME_COST * usual["l2r"]
    if not same or had < FEWEST_LIKELY or share >= COLLAPSED * had:
        return None
    return Flag(
        "flat",
        f"{_percent(share)} of the targets have p > 0.5, all orders together, where left to right had {_percent(had)} "
        f"at the same -log p ({figures['log_sum']:.2f} and {usual['l2r']:.2f}): probability is spread over many "
        'orders; search.train_on = "best" with search.reference = "l2r" brings it together',
    )


class HealthWatch:
    """Warns when a sign shows, behind the bootstrap updates; again only if it has been away.

    What it knows comes from the rows of the log, so a resumed run says what one says that was never stopped.

    Args:
        config: How the run searches.
        bootstrap_updates: How many updates do not search.
    """

    def __init__(self, config: SearchConfig, bootstrap_updates: int) -> None:
        self._config, self._bootstrap_updates = config, bootstrap_updates
        self._most_likely: list[Mapping[str, Any]] = []  # the one row in which left to right had most
        self.flags: list[Flag] = []
        """Of the newest row."""

    def restore(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take over the validations of a log."""
        for row in rows:
            self._look(row["step"], row)

    def add(self, step: int, figures: Mapping[str, Any]) -> None:
        """Look at a validation, and say what is new."""
        known = {flag.kind for flag in self.flags}
        self._look(step, figures)
        for flag in self.flags:
            if flag.kind not in known:
                flag.say()

    def _look(self, step: int, row: Mapping[str, Any]) -> None:
        figures = row.get(SEARCH)
        if figures is None:
            return
        flat = flat_flag(figures, self._most_likely)
        self._most_likely = [max((*self._most_likely, figures), key=lambda row: float(row["likely"]["l2r"]))]
        if step > self._bootstrap_updates:
            self.flags = [*red_flags(figures, self._config), *([flat] if flat else [])]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
