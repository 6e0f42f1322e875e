"""What is said where nothing can be written."""

import errno
import os
from pathlib import Path

import pytest

from indigo_cli.data.files import atomic_write_text
from indigo_cli.engine.disk import check_writable, writing
from indigo_cli.errors import RunError, UsageError


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "free some space, then rest"),
        (errno.EDQUOT, "quota"),
        (errno.EFBIG, "ulimit -f"),
        (errno.EROFS, "writable"),
        (errno.EIO, "look after the disk, then rest"),
    ],
)
def test_faults_of_the_system(number: int, hint: str) -> None:
    with pytest.raises(RunError) as caught, writing(Path("run/x"), then=", then rest"):
        raise OSError(number, os.strerror(number))
    assert caught.value.exit_code == 1
    assert caught.value.what == f"cannot write: {os.strerror(number)}"
    assert caught.value.where == "run/x" and hint in caught.value.fix


def test_a_file_that_cannot_be_opened_is_a_failed_run_by_then(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot write"), writing(tmp_path):
        atomic_write_text(tmp_path / "file" / "x", "text")


def test_other_errors_pass() -> None:
    for error in (UsageError("mine"), ValueError("mine"), RunError("mine")):
        with pytest.raises(type(error), match="mine"), writing(Path("x")):
            raise error


def test_a_folder_is_tried_before_it_is_needed(tmp_path: Path) -> None:
    check_writable(tmp_path / "not" / "there" / "yet")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/indigo/run")):
        with pytest.raises(UsageError, match="nothing can be written here") as caught:
            check_writable(folder)
        assert "choose another -o" in caught.value.fix
