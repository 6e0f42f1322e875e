"""Stop between two updates when the user or the machine asks for it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

AGAIN_SECONDS = 1.0
"""What comes sooner is one wish told twice: by a terminal or a scheduler, and by torchrun."""


class StopRequest:
    """Which signal asked to stop, if any. A second one, a second later, stops at once."""

    def __init__(self) -> None:
        self.signal = 0
        self._asked_at = 0.0

    def __bool__(self) -> bool:
        return self.signal != 0

    def _ask(self, number: int, frame: FrameType | None) -> None:
        now = monotonic()
        if not self.signal:
            self.signal, self._asked_at = number, now
        elif now - self._asked_at >= AGAIN_SECONDS:
            self.leave()

    def agree(self) -> None:
        """Stop because another process of the run was asked to."""
        self.signal = self.signal or signal.SIGTERM

    def leave(self) -> None:
        """End the program as the signal would: exit 130 after Ctrl-C, 143 after TERM."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + self.signal)


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Collect SIGINT and SIGTERM inside the block instead of being ended by them."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, request._ask) for number in numbers]
    try:
        yield request
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
