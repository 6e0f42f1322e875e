"""The corpus folder: memory-mapped ids of every split, what they were made from, and the codecs that made them.

A side of a split is two flat files, `SPLIT.SIDE.ids` (uint16, or uint32 for a vocabulary of more than 65,536) and
`SPLIT.SIDE.offsets` (int64, one more than there are items); `SPLIT.lines` holds the raw line number of each item.
All are little-endian.
"""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indigo_cli.core.format import check_header
from indigo_cli.core.text import Codecs
from indigo_cli.errors import DataError, UsageError

FORMAT = "indigo-corpus"
VERSION = 1
MANIFEST = "manifest.json"
SIDES = ("source", "target")

Ints = NDArray[np.int64]


class Store:
    """Id sequences of one side of a split, read from disk when asked for.

    Args:
        ids: Flat ids of all items, any unsigned type.
        offsets: (n + 1,) int64; item i is `ids[offsets[i]:offsets[i + 1]]`.
    """

    def __init__(self, ids: NDArray[Any], offsets: Ints) -> None:
        self.ids = ids
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, item: int) -> Ints:
        """Return the ids of an item, (T,) int64."""
        if not 0 <= item < len(self):
            raise IndexError(f"item {item} of a store of {len(self)}")
        return self.ids[self.offsets[item] : self.offsets[item + 1]].astype(np.int64)

    @cached_property
    def lengths(self) -> Ints:
        """Tokens of each item, (n,) int64."""
        return np.diff(self.offsets)


class Split:
    """One split: item i is the pair `source[i]`, `target[i]` from raw line `lines[i]` (0-based, increasing)."""

    def __init__(self, name: str, source: Store, target: Store, lines: Ints) -> None:
        self.name = name
        self.source = source
        self.target = target
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)


class Corpus:
    """A corpus folder opened for reading.

    Args:
        folder: Where it lies.
        manifest: The content of its manifest.
        codecs: Text to ids and back.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any], codecs: Codecs) -> None:
        self.folder = folder
        self.manifest = manifest
        self.codecs = codecs

    @classmethod
    def open(cls, folder: Path | str) -> "Corpus":
        """Read manifest and codecs, and check that every file is there in full length.

        Raises:
            UsageError: no corpus there.
            DataError: damaged, cut, or of a newer version.
        """
        folder = Path(folder)
        manifest = read_manifest(folder)
        for name, entry in manifest["files"].items():
            path = folder / name
            size = path.stat().st_size if path.is_file() else None
            if size != entry["bytes"]:
                found = "is missing" if size is None else f"has {size} bytes instead of {entry['bytes']}"
                raise DataError(f"the corpus file {name} {found}", where=str(path), fix=_AGAIN)
        codecs = Codecs.load(folder)
        for side, codec in (("source", codecs.source), ("target", codecs.target)):
            if codec.vocabulary.digest != manifest["vocabularies"][side]["digest"]:
                raise DataError(f"the {side} vocabulary is not the one of this corpus", where=str(folder), fix=_AGAIN)
        return cls(folder, manifest, codecs)

    @property
    def digest(self) -> str:
        """Sha256 of what defines the corpus: settings, codecs and ids, not where they came from or lie."""
        return str(self.manifest["digest"])

    @property
    def splits(self) -> list[str]:
        """Names of the splits, in the order of the recipe."""
        return list(self.manifest["splits"])

    def split(self, name: str) -> Split:
        """Map one split into memory.

        Raises:
            UsageError: the corpus has no split of this name.
        """
        if name not in self.manifest["splits"]:
            fix = f"this corpus has: {', '.join(self.splits)}"
            raise UsageError(f"there is no split {name!r}", where=str(self.folder), fix=fix)
        types = self.manifest["id_types"]
        stores = {
            side: Store(
                self._array(f"{name}.{side}.ids", np.dtype(types[side]).newbyteorder("<")),
                self._array(f"{name}.{side}.offsets", np.dtype("<i8")),
            )
            for side in SIDES
        }
        return Split(name, stores["source"], stores["target"], self._array(f"{name}.lines", np.dtype("<i8")))

    def _array(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Map a flat file; a plain array view is several times faster to slice than `np.memmap`."""
        path = self.folder / name
        if path.stat().st_size == 0:
            return np.empty(0, dtype)
        return np.memmap(path, dtype, mode="r").view(np.ndarray)


_AGAIN = "run `indigo preprocess` again with --overwrite"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check the manifest of a corpus folder.

    Raises:
        UsageError: the folder holds no corpus.
        DataError: the manifest is damaged or of a newer version.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes().decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        fix = "make it with `indigo preprocess RECIPE`"
        raise UsageError(f"there is no corpus in {folder}", where=str(folder), fix=fix) from error
    except ValueError as error:
        raise DataError(f"the manifest is damaged: {error}", where=str(path), fix=_AGAIN) from error
    if not isinstance(manifest, dict):
        raise DataError("the manifest is not a JSON object", where=str(path), fix=_AGAIN)
    check_header(manifest, where=str(path), format=FORMAT, version=VERSION)
    missing = [key for key in ("digest", "task", "splits", "files", "vocabularies", "id_types") if key not in manifest]
    if missing:
        raise DataError(f"the manifest lacks {', '.join(missing)}", where=str(path), fix=_AGAIN)
    return manifest
