"""Text and JSONL streams: UTF-8 whatever the locale, `\\n` alone ends a line, no partial file under a final name."""

import bz2
import errno
import gzip
import hashlib
import io
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from indigo_cli.core.format import check_header, read_object
from indigo_cli.errors import DataError, RunError, UsageError

BOM = b"\xef\xbb\xbf"
STANDARD_STREAM = "-"


def read_lines(path: Path | str, *, hint: str = "") -> Iterator[str]:
    """Yield the lines of a text file or of standard input (`-`) without their ends.

    Only `\\n` ends a line; one `\\r` before it and a BOM at the start of the file are dropped. Everything else that
    Unicode calls a line end (U+2028, U+0085, a lone `\\r`) stays inside the line: tokenizers treat it as white space.
    `.gz`, `.bz2` and `.xz` are decompressed.

    Args:
        hint: How to mend a path that leads nowhere.
    Raises:
        UsageError: the file is missing or cannot be opened.
        DataError: bytes that are not UTF-8, a truncated or damaged compressed file; both name file and line.
    """
    with _open_binary(path, hint) as stream:
        yield from decode_lines(stream, path)


def decode_lines(raw_lines: Iterable[bytes], path: Path | str) -> Iterator[str]:
    """Yield the text of raw lines as `read_lines` does; `path` is for messages."""
    number = 0
    try:
        for number, raw in enumerate(raw_lines, start=1):
            if number == 1:
                raw = raw.removeprefix(BOM)
                if not raw:
                    continue
            raw = raw[:-2] if raw.endswith(b"\r\n") else raw.removesuffix(b"\n")
            yield raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"byte 0x{error.object[error.start]:02X} is not valid UTF-8",
            where=f"{path}:{number}",
            fix="convert the file to UTF-8, e.g. with iconv",
        ) from error
    except EOFError as error:
        raise DataError(
            "the compressed file is truncated", where=f"{path}:{number + 1}", fix="copy or download it again"
        ) from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, OSError) as error:
        fix = "copy or download it again, and see that its name ends as it is packed: .gz, .bz2, .xz or none of them"
        raise DataError(f"cannot read the file: {error}", where=f"{path}:{number + 1}", fix=fix) from error


@contextmanager
def _open_binary(path: Path | str, hint: str) -> Iterator[BinaryIO]:
    """Open for reading, decompressing by suffix; standard input is not closed."""
    if str(path) == STANDARD_STREAM:
        if sys.stdin is None:
            raise UsageError("standard input is closed", where=STANDARD_STREAM, fix="name a file instead of -")
        yield sys.stdin.buffer
        return
    openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    try:
        stream = openers.get(Path(path).suffix, open)(path, "rb")
    except FileNotFoundError as error:
        raise UsageError("no such file", where=str(path), fix=hint or "check the name and the folder") from error
    except (OSError, ValueError) as error:  # a NUL or half a character in the name
        fix = hint or "name a file that can be read, or - for standard input"
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot open the file: {reason}", where=str(path), fix=fix) from error
    with stream:
        if isinstance(stream, gzip.GzipFile) and _has_no_header(stream):  # Python takes no bytes for no lines
            raise DataError("the compressed file is truncated", where=f"{path}:1", fix="copy or download it again")
        yield cast(BinaryIO, stream)


def _has_no_header(stream: gzip.GzipFile) -> bool:
    """Tell whether a file ends before the two bytes that a gzip file begins with; of a pipe nobody knows."""
    found = os.fstat(stream.fileno())
    return stat.S_ISREG(found.st_mode) and found.st_size < 2


def refuse_existing(path: Path | str, overwrite: bool = False) -> None:
    """Raise UsageError if the output stands already (a device such as /dev/null does not count)."""
    path = Path(path)
    if overwrite or str(path) == STANDARD_STREAM or not os.path.lexists(path) or _is_device(path):
        return
    raise UsageError(
        f"the output {path} exists already", where=str(path), fix="choose another name, or add --overwrite"
    )


