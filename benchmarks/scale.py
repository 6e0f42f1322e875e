"""`indigo preprocess` on millions of generated pairs: pairs a CPU second and resident memory as the corpus grows.

python benchmarks/scale.py FOLDER [PAIRS ...]

Makes corpora of so many pairs (default 500000 1000000 5000000) under FOLDER and preprocesses each as a user would:
Moses, 32,000 joint merges, all workers. Words follow Zipf's law over 3 million types, so that the table of word types
keeps growing. Memory is that of the whole process tree (PSS, so shared pages count once), sampled; the peak is given
for each stage that `indigo` reports, since only learning the vocabulary may hold the table of types. Files are deleted
afterwards; 5 million pairs take 2 GB meanwhile.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

TYPES, EXPONENT, WORDS = 3_000_000, 1.05, 14
SYLLABLES = "ka to mi re lo shu ber an dig ost wi ne pra tu x gel".split()
BLOCK = 10_000
SAMPLE_SECONDS = 0.25
MEBIBYTE = 1 << 20
RECIPE = """
name = "scale"
[data]
source_lang = "en"
target_lang = "en"
[data.splits]
train = { source = ["train.src"], target = ["train.tgt"] }
valid = { source = ["valid.src"], target = ["valid.tgt"] }
[preprocess]
merges = 32000
"""


def main() -> None:
    """Print a row for each size."""
    folder = Path(sys.argv[1])
    sizes = [int(size) for size in sys.argv[2:]] or [500_000, 1_000_000, 5_000_000]
    words = [spell(number) for number in range(TYPES)]
    print(
        "pairs      types      CPU s   pairs/CPU s  wall s  peak MiB while tokenising / learning / encoding", flush=True
    )
    for pairs in sizes:
        place = folder / f"scale-{pairs}"
        place.mkdir(parents=True)
        try:
            types = write_corpus(place, pairs, words)
            print(measure(place, pairs, types), flush=True)
        finally:
            shutil.rmtree(place)


def spell(number: int) -> str:
    """Return a word of its own for each number; frequent ones are short."""
    syllables = []
    number += 1
    while number:
        syllables.append(SYLLABLES[number % len(SYLLABLES)])
        number //= len(SYLLABLES)
    return "".join(syllables)


def write_corpus(place: Path, pairs: int, words: list[str]) -> int:
    """Write both splits and the recipe; return how many word types were drawn."""
    (place / "recipe.toml").write_text(RECIPE, "utf-8")
    cumulative = np.cumsum(np.arange(1, TYPES + 1, dtype=np.float64) ** -EXPONENT)
    seen = np.zeros(TYPES, dtype=bool)
    for seed, (split, count) in enumerate((("train", pairs), ("valid", 1000))):
        for side in ("src", "tgt"):
            draw = np.random.default_rng([seed, ord(side[0])])
            with open(place / f"{split}.{side}", "w", encoding="utf-8") as stream:
                for start in range(0, count, BLOCK):
                    rows = min(BLOCK, count - start)
                    ids = np.searchsorted(cumulative, draw.random((rows, WORDS)) * cumulative[-1])
                    seen[ids] = True
                    for row in ids.tolist():
                        drawn = [words[number] for number in row]
                        half = WORDS // 2
                        stream.write(f"{' '.join(drawn[:half]).capitalize()}, {' '.join(drawn[half:])}.\n")
    return int(seen.sum())


def measure(place: Path, pairs: int, types: int) -> str:
    """Preprocess one corpus and return its row."""
    before, start = children_seconds(), time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "indigo_cli",
        "preprocess",
        str(place / "recipe.toml"),
        "-o",
        str(place / "corpus"),
        "--verbose",  # names each stage as it begins
    ]
    peaks = dict.fromkeys(("tokenise", "learn", "encode"), 0)
    stage = "tokenise"
    log = place / "stderr"
    with open(log, "wb") as errors:
        process = subprocess.Popen(command, stderr=errors)
        while process.poll() is None:
            for found in re.findall(r"(tokenise|learn|encode) \w+", log.read_text("utf-8")[-2000:])[-1:]:
                stage = found
            peaks[stage] = max(peaks[stage], sum(pss(pid) for pid in tree(process.pid)))
            time.sleep(SAMPLE_SECONDS)
    if process.returncode:
        raise SystemExit(log.read_text("utf-8"))
    wall, seconds = time.perf_counter() - start, children_seconds() - before
    peak = " / ".join(f"{peaks[name] / MEBIBYTE:.0f}" for name in peaks)
    return f"{pairs:<10,} {types:<10,} {seconds:<7.0f} {pairs / seconds:<12,.0f} {wall:<7.0f} {peak}"


def tree(root: int) -> Iterator[int]:
    """Yield a process and all that descend from it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    for pid in parents:
        above = pid
        while above and above != root:
            above = parents.get(above, 0)
        if above == root:
            yield pid


def pss(pid: int) -> int:
    """Return the proportional resident memory of a process in bytes; 0 if it is gone."""
    try:
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return 1024 * int(found[1]) if found else 0


def children_seconds() -> float:
    """Return the CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main()
