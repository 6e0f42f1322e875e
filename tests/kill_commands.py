"""Kill commands at random instants (`kill -9`), look at what stands, run them again: is all as if undisturbed?

Each command is a process of its own, on a generated corpus of short lines. Only the main process is killed, never its
workers: they have to end by themselves. `benchmarks/kill.py` prints the table, the suite keeps a few.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from indigo_cli.engine.checkpoint import read_checkpoint
from indigo_cli.engine.parts import PARTS
from indigo_cli.engine.run_folder import FACTS_FILE, LOG_FILE
from indigo_cli.engine.run_log import read_log
from indigo_cli.errors import CheckpointError
from tests.fake_spacy import write_fake_spacy
from tests.runs import log_of, names_in, same, state_of, without_clocks
from tests.tiny import write_task

SIZES = {"train": 60_000, "valid": 60, "test": 1_100}
"""Three blocks of `search-orders`, and of `decode` with four hypotheses a line, in test."""
SETTINGS = ("train.max_steps=40", "train.save_every=2", "train.validate_every=8", "train.keep=1", "model.dropout=0.3")
TRAINING = tuple(word for setting in SETTINGS for word in ("--set", setting))
CHILD_SECONDS = 10.0
"""How long a worker may outlive the process that was killed: it may be busy with its own imports."""
MISSES = 20
"""Instants that may come after the end of the command, besides one for each kill: the machine may be faster now."""


@dataclass(frozen=True)
class Job:
    """A command line that is killed.

    Args:
        args: Relative to a folder of its own, beside that of the raw text.
        again: Options of the run after a kill.
        only_if_finished: Whether those are needed only where an output stands.
        needs: Folders beside it that are copied into it before.
        output: Where what it writes stands.
        at_once: Whether all its files appear together.
        kills_in_a_row: How many runs on what the last one left are killed before one may end.
        path: A folder for Python to look for packages in.
    """

    args: tuple[str, ...]
    output: str
    again: tuple[str, ...] = ("--overwrite",)
    only_if_finished: bool = True
    needs: str = ""
    at_once: bool = False
    kills_in_a_row: int = 1
    path: str = ""


JOBS = {
    "preprocess": Job(("preprocess", "../recipe.toml", "-o", "made", "--workers", "1"), "made", at_once=True),
    "preprocess, 2 workers": Job(
        ("preprocess", "../recipe.toml", "-o", "made", "--workers", "2"), "made", at_once=True
    ),
    "reorder": Job(("reorder", "corpus", "rnd"), "corpus", needs="corpus"),
    "reorder syn, 2 workers": Job(
        ("reorder", "corpus", "syn", "--workers", "2", "--set", "order.parser=fake_model"),
        "corpus",
        needs="corpus",
        path="packages",
    ),
    "train": Job(
        ("train", "../recipe.toml", "--corpus", "../corpus", "-o", "run", *TRAINING),
        "run",
        again=("--resume",),
        only_if_finished=False,
        kills_in_a_row=3,
    ),
    "decode": Job(
        ("decode", "../run", "--input", "../test.src", "--format", "jsonl", "-o", "made/out.jsonl"),
        "made",
        at_once=True,
    ),
    "decode --resume": Job(
        (
            *("decode", "../run", "--input", "../test.src", "--format", "jsonl", "--n-best", "4", "--resume"),
            *("-o", "made/out.jsonl"),
        ),
        "made",
        again=(),
        kills_in_a_row=3,
    ),
    "search-orders": Job(
        ("search-orders", "../run", "--split", "test", "--beam", "3", "-o", "made/out.jsonl"),
        "made",
        again=("--resume",),
        only_if_finished=False,
        kills_in_a_row=3,
    ),
}


@dataclass
class Tally:
    """What kills of one command did.

    Args:
        hit: Kills by what stood: nothing new yet (`start`), something (`work`), all of it (`end`).
        missed: Instants after the end of the command, which were drawn anew.
        half: Files under a final name that are not what an undisturbed run writes there.
        differing: Runs after a kill that failed, or ended with something else than an undisturbed run.
        children: Kills after which a worker lived on for more than `CHILD_SECONDS`.
        slowest_child: Seconds until the last worker was gone, at most.
        faults: What is wrong, for people.
    """

    hit: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("start", "work", "end"), 0))
    missed: int = 0
    half: int = 0
    differing: int = 0
    children: int = 0
    slowest_child: float = 0.0
    faults: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """Count those that hit."""
        return sum(self.hit.values())


class Killer:
    """Runs jobs in folders below one that it fills with text, a corpus and a run.

    Args:
        folder: An empty one.
        seed: Of the instants.
    """

    def __init__(self, folder: Path, *, seed: int) -> None:
        self.folder = folder
        self._random = random.Random(seed)
        self._made = 0
        write_task(folder, sizes=SIZES)
        write_fake_spacy(folder / "packages")
        self._must(["preprocess", "recipe.toml", "-o", "corpus"], folder)

    def kill(self, name: str, count: int) -> Tally:
        """Kill a job of `JOBS` so many times, at instants uniform over the time that it takes undisturbed."""
        job, tally = JOBS[name], Tally()
        if "../run" in job.args and not (self.folder / "run").exists():
            self._must(["train", "recipe.toml", "--corpus", "corpus", "-o", "run"], self.folder)
        whole = self._fresh(job)
        start = time.monotonic()
        self._must(job.args, whole, job)
        seconds = time.monotonic() - start
        while tally.kills < count:
            trial, killed = self._fresh(job), False
            for attempt in range(min(job.kills_in_a_row, count - tally.kills)):
                args = self._args_again(job, trial, whole) if attempt else job.args
                killed = self._kill_once(job, args, trial, whole, self._random.uniform(0, seconds), tally)
                if not killed:
                    break
            if not killed:
                assert tally.missed < MISSES + count, f"{name}: the instants come too late"
            self._finish(job, trial, whole, tally, killed=killed)
            shutil.rmtree(trial)
        return tally

    def _kill_once(
        self, job: Job, args: tuple[str, ...], trial: Path, whole: Path, seconds: float, tally: Tally
    ) -> bool:
        """Run and kill after so many seconds; False if it had ended by then."""
        before = _listing(trial)
        with self._started(args, trial, job) as process:
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
        if status != -signal.SIGKILL:
            tally.missed += 1
            if status:
                tally.differing += 1
                tally.faults.append(f"ended with status {status} before its kill: {self._said(trial)}")
            return False
        at = f"killed after {seconds:.2f} s"
        took = _seconds_until_gone(process.pid)
        tally.slowest_child = max(tally.slowest_child, took)
        if took > CHILD_SECONDS:
            tally.children += 1
            tally.faults.append(f"{at}: a worker lives on after {took:.0f} s")
        half = half_files(job, trial, whole)
        tally.half += len(half)
        tally.faults += [f"{at}: {fault}" for fault in half]
        finished = not differences(job, trial, whole)
        tally.hit["end" if finished else "start" if _listing(trial) == before else "work"] += 1
        return True

    def _finish(self, job: Job, trial: Path, whole: Path, tally: Tally, *, killed: bool) -> None:
        """Run it to its end if it was killed, and compare."""
        status = 0
        if killed:
            with self._started(self._args_again(job, trial, whole), trial, job) as process:
                status = process.wait()
        wrong = [f"ended with status {status}: {self._said(trial)}"] if status else differences(job, trial, whole)
        wrong += [f"a rest is left: {name}" for name in sorted(_hidden(trial) - _hidden(whole))]
        tally.differing += bool(wrong)
        tally.faults += wrong

    def _args_again(self, job: Job, trial: Path, whole: Path) -> tuple[str, ...]:
        stands = _contents(trial / job.output).keys() - _contents(self.folder / job.needs if job.needs else None).keys()
        return (*job.args, *job.again) if stands or not job.only_if_finished else job.args

    def _fresh(self, job: Job) -> Path:
        """Return a new folder for a job to run in."""
        self._made += 1
        trial = self.folder / f"trial-{self._made}"
        trial.mkdir()
        if job.needs:
            shutil.copytree(self.folder / job.needs, trial / job.needs)
        return trial

    def _started(self, args: tuple[str, ...], trial: Path, job: Job) -> "subprocess.Popen[bytes]":
        """Start a command in a process group of its own; what it says goes to a file beside the others."""
        one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        path = {"PYTHONPATH": str(self.folder / job.path)} if job.path else {}
        with open(self._said_file(trial), "wb") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "indigo_cli", *args],
                cwd=trial,
                env={**os.environ, **one_thread, **path},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def _must(self, args: tuple[str, ...] | list[str], folder: Path, job: Job | None = None) -> None:
        with self._started(tuple(args), folder, job or JOBS["preprocess"]) as process:
            status = process.wait()
        assert status == 0, f"{args} ended with status {status}: {self._said(folder)}"

    def _said_file(self, trial: Path) -> Path:
        return self.folder / f"{trial.name}.said"

    def _said(self, trial: Path) -> str:
        return " | ".join(self._said_file(trial).read_text("utf-8", "replace").splitlines()[-3:])


def _seconds_until_gone(group: int) -> float:
    """Wait until no process of a group is left, little longer than `CHILD_SECONDS`; then end what is."""
    start = time.monotonic()
    while (took := time.monotonic() - start) <= CHILD_SECONDS:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return took
        time.sleep(0.02)
    os.killpg(group, signal.SIGKILL)
    return took


def _listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Return everything in a folder, hidden or not, by size and time of change."""
    found = ((path, path.lstat()) for path in folder.rglob("*"))
    return {str(path): (status.st_size, status.st_mtime_ns) for path, status in found}


