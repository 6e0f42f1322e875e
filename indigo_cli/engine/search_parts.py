"""The finished blocks of a search for orders; see `Parts`. A block is how long it took, then one row a target."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from indigo_cli.data.files import is_finite, open_output, read_header, read_jsonl
from indigo_cli.data.orders_file import dump_object, parse_row, row_fields, shorten_number
from indigo_cli.engine.order_searcher import Found
from indigo_cli.engine.parts import AGAIN, VERSION, Parts, differing
from indigo_cli.errors import DataError, UsageError

REPLACES = "overwrite"


class SearchParts(Parts):
    """The folder of one search.

    Args:
        folder: It.
        facts: Settings and digests that every block depends on, by the name that a user knows.
        count: How many blocks there are.
    """

    format, facts_file, ending = "indigo-search-parts", "search.json", ".jsonl"

    def __init__(self, folder: Path, facts: Mapping[str, Any], count: int) -> None:
        super().__init__(folder, facts)
        self.count = count

    def lock(self) -> AbstractContextManager[None]:
        """Keep others out; makes the folder."""
        return self.locked("another process searches for the orders of this file")

    def open(self, *, resume: bool, overwrite: bool) -> list[int]:
        """Return the numbers of the blocks that are missing.

        Raises:
            UsageError: blocks stand and nobody said what is to become of them, or they belong to another search.
            DataError: the folder is damaged.
        """
        replaces = overwrite or self.replaces()
        if overwrite:
            self.clear()
        done, facts = self.finished().intersection(range(self.count)), self.read_facts()
        if done and facts is not None and not resume:
            what = f"an unfinished search stands here: {len(done):,} of {self.count:,} blocks"
            raise UsageError(what, where=str(self.folder), fix=AGAIN)
        if done:
            self.check_facts(facts, done, what="searched")
        else:
            self.write_facts({REPLACES: replaces})
        return [number for number in range(self.count) if number not in done]

    def replaces(self) -> bool:
        """Tell whether this search was begun here before, to replace a file that may still stand."""
        facts = self.read_facts()
        return facts is not None and facts.get(REPLACES) is True and differing(facts, self.facts) is None

    def write(self, number: int, seconds: float, found: Iterable[Found]) -> None:
        """Keep a finished block and how many seconds it took."""
        with open_output(self.path(number), overwrite=True) as stream:
            stream.write(dump_object({"format": self.format, "version": VERSION, "block": number, "seconds": seconds}))
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
        path = self.path(number)
        try:
            lines = read_jsonl(path)
            header = read_header(lines, path=path, format=self.format, version=VERSION)
            found = [_parse(fields, f"{path}:{line}") for line, fields in lines]
            seconds: Any = header.get("seconds")
            if not is_finite(seconds) or [result.row.id for result in found] != list(ids):
                raise DataError("the block is not whole", where=str(path))
        except DataError as error:
            raise DataError(error.what, where=error.where, fix="delete this file, and go on with --resume") from error
        return float(seconds), found


def _parse(fields: Mapping[str, Any], where: str) -> Found:
    row = parse_row(fields, where)
    l2r: Any = fields.get("l2r_log_prob")
    nodes: Any = fields.get("nodes")
    whole = row.log_probs is not None and row.parts is not None and row.bound is not None
    if not (whole and is_finite(l2r) and type(nodes) is int):
        raise DataError("the row is not whole", where=where)
    return Found(row, float(l2r), nodes)
