"""Writes the flat files of a corpus folder as items come, and knows their sha256 at the end."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def id_type(vocabulary_size: int) -> str:
    """Return the numpy type that holds every id."""
    return "uint16" if vocabulary_size <= 2**16 else "uint32"


class ArrayWriter:
    """Appends integers to a flat little-endian file."""

    def __init__(self, path: Path, dtype: str) -> None:
        self._path = path
        path.write_bytes(b"")
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._hash = hashlib.sha256()
        self._bytes = 0

    def extend(self, values: NDArray[Any]) -> None:
        """Append values, (n,); one that the type cannot hold is an OverflowError, never wrapped."""
        limits = np.iinfo(self._dtype)
        if len(values) and not limits.min <= int(values.min()) <= int(values.max()) <= limits.max:
            raise OverflowError(f"{self._path.name} holds numbers from {limits.min} to {limits.max}")
        content = values.astype(self._dtype).tobytes()
        with open(self._path, "ab") as stream:  # open no longer than needed: nothing to close when a run is broken off
            stream.write(content)
        self._hash.update(content)
        self._bytes += len(content)

    def finish(self) -> dict[str, Any]:
        """Return the manifest's entry of the file."""
        return {"bytes": self._bytes, "sha256": self._hash.hexdigest()}


class StoreWriter:
    """Writes one side of a split, `SPLIT.SIDE.ids` and `SPLIT.SIDE.offsets`."""

    def __init__(self, folder: Path, split: str, side: str, dtype: str) -> None:
        self._names = (f"{split}.{side}.ids", f"{split}.{side}.offsets")
        self._ids = ArrayWriter(folder / self._names[0], dtype)
        self._offsets = ArrayWriter(folder / self._names[1], "int64")
        self._offsets.extend(np.zeros(1, np.int64))
        self._tokens = 0

    def add(self, ids: NDArray[Any], lengths: NDArray[Any]) -> None:
        """Append items: the ids of all of them, (tokens,), and how many each has, (items,)."""
        self._ids.extend(ids)
        self._offsets.extend(self._tokens + np.cumsum(lengths, dtype=np.int64))
        self._tokens += len(ids)

    def finish(self) -> dict[str, Any]:
        """Return the manifest's entries of both files."""
        return {self._names[0]: self._ids.finish(), self._names[1]: self._offsets.finish()}
