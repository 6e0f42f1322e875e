"""`indigo score` as a user meets it; what it finds is tested in `tests/engine/test_score.py`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tiny import Tiny

Run = Callable[..., Any]


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[Path, Path]:
    """Source and target, three lines each, the second target blank."""
    source, target = tmp_path / "in.src", tmp_path / "in.tgt"
    source.write_text("bee cat\nhen\nkoi jay ant\n", "utf-8")
    target.write_text("cat bee\n\nant jay koi\n", "utf-8")
    return source, target


def test_valid_on_standard_output_and_the_summary_beside_it(indigo: Run, tiny: Tiny) -> None:
    done = indigo("score", tiny.run)
    assert done.status == 0
    header, *rows = (json.loads(line) for line in done.out.splitlines())
    assert (header["format"], header["split"], header["order"]) == ("indigo-orders", "valid", "rnd")
    assert (header["run"], header["seed"], header["draws"]) == ("run", 1, 1)
    keys = ["id", "orders", "log_probs", "word_log_probs", "slot_log_probs", "end_log_probs", "bound"]
    assert [list(row) for row in rows] == [keys] * 8
    first, second, third = done.err.splitlines()
    assert first == f"scored 8 targets, {sum(len(row['orders'][0]) for row in rows)} tokens, one order each"
    assert "nats a prediction" in second and "left to right" in third
    assert indigo("score", tiny.run, "--split", "valid", "--quiet").out == done.out
    assert indigo("score", tiny.run, "--seed", "5").out != done.out


def test_files_in_and_out(indigo: Run, tiny: Tiny, pairs: tuple[Path, Path], tmp_path: Path) -> None:
    source, target = pairs
    line = ["score", tiny.run, "--input", source, "--set", "order.name=l2r", "--checkpoint", "last"]
    done = indigo(*line, "--target", target)
    assert [json.loads(row)["orders"] for row in done.out.splitlines()[1:]] == [[[0, 1]], [[]], [[0, 1, 2]]]
    assert indigo(*line, "--target", "-", stdin=target.read_bytes()).out == done.out
    output = tmp_path / "scores.jsonl"
    assert indigo(*line, "--target", target, "-o", output).out == ""
    assert output.read_text("utf-8") == done.out
    refused = indigo(*line, "--target", target, "-o", output)
    assert refused.status == 2 and "--overwrite" in refused.err
    assert indigo(*line, "--target", target, "-o", output, "--overwrite").status == 0
    again = indigo("score", tiny.run, "--input", source, "--target", target, "--orders", output, "--checkpoint", "last")
    assert again.out.splitlines()[1:] == done.out.splitlines()[1:]


def test_traces_may_come_through_a_pipe(indigo: Run, tiny: Tiny, pairs: tuple[Path, Path]) -> None:
    decoded = indigo("decode", tiny.run, "--input", pairs[0], "--format", "jsonl", "--n-best", "2")
    line = ["score", tiny.run, "--input", pairs[0], "--target", "-"]
    scored = indigo(*line, stdin=decoded.out.encode("utf-8"))
    assert scored.status == 0, scored.err
    for trace, row in zip(decoded.out.splitlines()[1:], scored.out.splitlines()[1:], strict=True):
        hypothesis, found = json.loads(trace), json.loads(row)
        assert (found["id"], found["rank"]) == (hypothesis["id"], hypothesis["rank"])
        assert found["log_probs"] == pytest.approx([hypothesis["log_prob"]], abs=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input", "x"], "add --target"),
        (["--target", "recipe.toml"], "add --input"),
        (["--split", "nope"], "train, valid, test"),
        (["--checkpoint", "nope"], "no checkpoint 'nope'"),
        (["--set", "decode.beam_sise=3"], "beam_size"),
        (["--draws", "0"], "1 or more"),
        (["--device", "tpu"], "device"),
    ],
)
def test_faults_end_in_status_2(indigo: Run, tiny: Tiny, options: list[str], message: str) -> None:
    options = [str(tiny.recipe_path) if option == "recipe.toml" else option for option in options]
    done = indigo("score", tiny.run, *options)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: ") and message in done.err
