"""RF: all rare words from left to right, then the common ones; the mirror of CF."""

import numpy as np

from indigo_cli.orders.common_first import is_common
from indigo_cli.orders.rule import Ints, OrderContext, Targets


def priority(targets: Targets, context: OrderContext) -> Ints:
    """Common words wait."""
    return is_common(targets, context).astype(np.int64)
