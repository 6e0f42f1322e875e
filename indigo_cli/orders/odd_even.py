"""ODD: the 1st, 3rd, 5th ... token, then the 2nd, 4th ... (Ford et al. 2018)."""

from indigo_cli.orders.rule import Ints, OrderContext, Targets


def priority(targets: Targets, context: OrderContext) -> Ints:
    """Odd positions of the paper are even indices here."""
    return targets.position % 2
