"""What a run says when it cannot write: before it starts a fault of usage, later a failed run."""

import errno
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from indigo_cli.errors import RunError, UsageError

HINTS = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space, or ask for a larger quota",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EROFS: "make the folder writable",
    errno.EACCES: "make the folder writable",
    errno.EPERM: "make the folder writable",
}
RESUME = ", then go on with --resume; the checkpoints that stand are whole"


@contextmanager
def writing(where: Path, *, then: str = "") -> Iterator[None]:
    """Turn what the system says against writing into a RunError.

    Args:
        where: What is written.
        then: End of the hint, after how to mend it.
    """
    try:
        yield
    except OSError as error:
        raise _cannot_write(error, where, then) from error
    except UsageError as error:  # of `data/files.py`, where a file cannot be opened
        if not isinstance(error.__cause__, OSError):
            raise
        raise _cannot_write(error.__cause__, where, then) from error


def _cannot_write(error: OSError, where: Path, then: str) -> RunError:
    fix = HINTS.get(error.errno or 0, "look after the disk") + then
    return RunError(f"cannot write: {error.strerror or error}", where=str(where), fix=fix)


def append(stream: io.FileIO, content: bytes) -> None:
    """Write all of it to the end of an unbuffered file, or leave the file as it was.

    Raises:
        OSError: there is no room.
    """
    size = os.fstat(stream.fileno()).st_size
    try:
        while content:
            content = content[stream.write(content) :]
    except OSError:
        with suppress(OSError):  # a device has no end
            os.ftruncate(stream.fileno(), size)
        raise


def check_writable(folder: Path) -> None:
    """Write nothing into a folder that will be written to, or into the nearest one above it that stands.

    Raises:
        UsageError: that is not possible.
    """
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        what = f"nothing can be written here: {error.strerror or error}"
        fix = f"{HINTS.get(error.errno or 0, 'make a folder of it')}, or choose another -o"
        raise UsageError(what, where=str(folder), fix=fix) from error