def _is_device(path: Path) -> bool:
    """Tell whether the path is a device, pipe or socket, which is written to and never replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def open_output(path: Path | str, overwrite: bool = False) -> Iterator[TextIO]:
    """Give a UTF-8 text writer whose file appears under its final name only when the block ends without an error.

    The text is written beside the file, compressed by suffix (gzip without a time stamp: same text, same bytes), synced
    and renamed. `-` is standard output and stays open.

    Raises:
        UsageError: the output exists and `overwrite` is false, or it cannot be written.
    """
    if str(path) == STANDARD_STREAM:
        if sys.stdout is None:
            raise UsageError("standard output is closed", where=STANDARD_STREAM, fix="name a file: -o FILE")
        sys.stdout.flush()
        writer = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n")
        try:
            yield writer
            writer.flush()
        finally:
            _release(writer)
        return
    with open_binary_output(path, overwrite) as raw:
        packed = _compressor(Path(path), raw)
        writer = io.TextIOWrapper(cast(Any, packed), encoding="utf-8", newline="\n")
        try:
            yield writer
        finally:
            writer.detach()  # flushes
            if packed is not raw:
                packed.close()


def _release(writer: io.TextIOWrapper) -> None:
    """Let go of standard output; text that a closed pipe refused is dropped, the first error is the one that counts."""
    try:
        writer.detach()
    except (OSError, ValueError):
        return


def _compressor(path: Path, raw: BinaryIO) -> BinaryIO:
    """Wrap the stream by the suffix of the final name."""
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0))
    if path.suffix == ".bz2":
        return cast(BinaryIO, bz2.BZ2File(raw, "wb"))
    if path.suffix == ".xz":
        return cast(BinaryIO, lzma.LZMAFile(raw, "wb"))
    return raw


@contextmanager
def open_binary_output(path: Path | str, overwrite: bool = False) -> Iterator[BinaryIO]:
    """Give a binary writer with the promise of `open_output`: complete under the final name, or not there at all."""
    refuse_existing(path, overwrite)
    final = Path(os.path.realpath(path))  # a symbolic link keeps pointing; its target is replaced
    if final.is_dir():
        raise UsageError("the output is a folder, a file is needed", where=str(path), fix="add the name of a file")
    device = _is_device(final)
    partial = final if device else final.with_name(f".{final.name}.{os.getpid()}.partial")
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        if not device:
            for rest in leftovers(final, "partial"):
                rest.unlink(missing_ok=True)
        stream = open(partial, "wb")
    except OSError as error:
        fix = "choose another place, or make this one writable"
        raise UsageError(f"cannot write: {error.strerror or error}", where=str(path), fix=fix) from error
    try:
        with stream:
            yield stream
            if not device:
                stream.flush()
                os.fsync(stream.fileno())
        if not device:
            os.replace(partial, final)
            sync_folder(final.parent)
    except BaseException as error:
        if not device:
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise RunError(f"cannot write: {error.strerror}", where=str(path), fix="free some space") from error
        raise


def leftovers(final: Path, kind: str) -> list[Path]:
    """Return what killed processes left beside a final name: `.NAME.PID.KIND` where no process PID runs any more."""
    start, end = f".{final.name}.", f".{kind}"
    found = []
    for entry in os.listdir(final.parent) if final.parent.is_dir() else []:
        number = entry.removeprefix(start).removesuffix(end)
        if entry == f"{start}{number}{end}" and number.isdecimal() and not _runs(int(number)):
            found.append(final.parent / entry)
    return sorted(found)


def _runs(process: int) -> bool:
    """Tell whether a process of this number runs, whoever owns it."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return process != 0


def atomic_write_bytes(path: Path | str, content: bytes, overwrite: bool = True) -> None:
    """Write a whole file at once: readers see the old content or the new, never a part."""
    with open_binary_output(path, overwrite) as stream:
        stream.write(content)


def atomic_write_text(path: Path | str, text: str, overwrite: bool = True) -> None:
    """Write a whole UTF-8 file at once, see `atomic_write_bytes`."""
    atomic_write_bytes(path, text.encode("utf-8"), overwrite)


def sync_folder(folder: Path) -> None:
    """Make renames inside the folder survive a power cut, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_jsonl(path: Path | str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (1-based line number, object) of a JSONL file; blank lines are skipped.

    Raises:
        DataError: a line that is not one JSON object, with file and line.
    """
    return parse_jsonl(read_lines(path), path)


def parse_jsonl(lines: Iterable[str], path: Path | str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield what the lines of a JSONL file say, see `read_jsonl`; `path` is for messages."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = read_object(line)
        except ValueError as error:
            fix = "every line is one JSON object: write the file again, it may be damaged or cut"
            raise DataError(f"this line is not JSON: {error}", where=f"{path}:{number}", fix=fix) from error
        yield number, value


def read_header(
    rows: Iterator[tuple[int, dict[str, Any]]], *, path: Path | str, format: str, version: int
) -> dict[str, Any]:
    """Take the header off the rows of `read_jsonl` and check it with `check_header`."""
    first, fix = next(rows, None), f'its first line is {{"format": "{format}", "version": {version}, ...}}'
    if first is None:
        raise DataError(f"the file is empty, an {format} header line is needed", where=f"{path}:1", fix=fix)
    check_header(first[1], where=f"{path}:{first[0]}", format=format, version=version, fix=fix)
    return first[1]


def is_finite(value: Any) -> bool:
    """Tell whether a value read from JSON is a number that a float holds; JSON's integers know no limit."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def sha256_file(path: Path | str) -> str:
    """Return the sha256 of a file's bytes, as they lie on disk."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
