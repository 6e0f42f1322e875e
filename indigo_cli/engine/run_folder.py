"""What a run folder holds besides checkpoints: recipe, preprocessing assets, log, and facts about the corpus."""

import fcntl
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indigo_cli.core.format import check_header
from indigo_cli.core.text import Codecs
from indigo_cli.data.files import atomic_write_text
from indigo_cli.errors import CheckpointError, UsageError

FORMAT = "indigo-run"
VERSION = 1
RECIPE_FILE, FACTS_FILE, LOG_FILE, ASSETS = "recipe.toml", "run.json", "log.jsonl", "assets"


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
        path.mkdir(parents=True, exist_ok=True)
        atomic_write_text(path / RECIPE_FILE, recipe_text)
        (path / ASSETS).mkdir(exist_ok=True)
        for name, content in codecs.to_files().items():
            if not _holds(path / ASSETS / name, content):
                atomic_write_text(path / ASSETS / name, content)
        facts = {"format": FORMAT, "version": VERSION, **facts}
        atomic_write_text(path / FACTS_FILE, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
        return cls(path, facts)

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Read the facts of a run.

        Raises:
            UsageError: this is not a run folder.
        """
        where = path / FACTS_FILE
        try:
            facts = json.loads(where.read_text("utf-8"))
            if not isinstance(facts, dict):
                raise ValueError("not a JSON object")
        except FileNotFoundError as error:
            raise UsageError(
                "this is not a run folder", where=str(path), fix="give a folder that `indigo train` wrote"
            ) from error
        except (OSError, ValueError) as error:
            raise UsageError(f"the run's facts cannot be read ({error})", where=str(where)) from error
        check_header(facts, where=str(where), format=FORMAT, version=VERSION)
        return cls(path, facts)

    def codecs(self) -> Codecs:
        """Load the preprocessing assets."""
        return Codecs.load(self.path / ASSETS)

    def check_checkpoint(self, facts: dict[str, Any], codecs: Codecs) -> None:
        """Refuse a checkpoint that was trained with other vocabularies.

        Raises:
            CheckpointError: a digest differs.
        """
        if facts.get("vocabularies") != vocabulary_digests(codecs):
            raise CheckpointError(
                "the vocabulary does not belong to this checkpoint (another digest)",
                where=str(self.path / ASSETS),
                fix="restore the assets that `indigo train` wrote into the run folder",
            )


def _holds(path: Path, content: str) -> bool:
    """Tell whether a file has this content already, so that a resumed run leaves it alone."""
    return path.is_file() and path.read_bytes() == content.encode("utf-8")


@contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Let one process at a time train into a run folder; the lock goes with the process, however it ends.

    Raises:
        UsageError: another process trains there.
    """
    path.mkdir(parents=True, exist_ok=True)
    folder = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise UsageError(
            "another process trains in this run folder", where=str(path), fix="wait for it, or choose another -o"
        ) from error
    finally:
        os.close(folder)


def vocabulary_digests(codecs: Codecs) -> list[str]:
    """Return the digests of source and target vocabulary."""
    return [codecs.source.vocabulary.digest, codecs.target.vocabulary.digest]


class Log:
    """`log.jsonl`: one object a report, appended and flushed at once.

    Args:
        path: The file; it is made if it is not there.
        last_step: Rows of later steps are cut off first, as a half-written last line is (a resumed run).

    When it is opened, `validated` is the step of the last validation that stands in it, 0 if none, and `best_loss` the
    lowest loss of all of them.
    """

    def __init__(self, path: Path, *, last_step: int) -> None:
        self.validated = 0
        self.best_loss = math.inf
        kept = []
        if path.exists():
            for line in path.read_bytes().split(b"\n"):
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if row.get("step", 0) <= last_step:
                    kept.append(line)
                    if row.get("split") == "valid":
                        self.validated = row["step"]
                        self.best_loss = min(self.best_loss, row.get("loss", math.inf))
        atomic_write_text(path, "".join(f"{line.decode('utf-8')}\n" for line in kept))
        self._stream = open(path, "a", encoding="utf-8", newline="\n")

    def write(self, row: dict[str, Any]) -> None:
        """Append a row."""
        self._stream.write(json.dumps(row) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Close the file, on disk."""
        os.fsync(self._stream.fileno())
        self._stream.close()
