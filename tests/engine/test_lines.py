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

from indigo_cli.core.text import Codecs, SideCodec
from indigo_cli.core.vocab import UNK, Vocabulary
from indigo_cli.engine import lines as module
from indigo_cli.engine.lines import EncodedLine, encode_ids, encode_line, in_blocks, line_blocks
from indigo_cli.errors import DataError, UsageError

SECONDS = 30.0
"""Longer than anything here takes; nobody waits for it unless something hangs."""


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 11])
def test_a_file_comes_in_blocks_of_fixed_size(tmp_path: Path, count: int) -> None:
    lines = [f"line {number}" for number in range(count)]
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    blocks = list(line_blocks(path, most=5))
    assert [line for block in blocks for line in block] == lines
    assert all(len(block) == 5 for block in blocks[:-1])
    assert all(blocks)


def test_long_lines_end_a_block_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory holds a block, so a block is bounded in characters; where it ends depends on the lines alone."""
    monkeypatch.setattr(module, "BLOCK_CHARACTERS", 10)
    lines = ["a" * 4, "", "b" * 5, "c", "d" * 30, "e", "f" * 8, "g"]
    assert list(in_blocks(lines)) == [lines[:4], lines[4:5], lines[5:8]]
    assert list(in_blocks(lines, most=2)) == [lines[:2], lines[2:4], lines[4:5], lines[5:7], lines[7:]]


def test_bad_bytes_in_a_file_come_after_the_good_lines(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"one\ntwo\nthree\nbad \xff\nnever\n")
    blocks = line_blocks(path, most=2)
    assert [next(blocks), next(blocks)] == [["one", "two"], ["three"]]
    with pytest.raises(DataError) as caught:
        next(blocks)
    assert caught.value.where == f"{path}:4"


def test_files_are_read_as_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "in.txt.gz"
    path.write_bytes(gzip.compress("\ufeffa\u2028b\r\n\nlast".encode()))
    assert list(line_blocks(path)) == [["a\u2028b", "", "last"]]
    with pytest.raises(UsageError, match="no such file"):
        list(line_blocks(tmp_path / "missing"))


def test_a_redirected_file_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").write_bytes(b"a\nb\nc\n")
    with open(tmp_path / "in", encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert list(line_blocks("-", most=2)) == [["a", "b"], ["c"]]


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


def test_long_lines_end_a_block_of_a_pipe(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_CHARACTERS", 10)
    pipe.writer.write(b"aaaa\nbbbbbbbb\nc\n")
    assert pipe.next() == ["aaaa", "bbbbbbbb"]
    assert pipe.next() == ["c"]


SIDE = SideCodec("none", "en", False, None, Vocabulary(("ant", "bee"), (2, 1)))
CODECS = Codecs(SIDE, SIDE)
ANT, BEE = CODECS.encode_source("ant bee")


@pytest.mark.parametrize(
    ("text", "ids", "cut", "unknown"),
    [
        ("", [], False, False),
        (" \u3000\x0b ", [], False, False),
        ("bee ant", [BEE, ANT], False, False),
        ("bee zzz", [BEE, UNK], False, False),
        ("zzz yyy", [UNK, UNK], False, True),
        ("ant bee ant bee", [ANT, BEE, ANT], True, False),
        ("zzz zzz zzz ant", [UNK] * 3, True, True),
        ("ant" + " " * 1000, [ANT], False, False),
        (" " * 1000 + "ant", [ANT], False, False),
        ("ant" + " " * 1000 + "bee", [ANT], True, False),
        ("ant" * 1000, [UNK], True, True),
    ],
)
def test_what_is_read_of_a_line(text: str, ids: list[int], cut: bool, unknown: bool) -> None:
    assert encode_line(CODECS, 7, text, max_length=3) == EncodedLine(7, ids, cut=cut, unknown=unknown)


def test_a_line_that_tokenising_leaves_nothing_of_is_unknown() -> None:
    side = SideCodec("moses", "en", False, None, Vocabulary(("ant",), (1,)))
    assert encode_line(Codecs(side, side), 0, "\x00\x01", max_length=3) == EncodedLine(0, [], unknown=True)


def test_ids_of_a_corpus_are_cut_like_text() -> None:
    assert encode_ids(3, [ANT, BEE], max_length=2) == EncodedLine(3, [ANT, BEE])
    assert encode_ids(3, [ANT, BEE, ANT], max_length=2) == EncodedLine(3, [ANT, BEE], cut=True)
    assert encode_ids(3, [UNK], max_length=2) == EncodedLine(3, [UNK], unknown=True)
    assert encode_ids(3, [], max_length=2) == EncodedLine(3, [])
