"""What the orders of a whole file look like, gathered in one pass."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from indigo_cli.core.order import kendall_tau, rightward_runs
from indigo_cli.data.traces_file import TraceRecord


@dataclass
class OrderStats:
    """Sums over the orders and traces seen so far."""

    count: int = 0
    tokens: int = 0
    longer: int = 0
    """Orders of two tokens or more: shorter ones have no direction."""
    left_to_right: int = 0
    right_to_left: int = 0
    tau: float = 0.0
    runs: int = 0
    first_words: Counter[str] = field(default_factory=Counter)
    scored: int = 0
    finished: int = 0
    rounds: int = 0
    log_prob: float = 0.0
    word_log_prob: float = 0.0
    slot_log_prob: float = 0.0

    def add_order(self, order: Sequence[int], tokens: Sequence[str] | None = None) -> None:
        """Count one order; `tokens` in surface order, where they are known."""
        self.count += 1
        self.tokens += len(order)
        if len(order) > 1:
            self.longer += 1
            self.left_to_right += all(index == step for step, index in enumerate(order))
            self.right_to_left += all(index == len(order) - 1 - step for step, index in enumerate(order))
            self.tau += kendall_tau(order)
        self.runs += rightward_runs(order)
        if tokens:
            self.first_words[tokens[order[0]]] += 1

    def add_trace(self, record: TraceRecord) -> None:
        """Count one hypothesis."""
        self.add_order(record.order, record.tokens)
        self.scored += 1
        self.finished += record.finished
        self.rounds += len({number for number in record.rounds if number >= 0})
        self.log_prob += record.log_prob
        self.word_log_prob += math.fsum(record.word_log_probs)
        self.slot_log_prob += math.fsum(record.slot_log_probs)

    def rows(self) -> list[tuple[str, str]]:
        """Return (name, value) pairs to show; only those that mean something here."""
        rows = [("sequences", f"{self.count:,}"), ("tokens", f"{self.tokens:,}")]
        if self.count:
            rows.append(("mean length", f"{self.tokens / self.count:.2f}"))
        if self.longer:
            rows += [
                ("strictly left to right", _share(self.left_to_right, self.longer)),
                ("strictly right to left", _share(self.right_to_left, self.longer)),
                ("Kendall tau to left to right", f"{self.tau / self.longer:+.3f}"),
            ]
        if self.runs:
            rows.append(("mean run of rightward neighbours", f"{self.tokens / self.runs:.2f}"))
        if self.first_words:
            common = self.first_words.most_common(5)
            rows.append(("generated first", ", ".join(f"{word} {_share(n, self.count)}" for word, n in common)))
        if self.scored:
            rows.append(("finished", _share(self.finished, self.scored)))
        if self.scored and self.rounds != self.tokens:
            rows.append(("mean rounds", f"{self.rounds / self.scored:.2f}"))
        if self.scored and self.tokens:
            rows += [
                ("log p per token", f"{self.log_prob / self.tokens:.3f} nats"),
                ("of it the words", f"{self.word_log_prob / self.tokens:.3f} nats"),
                ("of it the slots", f"{self.slot_log_prob / self.tokens:.3f} nats"),
            ]
        return rows


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"
