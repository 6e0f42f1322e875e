"""`train` on several processes: one run folder, the numbers of one process, an end that all share."""

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from indigo_cli.data.batch import Batch
from indigo_cli.data.collate import collate
from indigo_cli.engine import fit, order_source
from indigo_cli.engine.fit import TrainSummary
from indigo_cli.engine.start import checkpoint_to_resume
from indigo_cli.errors import DataError, PeerError, UsageError
from tests.ranks import on_ranks
from tests.runs import log_of, names_in, same, state_of, training_rows, valid_rows
from tests.tiny import Tiny

STEPS = ("train.max_steps=6", "train.validate_every=3", "train.save_every=3", "train.log_every=1")


def on_two(tiny: Tiny, run: Path, *overrides: str, world: int = 2, **options: Any) -> list[TrainSummary]:
    """Train on some processes; raise what one of them raised."""
    answers = on_ranks(world, partial(tiny.train, run, *STEPS, *overrides, **options))
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if isinstance(answer, TrainSummary)]


def check_alike(a: Path, b: Path, *, rel: float = 1e-5) -> None:
    rows = log_of(a), log_of(b)
    assert len(rows[0]) == len(rows[1])
    for one, other in zip(*rows, strict=True):
        assert one.keys() == other.keys()
        for key in one.keys() - {"split"}:
            assert other[key] == pytest.approx(one[key], rel=10 * rel if key == "grad_norm" else rel), key
    states = state_of(a), state_of(b)
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name].float(), value.float(), rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.slow
class TestTwoAreOne:
    def test_contract_4(self, tiny: Tiny, tmp_path: Path) -> None:
        """20 updates, no dropout; `state` holds moments and sums of the log as well."""
        longer = ("train.max_steps=20", "model.dropout=0", "train.validate_decode=5", 'evaluate.metrics=["chrf"]')
        tiny.train(tmp_path / "one", *STEPS, *longer, "train.accumulate=4")
        two = on_two(tiny, tmp_path / "two", *longer, "train.accumulate=2")
        assert [summary.step for summary in two] == [20, 20]
        assert two[0].best_loss == two[1].best_loss
        assert len(training_rows(tmp_path / "two")) == 20
        check_alike(tmp_path / "one", tmp_path / "two")
        assert names_in(tmp_path / "one") == names_in(tmp_path / "two")

    def test_sharded(self, tiny: Tiny, tmp_path: Path) -> None:
        tiny.train(tmp_path / "one", *STEPS, "train.accumulate=2")
        on_two(tiny, tmp_path / "two", "train.sharding=full")
        check_alike(tmp_path / "one", tmp_path / "two")
        tiny.train(tmp_path / "one", *STEPS, "train.accumulate=2", "train.max_steps=8", resume=True)
        on_two(tiny, tmp_path / "two", "train.sharding=full", "train.max_steps=8", resume=True)
        check_alike(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
class TestResume:
    def test_with_another_number_of_processes(self, tiny: Tiny, tmp_path: Path, capfd: Any) -> None:
        """With dropout: 2 processes, then 1, then 3 that do as much an update, against one that was never stopped."""
        tiny.train(tmp_path / "whole", *STEPS, "train.accumulate=6", "train.max_steps=9")
        run = tmp_path / "run"
        on_two(tiny, run, "train.accumulate=3", "train.max_steps=3")
        tiny.train(run, *STEPS, "train.accumulate=6", "train.max_steps=6", resume=True)
        on_two(tiny, run, "train.accumulate=2", "train.max_steps=9", world=3, resume=True)
        check_alike(tmp_path / "whole", run, rel=1e-4)
        assert "warning" not in capfd.readouterr().err
        tiny.train(run, *STEPS, "train.accumulate=4", "train.max_steps=10", resume=True)
        assert "an update was made of 6 micro-batches and is now made of 4" in capfd.readouterr().err

    def test_two_go_on_bit_for_bit(self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first one chooses the checkpoint for all: another may see a file later, or find it damaged."""
        on_two(tiny, tmp_path / "whole")
        on_two(tiny, tmp_path / "parts", "train.max_steps=3")

        def choose(*args: Any, **options: Any) -> Any:
            return None if is_second() else checkpoint_to_resume(*args, **options)

        monkeypatch.setattr(fit, "checkpoint_to_resume", choose)
        on_two(tiny, tmp_path / "parts", resume=True)
        assert same(state_of(tmp_path / "whole"), state_of(tmp_path / "parts"))
        assert log_of(tmp_path / "whole") == log_of(tmp_path / "parts")


def is_second() -> bool:
    return os.environ.get("RANK") == "1"


def at_batch(monkeypatch: pytest.MonkeyPatch, number: int, action: Callable[[], None]) -> None:
    """Have process 1 do something when it makes its n-th training batch."""
    count = 0

    def counted(ids: list[str], *rest: Any, **options: Any) -> Batch:
        nonlocal count
        count += ids[0].startswith("train:")
        if count == number and is_second():
            action()
        return collate(ids, *rest, **options)

    monkeypatch.setattr(order_source, "collate", counted)


@pytest.mark.slow
class TestEnds:
    def test_a_signal_to_one_stops_all_at_the_same_update(
        self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        on_two(tiny, tmp_path / "whole")
        run = tmp_path / "run"
        with monkeypatch.context() as patch:
            at_batch(patch, 4, lambda: os.kill(os.getpid(), signal.SIGTERM))
            answers = on_ranks(2, partial(tiny.train, run, *STEPS))
        assert [getattr(answer, "code", answer) for answer in answers] == [143, 143]
        assert names_in(run)["last"] == "step-00000004"
        on_two(tiny, run, resume=True)
        assert same(state_of(tmp_path / "whole"), state_of(run))
        assert log_of(tmp_path / "whole") == log_of(run)

    def test_a_fault_on_one_ends_the_others(self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail() -> None:
            raise DataError("a bad line", where="file:7")

        at_batch(monkeypatch, 5, fail)
        first, second = on_ranks(2, partial(tiny.train, tmp_path / "run", *STEPS))
        assert isinstance(first, PeerError) and isinstance(second, DataError)
        assert names_in(tmp_path / "run")["last"] == "step-00000003"

    def test_a_gradient_that_is_not_finite_names_the_examples_of_all(
        self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def poison(ids: list[str], *rest: Any, **options: Any) -> Batch:
            batch = collate(ids, *rest, **options)
            if ids[0].startswith("train:") and is_second():
                batch.plan.weights.fill_(torch.nan)
            return batch

        monkeypatch.setattr(order_source, "collate", poison)
        first, second = on_ranks(2, partial(tiny.train, tmp_path / "run", *STEPS))
        assert "the gradient of update 1 is not finite" in str(first)
        assert isinstance(second, PeerError)
        named = {name for name in str(first).split("Batch: ")[1].split() if name.startswith("train:")}
        assert len(named) == 20

    def test_what_the_first_one_refuses_the_others_do_not_repeat(self, tiny: Tiny, tmp_path: Path) -> None:
        on_two(tiny, tmp_path / "run")
        first, second = on_ranks(2, partial(tiny.train, tmp_path / "run", *STEPS))
        assert isinstance(first, UsageError) and "a run stands here already" in first.what
        assert isinstance(second, PeerError)


@pytest.mark.slow
def test_fewer_sentences_to_decode_than_processes(tiny: Tiny, tmp_path: Path) -> None:
    options = ("train.validate_decode=1", 'evaluate.metrics=["chrf"]', "train.max_steps=3")
    tiny.train(tmp_path / "one", *STEPS, *options, "train.accumulate=2")
    on_two(tiny, tmp_path / "two", *options)
    check_alike(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_only_the_first_one_validates_aloud(tiny: Tiny, tmp_path: Path) -> None:
    on_two(tiny, tmp_path / "run")
    assert sorted(valid_rows(tmp_path / "run")) == [3, 6]
    assert len(log_of(tmp_path / "run")) == 8
