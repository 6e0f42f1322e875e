"""`indigo decode` as a user meets it; what it finds is tested in `tests/engine/test_generate.py`."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.data.traces_file import read_traces
from tests.tiny import WORDS, Tiny

Run = Callable[..., Any]
TEXT = "bee\n\nant cat dog\nlærk jay koi\n"
SECONDS = 300.0
"""Longer than a subprocess needs on a busy machine."""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Four lines, the second one blank."""
    path = tmp_path / "in.txt"
    path.write_text(TEXT, "utf-8")
    return path


def test_file_and_standard_streams_are_the_same(indigo: Run, tiny: Tiny, text: Path, tmp_path: Path) -> None:
    piped = indigo("decode", tiny.run, stdin=TEXT.encode("utf-8"))
    assert piped.status == 0, piped.err
    assert "decoded 4 lines" in piped.err
    assert len(piped.out.splitlines()) == 4 and piped.out.splitlines()[1] == ""
    assert set(piped.out.split()) <= set(WORDS)
    assert indigo("decode", tiny.run, "--input", text).out == piped.out
    done = indigo("decode", tiny.run, "--input", text, "-o", tmp_path / "out.txt.gz", "--quiet")
    assert (done.status, done.out, done.err) == (0, "", "")
    import gzip

    assert gzip.decompress((tmp_path / "out.txt.gz").read_bytes()).decode("utf-8") == piped.out


def test_formats_beam_and_n_best(indigo: Run, tiny: Tiny, text: Path, tmp_path: Path) -> None:
    line = ["decode", tiny.run, "--input", text, "--beam", "3", "--n-best", "3", "--seed", "1"]
    tsv = [row.split("\t") for row in indigo(*line, "--format", "tsv").out.splitlines()]
    assert all(len(row) == 4 for row in tsv)
    assert {row[0] for row in tsv} == {"0", "1", "2", "3"}
    assert indigo(*line, "--format", "jsonl", "-o", tmp_path / "t.jsonl").status == 0
    header, records = read_traces(tmp_path / "t.jsonl")
    assert (header["run"], header["system"], header["target_lang"]) == ("run", "indigo", "en")
    assert [[str(r.id), str(r.rank), r.text] for r in records] == [[row[0], row[1], row[3]] for row in tsv]
    greedy = indigo("decode", tiny.run, "--input", text, "--beam", "1")
    assert greedy.out == indigo("decode", tiny.run, "--input", text, "--set", "decode.beam_size=1").out


@pytest.mark.slow
def test_samples_are_keyed_by_the_seed(indigo: Run, tiny: Tiny, text: Path) -> None:
    line = ["decode", tiny.run, "--input", text, "--sample", "--n-best", "3", "--format", "tsv"]
    first = indigo(*line)
    assert first.status == 0
    rows = [row.split("\t")[:2] for row in first.out.splitlines()]
    assert rows == [["0", "1"], ["0", "2"], ["0", "3"], ["1", "1"], *([i, r] for i in "23" for r in "123")]
    assert indigo(*line, "--seed", str(tiny.recipe().seed)).out == first.out
    assert indigo(*line, "--seed", "77").out != first.out
    greedy = [row.split("\t")[3] for row in indigo(*line, "--set", "decode.top_k=1").out.splitlines()]
    best = indigo("decode", tiny.run, "--input", text, "--beam", "1").out.splitlines()
    assert greedy == [best[int(row[0])] for row in rows]


def test_an_ensemble_of_one_run(indigo: Run, tiny: Tiny, text: Path) -> None:
    alone = indigo("decode", tiny.run, "--input", text)
    assert indigo("decode", tiny.run, "--ensemble", tiny.run, "--input", text).out == alone.out
    other = indigo("decode", tiny.run, "--ensemble", tiny.run, "--format", "jsonl", "--input", text).out
    assert '"ensemble": [{"run": "run", ' in other.splitlines()[0]


def test_a_sweep_prints_a_table(indigo: Run, tiny: Tiny) -> None:
    done = indigo("decode", tiny.run, "--sweep", "decode.beam_size=1,3", "--quiet")
    assert done.status == 0, done.err
    assert "beam_size" in done.out and "BLEU" in done.out.upper()


