"""Runs `indigo search-orders` in this process and reads back what it wrote."""

from pathlib import Path
from typing import Any

from indigo_cli.data.orders_file import OrdersRow, read_order_rows
from indigo_cli.engine.offline_search import search_split
from indigo_cli.engine.parts import PARTS
from indigo_cli.engine.runtime import Runtime

ONE_THREAD = Runtime(threads=1)
SEEDED = ("search.beam_size=3", "search.dropout=0.2", "search.reference=none")


class Search:
    """Searches into a file of a folder."""

    def __init__(self, run: Path, folder: Path) -> None:
        self.run, self.folder, self.output = run, folder, folder / "out.orders.jsonl"

    def __call__(self, *settings: str, **options: Any) -> list[OrdersRow]:
        """Search anew and return the rows."""
        options = {"runtime": ONE_THREAD, "settings": (*SEEDED, *settings), "output": str(self.output), **options}
        self.summary = search_split(self.run, **options)
        return list(read_order_rows(self.output)[1])

    @property
    def parts(self) -> Path:
        return Path(f"{self.output}{PARTS}")


def prices(row: OrdersRow) -> dict[tuple[int, ...], float]:
    assert row.log_probs is not None and row.parts is None and row.bound is None
    return dict(zip(row.orders, row.log_probs, strict=True))
