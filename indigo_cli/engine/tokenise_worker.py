"""A worker process of `preprocess`: pickled requests on standard input, pickled answers on standard output.

It ends when its standard input does, so it never outlives the process that started it, however that one ends.
"""

import os
import pickle
import queue
import signal
import sys
import threading
from typing import Any, BinaryIO

READ_AHEAD = 2
"""Requests that may wait in a worker: its owner never waits for it to take one."""


def main() -> None:
    """Answer requests until there are no more."""
    # Ctrl-C reaches every process of a terminal; the owner ends its workers itself, so that one line is said, once.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGTERM])
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # a stray print must not end up among the answers
    requests: queue.Queue[Any] = queue.Queue(READ_AHEAD)
    threading.Thread(target=_read, args=(sys.stdin.buffer, requests), daemon=True).start()
    _answer(requests, answers)
    # Not by way of the interpreter's end: it would want the input that the reader may still be waiting for.
    os._exit(0)


def _pickled(answer: Any) -> bytes:
    try:
        return pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:  # an error that holds something that cannot travel
        return pickle.dumps(RuntimeError(f"{type(answer).__name__}: {answer}"))


def _read(stream: BinaryIO, requests: "queue.Queue[Any]") -> None:
    while True:
        try:
            requests.put(pickle.load(stream))
        except (EOFError, OSError, pickle.UnpicklingError):
            requests.put(None)
            return


def _answer(requests: "queue.Queue[Any]", answers: BinaryIO) -> None:
    from indigo_cli.engine.token_blocks import BlockTokenizer

    tokenizers: dict[Any, BlockTokenizer] = {}
    while (request := requests.get()) is not None:
        reading, block = request
        try:
            if reading not in tokenizers:
                tokenizers = {reading: BlockTokenizer(reading)}
            answer: Any = tokenizers[reading](block)
        except Exception as error:  # for the owner to raise
            answer = error
        try:
            answers.write(_pickled(answer))
            answers.flush()
        except BrokenPipeError:  # the owner is gone
            return
