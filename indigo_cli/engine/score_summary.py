"""What one `indigo score` came to: nats a prediction by part, the bound, and what a user should know of."""

from dataclasses import dataclass, field

from indigo_cli.core.vocab import UNK
from indigo_cli.data.orders_file import OrdersRow
from indigo_cli.engine.lines import LineCount
from indigo_cli.engine.targets import Item


@dataclass
class ScoreSummary:
    """Sums over the best order of every target, nats, and lines that a user should know of.

    Args:
        in_rounds: In place of one `<eod>`, every slot was closed that was open first or came with a token.
    """

    in_rounds: bool = False
    targets: int = 0
    tokens: int = 0
    predictions: int = 0
    orders: int = 0
    words: float = 0.0
    slots: float = 0.0
    ends: float = 0.0
    bounds: float = 0.0
    l2r: int = 0
    any_order: bool = False
    cut: LineCount = field(default_factory=LineCount)
    long: LineCount = field(default_factory=LineCount)
    unknown: LineCount = field(default_factory=LineCount)

    def add(self, item: Item, row: OrdersRow, *, max_length: int) -> None:
        """Count a target and its row."""
        assert row.parts is not None and row.bound is not None
        length = len(item.target)
        self.targets += 1
        made = length - item.given
        ends = 1
        if self.in_rounds:
            ends = made + (1 if item.open_gaps is None else len(item.open_gaps))
        self.tokens += made
        self.predictions += made + item.ended * ends
        self.orders += len(row.orders)
        self.words += row.parts.words[0]
        self.slots += row.parts.slots[0]
        self.ends += row.parts.ends[0] or 0.0
        self.bounds += row.bound
        l2r = tuple(range(length))
        self.l2r += row.orders[0] == l2r
        self.any_order |= any(order != l2r for order in row.orders)
        for count, happened in (
            (self.cut, item.source.cut),
            (self.long, length > max_length),
            (self.unknown, UNK in item.target),
        ):
            if happened:
                count.add(item.line)

    def nats(self) -> float:
        """Return the mean cost of a prediction in the best order, nats."""
        return -(self.words + self.slots + self.ends) / max(self.predictions, 1)

    def text(self) -> str:
        """Lines for people."""
        of_each = f"{self.orders / self.targets:.3g} orders each" if self.orders > self.targets else "one order each"
        lines = [f"scored {self.targets:,} target{'s' * (self.targets != 1)}, {self.tokens:,} tokens, {of_each}"]
        if self.predictions:
            word, slot, end = ((0.0 - part) / self.predictions for part in (self.words, self.slots, self.ends))
            what = "slots closed" if self.in_rounds else "<eod>"
            lines.append(
                f"{self.nats():.4f} nats a prediction ({self.predictions:,}: tokens and {what}), "
                f"best order: words {word:.4f}, slots {slot:.4f}, {what} {end:.4f}"
            )
        if self.orders > self.targets:
            best = (self.words + self.slots + self.ends) / self.targets
            bound = self.bounds / self.targets
            lines.append(f"mean over targets: best order {best:.4f}, bound on log p(target | source) {bound:.4f}")
        if self.any_order:
            lines.append(f"the best order is left to right for {self.l2r / self.targets:.1%} of the targets")
        return "\n".join(lines)

    def warnings(self) -> list[str]:
        """Return one line for each kind of trouble."""
        kinds = (
            (self.cut, "read with a source cut to preprocess.max_length, as in decoding"),
            (self.long, "longer than preprocess.max_length, which training never saw, and scored whole"),
            (self.unknown, "scored with <unk> for words that the vocabulary does not have"),
        )
        return [count.text(what) for count, what in kinds if count.count]
