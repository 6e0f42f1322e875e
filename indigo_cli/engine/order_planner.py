"""Searches the orders of a micro-batch while it is trained on (`Planner` of models/protocol.py).

What is found for a sentence depends on the weights, the sentence, its visit and the seed: not on its batch.

Shape letters: S sentences, X source length, D width.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from indigo_cli.data.batch import Batch, Plan, Source
from indigo_cli.decoding.order_search import SearchOptions, search_orders
from indigo_cli.engine.order_choice import Candidates, candidates_of, chances, noise_keys, plan_of
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.engine.whole_words import WholeWords
from indigo_cli.nn.sentence_dropout import SentenceDropout, sentence_keys


@dataclass(frozen=True)
class Searching:
    """How a run searches while it trains.

    Args:
        config: The recipe's [search].
        seed: Of dropout, noise and draws.
        model_dropout: Of the model: where it is that of the search, both share the encoder's output.
        words: For `search.whole_words`, else None.
    """

    config: SearchConfig
    seed: int
    model_dropout: float
    words: WholeWords | None = None


@dataclass(frozen=True)
class OrderPlanner:
    """The planner of one micro-batch, whose own plan holds the reference, if one competes.

    Args:
        searching: See there.
        epoch: Of this visit.
        lines: (S,) raw lines.
        due: (S,) which sentences are searched; the others train on `kept`.
        kept: Of all sentences, whatever it says of those that are due; needed unless all are.
        found: Told the candidates of those that are due.
    """

    searching: Searching
    epoch: int
    lines: NDArray[np.int64]
    due: NDArray[np.bool_]
    kept: Candidates | None = None
    found: Callable[[Candidates], None] = lambda candidates: None

    def dropout(self, batch: Batch) -> SentenceDropout | None:
        """See `Planner`. While a search holds one mask a sentence, training does the same in the encoder."""
        shared = self.searching.config.dropout == self.searching.model_dropout
        return self._masks(self.lines, batch.target.device) if shared and self.due.any() else None

    def __call__(self, system: Any, memory_SXD: Tensor, batch: Batch) -> Plan:
        """See `Planner`."""
        device, config = batch.target.device, self.searching.config
        chance = chances(self.searching.seed, self.epoch, self.lines.tolist()).to(device, non_blocking=True)
        if self.kept is None:
            return plan_of(self._search(system, memory_SXD, batch, None), config, chance)
        candidates = self.kept.to(device)
        if self.due.any():
            rows = torch.from_numpy(np.flatnonzero(self.due)).to(device, non_blocking=True)
            candidates = candidates.but(rows, self._search(system, memory_SXD, batch, rows))
        return plan_of(candidates, config, chance)

    @torch.no_grad()
    def _search(self, system: Any, memory_SXD: Tensor, batch: Batch, rows: Tensor | None) -> Candidates:
        """Return the candidates of some sentences, of all if `rows` is None."""

        def some(tensor: Tensor) -> Tensor:
            return tensor if rows is None else tensor[rows]

        config, device = self.searching.config, batch.target.device
        lines, target = self.lines[self.due], some(batch.target)
        masks = self._masks(lines, device)
        source = Source(some(batch.source.values), some(batch.source.mask))
        if config.dropout == self.searching.model_dropout:
            memory = some(memory_SXD)
        else:
            system.eval()
            memory = system.known.encode(source, masks)
            system.train()
        found = search_orders(
            system.known,
            memory,
            source.mask,
            target,
            some(batch.lengths),
            SearchOptions(config.beam_size, slot_weight=config.slot_weight, gumbel=config.gumbel),
            dropout=masks,
            keys=noise_keys(self.searching.seed, self.epoch, lines.tolist()).to(device, non_blocking=True)
            if config.gumbel
            else None,
            reference=some(batch.plan.orders)[:, 0] if config.has_reference else None,
            first_piece=None if self.searching.words is None else self.searching.words.first_pieces(target),
        )
        if torch.is_autocast_enabled(device.type):
            torch.clear_autocast_cache()  # older torch would train on casts that were made here, without gradient
        candidates = candidates_of(found, config)
        self.found(candidates)
        return candidates

    def _masks(self, lines: NDArray[np.int64], device: torch.device) -> SentenceDropout | None:
        if not (rate := self.searching.config.dropout):
            return None
        keys = sentence_keys(self.searching.seed, self.epoch, lines.tolist())
        return SentenceDropout(keys.to(device, non_blocking=True), rate)
