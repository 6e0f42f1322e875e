"""The finished blocks of long work, a file each, in a folder beside its output: what --resume goes on from.

    OUTPUT.parts/FACTS           what the blocks belong to
                 00000000.ENDING the first block
                 .lock           while a process works here

Files appear under their names only when they are whole, so a kill at any instant loses unfinished blocks alone.
"""

import json
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from indigo_cli.core.format import check_header, read_object
from indigo_cli.data.files import STANDARD_STREAM, atomic_write_text
from indigo_cli.engine.disk import check_writable
from indigo_cli.engine.run_folder import LOCK_FILE, lock_folder
from indigo_cli.errors import DataError, UsageError

VERSION = 1
PARTS = ".parts"
AGAIN = "go on with --resume, or begin anew with --overwrite"
ANEW = "begin anew with --overwrite"


class Parts:
    """The folder of one piece of work.

    Args:
        folder: It.
        facts: Settings and digests that every block depends on, by the name that a user knows.
    """

    format: ClassVar[str]
    """Of all files in it."""
    facts_file: ClassVar[str]
    ending: ClassVar[str]
    """Of the files of blocks."""

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        self.folder, self.facts = folder, dict(facts)

    def locked(self, what: str) -> AbstractContextManager[None]:
        """Keep others out, who are told what is going on; makes the folder."""
        return lock_folder(self.folder, what)

    def path(self, number: int) -> Path:
        """Return the file of a block."""
        return self.folder / f"{number:08d}{self.ending}"

    def finished(self) -> frozenset[int]:
        """Return the numbers of the blocks that stand."""
        names = (name for name in os.listdir(self.folder) if re.fullmatch(rf"\d{{8}}{re.escape(self.ending)}", name))
        return frozenset(int(name[:8]) for name in names)

    def read_facts(self) -> dict[str, Any] | None:
        """Return what the blocks belong to; None where that is not said.

        Raises:
            DataError: the file is damaged.
        """
        path = self.folder / self.facts_file
        try:
            facts = read_object(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise DataError(str(error), where=str(path), fix=ANEW) from error
        check_header(facts, where=str(path), format=self.format, version=VERSION, fix=ANEW)
        return facts

    def write_facts(self, more: Mapping[str, Any]) -> None:
        """Say what the blocks belong to, and more."""
        content = {"format": self.format, "version": VERSION, **self.facts, **more}
        path = self.folder / self.facts_file
        atomic_write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def check_facts(self, facts: Mapping[str, Any] | None, done: Collection[int], *, what: str) -> None:
        """Refuse finished blocks that belong to nobody, or to another piece of work.

        Args:
            facts: See `read_facts`.
            done: Numbers of the blocks.
            what: How they came about, for the message.

        Raises:
            UsageError: they were made with other settings.
            DataError: nothing says what they belong to.
        """
        if facts is not None:
            check_same(
                facts, self.facts, what=f"the finished blocks were {what}", where=str(self.folder / self.facts_file)
            )
        elif done:
            said = f"the folder of finished blocks does not say what they belong to ({self.facts_file} is missing)"
            raise DataError(said, where=str(self.folder), fix=ANEW)

    def own_files(self) -> list[Path]:
        """Return the files that may be deleted, the lock apart; the facts last: blocks without them are nobody's."""
        own = re.compile(rf"\.?(\d{{8}}{re.escape(self.ending)}|{re.escape(self.facts_file)})(\.\d+\.partial)?")
        files = (path for path in self.folder.iterdir() if own.fullmatch(path.name))
        return sorted(files, key=lambda path: path.name == self.facts_file)

    def clear(self) -> None:
        """Delete the blocks."""
        for path in self.own_files():
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the folder, but for files of others in it."""
        self.clear()
        if not any(path.name != LOCK_FILE for path in self.folder.iterdir()):
            (self.folder / LOCK_FILE).unlink(missing_ok=True)
            self.folder.rmdir()


@contextmanager
def parts_folder(path: str, *, resume: bool) -> Iterator[Path]:
    """Give the folder of finished blocks: beside the output, or a temporary one where that is a stream.

    Raises:
        UsageError: the output cannot be written, or holds nothing to go on from.
    """
    if os.path.isdir(path):
        raise UsageError("the output is a folder, a file is needed", where=path, fix="add the name of a file")
    if path != STANDARD_STREAM and (os.path.isfile(path) or not os.path.exists(path)):
        check_writable(Path(path).parent)
        yield Path(path + PARTS)
        return
    if resume:
        fix = "name a file with -o: finished blocks are kept beside it"
        raise UsageError("there is nothing to go on from where the output is a stream", where="--resume", fix=fix)
    with tempfile.TemporaryDirectory(prefix="indigo-search-") as folder:
        yield Path(folder)


def check_same(old: Mapping[str, Any], new: Mapping[str, Any], *, what: str, where: str) -> None:
    """Refuse to go on with what was made in another way.

    Args:
        old: What stands, as read from JSON; it may say more than `new`.
        new: Settings by name.
        what: Whose settings, for the message.

    Raises:
        UsageError: names the first setting that differs.
    """
    if (name := differing(old, new)) is not None:
        fix = "give the settings that it had, or begin anew with --overwrite"
        raise UsageError(f"{what} with {name} {old.get(name)}, not {new[name]}", where=where, fix=fix)


def differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """Return the name of the first setting that differs."""
    as_read = json.loads(json.dumps(dict(new)))
    return next((name for name, value in as_read.items() if old.get(name) != value), None)
