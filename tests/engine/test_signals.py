"""Signals end a run between two updates, the second one at once."""

import os
import signal
import threading

import pytest

from indigo_cli.engine import signals
from indigo_cli.engine.signals import stop_requests

NUMBERS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_is_noted_and_the_work_goes_on(number: signal.Signals) -> None:
    before = [signal.getsignal(each) for each in NUMBERS]
    with stop_requests() as stop:
        assert not stop
        os.kill(os.getpid(), number)
        assert stop
        assert stop.signal == number
    assert [signal.getsignal(each) for each in NUMBERS] == before


def test_leaving_ends_as_the_signal_would() -> None:
    with stop_requests() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(SystemExit) as caught:
            stop.leave()
        assert caught.value.code == 143
    with stop_requests() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            stop.leave()


def test_the_second_signal_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torchrun passes on within the same instant is no second one."""
    now = 50.0
    monkeypatch.setattr(signals, "monotonic", lambda: now)
    with stop_requests() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        now += 0.1
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal == signal.SIGTERM
        now += 2.0
        with pytest.raises(SystemExit) as caught:
            os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.code == 143


def test_handlers_come_back_after_an_error() -> None:
    before = [signal.getsignal(each) for each in NUMBERS]
    with pytest.raises(ValueError, match="boom"), stop_requests():
        raise ValueError("boom")
    assert [signal.getsignal(each) for each in NUMBERS] == before


def test_outside_the_main_thread_nothing_is_touched() -> None:
    before = [signal.getsignal(each) for each in NUMBERS]
    seen: list[bool] = []

    def work() -> None:
        with stop_requests() as stop:
            seen.extend([bool(stop), [signal.getsignal(each) for each in NUMBERS] == before])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False, True]
