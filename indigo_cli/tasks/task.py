"""What differs between tasks, as data: no other module asks for a task by name."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Task:
    """How a task's examples are made from raw files.

    Args:
        name: As in the recipe.
        reads_source: Whether splits name source files.
        source_is_bag: The source is the bag of the target's words, sorted by id; encoders give it no positions.
        metrics: What is scored where the recipe names nothing; names in METRICS.
        prefers: Settings of `preprocess` that this task replaces: {key: {recipe's value: value used instead}}.
    """

    name: str
    reads_source: bool = True
    source_is_bag: bool = False
    metrics: tuple[str, ...] = ("bleu", "chrf")
    prefers: dict[Literal["tokenizer", "vocabulary"], dict[str, str]] = field(default_factory=dict)
