"""Kills preprocess, reorder, train, decode, search-orders (`kill -9`) at random: 0 half files, 0 differing results?

    python benchmarks/kill.py [KILLS] [SEED] [COMMAND...]

KILLS of each command of `tests/kill_commands.py` (10 by default: 80 in all). After each, what stands under a final name
must be whole and no worker may live on; run again, the command must end with what an undisturbed run ends with, bit for
bit. Prints a line for each command, then every fault.
"""

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.kill_commands import JOBS, Killer

TITLES = ("kills", "start", "work", "end", "half files", "differing", "children", "slowest child s", "wall s")


def main(kills: int, seed: int, names: list[str]) -> int:
    """Print the table and the faults; return how many faults there were."""
    print(f"{'command':<24}" + "".join(f"{title:>{len(title) + 2}}" for title in TITLES), flush=True)
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        killer = Killer(Path(scratch), seed=seed)
        for name in names or list(JOBS):
            start = time.monotonic()
            found = killer.kill(name, kills)
            counts = (found.kills, *found.hit.values(), found.half, found.differing, found.children)
            cells = [*map(str, counts), f"{found.slowest_child:.2f}", f"{time.monotonic() - start:.0f}"]
            row = "".join(f"{cell:>{len(title) + 2}}" for cell, title in zip(cells, TITLES, strict=True))
            print(f"{name:<24}{row}", flush=True)
            faults += [f"{name}: {fault}" for fault in found.faults]
    print("\n".join(faults))
    return len(faults)


if __name__ == "__main__":
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    sys.exit(main(kills, seed, sys.argv[3:]) > 0)
