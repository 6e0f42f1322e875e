"""Damages valid files in many ways and reads them: 0 tracebacks, 0 hangs, in how many milliseconds at most?

    python benchmarks/fuzz.py [INPUTS] [READER...]

Prints a line for each reader of `tests/fuzz/readers.py`, then every fault with the files that showed it, kept in
`runs/fuzz`. INPUTS is 1,000 by default; the suite takes 100 of the same.
"""

import os
import resource
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.fuzz.readers import MAKERS
from tests.fuzz.subject import Subject, judge

KEPT = Path("runs/fuzz").resolve()


def fuzz(subject: Subject, inputs: int) -> tuple[dict[str, int], dict[str, dict[str, bytes]], float]:
    """Read so many damaged inputs.

    Returns: how many were refused, loaded and at fault; the files of each kind of fault; the slowest in milliseconds.
    """
    counts = {"refused": 0, "loaded": 0, "faults": 0}
    faults: dict[str, dict[str, bytes]] = {}
    slowest = 0.0

    @settings(
        max_examples=inputs,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def run(data: st.DataObject) -> None:
        nonlocal slowest
        files = data.draw(subject.damaged)
        outcome = judge(subject, files)
        counts["faults" if outcome.fault else "loaded" if outcome.error is None else "refused"] += 1
        slowest = max(slowest, outcome.milliseconds)
        if outcome.fault:
            faults.setdefault(outcome.fault[:90], dict(files))

    run()
    return counts, faults, slowest


def keep(reader: str, number: int, files: Mapping[str, bytes]) -> Path:
    """Write the files of a fault where they can be looked at, and return the folder."""
    folder = KEPT / f"{reader}-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / Path(name).name).write_bytes(content)
    return folder


def main(inputs: int, readers: list[str]) -> int:
    """Print the table and the faults; return how many faults there were."""
    print(f"{'reader':<12}{'inputs':>8}{'refused':>9}{'loaded':>8}{'faults':>8}{'slowest ms':>12}{'MiB more':>10}")
    found: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        for name in readers or list(MAKERS):
            subject = MAKERS[name](Path(scratch) / name)
            subject.read(subject.folder)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            counts, faults, slowest = fuzz(subject, inputs)
            more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            row = f"{counts['refused']:>9}{counts['loaded']:>8}{counts['faults']:>8}{slowest:>12.0f}{more:>10.0f}"
            print(f"{name:<12}{sum(counts.values()):>8}{row}", flush=True)
            found += [f"{keep(name, i, files)}: {fault}" for i, (fault, files) in enumerate(faults.items())]
    print("\n".join(found))
    return len(found)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, sys.argv[2:]) > 0)
