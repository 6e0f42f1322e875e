"""Writes the flat files of a corpus folder as items come, and knows their sha256 at the end."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def id_type(vocabulary_size: int) -> str:
    """Return the numpy type that holds every id."""
    return "uint16" if vocabulary_size <= 2**16 else "uint32"


class ArrayWriter:
    """Appends integers to a flat little-endian file."""

    _CHUNK = 1 << 18

    def __init__(self, path: Path, dtype: str) -> None:
        self._path = path
        path.write_bytes(b"")
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._hash = hashlib.sha256()
        self._bytes = 0
        self._buffer: list[int] = []

    def extend(self, values: Iterable[int]) -> None:
        """Append values; one that the type cannot hold is an OverflowError here or later, never wrapped."""
        self._buffer.extend(values)
        if len(self._buffer) >= self._CHUNK:
            self._flush()

    def _flush(self) -> None:
        content = np.array(self._buffer, dtype=self._dtype).tobytes()
        self._buffer.clear()
        with open(self._path, "ab") as stream:  # open no longer than needed: nothing to close when a run is broken off
            stream.write(content)
        self._hash.update(content)
        self._bytes += len(content)

    def finish(self) -> dict[str, Any]:
        """Write the rest; return the manifest's entry of the file."""
        self._flush()
        return {"bytes": self._bytes, "sha256": self._hash.hexdigest()}


class StoreWriter:
    """Writes one side of a split, `SPLIT.SIDE.ids` and `SPLIT.SIDE.offsets`."""

    def __init__(self, folder: Path, split: str, side: str, dtype: str) -> None:
        self._names = (f"{split}.{side}.ids", f"{split}.{side}.offsets")
        self._ids = ArrayWriter(folder / self._names[0], dtype)
        self._offsets = ArrayWriter(folder / self._names[1], "int64")
        self._offsets.extend((0,))
        self._tokens = 0

    def add(self, ids: Sequence[int]) -> None:
        """Append one item."""
        self._tokens += len(ids)
        self._ids.extend(ids)
        self._offsets.extend((self._tokens,))

    def finish(self) -> dict[str, Any]:
        """Write the rest; return the manifest's entries of both files."""
        return {self._names[0]: self._ids.finish(), self._names[1]: self._offsets.finish()}
