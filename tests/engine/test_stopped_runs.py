"""Training runs that a signal or a kill ends: what is left, and that they end as those that were never stopped."""

import math
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.data.batch import Batch, MicroBatch
from indigo_cli.data.collate import collate
from indigo_cli.engine import checkpoint as checkpoints
from indigo_cli.engine import order_source
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.run_log import Log
from tests.kill import killed_at
from tests.runs import log_of, names_in, same, state_of, training_rows, valid_rows
from tests.tiny import Tiny

INDIGO = ("train.accumulate=2", "model.dropout=0.3")
LSTM = (
    *INDIGO,
    "model.system=lstm",
    "model.aca=true",
    "model.encoder_layers=2",
    "model.decoder_layers=2",
    "order.name=l2r",
)


@pytest.fixture
def at_batch(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], None]], None]:
    """A way to have something done when the n-th batch of `train` from now on is made."""

    def arrange(number: int, action: Callable[[], None]) -> None:
        count = 0

        def counted(ids: list[str], *rest: Any, **options: Any) -> Batch:
            nonlocal count
            count += ids[0].startswith("train:")
            if count == number:
                count += 1
                action()
            return collate(ids, *rest, **options)

        monkeypatch.setattr(order_source, "collate", counted)

    return arrange


@pytest.mark.slow
class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    @pytest.mark.parametrize("batch", [1, 7, 8])
    def test_case_75_in_mid_epoch(
        self,
        tiny: Tiny,
        undisturbed: Callable[..., Path],
        tmp_path: Path,
        at_batch: Callable[[int, Callable[[], None]], None],
        number: signal.Signals,
        batch: int,
    ) -> None:
        """It ends with a checkpoint of the update it was in; resuming ends where the run would have ended."""
        whole = undisturbed(*INDIGO)
        at_batch(batch, lambda: os.kill(os.getpid(), number))
        with pytest.raises(SystemExit if number == signal.SIGTERM else KeyboardInterrupt) as caught:
            tiny.train(tmp_path / "run", *INDIGO)
        if isinstance(caught.value, SystemExit):
            assert caught.value.code == 143
        step = math.ceil(batch / 2)
        names = names_in(tmp_path / "run")
        assert names["last"] == f"step-{step:08d}" and names["last"] in names
        assert not [name for name in names if name.startswith(".")]
        assert [row["step"] for row in training_rows(tmp_path / "run")] == list(range(1, step + 1))
        tiny.train(tmp_path / "run", *INDIGO, resume=True)
        assert same(state_of(whole), state_of(tmp_path / "run"))
        assert training_rows(whole) == training_rows(tmp_path / "run")

    def test_an_lstm_that_is_resumed_ends_with_the_same_weights(
        self,
        tiny: Tiny,
        undisturbed: Callable[..., Path],
        tmp_path: Path,
        at_batch: Callable[[int, Callable[[], None]], None],
    ) -> None:
        """Its library kernels draw their dropout themselves, between layers."""
        whole = undisturbed(*LSTM)
        at_batch(7, lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(SystemExit):
            tiny.train(tmp_path / "run", *LSTM)
        tiny.train(tmp_path / "run", *LSTM, resume=True)
        assert same(state_of(whole), state_of(tmp_path / "run"))
        assert training_rows(whole) == training_rows(tmp_path / "run")

    @pytest.mark.parametrize("step", [3, 6])
    def test_case_75_during_validation(
        self, tiny: Tiny, undisturbed: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
    ) -> None:
        """The validation that was not finished is made up for; the last step is always validated."""
        whole = undisturbed(*INDIGO)
        once, seen = OrderedSplit.once, 0

        def interrupted(split: OrderedSplit) -> Iterator[MicroBatch]:
            nonlocal seen
            seen += 1
            for batch in once(split):
                if seen == step // 3:
                    os.kill(os.getpid(), signal.SIGTERM)
                yield batch

        with monkeypatch.context() as patch:
            patch.setattr(OrderedSplit, "once", interrupted)
            with pytest.raises(SystemExit) as caught:
                tiny.train(tmp_path / "run", *INDIGO)
        assert caught.value.code == 143
        assert names_in(tmp_path / "run")["last"] == f"step-{step:08d}"
        assert step not in valid_rows(tmp_path / "run")
        tiny.train(tmp_path / "run", *INDIGO, resume=True)
        assert same(state_of(whole), state_of(tmp_path / "run"))
        assert log_of(tmp_path / "run") == log_of(whole)
        assert names_in(tmp_path / "run")["best"] == names_in(whole)["best"]

    def test_handlers_are_put_back(self, tiny: Tiny, tmp_path: Path) -> None:
        before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
        tiny.train(tmp_path / "run", "train.max_steps=1")
        assert before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))


@pytest.mark.slow
def test_contract_4_a_kill_at_any_instant_changes_nothing_in_the_end(
    tiny: Tiny, undisturbed: Callable[..., Path], tmp_path: Path
) -> None:
    """SIGKILL before every file that is put in place, every row of the log, every tensor file; then one resume."""
    instants = [(os, "replace"), (Log, "write"), (checkpoints, "save_file")]
    whole = undisturbed(*INDIGO)
    weights, log = state_of(whole), log_of(whole)
    best = names_in(whole)["best"]
    for instant in range(1, 100):
        run = tmp_path / f"run-{instant}"
        killed = killed_at(instant, lambda run=run: tiny.train(run, *INDIGO), instants)  # type: ignore[misc]
        tiny.train(run, *INDIGO, resume=True)
        assert same(weights, state_of(run)), instant
        assert log_of(run) == log, instant
        assert names_in(run)["best"] == best, instant
        assert not list((run / "checkpoints").glob(".*")), instant
        if not killed:
            break
        shutil.rmtree(run)
    assert 15 < instant < 99
