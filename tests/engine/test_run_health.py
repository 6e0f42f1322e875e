"""Health of the orders that a run finds: in its log, on stderr, by `indigo show`."""

import json
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.engine import checkpoint as checkpoints
from indigo_cli.engine import health_flags, search_losses, valid_search
from indigo_cli.engine.run_log import Log
from tests.conftest import Indigo
from tests.kill import killed_at
from tests.ranks import on_ranks
from tests.runs import log_of, valid_rows
from tests.tiny import Tiny

pytestmark = pytest.mark.slow

SAO = (
    *("order.name=sao", "search.reference=none", "search.beam_size=3", "search.bootstrap_steps=3"),
    *("model.dropout=0", "search.dropout=0", "train.max_steps=9"),
)


@pytest.fixture(scope="module")
def searched(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of nine updates, three of them on given orders."""
    run = tmp_path_factory.mktemp("searched") / "run"
    tiny.train(run, *SAO)
    return run


@pytest.fixture
def copy(searched: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(searched, tmp_path / "copy", symlinks=True))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Words are always too few."""
    monkeypatch.setattr(health_flags, "FEW_WORDS", 1.01)
    yield


def flagged(text: str) -> int:
    return text.count("warning: words are ")


def test_every_validation_has_a_row(searched: Path) -> None:
    rows = valid_rows(searched)
    assert sorted(rows) == [3, 6, 9]
    for row in rows.values():
        figures = row["search"]
        assert (figures["targets"], figures["tokens"]) == (8, 32)
        # Nothing competes, so the loss is what the best orders cost: a prediction, of which a target has T + 1.
        assert row["loss"] == pytest.approx(8 * figures["best"] / (32 + 8), rel=1e-4)
    assert rows[3]["search"] != rows[9]["search"]


def test_no_second_search(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searches = 0
    usual = valid_search.search_valid

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal searches
        searches += 1
        return usual(*args, **options)

    monkeypatch.setattr(search_losses, "search_valid", counted)
    tiny.train(tmp_path / "run", *SAO, "train.max_steps=6", "search.sentences=4")
    assert searches == 2
    assert [row["search"]["targets"] for row in valid_rows(tmp_path / "run").values()] == [4, 4]


def test_runs_on_given_orders_have_none(tiny: Tiny) -> None:
    assert all("search" not in row for row in valid_rows(tiny.run).values())


@pytest.mark.usefixtures("always")
def test_a_warning_comes_once_behind_the_bootstrap_and_not_again_when_resumed(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.train(tmp_path / "run", *SAO, "train.max_steps=3", "search.bootstrap_steps=2")
    assert flagged(capsys.readouterr().err) == 1
    tiny.train(tmp_path / "run", *SAO, "train.max_steps=6", "search.bootstrap_steps=2", resume=True)
    assert sorted(valid_rows(tmp_path / "run")) == [3, 6] and flagged(capsys.readouterr().err) == 0
    tiny.train(tmp_path / "other", *SAO, "train.max_steps=6")
    assert flagged(capsys.readouterr().err) == 1
    tiny.train(tmp_path / "third", *SAO, "train.max_steps=4", "train.validate_every=2")
    assert flagged(capsys.readouterr().err) == 1  # not at step 2


def test_a_healthy_run_is_not_warned_about(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(health_flags, "FEW_WORDS", 0.0)
    monkeypatch.setattr(health_flags, "MANY_FIRST", 1.0)
    tiny.train(tmp_path / "run", *SAO, "train.max_steps=6", "search.bootstrap_steps=4")
    gaps = [row["search"]["gain"] for row in valid_rows(tmp_path / "run").values()]
    assert min(gaps) > 0 and "warning" not in capsys.readouterr().err


def test_a_kill_at_any_instant_changes_no_row(tiny: Tiny, tmp_path: Path) -> None:
    """SIGKILL before every row of the log and every file of a checkpoint."""
    instants = [(Log, "write"), (checkpoints, "save_file")]
    settings = (*SAO, "train.max_steps=4", "train.validate_every=2", "train.log_every=4", "train.save_every=2")
    tiny.train(tmp_path / "whole", *settings)
    for instant in range(1, 20):
        run = tmp_path / f"run-{instant}"
        killed = killed_at(instant, lambda run=run: tiny.train(run, *settings), instants)  # type: ignore[misc]
        tiny.train(run, *settings, resume=True)
        assert log_of(run) == log_of(tmp_path / "whole") and len(valid_rows(run)) == 2, instant
        if not killed:
            break
        shutil.rmtree(run)
    assert 6 < instant < 19


def test_two_processes_log_what_one_does(tiny: Tiny, searched: Path, tmp_path: Path) -> None:
    """The first validation is of the same weights (none are changed yet), in the same batches: the same row."""
    first = (*SAO, "train.max_steps=4", "train.validate_every=4", "train.learning_rate=1e-30")
    tiny.train(tmp_path / "one", *first, "train.accumulate=2")
    answers = on_ranks(2, partial(tiny.train, tmp_path / "two", *first))
    assert not [answer for answer in answers if isinstance(answer, BaseException)]
    one, two = (valid_rows(tmp_path / name)[4]["search"] for name in ("one", "two"))
    assert one["targets"] == 8 and one == two


class TestShow:
    def test_the_last_validation(self, searched: Path, indigo: Indigo) -> None:
        done = indigo("show", searched)
        assert (done.status, done.err) == (0, "")
        lines = [" ".join(line.split()) for line in done.out.splitlines()]
        figures = valid_rows(searched)[9]["search"]
        assert lines[0].startswith("orders found at step 9 of") and "targets 8, tokens 32" in lines
        nats = " ".join(f"{figures[key]:.3f}" for key in ("best", "log_sum", "l2r"))
        gain = f"{figures['l2r'] - figures['best']:.3f} {figures['gain']:.1f} %"
        assert f"all 8 {nats} {gain}" in lines
        assert f"strictly left to right {100 * figures['is_l2r']:.1f} %" in lines
        word, *_ = figures["first_words"]
        assert any(line.startswith(f"generated first {word['word']} {100 * word['share']:.1f} %") for line in lines)
        assert flagged(done.out) == 0

    @pytest.mark.usefixtures("always")
    def test_what_is_wrong_with_it(self, searched: Path, copy: Path, indigo: Indigo) -> None:
        assert flagged(indigo("show", searched).out) == 1
        facts = json.loads((copy / "run.json").read_text("utf-8"))
        (copy / "run.json").write_text(json.dumps(facts | {"bootstrap_updates": 9}), "utf-8")
        shown = indigo("show", copy).out
        assert flagged(shown) == 0 and "training on given orders up to step 9" in shown

    def test_a_validation_that_was_done_again_counts_once(self, copy: Path, indigo: Indigo) -> None:
        rows = [json.loads(line) for line in (copy / "log.jsonl").read_text("utf-8").splitlines()]
        rows[-1]["search"]["targets"] = 7
        with open(copy / "log.jsonl", "a", encoding="utf-8") as log:
            log.write(json.dumps(rows[-1]) + "\n")
        assert "targets 7" in indigo("show", copy).out

    def test_pictures_and_pages(self, searched: Path, tmp_path: Path, indigo: Indigo) -> None:
        for name in ("a", "b"):
            done = indigo("show", searched, "--png", tmp_path / f"{name}.png", "--html", tmp_path / f"{name}.html")
            assert done.status == 0, done.err
        picture = (tmp_path / "a.png").read_bytes()
        assert picture.startswith(b"\x89PNG") and picture == (tmp_path / "b.png").read_bytes()
        assert "left to right" in (tmp_path / "a.html").read_text("utf-8")
        assert indigo("show", searched, "--png", tmp_path / "a.png").status == 2

    def test_the_border_is_marked_where_there_is_one(self, copy: Path, tmp_path: Path, indigo: Indigo) -> None:
        indigo("show", copy, "--png", tmp_path / "a.png")
        facts = json.loads((copy / "run.json").read_text("utf-8"))
        (copy / "run.json").write_text(json.dumps(facts | {"bootstrap_updates": 0}), "utf-8")
        indigo("show", copy, "--png", tmp_path / "b.png")
        assert (tmp_path / "a.png").read_bytes() != (tmp_path / "b.png").read_bytes()

    @pytest.mark.parametrize("options", [["--id", "1"], ["other"]])
    def test_a_run_is_shown_alone(self, searched: Path, indigo: Indigo, options: list[str]) -> None:
        done = indigo("show", searched, *options)
        assert done.status == 2 and "a run folder is shown alone" in done.err

    def test_a_run_that_never_searched(self, tiny: Tiny, indigo: Indigo) -> None:
        done = indigo("show", tiny.run)
        assert done.status == 2 and "no validation of this run has searched" in done.err and "--order sao" in done.err

    def test_no_run(self, tmp_path: Path, copy: Path, indigo: Indigo) -> None:
        assert "this is not a run folder" in indigo("show", tmp_path).err
        os.remove(copy / "log.jsonl")
        done = indigo("show", copy)
        assert done.status == 2 and "the run's log cannot be read" in done.err

    @pytest.mark.parametrize("search", [{"best": 1.0}, None, [1]])
    def test_a_changed_log(self, copy: Path, indigo: Indigo, search: Any) -> None:
        with open(copy / "log.jsonl", "a", encoding="utf-8") as log:
            log.write(json.dumps({"step": 9, "split": "valid", "search": search}) + "\n")
        done = indigo("show", copy)
        assert done.status == 2 and "the figures of step 9 lack" in done.err and "log_sum" in done.err
