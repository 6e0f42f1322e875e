"""What a run folder holds besides checkpoints: recipe, preprocessing assets, log, and facts about the corpus."""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indigo_cli.core.format import check_header, read_object
from indigo_cli.core.text import Codecs
from indigo_cli.data.files import atomic_write_text, sha256_file
from indigo_cli.engine.disk import RESUME, writing
from indigo_cli.errors import CheckpointError, DataError, UsageError

FORMAT = "indigo-run"
VERSION = 1
RECIPE_FILE, FACTS_FILE, LOG_FILE, ASSETS = "recipe.toml", "run.json", "log.jsonl", "assets"
LOCK_FILE = ".lock"


@dataclass(frozen=True)
class RunFolder:
    """A run folder that stands.

    Args:
        path: The folder.
        facts: Content of `run.json`: corpus path and digest, vocabulary digests.
    """

    path: Path
    facts: dict[str, Any]

    @classmethod
    def create(cls, path: Path, *, recipe_text: str, codecs: Codecs, facts: dict[str, Any]) -> "RunFolder":
        """Write everything that decoding needs besides weights.

        The recipe comes first: it marks a run that can be resumed; `run.json` comes last: it marks a whole folder.
        """
        assets = codecs.to_files()
        hashes = {name: hashlib.sha256(content.encode()).hexdigest() for name, content in assets.items()}
        facts = {"format": FORMAT, "version": VERSION, **facts, "assets": hashes}
        with writing(path, then=RESUME):
            path.mkdir(parents=True, exist_ok=True)
            atomic_write_text(path / RECIPE_FILE, recipe_text)
            (path / ASSETS).mkdir(exist_ok=True)
            for name, content in assets.items():
                if not _holds(path / ASSETS / name, content):
                    atomic_write_text(path / ASSETS / name, content)
            atomic_write_text(path / FACTS_FILE, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
        return cls(path, facts)

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Read the facts of a run.

        Raises:
            UsageError: this is not a run folder.
        """
        where, fix = path / FACTS_FILE, "restore the file from a copy of the run"
        try:
            facts = read_object(where.read_bytes())
        except FileNotFoundError as error:
            raise UsageError(
                "this is not a run folder", where=str(path), fix="give a folder that `indigo train` wrote"
            ) from error
        except (OSError, ValueError) as error:
            raise UsageError(f"the run's facts cannot be read ({error})", where=str(where), fix=fix) from error
        check_header(facts, where=str(where), format=FORMAT, version=VERSION, fix=fix)
        return cls(path, facts)

    def codecs(self) -> Codecs:
        """Load the preprocessing assets."""
        return Codecs.load(self.path / ASSETS)

    def text_fact(self, key: str) -> str:
        """Return a fact that is a text.

        Raises:
            UsageError: it is missing, or something else.
        """
        value = self.facts.get(key)
        if not isinstance(value, str):
            where = str(self.path / FACTS_FILE)
            raise UsageError(
                f"the run does not say its {key}", where=where, fix="restore the file from a copy of the run"
            )
        return value

    def check_assets(self) -> None:
        """Refuse assets that were changed since.

        Raises:
            DataError: a file has another sha256.
        """
        hashes = self.facts.get("assets", {})  # a run of 0.1 has none
        for name, digest in hashes.items() if isinstance(hashes, dict) else ():
            path = self.path / ASSETS / name
            if path.is_file() and sha256_file(path) != digest:
                what = "the file was changed after the run wrote it (another sha256)"
                raise DataError(what, where=str(path), fix=_RESTORE)

    def check_checkpoint(self, facts: dict[str, Any], codecs: Codecs) -> None:
        """Refuse a checkpoint that was trained with other vocabularies, and assets that were changed since.

        Raises:
            CheckpointError: a digest differs.
            DataError: the vocabularies are the same, but not how text is read.
        """
        if facts.get("vocabularies") != vocabulary_digests(codecs):
            raise CheckpointError(
                "the vocabulary does not belong to this checkpoint (another digest)",
                where=str(self.path / ASSETS),
                fix=_RESTORE,
            )
        self.check_assets()


_RESTORE = "restore the assets that `indigo train` wrote into the run folder"


def _holds(path: Path, content: str) -> bool:
    """Tell whether a file has this content already, so that a resumed run leaves it alone."""
    return path.is_file() and path.read_bytes() == content.encode("utf-8")


@contextmanager
def lock_folder(path: Path, what: str = "another process trains in this run folder") -> Iterator[None]:
    """Let one process at a time work in a folder; the lock goes with the process, however it ends.

    Raises:
        UsageError: another process works there; `what` says so.
    """
    path.mkdir(parents=True, exist_ok=True)
    # A file, open for writing: network file systems lock nothing else.
    lock = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(what, where=str(path), fix="wait for it, or choose another -o") from error
        yield
    finally:
        os.close(lock)


def vocabulary_digests(codecs: Codecs) -> list[str]:
    """Return the digests of source and target vocabulary."""
    return [codecs.source.vocabulary.digest, codecs.target.vocabulary.digest]
