"""Cutting a stream into pieces of a fixed size."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def chunked(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items in lists of `size`, the last one perhaps shorter; nothing is read ahead."""
    stream = iter(items)
    while chunk := list(islice(stream, size)):
        yield chunk
