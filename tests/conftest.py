"""Shared by all tests: one thread each (bit-for-bit comparisons), the command line in process, the smoke recipes."""

import io
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

from indigo_cli.cli import main
from indigo_cli.core import console
from tests.smoke import write_smoke
from tests.tiny import Tiny, make_tiny

for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # in time: nothing above imports torch
    os.environ[_variable] = "1"
hypothesis.settings.register_profile("indigo", deadline=None, max_examples=50, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.register_profile("quick", parent=hypothesis.settings.get_profile("indigo"), max_examples=10)
hypothesis.settings.load_profile(os.environ.get("TEST_PROFILE", "indigo"))  # `make check` takes the quick one

REPOSITORY = Path(__file__).resolve().parent.parent
MEMORY_DISK, ROOM = Path("/dev/shm"), 2 << 30


def pytest_configure() -> None:
    """Let commands be interrupted, and temporary folders lie in memory where there is room.

    A shell that starts the suite in the background has it ignore Ctrl-C, and its children inherit that. Half of the
    suite's time was `fsync` and `unlink`.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.access(MEMORY_DISK, os.W_OK) and shutil.disk_usage(MEMORY_DISK).free >= ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY_DISK))


@dataclass(frozen=True)
class Finished:
    """How a command line ended."""

    status: int
    out: str
    err: str


class Indigo:
    """Runs a command line in this process: `indigo("train", recipe)`."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys = capsys
        self.monkeypatch = monkeypatch

    def __call__(self, *args: str | Path, stdin: bytes | None = None) -> Finished:
        if stdin is not None:
            self.monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        self.capsys.readouterr()
        status = main([str(arg) for arg in args])
        out, err = self.capsys.readouterr()
        return Finished(status, out, err)


@pytest.fixture
def indigo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Indigo:
    """A way to run command lines that returns status, stdout and stderr."""
    return Indigo(capsys, monkeypatch)


@pytest.fixture
def repository() -> Path:
    """The checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A toy corpus and a run trained on it, once for all tests; they must not change them."""
    return make_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the smoke recipes with their data beside it; the working directory is empty and thrown away."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return write_smoke(tmp_path)


@pytest.fixture(autouse=True)
def _usual_verbosity() -> Iterator[None]:
    """Forget what a test's --quiet or --verbose set."""
    yield
    console.set_verbosity()
