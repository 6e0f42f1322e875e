"""Input of decoding: a file in fixed blocks, a pipe in what has arrived."""

import gzip
import io
import os
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from indigo_cli.engine import lines as module
from indigo_cli.engine.lines import line_blocks
from indigo_cli.errors import DataError, UsageError

SECONDS = 30.0
"""Longer than anything here takes; nobody waits for it unless something hangs."""


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 11])
def test_a_file_comes_in_blocks_of_fixed_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(module, "BLOCK_LINES", 5)
    lines = [f"line {number}" for number in range(count)]
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    blocks = list(line_blocks(path))
    assert [line for block in blocks for line in block] == lines
    assert all(len(block) == 5 for block in blocks[:-1])
    assert all(blocks)


def test_files_are_read_as_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "in.txt.gz"
    path.write_bytes(gzip.compress("\ufeffa\u2028b\r\n\nlast".encode()))
    assert list(line_blocks(path)) == [["a\u2028b", "", "last"]]
    with pytest.raises(UsageError, match="no such file"):
        list(line_blocks(tmp_path / "missing"))


def test_a_redirected_file_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_LINES", 2)
    (tmp_path / "in").write_bytes(b"a\nb\nc\n")
    with open(tmp_path / "in", encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert list(line_blocks("-")) == [["a", "b"], ["c"]]


class Pipe:
    """Standard input that a test writes to; blocks are taken by a thread, so that a test never hangs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reader, writer = os.pipe()
        self.reader = open(reader, encoding="utf-8")
        self.writer: BinaryIO = open(writer, "wb", buffering=0)
        monkeypatch.setattr("sys.stdin", self.reader)
        self.blocks: queue.Queue[list[str] | BaseException | None] = queue.Queue()
        self.thread = threading.Thread(target=self._take)
        self.thread.start()

    def _take(self) -> None:
        try:
            for block in line_blocks("-"):
                self.blocks.put(block)
            self.blocks.put(None)
        except BaseException as error:
            self.blocks.put(error)

    def next(self) -> list[str] | BaseException | None:
        return self.blocks.get(timeout=SECONDS)

    def rest(self) -> tuple[list[str], BaseException | None]:
        """Take everything up to the end; return the lines and what ended them."""
        lines: list[str] = []
        while isinstance(block := self.next(), list):
            assert block
            lines += block
        return lines, block

    def close(self) -> None:
        self.writer.close()
        self.thread.join(SECONDS)
        self.reader.close()


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    made = Pipe(monkeypatch)
    yield made
    made.close()


def test_case_115_a_line_of_a_pipe_is_given_before_the_next_one_comes(pipe: Pipe) -> None:
    for text in ("one", "", "three words here"):
        pipe.writer.write(f"{text}\n".encode())
        assert pipe.next() == [text]
    pipe.writer.write(b"no end")
    pipe.writer.close()
    assert pipe.rest() == (["no end"], None)


def test_a_pipe_that_is_always_full_gives_every_line_once(pipe: Pipe) -> None:
    lines = [f"{number}" for number in range(3 * module.BLOCK_LINES + 7)]
    content = "".join(f"{line}\n" for line in lines).encode()
    for start in range(0, len(content), 999):  # cuts lines anywhere
        pipe.writer.write(content[start : start + 999])
    pipe.writer.close()
    assert pipe.rest() == (lines, None)


def test_an_empty_pipe(pipe: Pipe) -> None:
    pipe.writer.close()
    assert pipe.rest() == ([], None)


def test_bad_bytes_in_a_pipe_come_after_the_good_lines(pipe: Pipe) -> None:
    pipe.writer.write(b"good\nbad \xff\nnever\n")
    pipe.writer.close()
    lines, error = pipe.rest()
    assert lines == ["good"]
    assert isinstance(error, DataError)
    assert error.where == "-:2"


def test_standard_input_without_a_file_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\nb"), encoding="utf-8"))
    assert list(line_blocks("-")) == [["a", "b"]]


def test_closed_standard_input_is_the_users_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match="closed"):
        next(line_blocks("-"))
