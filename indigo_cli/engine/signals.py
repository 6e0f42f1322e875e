"""Stop between two updates when the user or the machine asks for it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Which signal asked to stop, if any. A second one stops at once."""

    def __init__(self) -> None:
        self.signal = 0

    def __bool__(self) -> bool:
        return self.signal != 0

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            self.leave()
        self.signal = number

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
