"""From a clean search on a device to what the figures of its orders are made of.

Shape letters: S sentences, K orders found (left to right is the last), B of them free ones, T words.
"""

import torch

from indigo_cli.core.vocab import Vocabulary
from indigo_cli.data.batch import Batch
from indigo_cli.data.order_tree import count_nodes
from indigo_cli.decoding.order_search import FoundOrders
from indigo_cli.engine.order_health import FoundTarget


def found_targets(batch: Batch, found: FoundOrders, vocabulary: Vocabulary) -> list[FoundTarget]:
    """Return what was found for each target of a batch; the host waits for the device.

    Args:
        found: Of a search without dropout, with `<eod>`, along which l2r rode as reference.
        vocabulary: Of the targets.
    """
    # A batch of empty targets has one order, which is both: the reference joins in the first step of a search.
    free = slice(0, max(found.orders.shape[1] - 1, 1))
    alive_SB = found.alive[:, free] if found.orders.shape[1] > 1 else torch.ones_like(found.alive)
    score_SK = found.score.double()
    log_sum_S = torch.where(alive_SB, score_SK[:, free], -torch.inf).logsumexp(dim=1)
    nodes_S = count_nodes(batch.target, found.orders[:, free], batch.lengths)
    parts = (found.word[:, 0], found.slot[:, 0], found.end[:, 0])
    numbers = torch.stack((*(part.double() for part in parts), log_sum_S, score_SK[:, -1]), dim=1).tolist()
    counts = torch.stack((batch.lengths, alive_SB.sum(dim=1), nodes_S), dim=1).tolist()
    rows = zip(batch.target.tolist(), found.orders[:, 0].tolist(), numbers, counts, strict=True)
    return [
        FoundTarget(
            tokens=vocabulary.decode(target[:length]),
            order=tuple(order[:length]),
            word=word,
            slot=slot,
            end=end,
            log_sum=log_sum,
            l2r=l2r,
            num_orders=num_orders,
            num_nodes=num_nodes,
        )
        for target, order, (word, slot, end, log_sum, l2r), (length, num_orders, num_nodes) in rows
    ]
