"""The finished blocks of a search for orders, a file each, in a folder beside the output: what --resume goes on from.

    OUTPUT.parts/search.json      what the blocks belong to
                 00000000.jsonl   the first block: how long it took, then one row a target
                 .lock            while a process works here

Files appear under their names only when they are whole, so a kill at any instant loses unfinished blocks alone.
"""

import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from indigo_cli.core.format import check_header, read_object
from indigo_cli.data.files import STANDARD_STREAM, atomic_write_text, is_finite, open_output, read_header, read_jsonl
from indigo_cli.data.orders_file import dump_object, parse_row, row_fields, shorten_number
from indigo_cli.engine.disk import check_writable
from indigo_cli.engine.order_searcher import Found
from indigo_cli.engine.run_folder import LOCK_FILE, lock_folder
from indigo_cli.errors import DataError, UsageError

FORMAT = "indigo-search-parts"
VERSION = 1
FACTS_FILE = "search.json"
OWN_FILES = re.compile(rf"\.?(\d{{8}}\.jsonl|{re.escape(FACTS_FILE)})(\.\d+\.partial)?|{re.escape(LOCK_FILE)}")
PARTS = ".parts"
REPLACES = "overwrite"
AGAIN = "go on with --resume, or begin anew with --overwrite"


class SearchParts:
    """The folder of one search.

    Args:
        folder: It.
        facts: Settings and digests that every block depends on, by the name that a user knows.
        count: How many blocks there are.
    """

    def __init__(self, folder: Path, facts: Mapping[str, Any], count: int) -> None:
        self.folder, self.facts, self.count = folder, dict(facts), count

    def lock(self) -> AbstractContextManager[None]:
        """Keep others out; makes the folder."""
        return lock_folder(self.folder, "another process searches for the orders of this file")

    def open(self, *, resume: bool, overwrite: bool) -> list[int]:
        """Return the numbers of the blocks that are missing.

        Raises:
            UsageError: blocks stand and nobody said what is to become of them, or they belong to another search.
            DataError: the folder is damaged.
        """
        replaces = overwrite or self.replaces()
        if overwrite:
            self._clear()
        done = {number for number in range(self.count) if self._path(number).exists()}
        facts = self._read_facts()
        if done and facts is None:
            what = f"the folder of finished blocks does not say what they belong to ({FACTS_FILE} is missing)"
            raise DataError(what, where=str(self.folder), fix="begin anew with --overwrite")
        if done and not resume:
            what = f"an unfinished search stands here: {len(done):,} of {self.count:,} blocks"
            raise UsageError(what, where=str(self.folder), fix=AGAIN)
        if done and facts is not None:
            check_same(facts, self.facts, what="the finished blocks were searched", where=str(self.folder / FACTS_FILE))
        else:
            content = {"format": FORMAT, "version": VERSION, **self.facts, REPLACES: replaces}
            atomic_write_text(self.folder / FACTS_FILE, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        return [number for number in range(self.count) if number not in done]

    def replaces(self) -> bool:
        """Tell whether this search was begun here before, to replace a file that may still stand."""
        facts = self._read_facts()
        return facts is not None and facts.get(REPLACES) is True and _differing(facts, self.facts) is None

    def write(self, number: int, seconds: float, found: Iterable[Found]) -> None:
        """Keep a finished block and how many seconds it took."""
        with open_output(self._path(number), overwrite=True) as stream:
            stream.write(dump_object({"format": FORMAT, "version": VERSION, "block": number, "seconds": seconds}))
            for result in found:
                more = {"l2r_log_prob": shorten_number(result.l2r), "nodes": result.num_nodes}
                stream.write(dump_object({**row_fields(result.row), **more}))

    def read(self, number: int, ids: Sequence[int]) -> tuple[float, list[Found]]:
        """Return what was kept of a block.

        Args:
            ids: Raw lines of its targets.

        Raises:
            DataError: the file is damaged.
        """
        path = self._path(number)
        try:
            lines = read_jsonl(path)
            header = read_header(lines, path=path, format=FORMAT, version=VERSION)
            found = [_parse(fields, f"{path}:{line}") for line, fields in lines]
            seconds: Any = header.get("seconds")
            if not is_finite(seconds) or [result.row.id for result in found] != list(ids):
                raise DataError("the block is not whole", where=str(path))
        except DataError as error:
            raise DataError(error.what, where=error.where, fix="delete this file, and go on with --resume") from error
        return float(seconds), found

    def remove(self) -> None:
        """Delete the folder, but for files of others in it."""
        self._clear()
        if not any(path.name != LOCK_FILE for path in self.folder.iterdir()):
            (self.folder / LOCK_FILE).unlink(missing_ok=True)
            self.folder.rmdir()

    def _clear(self) -> None:
        # The facts last: blocks without them would be nobody's.
        for path in sorted(self.folder.iterdir(), key=lambda path: path.name == FACTS_FILE):
            if OWN_FILES.fullmatch(path.name) and path.name != LOCK_FILE:
                path.unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08d}.jsonl"

    def _read_facts(self) -> dict[str, Any] | None:
        path = self.folder / FACTS_FILE
        try:
            facts = read_object(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise DataError(str(error), where=str(path), fix="begin anew with --overwrite") from error
        check_header(facts, where=str(path), format=FORMAT, version=VERSION, fix="begin anew with --overwrite")
        return facts


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
    if (name := _differing(old, new)) is not None:
        fix = "give the settings that it had, or begin anew with --overwrite"
        raise UsageError(f"{what} with {name} {old.get(name)}, not {new[name]}", where=where, fix=fix)


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """Return the name of the first setting that differs."""
    as_read = json.loads(json.dumps(dict(new)))
    return next((name for name, value in as_read.items() if old.get(name) != value), None)


def _parse(fields: Mapping[str, Any], where: str) -> Found:
    row = parse_row(fields, where)
    l2r: Any = fields.get("l2r_log_prob")
    nodes: Any = fields.get("nodes")
    whole = row.log_probs is not None and row.parts is not None and row.bound is not None
    if not (whole and is_finite(l2r) and type(nodes) is int):
        raise DataError("the row is not whole", where=where)
    return Found(row, float(l2r), nodes)
