"""Worker processes: the same blocks in the same order, the same errors, and nobody left behind."""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from indigo_cli.core.line_tokenizer import LineSettings
from indigo_cli.engine import tokenise_pool
from indigo_cli.engine.token_blocks import BlockTokenizer, Reading, TokenBlock
from indigo_cli.engine.tokenise_pool import TokenisePool, usual_workers
from indigo_cli.engine.tokenise_worker import READ_AHEAD
from indigo_cli.errors import RunError

pytestmark = pytest.mark.slow

READING = Reading((("source", LineSettings("none")), ("target", LineSettings("char"))), max_length=9)


def blocks(number: int, taken: list[int] | None = None) -> Iterator[list[list[str]]]:
    for i in range(number):
        if taken is not None:
            taken.append(i)
        yield [[f"a {i}", "", f"b{i} a " * i], [f"x{i}", "yy z", "\u2028" + "w" * i]]


def content(block: TokenBlock) -> Any:
    arrays = (block.words, block.lengths, block.counts)
    return block.types, [{side: array.tolist() for side, array in part.items()} for part in arrays]


def test_workers_answer_in_order_what_one_process_says() -> None:
    alone = [content(block) for block in map(BlockTokenizer(READING), blocks(20))]
    with TokenisePool(3) as pool:
        for _ in range(2):  # a second split, the same workers
            assert [content(block) for block in pool.tokenise(READING, blocks(20))] == alone
        assert len(pool._workers) == 3
    with TokenisePool(1) as pool:
        assert [content(block) for block in pool.tokenise(READING, blocks(20))] == alone
        assert not pool._workers


def test_few_blocks_are_taken_ahead() -> None:
    taken: list[int] = []
    with TokenisePool(2) as pool:
        for number, _ in enumerate(pool.tokenise(READING, blocks(30, taken))):
            assert len(taken) <= number + 1 + 2 * READ_AHEAD + 1


def test_workers_that_nobody_asked_for_wait_for_long_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenise_pool, "usual_workers", lambda: 2)
    alone = [content(block) for block in map(BlockTokenizer(READING), blocks(9))]
    with TokenisePool(0) as pool:
        for number in (1, tokenise_pool.ALONE - 1):
            assert len(list(pool.tokenise(READING, blocks(number)))) == number and not pool._workers
        assert [content(block) for block in pool.tokenise(READING, blocks(9))] == alone
        assert len(pool._workers) == 2


def test_the_usual_number_of_workers_fits_the_machine() -> None:
    assert 1 <= usual_workers() <= min(8, os.cpu_count() or 1)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_block_is_the_same_in_a_worker(workers: int) -> None:
    wrong: Any = [["a", None], ["b", "c"]]
    with (
        TokenisePool(workers) as pool,
        pytest.raises(AttributeError, match="'NoneType' object has no attribute 'split'"),
    ):
        list(pool.tokenise(READING, [*blocks(1), wrong]))


def test_a_worker_that_is_killed_is_an_error_and_no_hang() -> None:
    with TokenisePool(2) as pool:
        answers = pool.tokenise(READING, blocks(100))
        next(answers)
        os.kill(pool._workers[0]._process.pid, signal.SIGKILL)
        with pytest.raises(RunError, match="ended by signal 9") as caught:
            list(answers)
        assert "--workers 1" in caught.value.fix
        processes = [worker._process for worker in pool._workers]
    assert all(process.poll() is not None for process in processes)


def test_workers_end_with_the_pool_and_when_their_input_ends() -> None:
    with TokenisePool(2) as pool:
        next(pool.tokenise(READING, blocks(50)))  # answers that nobody takes wait in the pipes
        first, second = (worker._process for worker in pool._workers)
        assert first.stdin is not None
        os.kill(first.pid, signal.SIGINT)
        os.kill(first.pid, signal.SIGTERM)
        first.stdin.close()  # as when this process is killed
        for worker in pool._workers[:1]:
            while worker._answers.read(1 << 16):
                pass
        assert first.wait() == 0
    assert second.poll() == -signal.SIGKILL


def test_a_worker_whose_owner_takes_no_answer_ends_without_a_word() -> None:
    start = [sys.executable, "-c", tokenise_pool._START, json.dumps(sys.path)]
    with subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as worker:
        assert worker.stdin is not None and worker.stdout is not None and worker.stderr is not None
        worker.stdout.close()  # as when the owner is killed, while its reader still waits for requests
        pickle.dump((READING, next(blocks(1))), worker.stdin)
        worker.stdin.flush()
        assert worker.stderr.read() == b"" and worker.wait() == 0


def test_words_of_pairs_that_cannot_train_are_not_counted() -> None:
    block = BlockTokenizer(READING)([["a b", "", "a", "b " * 20], ["x", "y", "", "z"]])
    counted = {side: {block.types[i]: n for i, n in enumerate(c.tolist()) if n} for side, c in block.counts.items()}
    assert counted == {"source": {"a": 1, "b": 1}, "target": {"x": 1}}
    assert block.lengths["source"].tolist() == [2, 0, 1, 10]  # one more than fits: still too long, and no longer


def test_every_word_is_numbered_once_and_keeps_its_place() -> None:
    lines = ["b a b", "c a"]
    block = BlockTokenizer(Reading((("target", LineSettings("none")),)))([lines])
    assert block.types == ["b", "a", "c"] and not block.counts
    assert [block.types[i] for i in block.words["target"]] == " ".join(lines).split()
    assert np.array_equal(block.lengths["target"], [3, 2])
