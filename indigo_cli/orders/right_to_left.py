"""R2L: the last word first."""

import numpy as np

from indigo_cli.orders.rule import Ints, OrderContext, Targets


def priority(targets: Targets, context: OrderContext) -> Ints:
    """Tokens that still follow."""
    return np.repeat(targets.lengths, targets.lengths) - 1 - targets.position