def _hidden(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob(".*")}


def _visible(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def _contents(folder: Path | None) -> Mapping[str, bytes]:
    """Return every file under a final name but what has clocks in it, is checked by itself, or is a finished block."""
    if folder is None or not folder.exists():
        return {}
    files = {str(path.relative_to(folder)): path for path in _visible(folder) if path.is_file()}
    return {
        name: path.read_bytes()
        for name, path in files.items()
        if name != LOG_FILE and not name.startswith("checkpoints/") and not Path(name).parent.name.endswith(PARTS)
    }


def half_files(job: Job, trial: Path, whole: Path) -> list[str]:
    """Return what stands under a final name and is not whole."""
    found, wanted = _contents(trial / job.output), _contents(whole / job.output)
    wrong = [f"{name} is half or differs" for name, content in found.items() if wanted.get(name) != content]
    if job.at_once and found and found.keys() != wanted.keys():
        wrong.append(f"{', '.join(sorted(wanted.keys() - found.keys()))} of a folder that stands is missing")
    for part in sorted((trial / job.output).glob(f"*{PARTS}/[!.]*")):
        if not part.read_bytes().endswith(b"}\n"):
            wrong.append(f"{part.name} is half")
    for folder in sorted((trial / job.output).glob("checkpoints/[!.]*")):
        try:
            checkpoint = read_checkpoint(folder)
            checkpoint.weights()
            checkpoint.training()
        except CheckpointError as error:
            wrong.append(f"checkpoint {folder.name}: {error.what}")
    if (trial / job.output / LOG_FILE).exists():
        wrong += _wrong_rows(trial / job.output, whole / job.output)
    return wrong


def _wrong_rows(run: Path, whole: Path) -> list[str]:
    """Compare the rows of a log, but for a last one that is half written, with the first ones of the whole log."""
    rows = [without_clocks(row) for _, row in read_log(run / LOG_FILE)]
    return [] if rows == log_of(whole)[: len(rows)] else [f"{LOG_FILE} has other rows"]


def differences(job: Job, trial: Path, whole: Path) -> list[str]:
    """Return in what a finished job differs from one that was left in peace: bytes, weights, moments, rows."""
    mine, its = trial / job.output, whole / job.output
    found, wanted = _contents(mine), _contents(its)
    wrong = [f"{name} differs" for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]
    if wrong or not (its / FACTS_FILE).exists():
        return wrong
    if not (mine / "checkpoints" / "last").exists() or names_in(mine) != names_in(its):
        return ["other checkpoints"]
    wrong = [
        f"checkpoint {name} differs" for name in names_in(its) if not same(state_of(mine, name), state_of(its, name))
    ]
    return wrong if log_of(mine) == log_of(its) else [*wrong, f"{LOG_FILE} differs"]
