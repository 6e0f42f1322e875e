"""Predefined generation orders. A new one is a file with a `priority` function and its line in ORDERS."""

from indigo_cli.orders import (
    balanced_tree,
    common_first,
    left_to_right,
    odd_even,
    random_order,
    rare_first,
    right_to_left,
    syntax_tree,
)
from indigo_cli.orders.rule import Example, OrderContext, Parse, Rule, Targets

ORDERS: dict[str, Rule] = {
    "l2r": Rule(left_to_right.priority, "from left to right"),
    "r2l": Rule(right_to_left.priority, "from right to left"),
    "odd": Rule(odd_even.priority, "1st, 3rd, 5th ... then 2nd, 4th ..."),
    "blt": Rule(balanced_tree.priority, "a balanced binary tree, level by level from the middle"),
    "syn": Rule(syntax_tree.priority, "the dependency tree, level by level from the root", needs="parses"),
    "cf": Rule(common_first.priority, "common words first, then rare ones", needs="ranks"),
    "rf": Rule(rare_first.priority, "rare words first, then common ones", needs="ranks"),
    "rnd": Rule(random_order.priority, "a random order, redrawn each epoch", redrawn=True),
}
"""The orders that need no model, by the names used in recipes and commands."""

__all__ = ["ORDERS", "Example", "OrderContext", "Parse", "Rule", "Targets"]
