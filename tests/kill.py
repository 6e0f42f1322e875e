"""Kill a job at a chosen instant, as a machine does: in a forked process, without any clean-up."""

import os
import signal
import warnings
from collections.abc import Callable, Sequence
from typing import Any

FAILED = 99


def killed_at(instant: int, action: Callable[[], object], instants: Sequence[tuple[Any, str]]) -> bool:
    """Run an action in a forked process that is killed (SIGKILL) before the n-th call of some functions.

    Args:
        instant: n, from 1.
        action: What to run.
        instants: Modules or classes, and the names of their functions that are counted, all together.
    Returns: True if it was killed, False if it ended before.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where there are threads
        child = os.fork()
    if child == 0:
        _run_and_exit(instant, action, instants)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), f"the action failed, status {status}"
    return status != 0


def _run_and_exit(instant: int, action: Callable[[], object], instants: Sequence[tuple[Any, str]]) -> None:
    """End this process one way or the other; nothing of the tests around it may run on in it."""
    try:
        count = 0

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **options: Any) -> Any:
                nonlocal count
                count += 1
                if count == instant:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args, **options)

            return call

        for owner, name in instants:
            setattr(owner, name, counted(getattr(owner, name)))
        action()
    except BaseException:
        os._exit(FAILED)
    os._exit(0)
