"""The corpus folder: memory-mapped ids of every split, what they were made from, and the codecs that made them.

A side of a split is two flat files, `SPLIT.SIDE.ids` (uint16, or uint32 for a vocabulary of more than 65,536) and
`SPLIT.SIDE.offsets` (int64, one more than there are items); `SPLIT.lines` holds the raw line number of each item.
All are little-endian.

What is read is checked first, so that a changed byte is an error and not another sentence: sizes and the digest of the
manifest when a corpus is opened, numbers and sha256 when a split is. Of files above `HASHED_BYTES` only the numbers are
checked, which takes a second for some billions of them.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indigo_cli.core.format import check_header, read_object
from indigo_cli.core.text import Codecs
from indigo_cli.data.files import sha256_file
from indigo_cli.errors import DataError, UsageError

FORMAT = "indigo-corpus"
VERSION = 1
MANIFEST = "manifest.json"
SIDES = ("source", "target")
ID_TYPES = ("uint16", "uint32")
HASHED_BYTES = 1 << 30
"""Files up to this size are compared with their sha256: about a second."""
BLOCK = 1 << 20
"""Numbers that are checked at once."""

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
        self._splits: dict[str, Split] = {}

    @classmethod
    def open(cls, folder: Path | str) -> "Corpus":
        """Read manifest and codecs, and check that every file is there in full length.

        Raises:
            UsageError: no corpus there.
            DataError: damaged, cut, or of a newer version.
        """
        folder = Path(folder)
        manifest = read_manifest(folder)
        stores = {file for split in manifest["splits"] for file in store_files(split)}
        for name, entry in manifest["files"].items():
            path = folder / name
            size = path.stat().st_size if path.is_file() else None
            if size != entry["bytes"]:
                found = "is missing" if size is None else f"has {size} bytes instead of {entry['bytes']}"
                raise DataError(f"the corpus file {name} {found}", where=str(path), fix=_AGAIN)
            if name not in stores:
                _check_hash(path, entry)
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
            DataError: its files are damaged.
        """
        if name not in self.manifest["splits"]:
            fix = f"this corpus has: {', '.join(self.splits)}"
            raise UsageError(f"there is no split {name!r}", where=str(self.folder), fix=fix)
        if name not in self._splits:
            self._splits[name] = self._open_split(name)
        return self._splits[name]

    def _open_split(self, name: str) -> Split:
        """Map the files of a split and check what stands in them."""
        for file in store_files(name):
            if self.manifest["files"][file]["bytes"] <= HASHED_BYTES:
                _check_hash(self.folder / file, self.manifest["files"][file])
        lines = self._array(f"{name}.lines", "<i8")
        _check_rising(lines, self.folder / f"{name}.lines", step=1)
        stores = {}
        for side, codec in (("source", self.codecs.source), ("target", self.codecs.target)):
            files = [self.folder / f"{name}.{side}.{kind}" for kind in ("ids", "offsets")]
            ids = self._array(files[0].name, "<u2" if self.manifest["id_types"][side] == "uint16" else "<u4")
            offsets = self._array(files[1].name, "<i8")
            _check_ids(ids, files[0], size=len(codec.vocabulary))
            _check_rising(offsets, files[1], step=0)
            if len(offsets) != len(lines) + 1 or offsets[0] != 0 or offsets[-1] != len(ids):
                what = "the offsets do not cut the ids into as many items as there are lines"
                raise DataError(what, where=str(files[1]), fix=_AGAIN)
            stores[side] = Store(ids, offsets)
        return Split(name, stores["source"], stores["target"], lines)

    def _array(self, name: str, dtype: str) -> NDArray[Any]:
        """Map a flat file; a plain array view is several times faster to slice than `np.memmap`."""
        path = self.folder / name
        size = path.stat().st_size
        if size % np.dtype(dtype).itemsize:
            raise DataError(f"{size} bytes are no whole number of items", where=str(path), fix=_AGAIN)
        return np.memmap(path, dtype, mode="r").view(np.ndarray) if size else np.empty(0, dtype)


_AGAIN = "run `indigo preprocess` again with --overwrite"


