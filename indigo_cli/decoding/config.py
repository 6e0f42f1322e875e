"""The recipe's [decode] section, the limits it sets to a sentence, and the score it ranks hypotheses by."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from annotated_types import Ge, Gt, Le

from indigo_cli.core.settings import Count, NonNegativeFloat, NonNegativeInt, PositiveFloat

if TYPE_CHECKING:
    from torch import Tensor

Mass = Annotated[float, Gt(0), Le(1)]
"""A probability that is not nothing."""
Alpha = Annotated[float, Ge(0), Le(10)]
Penalty = Annotated[float, Ge(-1000), Le(1000)]
"""Beyond these, the float32 that hypotheses are ranked by has no digits left for what the model says."""
LONGEST_LIST = 1000
"""Most hypotheses of a line; also the widest beam that a search is widened to."""
ListSize = Annotated[int, Ge(1), Le(LONGEST_LIST)]
Number = TypeVar("Number", float, "Tensor")


@dataclass(frozen=True)
class DecodeConfig:
    """The recipe's [decode] section.

    Args:
        search: `beam` = the best words first, then the slots of these only; `joint` = words and slots ranked together;
            `sample` = independent draws.
        beam_size: Hypotheses kept at each step; 1 = greedy.
        length_penalty: alpha of `length_formula`.
        length_formula: What a log-probability is divided by, n insertions and `<eod>` counted: `power` = (n + 1)^alpha;
            `gnmt` = ((5 + n + 1) / 6)^alpha.
        eod_penalty: Subtracted from log p(`<eod>`) where hypotheses are ranked, never in files; above 0 = longer.
        close_penalty: Of systems that fill many slots at once: how much less, in nats, closing a slot counts than
            filling it where choices and hypotheses are ranked, never in files; above 0 = fewer closings, longer. Each
            word adds it to its hypothesis, so a wide beam and greedy rounds want the same.
        serial: Of these systems, with absolute positions: one slot is filled at a time, as in Stern et al. (2019).
        merge_strings: Hypotheses that spell the same string add their probabilities.
        min_length: Fewest insertions before `<eod>` may come.
        min_length_ratio: The same as a multiple of the source length; the larger of both counts, up to the most.
        max_length_ratio: Most insertions, as a multiple of the source length.
        max_length: Most insertions; the smaller of both counts. A hypothesis that has as many is cut, unfinished.
        block_ngrams: No run of so many words stands twice in a hypothesis, in surface order; 0 = off.
        ban_unk: Never write `<unk>`; a restriction to the bag takes its place.
        restrict_to_bag: Word ordering: write the words of the source, each as often as it stands there, then `<eod>`.
        temperature: Of samples: logits are divided by it.
        top_k: Samples come from so many of the most probable words (and slots) only; 0 = all.
        top_p: Samples come from the fewest of the most probable words (and slots) that hold this much probability.
        hard_length: No text is longer than was wished of it, and no word is cut for it; any system can do so.
        canvas_order: How words given by `--canvas` are fed to a system that inserts one by one: from left to right, or
            in the best order that a search finds for them.
        rerank: `source_words` = of the `rerank_from` best, those come first that keep the most words of the source.
        rerank_from: How long a list they are taken from.
        rerank_stemmed: Compare the stems of English words (extra `rouge`).
        batch_tokens: Source tokens times beam of a batch, padding counted.
    """

    search: Literal["beam", "joint", "sample"] = "beam"
    beam_size: Count = 5
    length_penalty: Alpha = 1.0
    length_formula: Literal["power", "gnmt"] = "power"
    eod_penalty: Penalty = 0.0
    close_penalty: Penalty = 0.0
    serial: bool = False
    merge_strings: bool = True
    min_length: NonNegativeInt = 0
    min_length_ratio: NonNegativeFloat = 0.0
    max_length_ratio: PositiveFloat = 3.0
    max_length: Count = 250
    block_ngrams: NonNegativeInt = 0
    ban_unk: bool = True
    restrict_to_bag: bool = False
    temperature: PositiveFloat = 1.0
    top_k: NonNegativeInt = 0
    top_p: Mass = 1.0
    hard_length: bool = False
    canvas_order: Literal["l2r", "best"] = "l2r"
    rerank: Literal["none", "source_words"] = "none"
    rerank_from: ListSize = 20
    rerank_stemmed: bool = False
    batch_tokens: Count = 4096


def length_limits(source_length: int, config: DecodeConfig) -> tuple[int, int]:
    """Return the fewest and the most insertions for a source of so many tokens."""
    most = math.ceil(min(config.max_length, config.max_length_ratio * source_length))
    fewest = max(config.min_length, config.min_length_ratio * source_length)
    return math.ceil(min(fewest, most)), most


def length_divisor(insertions: Any, config: DecodeConfig) -> Any:
    """Return what the log-probability of a hypothesis of so many insertions, a number or a tensor, is divided by.

    Source: `gnmt` is lp(Y) of Wu et al. 2016, Eq. 14, with |Y| counting the end symbol.
    """
    length = insertions + 1
    base = length if config.length_formula == "power" else (5 + length) / 6
    return base**config.length_penalty


def ranking_score(log_prob: Number, insertions: Any, finished: bool, config: DecodeConfig) -> Number:
    """Return what ranks a hypothesis, by its length: its log-probability, less the penalty if `<eod>` is in it.

    Where slots are closed one by one, words earn what a closing is to pay more.
    """
    if finished and config.eod_penalty:
        log_prob = log_prob - config.eod_penalty
    if config.close_penalty:
        log_prob = log_prob + config.close_penalty * insertions
    score: Number = log_prob / length_divisor(insertions, config)
    return score
