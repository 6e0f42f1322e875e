"""Streams: what ends a line, which bytes are refused where, and files that are complete or not there."""

import bz2
import gzip
import io
import lzma
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.format import check_header
from indigo_cli.data.files import (
    atomic_write_bytes,
    atomic_write_text,
    open_output,
    read_header,
    read_jsonl,
    read_lines,
    refuse_existing,
    sha256_file,
)
from indigo_cli.errors import DataError, RunError, UsageError

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\n\nb\n\n", ["a", "", "b", ""]),
        ("the red\u2028cat\ntwo\x85dogs\x0b\x0cran\n", ["the red\u2028cat", "two\x85dogs\x0b\x0cran"]),
        ("the red\rcat\nb\r\n", ["the red\rcat", "b"]),
        ("\ufeffa b\r\nc\r\n", ["a b", "c"]),
        ("\ufeff", []),
        ("\ufeff\n", [""]),
        ("a\r\r\n", ["a\r"]),
    ],
)
def test_only_newline_ends_a_line(tmp_path: Path, content: str, lines: list[str]) -> None:
    assert list(read_lines(put(tmp_path / "t", content.encode()))) == lines


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_files_are_read_by_suffix(tmp_path: Path, suffix: str) -> None:
    content = PACKERS[suffix]("\ufeffeins\r\nzwölf\n".encode())
    assert list(read_lines(put(tmp_path / f"t{suffix}", content))) == ["eins", "zwölf"]


def test_standard_input_is_bytes_whatever_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO("ă\u2028b\nc".encode()), encoding="ascii")
    monkeypatch.setattr(sys, "stdin", stream)
    assert list(read_lines("-")) == ["ă\u2028b", "c"]
    assert not stream.closed


