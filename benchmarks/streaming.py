"""How soon `indigo decode` answers the first line of a pipe, and whether its memory grows with the number of lines.

python benchmarks/streaming.py RUN [LINES]

RUN is any run folder, LINES (default 100000) how many lines of random words go through the pipe, greedily, in one
thread; every third word is new, so that a memory of words would fill. The bars: a first answer within 5 s after the
start (wall clock of an idle machine; on a busy one look at the CPU seconds, of which `import torch` alone takes most),
and resident memory that stays where it was after the first tenth.
"""

import os
import random
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

from indigo_cli.core.text import Codecs
from indigo_cli.engine.run_folder import ASSETS

STARTS = 3
SAMPLES = 20
MEGABYTE = 1 << 20


def main() -> None:
    """Print both figures."""
    run = Path(sys.argv[1])
    num_lines = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    for _ in range(STARTS):  # the first one may still write bytecode
        wall, seconds = first_answer(run)
        print(
            f"first line answered after {wall:.2f} s ({seconds:.2f} s of CPU; import torch alone {torch_alone():.2f} s)"
        )
    memory(run, num_lines)


def decoder(run: Path) -> subprocess.Popen[bytes]:
    """Start `indigo decode` on a pipe; bytecode may be kept, whatever this shell says."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "indigo_cli", "decode", str(run), "--beam", "1", "--threads", "1", "--quiet"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment)


def pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    """Return what to write to and what to read from."""
    assert process.stdin and process.stdout
    return process.stdin, process.stdout


def first_answer(run: Path) -> tuple[float, float]:
    """Return wall and CPU seconds from the start of the process to its first line."""
    start, before = time.perf_counter(), children_seconds()
    process = decoder(run)
    source, answers = pipes(process)
    source.write(b"a line\n")
    source.flush()
    answer = answers.readline()
    wall = time.perf_counter() - start
    if not answer:
        raise SystemExit(f"no answer, status {process.wait()}: does `indigo decode {run}` work by hand?")
    source.close()
    answers.close()
    process.wait()
    return wall, children_seconds() - before


def torch_alone() -> float:
    """Return the CPU seconds of a process that only imports torch."""
    before = children_seconds()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return children_seconds() - before


def children_seconds() -> float:
    """Return the CPU seconds of all processes that were started here and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def memory(run: Path, num_lines: int) -> None:
    """Print the resident memory of a decoder while lines go through it."""
    process = decoder(run)
    source, answers = pipes(process)
    writer = threading.Thread(target=write_lines, args=(source, run, num_lines))
    writer.start()
    start = time.perf_counter()
    sizes = []
    for number, _ in enumerate(answers, start=1):
        if number % max(1, num_lines // SAMPLES) == 0 and process.poll() is None:
            sizes.append(resident_bytes(process.pid) / MEGABYTE)
            print(f"{number:>9,} lines  {sizes[-1]:7.1f} MB  {time.perf_counter() - start:7.1f} s", flush=True)
    writer.join()
    process.wait()
    settled = sizes[SAMPLES // 10 :]
    print(f"after the first tenth: {min(settled):.1f}-{max(settled):.1f} MB, at the end {settled[-1]:.1f} MB")


def write_lines(stream: IO[bytes], run: Path, num_lines: int) -> None:
    """Write lines of 2 to 12 words: two known ones, then one that never came before."""
    known = Codecs.load(run / ASSETS).source.vocabulary.tokens
    generator = random.Random(1)
    new = 0
    for _ in range(num_lines):
        words = []
        for place in range(generator.randint(2, 12)):
            new += place % 3 == 2
            words.append(f"w{new}x" if place % 3 == 2 else generator.choice(known))
        stream.write((" ".join(words) + "\n").encode("utf-8"))
    stream.close()


def resident_bytes(process_id: int) -> int:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
