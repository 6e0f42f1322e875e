"""One system in a process of its own: python worker.py MODULE

Reads names of tasks from standard input and answers each by the CPU seconds that the task took here. The module
(`ours`, `marian`, `ctranslate`, `joey`) offers `tasks() -> dict[str, Callable[[], None]]`; setting up is not timed.
"""

import importlib
import sys
import time

import torch


def main() -> None:
    """Set up, name the tasks, then do as asked until the input ends."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries that print must not be taken for us
    tasks = importlib.import_module(sys.argv[1]).tasks()
    print(" ".join(tasks), file=answers, flush=True)
    for line in sys.stdin:
        start = time.process_time()
        tasks[line.strip()]()
        print(time.process_time() - start, file=answers, flush=True)


if __name__ == "__main__":
    main()