def test_bad_utf8_is_named_with_file_and_line(tmp_path: Path) -> None:
    path = put(tmp_path / "t.txt", b"fine\nred \xff cat\nfine\n")
    reader = read_lines(path)
    assert next(reader) == "fine"
    with pytest.raises(DataError, match="0xFF") as caught:
        next(reader)
    assert caught.value.where == f"{path}:2" and caught.value.exit_code == 2


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_truncated_files_are_named(tmp_path: Path, suffix: str) -> None:
    content = PACKERS[suffix](b"".join(b"red cat %d\n" % i for i in range(1000)))
    path = put(tmp_path / f"t{suffix}", content[:-10])
    with pytest.raises(DataError, match="truncated") as caught:
        list(read_lines(path))
    assert caught.value.where.startswith(f"{path}:")


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_files_that_are_not_what_their_suffix_says(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(DataError) as caught:
        list(read_lines(put(tmp_path / f"t{suffix}", b"plain text, quite long enough to have a header\n")))
    assert caught.value.where == f"{tmp_path}/t{suffix}:1"


def test_missing_files_and_folders_are_usage_errors(tmp_path: Path) -> None:
    for path in (tmp_path / "none.txt", tmp_path / "none.gz", tmp_path):
        with pytest.raises(UsageError) as caught:
            list(read_lines(path))
        assert caught.value.where == str(path)


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    lines = [line.removesuffix("\r") for line in lines]
    if lines:
        lines[0] = lines[0].removeprefix("\ufeff")
    path = tmp_path_factory.mktemp("t") / "t.xz"
    with open_output(path) as writer:
        writer.writelines(line + "\n" for line in lines)
    assert list(read_lines(path)) == lines


@pytest.mark.parametrize("suffix", PACKERS)
def test_same_text_same_bytes(tmp_path: Path, suffix: str) -> None:
    contents = []
    for name in ("a", "b"):
        with open_output(tmp_path / f"{name}{suffix}") as writer:
            writer.write("zwölf\n" * 5)
        contents.append((tmp_path / f"{name}{suffix}").read_bytes())
    assert contents[0] == contents[1]
    assert list(read_lines(tmp_path / f"a{suffix}")) == ["zwölf"] * 5
    assert (contents[0] == "zwölf\n".encode() * 5) == (suffix == "")


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_nothing_is_left_when_the_work_fails(tmp_path: Path, suffix: str, error: type[BaseException]) -> None:
    with pytest.raises(error), open_output(tmp_path / f"t{suffix}") as writer:
        writer.write("half\n")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_the_final_name_appears_at_the_end_only(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "t.txt"
    with open_output(path) as writer:
        writer.write("a\n")
        writer.flush()
        assert not path.exists()
    assert [entry.name for entry in path.parent.iterdir()] == ["t.txt"]


def test_existing_files_are_refused_unless_told(tmp_path: Path) -> None:
    path = put(tmp_path / "t", b"old")
    with pytest.raises(UsageError, match="exists") as caught, open_output(path):
        pass
    assert "--overwrite" in caught.value.fix and path.read_bytes() == b"old"
    with pytest.raises(RuntimeError), open_output(path, overwrite=True) as writer:
        writer.write("new")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    with open_output(path, overwrite=True) as writer:
        writer.write("new")
    assert path.read_bytes() == b"new"


def test_links_are_followed_and_dangling_ones_count_as_existing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(UsageError):
        refuse_existing(tmp_path / "link")
    atomic_write_text(tmp_path / "link", "ă")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == "ă".encode()


def test_devices_are_written_to_and_never_replaced() -> None:
    refuse_existing("/dev/null")
    with open_output("/dev/null") as writer:
        writer.write("gone\n")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_folders_are_not_outputs(tmp_path: Path) -> None:
    with pytest.raises(UsageError), open_output(tmp_path, overwrite=True):
        pass
    with pytest.raises(UsageError), open_output(put(tmp_path / "file", b"") / "below"):
        pass


def test_standard_output_is_utf8_and_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    for _ in range(2):
        with open_output("-") as writer:
            writer.write("ă\u2028\n")
    assert raw.getvalue() == "ă\u2028\n".encode() * 2 and not stream.closed


def test_a_full_disk_is_a_failed_run() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with pytest.raises(RunError, match="No space"), open_output("/dev/full") as writer:
        writer.write("x" * 100_000)


def test_atomic_write_replaces_or_refuses(tmp_path: Path) -> None:
    atomic_write_bytes(tmp_path / "t", b"1")
    atomic_write_bytes(tmp_path / "t", b"2")
    with pytest.raises(UsageError):
        atomic_write_bytes(tmp_path / "t", b"3", overwrite=False)
    assert (tmp_path / "t").read_bytes() == b"2"


def test_new_files_have_the_usual_permissions(tmp_path: Path) -> None:
    put(tmp_path / "usual", b"")
    atomic_write_bytes(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_jsonl_rows_carry_their_line(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", '{"a": "\u2028"}\n\n{"b": 1}\n'.encode())
    assert list(read_jsonl(path)) == [(1, {"a": "\u2028"}), (3, {"b": 1})]


@pytest.mark.parametrize("line", ["{", "[1]", "3", '{"a": 1} x', "[" * 100_000])
def test_lines_that_are_no_object_are_named(tmp_path: Path, line: str) -> None:
    path = put(tmp_path / "t.jsonl", f'{{"a": 1}}\n{line}\n'.encode())
    with pytest.raises(DataError) as caught:
        list(read_jsonl(path))
    assert caught.value.where == f"{path}:2"


def test_headers(tmp_path: Path) -> None:
    path = put(tmp_path / "t.jsonl", b'{"format": "x", "version": 1}\n{"id": 0}\n')
    rows = read_jsonl(path)
    assert read_header(rows, path=path, format="x", version=1)["version"] == 1
    assert next(rows) == (2, {"id": 0})
    with pytest.raises(DataError, match="empty"):
        read_header(read_jsonl(put(tmp_path / "e", b"")), path="e", format="x", version=1)
    for header, message in (
        ({"format": "y", "version": 1}, "not an x"),
        ({"format": "x"}, "no valid version"),
        ({"format": "x", "version": True}, "no valid version"),
        ({"format": "x", "version": 2}, "newer"),
    ):
        with pytest.raises(DataError, match=message):
            check_header(header, where="t:1", format="x", version=1)


def test_sha256(tmp_path: Path) -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert sha256_file(put(tmp_path / "t", b"")) == empty


def test_a_missing_file_is_explained_as_its_user_asks(tmp_path: Path) -> None:
    for hint in ("", "look beside the recipe"):
        with pytest.raises(UsageError) as caught:
            list(read_lines(tmp_path / "none", hint=hint))
        assert caught.value.fix == (hint or "check the name and the folder")


def test_closed_standard_input_is_the_users_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match="closed"):
        list(read_lines("-"))


def test_closed_standard_output_is_the_users_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(UsageError, match="closed"), open_output("-"):
        pass


def test_writing_clears_up_after_a_killed_writer_of_the_same_file(tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    for name in (f".t.{dead.pid}.partial", f".t.{os.getppid()}.partial", f".u.{dead.pid}.partial", ".t.x.partial"):
        put(tmp_path / name, b"half")
    atomic_write_text(tmp_path / "t", "whole")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"t", f".t.{os.getppid()}.partial", f".u.{dead.pid}.partial", ".t.x.partial"}
