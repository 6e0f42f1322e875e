"""What a decoding that may be stopped has finished: `decode -o FILE --resume`; see `Parts`.

Blocks are those that batches never cross: a header line, then what the block comes to in FILE. FILE is the same as that
of a decoding that was never stopped.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from indigo_cli.core.format import check_header, read_object
from indigo_cli.data.files import atomic_write_text
from indigo_cli.data.traces_file import read_traces
from indigo_cli.engine.parts import AGAIN, PARTS, VERSION, Parts, check_same, parts_folder
from indigo_cli.errors import DataError, UsageError


class KeptBlocks(Parts):
    """The folder beside an output.

    Args:
        output: The file.
        facts: Settings and digests that every block depends on, by the name that a user knows.
        header: Of the traces that are to be written; other formats do not say what made them.
    """

    format, facts_file, ending = "indigo-decode-parts", "decode.json", ".part"

    def __init__(self, output: str, facts: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> None:
        super().__init__(Path(output + PARTS), facts)
        self.output, self.header = output, header

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
        done, facts = self.finished(), self.read_facts()
        self.check_facts(facts, done, what="decoded")
        if facts is None:
            self.write_facts({})
        if stands:  # killed at the very end
            self.remove()
            return None
        return done

    def begin_anew(self, *, overwrite: bool) -> None:
        """Leave no blocks beside an output that is made in one go: they would seem to be its own.

        Raises:
            UsageError: there are some, and nobody said that they may go.
        """
        if not self.folder.is_dir() or not self.own_files():
            return
        if not overwrite:
            raise UsageError("an unfinished decoding stands here", where=str(self.folder), fix=AGAIN)
        with self._lock():
            self.remove()

    def _lock(self) -> AbstractContextManager[None]:
        return self.locked("another process decodes into this file")

    def write(self, number: int, text: str, unfinished: Sequence[int]) -> None:
        """Keep a block.

        Args:
            text: What it comes to in the output.
            unfinished: Numbers of its lines whose best hypothesis ran out of steps.
        """
        header = {"format": self.format, "version": VERSION, "characters": len(text), "unfinished": list(unfinished)}
        atomic_write_text(self.path(number), f"{json.dumps(header)}\n{text}")

    def read(self, number: int) -> tuple[str, list[int]]:
        """Return text and unfinished lines of a block.

        Raises:
            DataError: the file is damaged.
        """
        path, fix = self.path(number), "delete this file, and go on with --resume"
        try:
            first, _, text = path.read_bytes().decode("utf-8").partition("\n")
            header = read_object(first)
        except (OSError, ValueError) as error:
            raise DataError(str(error), where=str(path), fix=fix) from error
        check_header(header, where=str(path), format=self.format, version=VERSION, fix=fix)
        unfinished = header.get("unfinished")
        if header.get("characters") != len(text) or not isinstance(unfinished, list):
            raise DataError("the block is not whole", where=str(path), fix=fix)
        return text, unfinished
