"""The log that is cut back to a step, survives half-written rows and a full disk, and has one reader."""

import errno
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.engine.run_log import Log, read_log
from indigo_cli.errors import RunError


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_the_log_is_cut_back_to_a_step_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with Log(path, last_step=0) as log:
        for step in range(1, 7):
            log.write({"step": step, "loss": 1 / step})
            log.write({"step": step, "split": "valid"})
    with Log(path, last_step=4) as again:
        assert again.valid_rows == [{"step": step, "split": "valid"} for step in range(1, 5)]
        again.write({"step": 5, "loss": 0.5})
    rows = rows_of(path)
    assert rows[-1] == {"step": 5, "loss": 0.5}
    assert rows[0:-1:2] == [{"step": step, "loss": 1 / step} for step in range(1, 5)]
    assert rows[1:-1:2] == [{"step": step, "split": "valid"} for step in range(1, 5)]


def test_a_row_is_on_disk_before_the_next_one(tmp_path: Path) -> None:
    with Log(tmp_path / "log.jsonl", last_step=0) as log:
        log.write({"step": 1})
        assert rows_of(tmp_path / "log.jsonl") == [{"step": 1}]


@pytest.mark.parametrize("rest", [b'{"step": 3, "lo', b'{"step": 3, "x": "\xc3', b"\x00\x00\x00"])
def test_a_half_written_last_row_is_dropped(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n' + rest)
    with Log(path, last_step=5) as log:
        log.write({"step": 6})
    assert [row["step"] for row in rows_of(path)] == [1, 2, 6]


def test_a_fresh_run_starts_an_empty_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n', "utf-8")
    with Log(path, last_step=0):
        pass
    assert path.read_bytes() == b""


def test_what_is_no_row_is_left_out_by_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'3\n[]\n{"step": "x"}\n{"a": 1}\n\n{"step": 6}\n' + b"[" * 10**5 + b'\n{"step": 7}\n{"st')
    assert [row for _, row in read_log(path)] == [{"step": 6}, {"step": 7}]
    assert [line for line, _ in read_log(path)] == [b'{"step": 6}', b'{"step": 7}']


class TestFullDisk:
    def test_a_row_without_room(self, tmp_path: Path) -> None:
        """A device that is always full, in place of the file."""
        path = tmp_path / "log.jsonl"
        with pytest.raises(RunError, match="No space left") as caught, Log(path, last_step=0) as log:
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, log._stream.fileno())
            os.close(full)
            log.write({"step": 1})
        assert caught.value.exit_code == 1
        assert caught.value.where == str(path) and "free some space, then go on with --resume" in caught.value.fix

    def test_half_a_row_is_taken_back(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The system takes 5 bytes of the row, then none."""

        class Full(io.FileIO):
            room = 5

            def write(self, content: Any) -> int:
                if not self.room:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self.room -= (taken := super().write(bytes(content)[: self.room]))
                return taken

        path = tmp_path / "log.jsonl"
        with Log(path, last_step=0) as log:
            log.write({"step": 1})
            whole = path.read_bytes()
            with Full(path, "ab") as full:
                monkeypatch.setattr(log, "_stream", full)
                with pytest.raises(RunError, match="No space left"):
                    log.write({"step": 2})
                assert full.room == 0
            monkeypatch.undo()
            assert path.read_bytes() == whole
            log.write({"step": 3})
        assert [row["step"] for row in rows_of(path)] == [1, 3]

    def test_an_error_before_it_counts_more(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        log = Log(tmp_path / "log.jsonl", last_step=0)
        other = Log(tmp_path / "other.jsonl", last_step=0)
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ValueError, match="boom"), log:
            raise ValueError("boom")
        with pytest.raises(RunError, match="No space left"), other:
            other.write({"step": 1})
