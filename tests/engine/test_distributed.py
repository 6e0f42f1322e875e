"""Several processes do what one does: CONTRACT number 4, with gloo, in forked processes."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from indigo_cli.data.batch import MicroBatch
from indigo_cli.engine.distributed import Processes, processes_of, whole
from indigo_cli.engine.optim import GuardedStep, make_optimizer
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.updates import updates
from indigo_cli.errors import DataError, PeerError, RecipeError, UsageError
from indigo_cli.models import MODELS
from tests.engine.test_updates import sentence_batch, small_config
from tests.ranks import on_ranks

pytestmark = pytest.mark.slow

UPDATES = 20
SHARDINGS = ["none", "full"]
Row = tuple[dict[str, float], float, float, tuple[int, int]]


def train(
    name: str, *, accumulate: int, dropout: float = 0.0, sharding: str = "none", micro_batches: int = UPDATES * 4
) -> tuple[list[Row], dict[str, torch.Tensor]]:
    """Train a small model on this process' part of the stream; return a row an update, and the weights."""
    with processes_of(Runtime(threads=1), sharding) as processes:
        torch.manual_seed(5)
        layers = {"encoder_layers": 2 if name == "lstm" else 1, "decoder_layers": 2}
        config = small_config(name, **layers, dropout=dropout)
        system: nn.Module = MODELS[name].build(config, source_size=20, target_size=20, ordered_source=True).train()
        called = processes.spread(system, sharding)
        sizes = [1 + place % 3 for place in range(micro_batches)]
        stream = [
            MicroBatch(0, place, partial(sentence_batch, range(sum(sizes[:place]), sum(sizes[: place + 1]))))
            for place in range(micro_batches)
        ]
        reports = updates(
            called,
            stream,
            GuardedStep(make_optimizer(system), clip_norm=1.0),
            accumulate=accumulate,
            peak_rate=3e-3,
            warmup_steps=5,
            smoothing=0.1,
            seed=1,
            autocast=torch.autocast("cpu", enabled=False),
            processes=processes,
        )
        rows = [(r.parts.means(), float(r.grad_norm), float(r.num_tokens), (r.epoch, r.position)) for r in reports]
        return rows, {key: whole(value).clone() for key, value in system.state_dict().items()}


def check_equal(one: list[Row], many: list[Row]) -> None:
    assert len(one) == len(many)
    for expected, found in zip(one, many, strict=True):
        assert found[0] == pytest.approx(expected[0], rel=1e-5)
        assert found[1] == pytest.approx(expected[1], rel=1e-4)
        assert found[2:] == expected[2:]


def good(answers: list[Any]) -> list[Any]:
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return answers


def check_two(name: str, sharding: str, *, dropout: float, updates: int) -> None:
    expected, weights = train(name, accumulate=4, dropout=dropout, micro_batches=4 * updates)
    action = partial(train, name, accumulate=2, dropout=dropout, sharding=sharding, micro_batches=4 * updates)
    for rows, found in good(on_ranks(2, action)):
        check_equal(expected, rows)
        for key, value in weights.items():
            torch.testing.assert_close(found[key], value, rtol=1e-3, atol=1e-5)
    assert len(expected) == updates


@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("name", ["transformer", "indigo", "lstm", "insertion"])
def test_two_processes_are_one_that_accumulates_twice_as_much(name: str, sharding: str) -> None:
    check_two(name, sharding, dropout=0.0, updates=UPDATES)


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_dropout_belongs_to_the_micro_batch_not_to_the_process(sharding: str) -> None:
    """A few updates only: rounding that falls across the kink of a ReLU moves a gradient by more than 1e-4."""
    check_two("indigo", sharding, dropout=0.2, updates=6)


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_a_stream_that_ends_before_every_process_has_its_part(sharding: str) -> None:
    """3 processes, two micro-batches each an update: the last update leaves some with one, or with none."""
    for count in (1, 10):
        expected, _ = train("indigo", accumulate=6, micro_batches=count)
        answers = on_ranks(3, partial(train, "indigo", accumulate=2, sharding=sharding, micro_batches=count))
        for rows, _ in good(answers):
            check_equal(expected, rows)


def first_does(action: Callable[[int], Any]) -> Any:
    with processes_of(Runtime(threads=1)) as processes:
        return processes.first_does(lambda: action(processes.rank))


def test_what_the_first_process_does_everybody_knows() -> None:
    assert on_ranks(3, partial(first_does, lambda rank: {"rank": rank})) == [{"rank": 0}] * 3

    def fail(rank: int) -> None:
        raise DataError(f"bad on {rank}", where="file:3", fix="mend it")

    first, *others = on_ranks(3, partial(first_does, fail))
    assert isinstance(first, DataError) and first.what == "bad on 0"
    assert [type(other) for other in others] == [PeerError, PeerError]

    def refuse(rank: int) -> None:
        raise RecipeError([UsageError("a bad key")])

    def told() -> str:  # that error would not pickle
        try:
            return str(first_does(refuse))
        except Exception as error:
            return type(error).__name__

    assert on_ranks(2, told) == ["RecipeError", "PeerError"]


def in_order(bad: int, unreadable: int = 8) -> list[Any]:
    def blocks() -> Iterator[int]:
        yield from range(unreadable)
        if unreadable < 8:
            raise DataError("bytes that are no text", where="file:9")

    def work(block: int) -> int:
        if block == bad:
            raise DataError(f"bad block {block}", where="file:3")
        return 10 * block

    found: list[Any] = []
    with processes_of(Runtime(threads=1)) as processes:
        try:
            found.extend(processes.in_order(blocks(), work))
        except DataError as error:
            found.append(error.render())
    return found


@pytest.mark.parametrize("bad", [-1, 0, 4, 7])
def test_work_comes_in_order_up_to_a_fault_which_the_first_process_tells(bad: int) -> None:
    first, *others = on_ranks(3, partial(in_order, bad))
    assert first == in_order(bad)
    failing = bad % 3 if bad >= 0 else 0
    for rank, other in enumerate(others, start=1):
        assert other == [] or isinstance(other, PeerError)
        assert rank != failing or isinstance(other, PeerError)


@pytest.mark.parametrize("unreadable", [0, 3, 4, 5])
def test_what_was_read_before_a_fault_is_worked_on(unreadable: int) -> None:
    first, *others = on_ranks(3, partial(in_order, -1, unreadable))
    assert first == in_order(-1, unreadable) and len(first) == unreadable + 1
    assert all(isinstance(other, PeerError) for other in others)


def dies(rank_to_die: int) -> None:
    with processes_of(Runtime(threads=1)) as processes:
        processes.total(torch.ones(2))
        if processes.rank == rank_to_die:
            os._exit(9)
        processes.total(torch.ones(2))


def test_the_others_notice_that_a_process_is_gone() -> None:
    answers = on_ranks(3, partial(dies, 1))
    assert [type(answer) for answer in answers] == [PeerError, ChildProcessError, PeerError]


def test_an_environment_that_is_not_torchruns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="MASTER_ADDR"), processes_of(Runtime()):
        pass
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(UsageError, match="WORLD_SIZE is no number"), processes_of(Runtime()):
        pass


def test_one_process_needs_no_group() -> None:
    with processes_of(Runtime()) as processes:
        assert processes == Processes(0, 1, processes.device)
        assert processes.first_does(lambda: 5) == 5
        assert processes.total(torch.ones(1)) == 1
    with pytest.raises(UsageError, match="nothing to shard"), processes_of(Runtime(), "full"):
        pass
