"""Streams in pieces of a fixed size, read no further than asked for."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.chunks import chunked


@given(st.lists(st.integers()), st.integers(1, 5))
def test_pieces_are_full_and_make_up_the_stream(items: list[int], size: int) -> None:
    pieces = list(chunked(items, size))
    assert [item for piece in pieces for item in piece] == items
    assert all(len(piece) == size for piece in pieces[:-1]) and all(0 < len(piece) <= size for piece in pieces)


def test_nothing_is_read_ahead() -> None:
    read: list[int] = []

    def stream() -> Iterator[int]:
        for number in range(10):
            read.append(number)
            yield number

    pieces = chunked(stream(), 3)
    assert next(pieces) == [0, 1, 2] and read == [0, 1, 2]
