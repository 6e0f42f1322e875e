"""The best words of each row, exactly, without a selection over the whole vocabulary."""

import torch
from torch import Tensor

STRIPES = 64
MAX_COUNT = 8
"""For more words than this an ordinary selection is as fast."""


def top_words(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return values and columns of the `count` largest logits of each row, largest first.

    On a CPU a maximum runs at memory speed and a selection does not. So the columns are dealt into stripes and the
    maximum of each is taken first: the best `count` columns lie in the `count` stripes with the largest maxima (among
    equals any choice is right), and only these are selected from. Measured: 1.5 to 3 times faster for 8,000 words.

    Args:
        logits: (..., V).
        count: At most V are returned.
    """
    num_words = logits.shape[-1]
    count = min(count, num_words)
    depth = num_words // STRIPES
    if logits.device.type != "cpu" or count > MAX_COUNT or depth < 2 * count:
        return logits.topk(count, dim=-1)
    dealt = depth * STRIPES
    stripes = logits[..., :dealt].unflatten(-1, (depth, STRIPES))
    stripe = stripes.amax(dim=-2).topk(count, dim=-1).indices
    inside = stripes.gather(-1, stripe[..., None, :].expand(*stripe.shape[:-1], depth, count)).flatten(-2)
    values, index = torch.cat((inside, logits[..., dealt:]), dim=-1).topk(count, dim=-1)
    column = index // count * STRIPES + stripe.gather(-1, index % count)
    return values, torch.where(index < depth * count, column, index - depth * count + dealt)
