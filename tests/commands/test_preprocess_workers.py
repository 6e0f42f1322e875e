"""`indigo preprocess --workers 4` that is stopped: one line, the right status, no process and no file left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

RECIPE = """
name = "big"
[data.splits]
train = { source = ["text"], target = ["text"] }
valid = { source = ["text"], target = ["text"] }
[preprocess]
tokenizer = "none"
vocabulary = "word"
"""
START = "import sys; from indigo_cli.cli import main; sys.exit(main(sys.argv[1:]))"


class Running:
    """A preprocess of a text that takes long, in a process group of its own."""

    def __init__(self, folder: Path, repository: Path) -> None:
        (folder / "text").write_text("a red cat\n" * 3_000_000)
        (folder / "big.toml").write_text(RECIPE)
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, "preprocess", "../big.toml", "-o", "corpus", "--workers", "4", "--quiet"],
            cwd=self.work(),
            env={**os.environ, "PYTHONPATH": str(repository)},
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def work(self) -> Path:
        (self.folder / "work").mkdir(exist_ok=True)
        return self.folder / "work"

    def children(self) -> list[int]:
        """Return the processes of the group besides the first."""
        group = self.process.pid
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != group:
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[2]) == group and fields[0] != "Z":
                    found.append(int(entry.name))
        return found

    def wait_for_children(self, number: int) -> None:
        end = time.monotonic() + 60
        while len(self.children()) != number:
            assert time.monotonic() < end, f"{len(self.children())} workers instead of {number}"
            time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("number", "whole_group", "status", "lines"),
    [
        (signal.SIGINT, True, 130, ["interrupted"]),
        (signal.SIGINT, False, 130, ["interrupted"]),
        (signal.SIGTERM, True, 143, []),
        (signal.SIGKILL, False, -9, []),
    ],
)
def test_a_stopped_run_leaves_nobody_and_nothing(
    tmp_path: Path, repository: Path, number: signal.Signals, whole_group: bool, status: int, lines: list[str]
) -> None:
    running = Running(tmp_path, repository)
    running.wait_for_children(4)
    (os.killpg if whole_group else os.kill)(running.process.pid, number)
    _, err = running.process.communicate(timeout=60)
    assert running.process.returncode == status and err.decode().splitlines() == lines
    running.wait_for_children(0)
    if number != signal.SIGKILL:
        assert not list(running.work().iterdir())
