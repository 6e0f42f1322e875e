"""Several processes that tokenise blocks of lines, in order, and none of which is left behind.

Workers are fresh Python processes behind pipes: nothing is forked, so it does not matter what threads or locks this
process has, and a worker whose owner was killed finds its input closed and ends.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType

from indigo_cli.engine.token_blocks import BlockTokenizer, Reading, TokenBlock
from indigo_cli.engine.tokenise_worker import READ_AHEAD
from indigo_cli.errors import RunError

Block = Sequence[Sequence[str]]

MOST_WORKERS = 8
"""However many CPUs there are: reading and numbering in one process is the limit then."""
ALONE = 4
"""Blocks before workers that were not asked for are worth their start."""
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from indigo_cli.engine.tokenise_worker import main; main()"
)


def usual_workers() -> int:
    """Return how many processes fit the CPUs that this one may use."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cpus, MOST_WORKERS)


class TokenisePool:
    """Tokenises blocks, in this process or in workers; a context manager that ends its workers.

    Args:
        workers: Processes besides this one; 1 is this one alone, 0 `usual_workers`, and those only for long input.
    """

    def __init__(self, workers: int) -> None:
        self._wanted = workers or usual_workers()
        self._patience = 0 if workers else ALONE
        self._workers: list[_Worker] = []

    def __enter__(self) -> "TokenisePool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.wait()
        self._workers = []

    def tokenise(self, reading: Reading, blocks: Iterable[Block]) -> Iterator[TokenBlock]:
        """Yield what `BlockTokenizer` makes of each block, in order.

        Raises:
            RunError: a worker died.
            Exception: what went wrong with a block, as without workers.
        """
        alone = BlockTokenizer(reading)
        stream = iter(blocks)
        for block in stream:
            if self._wanted > 1 and self._patience <= 0:
                yield from self._spread(reading, block, stream)
                return
            self._patience -= 1
            yield alone(block)

    def _spread(self, reading: Reading, first: Block, others: Iterator[Block]) -> Iterator[TokenBlock]:
        """Deal blocks to the workers in turn; a block is dealt when the answer that makes room for it was taken."""
        self._start()
        waiting: deque[_Worker] = deque()
        room = READ_AHEAD * len(self._workers)
        number = 0
        block: Block | None = first
        while block is not None or waiting:
            if block is not None and len(waiting) < room:
                worker = self._workers[number % len(self._workers)]
                worker.send(reading, block)
                waiting.append(worker)
                number += 1
                block = next(others, None)
            else:
                yield waiting.popleft().receive()

    def _start(self) -> None:
        while len(self._workers) < self._wanted:
            self._workers.append(_Worker())


class _Worker:
    """One process and its pipes."""

    def __init__(self) -> None:
        # Born deaf to Ctrl-C: it would say something if it came before the worker can ignore it.
        signals = {signal.SIGINT, signal.SIGTERM}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(sys.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def send(self, reading: Reading, block: Block) -> None:
        """Give it a block to do."""
        try:
            pickle.dump((reading, block), self._requests, protocol=pickle.HIGHEST_PROTOCOL)
            self._requests.flush()
        except BrokenPipeError as error:
            raise self._death() from error

    def receive(self) -> TokenBlock:
        """Return what it made of the first block that it still owes; raise what went wrong there."""
        try:
            answer = pickle.load(self._answers)
        except (EOFError, pickle.UnpicklingError) as error:
            raise self._death() from error
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, TokenBlock)
        return answer

    def _death(self) -> RunError:
        status = self._process.wait()
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        fix = "if memory ran out, use fewer processes: --workers 1"
        return RunError(f"a worker process of preprocess {how}", fix=fix)

    def kill(self) -> None:
        """End it at once: it holds nothing that is worth saving."""
        self._process.kill()

    def wait(self) -> None:
        """See it gone."""
        self._process.wait()
        for stream in (self._requests, self._answers):
            with suppress(OSError):  # what was not yet sent to a process that is gone
                stream.close()
