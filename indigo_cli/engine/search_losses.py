"""What held-out targets cost in the best order that the model finds for them: the validation loss of searched orders.

It is the same figure from the first validation on, whatever training does at the time. The same search gives the
figures that show whether the orders say anything.
"""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from indigo_cli.core.chunks import chunked
from indigo_cli.core.vocab import Vocabulary
from indigo_cli.data.batch import Batch
from indigo_cli.decoding.order_search import FoundOrders
from indigo_cli.engine.distributed import Processes
from indigo_cli.engine.found_targets import found_targets
from indigo_cli.engine.health_flags import frequent_types
from indigo_cli.engine.order_health import SEARCH, FoundTarget, OrderHealth
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.engine.signals import StopRequest
from indigo_cli.engine.updates import LossParts
from indigo_cli.engine.valid_search import search_valid
from indigo_cli.engine.whole_words import WholeWords


class SearchedLosses:
    """Clean nats of the best of the candidates: what a search finds, and the reference if one competes.

    Args:
        system: On its device, whole.
        split: `valid` in l2r.
        reference: The same in the order of the reference, None if that is l2r or none.
        vocabulary: Of the targets.
        words: See `search_valid`.
    """

    def __init__(
        self,
        system: Any,
        split: OrderedSplit,
        reference: OrderedSplit | None,
        config: SearchConfig,
        *,
        vocabulary: Vocabulary,
        words: WholeWords | None,
        processes: Processes,
        runtime: Runtime,
    ) -> None:
        self._vocabulary = vocabulary
        self._found: list[tuple[int, list[FoundTarget]]] = []  # of the last call, by the number of the batch
        self._system, self._split, self._reference = system, split, reference
        self._config, self._words, self._processes, self._runtime = config, words, processes, runtime

    def __call__(self, stop: StopRequest) -> LossParts:
        """See `ValidLosses`."""
        zero = torch.zeros((), device=self._processes.device)
        parts = LossParts({"word": zero, "position": zero}, {"word": 0.0, "position": 0.0})
        self._found.clear()
        searched = search_valid(
            self._system,
            self._split,
            self._config,
            words=self._words,
            processes=self._processes,
            runtime=self._runtime,
        )
        for (batch, found), reference in zip(searched, self._references(), strict=False):
            number = len(self._found) * self._processes.world + self._processes.rank
            self._found.append((number, found_targets(batch, found, self._vocabulary)))
            words, slots = self._best(found)
            if reference is not None:
                words, slots = self._with_reference(reference, words, slots)
            parts.merge(
                LossParts(
                    {"word": -words.sum(), "position": -slots.sum()},
                    {"word": float(batch.num_predictions), "position": float(batch.num_tokens)},
                    float(batch.num_predictions),
                )
            )
            if stop and self._processes.world == 1:
                break
        return parts

    def figures(self) -> dict[str, Any]:
        """See `ValidLosses`; added up in the order of the batches, whichever process had them."""
        health = OrderHealth(frequent=frequent_types(self._vocabulary))
        for _, targets in sorted(self._processes.lists(self._found), key=itemgetter(0)):
            for target in targets:
                health.add(target)
        self._found.clear()
        return {SEARCH: health.row()}

    def _best(self, found: FoundOrders) -> tuple[Tensor, Tensor]:
        """Return (S,) log-probabilities of words with `<eod>`, and of slots, of the best candidate of each."""
        competes = found.alive.clone()
        if self._config.reference != self._split.order.name and competes.shape[1] > 1:
            competes[:, -1] = False
        best = torch.where(competes, found.score, -torch.inf).argmax(dim=1, keepdim=True)
        return (found.word + found.end).gather(1, best)[:, 0], found.slot.gather(1, best)[:, 0]

    def _with_reference(self, batch: Batch, words_S: Tensor, slots_S: Tensor) -> tuple[Tensor, Tensor]:
        """Put the reference in place of what is worse."""
        with torch.no_grad(), self._runtime.autocast(self._processes.device):
            steps = self._system.log_probs(batch)
        words, slots = steps.words[:, 0].sum(dim=1), steps.slots[:, 0].sum(dim=1)
        better = words + slots > words_S + slots_S
        return torch.where(better, words, words_S), torch.where(better, slots, slots_S)

    def _references(self) -> Iterator[Batch | None]:
        """Yield the same sentences in the order of the reference, batch by batch; None without end if there is none."""
        if self._reference is None:
            while True:
                yield None
        processes = self._processes
        for group in chunked(self._reference.drawn(self._config.sentences), processes.world):
            if processes.rank < len(group):
                yield group[processes.rank].load().to(processes.device)
