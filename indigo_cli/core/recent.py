"""A bounded memory of what a function gave for the words met last: streams of any length in constant memory."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

RECENT_WORDS = 10_000
LONGEST_WORD = 100
"""Characters; longer words are computed anew each time: a memory of words must not be one of megabytes."""

Result = TypeVar("Result")


def remember(function: Callable[[str], Result]) -> Callable[[str], Result]:
    """Return the function of a word with a memory of the last `RECENT_WORDS` words; results must not be changed."""
    recent = lru_cache(RECENT_WORDS)(function)
    return lambda word: recent(word) if len(word) <= LONGEST_WORD else function(word)
