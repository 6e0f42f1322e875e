"""What a run trains on and validates with: given orders, the orders of a file, or those it searches itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from indigo_cli.core import console
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.fresh_pieces import why_no_effect
from indigo_cli.engine.assign import OrderConfig, orders_of_file
from indigo_cli.engine.distributed import Processes
from indigo_cli.engine.health_flags import HealthWatch
from indigo_cli.engine.order_planner import Searching
from indigo_cli.engine.order_policy import GivenOrders, OrderPolicy, SearchedOrders, SeveralOrders
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.order_table import OrderTable
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.search_config import SEARCHED, keys_set
from indigo_cli.engine.search_losses import SearchedLosses
from indigo_cli.engine.training_orders import order_digest, rule_of_recipe
from indigo_cli.engine.validate import GivenLosses, ValidLosses
from indigo_cli.engine.validations import Watcher
from indigo_cli.engine.whole_words import whole_words
from indigo_cli.errors import UsageError

if TYPE_CHECKING:
    from indigo_cli.recipe import Recipe

OF_FILES = ("search.preset", "search.train_on", "search.temperature")
"""Keys that also say how several orders of a file are used."""


@dataclass(frozen=True)
class TrainInputs:
    """What the loop needs.

    Args:
        stream: Where micro-batches come from.
        policy: In which orders they are trained on.
        losses: Of validations; None where there is nothing to validate on.
        watchers: Of their figures.
    """

    stream: OrderedSplit
    policy: OrderPolicy
    losses: ValidLosses | None
    watchers: tuple[Watcher, ...] = ()


@dataclass(frozen=True)
class TrainSetup:
    """Prepares a run.

    Args:
        recipe: Its settings.
        corpus: Its data.
        order_of: The order of each split that is there.
    """

    recipe: "Recipe"
    corpus: Corpus
    order_of: dict[str, OrderConfig]

    @property
    def searches(self) -> bool:
        """Tell whether the run finds orders itself."""
        return self.order_of["train"].name == SEARCHED

    def digests(self) -> dict[str, str]:
        """Return for each split what a resumed run must have the same; see `order_digest`."""
        found = {split: order_digest(split, order) for split, order in self.order_of.items()}
        if self.searches:
            search = self.recipe.search
            for name in sorted({search.reference, search.bootstrap_order} & {"syn"}):
                rule = rule_of_recipe(self.recipe, name, self._splits)
                found = {split: f"{digest} {order_digest(split, rule)}" for split, digest in found.items()}
        return found

    def prepare(
        self, system: nn.Module, *, bootstrap_updates: int, processes: Processes, runtime: Runtime
    ) -> TrainInputs:
        """Return what the loop needs.

        Args:
            system: On its device, perhaps sharded.
            bootstrap_updates: How many updates do not search.

        Raises:
            UsageError: orders that the settings cannot be used with.
            DataError: a file that does not fit its split.
        """
        if self.searches:
            return self._searched(system, bootstrap_updates, processes, runtime)
        stream = self._split("train", self.order_of["train"])
        losses = None
        if self._has_valid:
            valid = self._split("valid", self.order_of["valid"])
            losses = GivenLosses(system, valid, processes=processes, runtime=runtime)
        return TrainInputs(stream, self._given(stream), losses)

    def _searched(
        self, system: nn.Module, bootstrap_updates: int, processes: Processes, runtime: Runtime
    ) -> TrainInputs:
        config, codec = self.recipe.search, self.corpus.codecs.target
        words = whole_words(codec, processes.device) if config.whole_words else None
        reference = self._rule(config.reference if config.has_reference else "l2r")
        split = self._split("train", reference)
        searching = Searching(config, self.recipe.seed, self.recipe.model.dropout, words)
        bootstrap = self._split("train", self._rule(config.bootstrap_order))
        policy = SearchedOrders(bootstrap, split, searching, bootstrap_updates=bootstrap_updates)
        losses = None
        if self._has_valid:
            losses = SearchedLosses(
                system,
                self._split("valid", OrderConfig()),
                None if reference.name == "l2r" else self._split("valid", reference),
                config,
                vocabulary=codec.vocabulary,
                words=words,
                processes=processes,
                runtime=runtime,
            )
        return TrainInputs(split, policy, losses, (HealthWatch(config, bootstrap_updates),))

    def _given(self, split: OrderedSplit) -> OrderPolicy:
        """Return the order policy of a rule or a file, and say which keys of [search] do nothing."""
        config, recipe = self.recipe.search, self.recipe
        if split.order.name != "file":
            self._note_unused(keys_set(config), f"a run on {split.order.name} does not search")
            return GivenOrders()
        if config.train_on == "best":
            return GivenOrders()
        found = orders_of_file(self.corpus, "train", split.order.file, first_only=False)
        if len(found.orders) == 1:
            self._note_unused(list(OF_FILES), "the file has one order of each target")
            return GivenOrders()
        if recipe.train.bpe_dropout and not why_no_effect(self.corpus):
            what = "words cannot be split anew where several orders of a target are used"
            raise UsageError(what, where="train.bpe_dropout", fix="set it to 0, or search.train_on = best")
        if recipe.train.given_rate:
            what = "given words do not go with several orders of a target"
            raise UsageError(what, where="train.given_rate", fix="set it to 0, or search.train_on = best")
        if recipe.train.sharding == "full" and config.train_on == "average":
            what = "prefix trees cut micro-batches into parts, which processes that shard the model do not have alike"
            raise UsageError(what, where="train.sharding", fix="set it to none, or search.train_on = sample")
        exists = np.arange(len(found.orders)) < found.counts[:, None]
        scores = found.scores.T
        if np.isnan(scores[exists]).any():
            if config.train_on == "sample":
                console.note(f"{split.order.file} gives no log_probs: its orders are drawn with equal chances")
            scores = np.zeros_like(scores)
        table = OrderTable(found.orders, np.where(exists, scores, -np.inf).astype(np.float32), split.lengths)
        return SeveralOrders(split, table, config, seed=recipe.seed)

    def _note_unused(self, keys: Sequence[str], why: str) -> None:
        keys = [key for key in keys if key in keys_set(self.recipe.search)]
        if keys:
            console.note(f"{', '.join(keys)} {'has' if len(keys) == 1 else 'have'} no effect: {why}")

    @property
    def _splits(self) -> list[str]:
        return list(self.order_of)

    @property
    def _has_valid(self) -> bool:
        return "valid" in self.order_of and len(self.corpus.split("valid")) > 0

    def _rule(self, name: str) -> OrderConfig:
        return rule_of_recipe(self.recipe, name, self._splits)

    def _split(self, name: str, order: OrderConfig) -> OrderedSplit:
        train = self.recipe.train
        return OrderedSplit(
            self.corpus,
            name,
            order,
            seed=self.recipe.seed,
            batch_tokens=train.batch_tokens,
            bpe_dropout=train.bpe_dropout if name == "train" else 0.0,
            given_rate=train.given_rate if name == "train" else 0.0,
        )