def test_a_split_and_a_checkpoint(indigo: Run, tiny: Tiny) -> None:
    lines = tiny.recipe_path.parent / "test.src"
    assert indigo("decode", tiny.run, "--split", "test").out == indigo("decode", tiny.run, "--input", lines).out
    named = indigo("decode", tiny.run, "--split", "test", "--checkpoint", "last", "--corpus", tiny.corpus)
    assert named.status == 0 and len(named.out.splitlines()) == len(lines.read_text("utf-8").splitlines())


def test_case_47_the_cut_line_is_named(indigo: Run, tiny: Tiny) -> None:
    done = indigo("decode", tiny.run, "--quiet", stdin=b"bee\n" + b"ant " * 10_000 + b"\ncat\n")
    assert done.status == 0
    assert len(done.out.splitlines()) == 3
    (warning,) = done.err.splitlines()
    assert warning.startswith("warning: 1 line was") and warning.endswith("cut: line 2")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--split", "test", "--input", "x"], "--split and --input both name what to decode"),
        (["--split", "nope"], "there is no split 'nope'"),
        (["--split", "test", "--corpus", "nowhere"], "nowhere"),
        (["--input", "nowhere.txt"], "no such file"),
        (["--checkpoint", "bset"], "there is no checkpoint 'bset'"),
        (["--n-best", "2"], "text has room for one hypothesis"),
        (["--n-best", "1001", "--format", "tsv"], "1001 best cannot be given"),
        (["--n-best", "0", "--format", "tsv"], "--n-best"),
        (["--beam", "0"], "decode.beam_size"),
        (["--format", "json"], "jsonl"),
        (["--set", "decode.beam_sise=2"], "did you mean `beam_size`"),
        (["--set", "model.ff_dim=64"], "do not fit"),
        (["--device", "tpu"], "--device"),
        (["--chekpoint", "best"], "--checkpoint"),
        (["--ensemble", "nowhere"], "not a run folder"),
        (["--sample", "--beam", "3"], "samples have no beam"),
        (["--set", "decode.eod_penalty=-1e39"], "decode.eod_penalty must be greater than or equal to -1000"),
        (["--set", "decode.length_penalty=1e5"], "decode.length_penalty must be less than or equal to 10"),
        (["--png", "x.png"], "--png draws the scores of a sweep"),
        (["--sweep", "decode.beam_size=1,2", "--input", "x"], "--sweep scores the best hypotheses of a split"),
        (["--sweep", "decode.beam_size=1,2", "--n-best", "2"], "--sweep scores the best hypotheses of a split"),
        (["--sweep", "decode.beam_size=1,2", "--format", "tsv"], "--sweep scores the best hypotheses of a split"),
    ],
)
def test_faults_have_three_lines(indigo: Run, tiny: Tiny, arguments: list[str], message: str) -> None:
    done = indigo("decode", tiny.run, *arguments, stdin=b"bee\n")
    assert done.status == 2, done.err
    assert message in done.err
    assert done.err.startswith("error: ") and "Traceback" not in done.err
    assert done.out == ""


def test_bad_bytes_name_the_line(indigo: Run, tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"bee\nant \xff\n")
    done = indigo("decode", tiny.run, "--input", tmp_path / "bad.txt", "-o", tmp_path / "out.txt")
    assert done.status == 2
    assert f"at: {tmp_path / 'bad.txt'}:2" in done.err
    assert not list(tmp_path.glob("*out.txt*"))


def test_an_output_that_stands(indigo: Run, tiny: Tiny, text: Path, tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("mine\n", "utf-8")
    line = ["decode", tiny.run, "--input", text, "-o", tmp_path / "out.txt"]
    refused = indigo(*line)
    assert refused.status == 2 and "--overwrite" in refused.err
    assert (tmp_path / "out.txt").read_text("utf-8") == "mine\n"
    assert indigo(*line, "--overwrite").status == 0
    assert len((tmp_path / "out.txt").read_text("utf-8").splitlines()) == 4


def test_not_a_run(indigo: Run, tmp_path: Path) -> None:
    done = indigo("decode", tmp_path, stdin=b"bee\n")
    assert done.status == 2
    assert "not a run folder" in done.err and "indigo train" in done.err


ASCII_ONLY = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tiny: Tiny) -> Iterator[Start]:
    """Starts `indigo decode` on a pipe, under a locale that knows ASCII only; what a test leaves running is ended."""
    started: list[tuple[subprocess.Popen[bytes], threading.Timer]] = []

    def begin(*options: str | Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "indigo_cli", "decode", str(tiny.run), "--beam", "1", "--threads", "1"]
        command += ["--quiet", *map(str, options)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **ASCII_ONLY})
        started.append((process, threading.Timer(SECONDS, process.kill)))
        started[-1][1].start()
        return process

    yield begin
    for process, timer in started:
        timer.cancel()
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            with suppress(BrokenPipeError):
                if stream:
                    stream.close()


