"""`indigo search-orders` as a user types it: options, streams, messages."""

from pathlib import Path

import pytest

from indigo_cli.data.orders_file import read_order_rows
from tests.conftest import Indigo
from tests.tiny import Tiny


def test_it_writes_a_file_that_show_reads(indigo: Indigo, tiny: Tiny, tmp_path: Path) -> None:
    output = tmp_path / "valid.orders.jsonl.gz"
    options = ("--beam", "2", "--dropout", "0.3", "--slot-weight", "3", "--gumbel", "0.5", "--seed", "4")
    done = indigo("search-orders", tiny.run, "--split", "valid", "-o", output, *options, "--threads", "1")
    assert (done.status, done.out) == (0, "")
    assert f"searched 8 targets, {sum(len(row.orders[0]) for row in read_order_rows(output)[1])} tokens" in done.err
    assert str(output) in done.err and "Kendall tau" in done.err and "left to right" in done.err
    header = read_order_rows(output)[0]
    wanted = {"beam": 2, "dropout": 0.3, "slot_weight": 3.0, "gumbel": 0.5, "seed": 4, "order": "sao"}
    assert wanted.items() <= header.items()
    shown = indigo("show", output, "--corpus", tiny.corpus)
    assert shown.status == 0 and "order sao" in shown.out and "log p per token" in shown.out
    assert indigo("show", output, "--id", "1", "--rank", "2").status == 0


def test_data_and_report_keep_apart(indigo: Indigo, tiny: Tiny) -> None:
    done = indigo("search-orders", tiny.run, "--split", "valid", "--beam", "1", "-o", "-", "--quiet", "--threads", "1")
    assert done.status == 0 and done.out.count("\n") == 9 and "searched" not in done.err


def test_the_recipe_can_be_overridden(indigo: Indigo, tiny: Tiny, tmp_path: Path) -> None:
    output = tmp_path / "x.jsonl"
    setting = ("--set", "search.beam_size=3", "--set", "search.whole_words=true", "--set", "train.batch_tokens=20")
    done = indigo("search-orders", tiny.run, "--split", "valid", "-o", output, *setting, "--threads", "1")
    assert done.status == 0 and "search.whole_words has no effect" in done.err  # there are no pieces of words
    header, rows = read_order_rows(output)
    assert (header["beam"], header["whole_words"]) == (3, True) and max(len(row.orders) for row in rows) == 3


def test_text_comes_and_goes_through_pipes(indigo: Indigo, tiny: Tiny) -> None:
    folder = tiny.recipe_path.parent
    options = ("--input", folder / "valid.src", "--target", "-", "--beam", "2", "--threads", "1")
    done = indigo("search-orders", tiny.run, *options, stdin=(folder / "valid.tgt").read_bytes())
    header, *rows = done.out.splitlines()
    assert done.status == 0 and '"order": "sao"' in header and len(rows) == 8 and "searched 8 targets" in done.err


def test_what_is_complete_already_is_reported(indigo: Indigo, tiny: Tiny, tmp_path: Path) -> None:
    options = ("--split", "valid", "--beam", "2", "-o", tmp_path / "x.jsonl", "--threads", "1")
    done, again = indigo("search-orders", tiny.run, *options), indigo("search-orders", tiny.run, *options, "--resume")
    assert again.status == 0 and "x.jsonl is complete already" in again.err
    assert done.err.splitlines()[-15:] == again.err.splitlines()[-15:] and "Kendall tau" in again.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--beam", "0"), "--beam"),
        (("--dropout", "1"), "--dropout"),
        (("--slot-weight", "-1"), "--slot-weight"),
        (("--gumbel", "nan"), "--gumbel"),
        (("--gumbel", "inf"), "search.gumbel"),
        (("--beem", "3"), "did you mean --beam or"),
        (("--set", "search.beem=3"), "search.beem"),
        (("--set", "nothing"), "--set"),
        (("--resume", "--overwrite"), "--resume"),
        (("--checkpoint", "best-of-all"), "best-of-all"),
        (("--corpus", "nowhere"), "nowhere"),
        (("--device", "tpu"), "tpu"),
        (("--input", "x"), "--target"),
        (("--split", "valid", "--input", "x", "--target", "y"), "--split"),
    ],
)
def test_faults_have_three_lines(
    indigo: Indigo, tiny: Tiny, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = indigo("search-orders", tiny.run, "-o", tmp_path / "x.jsonl", *options)
    assert done.status == 2 and done.out == ""
    assert done.err.startswith("error: ") and message in done.err and "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_no_run(indigo: Indigo, tmp_path: Path) -> None:
    done = indigo("search-orders", tmp_path)
    assert done.status == 2 and "not a run folder" in done.err
