"""Whether our BPE learner finds exactly subword-nmt's merges, corpus by corpus, and what both cost.

python benchmarks/bpe_exact.py DATA_FOLDER [MERGES] [LINES]

Learns MERGES (default 1000) from the first LINES (default 10000) of every text file under DATA_FOLDER with both (`.gz`
or not, any format: a line is cut at white space, so markup is text, too), and prints a row a file: tokens, word types,
merges, whether the codes are the same bytes, and CPU seconds of both (one thread; subword-nmt with its
dictionary input, so that reading counts for neither). Exits with 1 if any differ.
"""

import gzip
import io
import sys
import time
from collections import Counter
from contextlib import redirect_stderr
from pathlib import Path

from subword_nmt.learn_bpe import learn_bpe

from indigo_cli.core.bpe import learn, num_merges

SUFFIXES = {".txt", ".tsv", ".jsonl", ".conllu"}
SIDES = set(".en .de .fr .cs .ja .tr .vi .ro .hsb .src .tgt .anno .code".split())


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1])
    merges = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    limit = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
    differing = files = 0
    print(
        f"{'file':60} {'lines':>7} {'tokens':>9} {'types':>7} {'merges':>7} same {'ours s':>7} {'theirs s':>8}",
        flush=True,
    )
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or Path(path.name.removesuffix(".gz")).suffix not in SUFFIXES | SIDES:
            continue
        num_lines, counts = count_words(path, limit)
        if not any(len(word) > 1 for word in counts):
            continue
        files += 1
        start = time.process_time()
        ours = learn(counts, merges)
        middle = time.process_time()
        same = ours == reference(counts, merges)
        seconds = middle - start, time.process_time() - middle
        differing += not same
        print(
            f"{path.relative_to(folder).as_posix():60} {num_lines:7} {sum(counts.values()):9} {len(counts):7} "
            f"{num_merges(ours):7} {'yes' if same else 'NO':4} {seconds[0]:7.2f} {seconds[1]:8.2f}",
            flush=True,
        )
    print(f"{files} files, {differing} differ")
    sys.exit(1 if differing else 0)


def count_words(path: Path, limit: int) -> tuple[int, Counter[str]]:
    """Return the lines read and the words of the first lines of a file."""
    counts: Counter[str] = Counter()
    number = 0
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="surrogateescape", newline="\n") as stream:
        for number, line in enumerate(stream, start=1):
            counts.update(line.split())
            if number == limit:
                break
    return number, counts


def reference(counts: Counter[str], merges: int) -> str:
    """Return the codes of subword-nmt."""
    codes = io.StringIO()
    rows = [f"{word} {count}" for word, count in counts.items()]
    with redirect_stderr(io.StringIO()):
        learn_bpe(rows, codes, merges, is_dict=True)
    return codes.getvalue()


if __name__ == "__main__":
    main()
