"""A subject is one folder with the files of a reader: an attempt damages some of them, reads, and puts them back.

The promise is that it reads, or raises an IndigoError that says what is wrong and where: no other exception, no hang,
no memory for what a file merely claims, and no code of a file is ever run. `judge` says whether it was kept.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from hypothesis import strategies as st

from indigo_cli.errors import IndigoError, RecipeError

HANG_SECONDS = 30
Files = dict[str, bytes]


@dataclass(frozen=True)
class Subject:
    """A reader and a folder of valid files.

    Args:
        name: Of the reader.
        folder: Holds the files.
        damaged: Draws files by name, as they are to stand.
        read: Reads the folder whole; raises what the reader raises.
    """

    name: str
    folder: Path
    damaged: st.SearchStrategy[Files]
    read: Callable[[Path], None]
    originals: Files = field(default_factory=dict)

    def attempt(self, files: Mapping[str, bytes]) -> IndigoError | None:
        """Read the folder with these files in place of the valid ones; return how they were refused, None if read."""
        for name, content in files.items():
            self.originals.setdefault(name, (self.folder / name).read_bytes())
            (self.folder / name).write_bytes(content)
        try:
            with time_limit():
                self.read(self.folder)
            return None
        except IndigoError as error:
            return error
        finally:
            for name in files:
                (self.folder / name).write_bytes(self.originals[name])


@contextmanager
def time_limit(seconds: int = HANG_SECONDS) -> Iterator[None]:
    """Raise TimeoutError in a reader that hangs; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not read after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True)
class Outcome:
    """How an attempt went.

    Args:
        error: How the files were refused; None if they were read.
        fault: What is wrong with that, nothing if all is well: an exception of another kind, an error without words,
            place or mend (what is wrong with a value of a recipe says what it must be), code of a file that ran.
        milliseconds: It took.
    """

    error: IndigoError | None
    fault: str
    milliseconds: float


def judge(subject: Subject, files: Mapping[str, bytes]) -> Outcome:
    """Make an attempt and say how it went."""
    started = time.perf_counter()
    error, fault = None, ""
    try:
        error = subject.attempt(files)
        said = error is None or (error.what and error.where and (error.fix or isinstance(error, RecipeError)))
        if error is not None and not (said and error.exit_code == 2):
            fault = f"says too little: {error.render()}"
    except Exception as unexpected:
        fault = f"{type(unexpected).__name__}: {unexpected}"
    if os.path.exists("trapped"):
        fault = "code of the file was run"
    return Outcome(error, fault, 1000 * (time.perf_counter() - started))