@pytest.mark.slow
def test_case_115_and_9_a_pipe_is_answered_line_by_line(start: Start, indigo: Run, tiny: Tiny) -> None:
    lines = ["bee", "", "lærk jay koi", "ant cat dog"]
    expected = [indigo("decode", tiny.run, "--beam", "1", stdin=f"{line}\n".encode()).out for line in lines]
    process = start()
    assert process.stdin and process.stdout and process.stderr
    for line, answer in zip(lines[:3], expected, strict=False):
        process.stdin.write(f"{line}\n".encode())
        process.stdin.flush()
        assert process.stdout.readline().decode("utf-8") == answer
    process.stdin.write(lines[3].encode())  # no newline
    process.stdin.close()
    assert process.stdout.read().decode("utf-8") == expected[3]
    assert process.wait(SECONDS) == 0
    assert all(line.startswith(b"warning: ") for line in process.stderr.read().splitlines())


@pytest.mark.slow
def test_bad_bytes_in_a_pipe_end_it_after_the_lines_before(start: Start) -> None:
    process = start()
    out, err = process.communicate(b"bee\nant\nkoi \xff\nhen\n", SECONDS)
    assert process.returncode == 2
    assert len(out.splitlines()) == 2
    assert b"error: byte 0xFF is not valid UTF-8\nat: -:3\nhint: " in err


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_wait_for_a_line(start: Start, number: signal.Signals, status: int) -> None:
    process = start()
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(b"bee\n")
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(number)
    assert process.wait(SECONDS) == status
    assert process.stderr.read().strip() in (b"", b"interrupted")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_leaves_no_file(start: Start, tmp_path: Path, number: signal.Signals, status: int) -> None:
    """In the midst of the work, with blocks written: the file was not complete, so it is not there."""
    output = tmp_path / "out.txt"
    process = start("-o", output)
    assert process.stdin
    with suppress(BrokenPipeError):  # far more than can be answered before the signal
        process.stdin.write(b"bee\n" * 10)
        process.stdin.flush()
        while not list(tmp_path.glob(".out.txt.*")):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
    assert process.wait(SECONDS) == status
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_reader_that_leaves_a_pipe_ends_it_quietly(start: Start) -> None:
    process = start()
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(b"bee\n")
    process.stdin.flush()
    assert process.stdout.readline()
    process.stdout.close()
    with suppress(BrokenPipeError):
        process.stdin.write(b"bee\n")
        process.stdin.flush()
    assert process.wait(SECONDS) in (0, 141)
    assert process.stderr.read() == b""


@pytest.mark.slow
def test_case_21_a_reader_that_leaves_early_ends_it_quietly(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "many.txt").write_text("bee\n" * 6000, "utf-8")
    command = f'"{sys.executable}" -m indigo_cli decode "{tiny.run}" --input "{tmp_path / "many.txt"}" --beam 1 --quiet'
    command += " --set decode.max_length=1 --threads 1 | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode in (0, 141)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


def test_what_cannot_be_used_is_refused_before_a_model_is_loaded(indigo: Run, tmp_path: Path) -> None:
    taken = tmp_path / "out"
    taken.write_text("mine", encoding="utf-8")
    done = indigo("decode", tmp_path / "no-run", "-o", taken, stdin=b"")
    assert done.status == 2 and f"the output {taken} exists already" in done.err
    done = indigo("decode", tmp_path / "no-run", "--corpus", tmp_path, stdin=b"")
    assert done.status == 2 and "at: --corpus" in done.err
