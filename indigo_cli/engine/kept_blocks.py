"""What a decoding that may be stopped has finished: `decode -o FILE --resume`.

    FILE.parts/decode.json       what the blocks belong to
               00000000.part     the first block: a header line, then what it comes to in FILE
               .lock             while a process works here

Blocks are those that batches never cross. Files appear under their names only when they are whole, so a kill at any
instant loses unfinished blocks alone, and FILE is the same as that of a decoding that was never stopped.
"""

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from indigo_cli.core.format import check_header, read_object
from indigo_cli.data.files import atomic_write_text
from indigo_cli.data.traces_file import read_traces
from indigo_cli.engine.run_folder import LOCK_FILE, lock_folder
from indigo_cli.engine.search_parts import AGAIN, PARTS, check_same, parts_folder
from indigo_cli.errors import DataError, UsageError

FORMAT = "indigo-decode-parts"
VERSION = 1
FACTS_FILE = "decode.json"
PART = re.compile(r"(\d{8})\.part")
OWN_FILES = re.compile(rf"\.?(\d{{8}}\.part|{re.escape(FACTS_FILE)})(\.\d+\.partial)?")


class KeptBlocks:
    """The folder beside an output.

    Args:
        output: The file.
        facts: Settings and digests that every block depends on, by the name that a user knows.
        header: Of the traces that are to be written; other formats do not say what made them.
    """

    def __init__(self, output: str, facts: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> None:
        self.output, self.facts, self.header = output, dict(facts), header
        self.folder = Path(output + PARTS)

    def begin(self, opened: ExitStack) -> frozenset[int] | None:
        """Return which blocks are finished; None if the output is whole already.

        Raises:
            UsageError: the output is a stream, another process works here, or what stands was made in another way.
            DataError: the folder is damaged, or the output is something else.
        """
        opened.enter_context(parts_folder(self.output, resume=True))
        stands = os.path.isfile(self.output)
        if stands and self.header is not None:
            header = {"ensemble": None, **self.header}
            check_same(read_traces(self.output)[0], header, what="the file was made", where=f"{self.output}:1")
        if stands and not self.folder.exists():
            return None
        opened.enter_context(self._lock())
        done = frozenset(int(name[1]) for name in map(PART.fullmatch, os.listdir(self.folder)) if name)
        self._check_facts(done)
        if stands:  # killed at the very end
            self.remove()
            return None
        return done

    def begin_anew(self, *, overwrite: bool) -> None:
        """Leave no blocks beside an output that is made in one go: they would seem to be its own.

        Raises:
            UsageError: there are some, and nobody said that they may go.
        """
        if not self.folder.is_dir() or not any(map(OWN_FILES.fullmatch, os.listdir(self.folder))):
            return
        if not overwrite:
            raise UsageError("an unfinished decoding stands here", where=str(self.folder), fix=AGAIN)
        with self._lock():
            self.remove()

    def _lock(self) -> AbstractContextManager[None]:
        return lock_folder(self.folder, "another process decodes into this file")

    def _check_facts(self, done: Collection[int]) -> None:
        path = self.folder / FACTS_FILE
        fix = "begin anew with --overwrite"
        try:
            facts = read_object(path.read_bytes())
        except FileNotFoundError as error:
            if done:
                what = f"the folder of finished blocks does not say what they belong to ({FACTS_FILE} is missing)"
                raise DataError(what, where=str(self.folder), fix=fix) from error
            content = {"format": FORMAT, "version": VERSION, **self.facts}
            atomic_write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
            return
        except (OSError, ValueError) as error:
            raise DataError(str(error), where=str(path), fix=fix) from error
        check_header(facts, where=str(path), format=FORMAT, version=VERSION, fix=fix)
        check_same(facts, self.facts, what="the finished blocks were decoded", where=str(path))

    def write(self, number: int, text: str, unfinished: Sequence[int]) -> None:
        """Keep a block.

        Args:
            text: What it comes to in the output.
            unfinished: Numbers of its lines whose best hypothesis ran out of steps.
        """
        header = {"format": FORMAT, "version": VERSION, "characters": len(text), "unfinished": list(unfinished)}
        atomic_write_text(self._path(number), f"{json.dumps(header)}\n{text}")

    def read(self, number: int) -> tuple[str, list[int]]:
        """Return text and unfinished lines of a block.

        Raises:
            DataError: the file is damaged.
        """
        path, fix = self._path(number), "delete this file, and go on with --resume"
        try:
            first, _, text = path.read_bytes().decode("utf-8").partition("\n")
            header = read_object(first)
        except (OSError, ValueError) as error:
            raise DataError(str(error), where=str(path), fix=fix) from error
        check_header(header, where=str(path), format=FORMAT, version=VERSION, fix=fix)
        unfinished = header.get("unfinished")
        if header.get("characters") != len(text) or not isinstance(unfinished, list):
            raise DataError("the block is not whole", where=str(path), fix=fix)
        return text, unfinished

    def remove(self) -> None:
        """Delete the folder, but for files of others in it."""
        # The facts last: blocks without them would be nobody's.
        for path in sorted(self.folder.iterdir(), key=lambda path: path.name == FACTS_FILE):
            if OWN_FILES.fullmatch(path.name):
                path.unlink(missing_ok=True)
        if not any(path.name != LOCK_FILE for path in self.folder.iterdir()):
            (self.folder / LOCK_FILE).unlink(missing_ok=True)
            self.folder.rmdir()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08d}.part"