def store_files(split: str) -> list[str]:
    """Return the names of the flat files of a split."""
    return [f"{split}.lines", *(f"{split}.{side}.{kind}" for side in SIDES for kind in ("ids", "offsets"))]


def corpus_digest(task: str, files: Mapping[str, Any]) -> str:
    """Return the digest of a corpus: neither names nor paths nor the versions of tools, but every byte made."""
    defining = {"format": FORMAT, "version": VERSION, "task": task, "files": files}
    return hashlib.sha256(json.dumps(defining, sort_keys=True).encode()).hexdigest()


def _check_hash(path: Path, entry: Mapping[str, Any]) -> None:
    if sha256_file(path) != entry["sha256"]:
        what = f"the corpus file {path.name} was changed after it was written (another sha256)"
        raise DataError(what, where=str(path), fix=_AGAIN)


def _check_rising(values: NDArray[Any], path: Path, *, step: int) -> None:
    """Refuse numbers that are negative, or not larger by `step` or more than those before them."""
    last = -step
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        if block[0] - last < step or (np.diff(block) < step).any():
            raise DataError("the numbers in this file do not rise", where=str(path), fix=_AGAIN)
        last = int(block[-1])


def _check_ids(ids: NDArray[Any], path: Path, *, size: int) -> None:
    """Refuse ids that are not in a vocabulary of this size."""
    for start in range(0, len(ids), BLOCK):
        largest = int(ids[start : start + BLOCK].max())
        if largest >= size:
            what = f"id {largest} is outside the vocabulary, which has {size}"
            raise DataError(what, where=str(path), fix=_AGAIN)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check the manifest of a corpus folder.

    Raises:
        UsageError: the folder holds no corpus.
        DataError: the manifest is damaged or of a newer version.
    """
    path = folder / MANIFEST
    try:
        manifest = read_object(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        fix = "make it with `indigo preprocess RECIPE`"
        raise UsageError(f"there is no corpus in {folder}", where=str(folder), fix=fix) from error
    except (OSError, ValueError) as error:
        raise DataError(f"the manifest is damaged: {error}", where=str(path), fix=_AGAIN) from error
    check_header(manifest, where=str(path), format=FORMAT, version=VERSION, fix=_AGAIN)
    if fault := _manifest_fault(manifest):
        raise DataError(f"the manifest {fault}", where=str(path), fix=_AGAIN)
    if manifest["digest"] != corpus_digest(manifest["task"], manifest["files"]):
        what = "the manifest was changed after it was written (its digest differs)"
        raise DataError(what, where=str(path), fix=_AGAIN)
    return manifest


_KINDS = {"digest": str, "task": str, "settings": dict, "splits": dict, "files": dict}


def _manifest_fault(manifest: dict[str, Any]) -> str:
    """Return what a manifest lacks or has wrong, nothing if all that readers rely on is there."""
    missing = [key for key in (*_KINDS, "vocabularies", "id_types") if key not in manifest]
    if missing:
        return f"lacks {', '.join(missing)}"
    for key, kind in _KINDS.items():
        if not isinstance(manifest[key], kind):
            return f"has a wrong {key}"
    for name, entry in manifest["files"].items():
        sound = isinstance(entry, dict) and type(entry.get("bytes")) is int and isinstance(entry.get("sha256"), str)
        if not sound or not re.fullmatch(r"[\w.-]+", name):
            return f"has a wrong entry for the file {name!r:.80}"
    for split, entry in manifest["splits"].items():
        if type(_entry(entry, "lines")) is not int or not isinstance(_entry(entry, "inputs"), dict):
            return f"has a wrong entry for the split {split!r:.80}"
        if absent := [file for file in store_files(split) if file not in manifest["files"]]:
            return f"lacks the file {absent[0]!r:.80}"
    for side in SIDES:
        vocabulary, id_type = (_entry(manifest[key], side) for key in ("vocabularies", "id_types"))
        if id_type not in ID_TYPES or not isinstance(_entry(vocabulary, "digest"), str):
            return f"has a wrong vocabulary or id type for the {side} side"
    return ""


def _entry(table: Any, key: str) -> Any:
    return table.get(key) if isinstance(table, dict) else None
