"""`indigo average` as a user meets it; the numbers are tested in `tests/engine/test_average.py`."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tiny import Tiny

Run = Callable[..., Any]


@pytest.fixture
def run(tiny: Tiny, tmp_path: Path) -> Path:
    """A copy of the trained run; two checkpoints stand in it."""
    return Path(shutil.copytree(tiny.run, tmp_path / "run", symlinks=True))


@pytest.mark.slow
def test_an_average_is_a_checkpoint_of_the_run(indigo: Run, run: Path) -> None:
    done = indigo("average", run, "--last", "2")
    assert (done.status, done.out) == (0, "")
    assert done.err == f"{run / 'checkpoints' / 'average-last-2'}: the mean of steps 60, 120\n"
    decoded = indigo("decode", run, "--checkpoint", "average-last-2", stdin=b"bee cat\n\n")
    assert decoded.status == 0 and len(decoded.out.splitlines()) == 2
    assert indigo("average", run, "--best", "1", "-o", "chosen").status == 0
    scored = [indigo("score", run, "--checkpoint", name).out.splitlines()[1:] for name in ("chosen", "best")]
    assert scored[0] == scored[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "2 checkpoints stand, not 3"),  # the default
        (["--best", "3"], "train.keep_best=3"),
        (["--last", "1", "--best", "1"], "one choice"),
        (["--last", "-1"], "one choice"),
        (["--last", "0"], "one choice"),
        (["--last", "1", "-o", "best"], "own checkpoints"),
    ],
)
def test_faults_end_in_status_2(indigo: Run, run: Path, options: list[str], message: str) -> None:
    done = indigo("average", run, *options)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: ") and message in done.err
    assert not list((run / "checkpoints").glob("average*"))


def test_an_output_in_the_way(indigo: Run, run: Path) -> None:
    assert indigo("average", run, "--last", "1").status == 0
    done = indigo("average", run, "--last", "1")
    assert done.status == 2 and "--overwrite" in done.err
    assert indigo("average", run, "--last", "1", "--overwrite").status == 0
