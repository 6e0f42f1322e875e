"""Orders of held-out targets under the model as it stands: without dropout and noise, with `<eod>`.

Shape letters: S sentences, K orders of each.
"""

from collections.abc import Iterator
from typing import Any

import torch

from indigo_cli.core.chunks import chunked
from indigo_cli.data.batch import Batch
from indigo_cli.decoding.order_search import FoundOrders, SearchOptions, search_orders
from indigo_cli.engine.distributed import Processes
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.engine.whole_words import WholeWords


def search_valid(
    system: Any,
    split: OrderedSplit,
    config: SearchConfig,
    *,
    words: WholeWords | None,
    processes: Processes,
    runtime: Runtime,
) -> Iterator[tuple[Batch, FoundOrders]]:
    """Yield this process' part of the sentences that `search.sentences` draws, the same ones at every call.

    Of K orders the last one is that of the split, which rides along (see `FoundOrders`); the others are what the beam
    finds without it. Scores are clean nats with `<eod>`: those of teacher forcing.

    Args:
        system: In evaluation mode, on its device.
        split: `valid`, ordered as what rides along: l2r.
        words: For `search.whole_words`, else None.
    """
    options = SearchOptions(beam_size=config.beam_size, slot_weight=config.slot_weight)
    batches = split.drawn(config.sentences)
    for group in chunked(batches, processes.world):
        if processes.rank >= len(group):
            return
        batch = group[processes.rank].load().to(processes.device)
        with torch.no_grad(), runtime.autocast(processes.device):
            found = search_orders(
                system.known,
                system.known.encode(batch.source, None),
                batch.source.mask,
                batch.target,
                batch.lengths,
                options,
                reference=batch.plan.orders[:, 0],
                first_piece=None if words is None else words.first_pieces(batch.target),
                with_end=True,
            )
        yield batch, found
