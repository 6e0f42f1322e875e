"""Ours and its peers in one run: python compare.py PYTHON_OF_THE_PEERS [ROUNDS]

Every system lives in a process of its own with one thread; the processes take turns, so that whatever else the machine
does hits all of them alike. Figures are ratios of CPU times within a round: median, lowest, highest.
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path

import workload

HERE = Path(__file__).resolve().parent
PEERS = {"marian": "HF Marian", "joey": "JoeyNMT", "ctranslate": "CTranslate2 float32"}
BARS = {
    ("train", "marian"): 1.0,
    ("train", "joey"): 2.0,
    ("greedy", "marian"): 1.0,
    ("beam", "marian"): 1.15,
}
"""How much faster than a peer ours has to be."""
TITLES = {
    "train": "training, target tokens per CPU second",
    "greedy": "greedy, sentences per CPU second",
    "beam": f"beam {workload.BEAM_SIZE}, sentences per CPU second",
}
ROUNDS, WARM_UP = 7, 1


class Worker:
    """A system that waits in its own process."""

    def __init__(self, python: str, module: str) -> None:
        one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment = {**os.environ, **one, "PYTHONPATH": str(HERE.parent.parent)}
        self.process = subprocess.Popen(
            [python, str(HERE / "worker.py"), module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.tasks = self._answer().split()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            command = " ".join(map(str, self.process.args))
            raise SystemExit(f"ended with status {self.process.wait()}, run it by hand to see why: {command}")
        return line

    def seconds(self, task: str) -> float:
        """Run a task and return the CPU seconds it took."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{task}\n")
        self.process.stdin.flush()
        return float(self._answer())


def main() -> None:
    """Measure all that the systems can do and print a table."""
    python_of_peers = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    workers = {"ours": Worker(sys.executable, "ours"), **{name: Worker(python_of_peers, name) for name in PEERS}}
    for task, title in TITLES.items():
        able = [name for name, worker in workers.items() if task in worker.tasks]
        seconds: dict[str, list[float]] = {name: [] for name in able}
        for turn in range(WARM_UP + rounds):
            for name in able:
                taken = workers[name].seconds(task)
                if turn >= WARM_UP:
                    seconds[name].append(taken)
        print(f"{title}: ours {workload.units(task) / statistics.median(seconds['ours']):,.0f}", flush=True)
        for name in able[1:]:
            ratios = [peer / ours for peer, ours in zip(seconds[name], seconds["ours"], strict=True)]
            median, bar = statistics.median(ratios), BARS.get((task, name))
            verdict = "" if bar is None else f"  bar {bar:.2f}  {'ok' if median >= bar else 'MISSED'}"
            rate = workload.units(task) / statistics.median(seconds[name])
            spread = f"({min(ratios):.3f}-{max(ratios):.3f})"
            print(f"  {PEERS[name]:20} {rate:9,.0f}   ours / it {median:6.3f} {spread}{verdict}", flush=True)


if __name__ == "__main__":
    main()
