"""Training on a file with several orders of a target: the first one, a draw, or all of them; nothing is searched."""

from pathlib import Path
from typing import Any

import pytest

from indigo_cli.data.corpus import Corpus
from indigo_cli.data.orders_file import OrdersRow, write_orders
from indigo_cli.engine import order_planner, valid_search
from indigo_cli.errors import UsageError
from tests.runs import log_of, same, state_of, training_rows
from tests.tiny import Tiny

STEPS = ("train.max_steps=3", "model.dropout=0", "train.label_smoothing=0")


@pytest.fixture(autouse=True)
def _nothing_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise AssertionError("a search")

    for module in (order_planner, valid_search):
        monkeypatch.setattr(module, "search_orders", fail)


def orders_file(
    tiny: Tiny, path: Path, names: list[str], log_probs: list[float] | None = None, *, most: int = 9
) -> Path:
    """Write l2r and r2l, the first ones `most` of them, for each training target."""
    split = Corpus.open(tiny.corpus).split("train")
    rows = []
    for line, length in zip(split.lines.tolist(), split.target.lengths.tolist(), strict=True):
        rule = {"l2r": tuple(range(length)), "r2l": tuple(range(length))[::-1]}
        orders = tuple(rule[name] for name in names[:most])
        rows.append(OrdersRow(line, orders, None if log_probs is None else tuple(log_probs[:most])))
    write_orders(path, {"order": "mine", "split": "train"}, rows)
    return path


def first_loss(run: Path) -> float:
    loss: float = training_rows(run)[0]["loss"]
    return loss


def test_the_average_of_two_is_the_mean_of_runs_on_one(tiny: Tiny, tmp_path: Path) -> None:
    for name in ("l2r", "r2l"):
        tiny.train(tmp_path / name, *STEPS, f"order.name={name}")
    both = orders_file(tiny, tmp_path / "both.jsonl", ["l2r", "r2l", "l2r"])
    tiny.train(tmp_path / "both", *STEPS, "search.train_on=average", orders=[both])
    mean = (first_loss(tmp_path / "l2r") + first_loss(tmp_path / "r2l")) / 2
    assert first_loss(tmp_path / "both") == pytest.approx(mean, rel=1e-5)
    row = training_rows(tmp_path / "both")[0]
    assert 0.5 < row["tree_share"] <= 1.0 and row["searched"] == 0.0


def test_the_best_is_the_first(tiny: Tiny, tmp_path: Path) -> None:
    both = orders_file(tiny, tmp_path / "both.jsonl", ["r2l", "l2r"])
    one = orders_file(tiny, tmp_path / "one.jsonl", ["r2l"])
    for name, path in (("both", both), ("one", one)):
        tiny.train(tmp_path / name, *STEPS, orders=[path])
    assert same(state_of(tmp_path / "both"), state_of(tmp_path / "one"))
    assert log_of(tmp_path / "both") == log_of(tmp_path / "one")


def test_draws_follow_the_log_probabilities(tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny.train(tmp_path / "r2l", *STEPS, "order.name=r2l")
    drawn = ("search.train_on=sample", "search.temperature=1")
    sure = orders_file(tiny, tmp_path / "sure.jsonl", ["l2r", "r2l"], [-100.0, -1.0])
    tiny.train(tmp_path / "sure", *STEPS, *drawn, orders=[sure])
    assert same(state_of(tmp_path / "sure"), state_of(tmp_path / "r2l"))
    assert "equal chances" not in capsys.readouterr().err
    tiny.train(tmp_path / "hot", *STEPS, drawn[0], "search.temperature=1e9", orders=[sure])
    assert first_loss(tmp_path / "hot") != first_loss(tmp_path / "r2l")
    unknown = orders_file(tiny, tmp_path / "unknown.jsonl", ["l2r", "r2l"])
    tiny.train(tmp_path / "unknown", *STEPS, *drawn, orders=[unknown])
    assert "gives no log_probs: its orders are drawn with equal chances" in capsys.readouterr().err
    assert first_loss(tmp_path / "unknown") == first_loss(tmp_path / "hot")


@pytest.mark.slow
def test_a_resumed_run_draws_the_same(tiny: Tiny, tmp_path: Path) -> None:
    both = orders_file(tiny, tmp_path / "both.jsonl", ["l2r", "r2l"])
    drawn = (*STEPS, "search.train_on=sample", "train.log_every=2")
    tiny.train(tmp_path / "whole", *drawn, "train.max_steps=8", orders=[both])
    tiny.train(tmp_path / "run", *drawn, "train.max_steps=3", orders=[both])
    tiny.train(tmp_path / "run", *drawn, "train.max_steps=8", orders=[both], resume=True)
    assert same(state_of(tmp_path / "whole"), state_of(tmp_path / "run"))
    assert training_rows(tmp_path / "whole") == training_rows(tmp_path / "run")


def test_one_order_of_each_target_is_one_whatever_is_asked(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = orders_file(tiny, tmp_path / "one.jsonl", ["r2l"])
    tiny.train(tmp_path / "plain", *STEPS, orders=[one])
    assert "no effect" not in capsys.readouterr().err
    tiny.train(tmp_path / "asked", *STEPS, "search.train_on=average", orders=[one])
    assert "search.train_on has no effect: the file has one order of each target" in capsys.readouterr().err
    assert same(state_of(tmp_path / "plain"), state_of(tmp_path / "asked"))
    assert log_of(tmp_path / "plain") == log_of(tmp_path / "asked")


def test_parts_of_a_model_do_not_go_with_trees(tiny: Tiny, tmp_path: Path) -> None:
    from indigo_cli.engine.assign import OrderConfig
    from indigo_cli.engine.distributed import Processes
    from indigo_cli.engine.runtime import Runtime
    from indigo_cli.engine.train_setup import TrainSetup

    both = orders_file(tiny, tmp_path / "both.jsonl", ["l2r", "r2l"])
    recipe = tiny.recipe("search.train_on=average", "train.sharding=full")
    setup = TrainSetup(recipe, Corpus.open(tiny.corpus), {"train": OrderConfig(name="file", file=str(both))})
    with pytest.raises(UsageError, match="shard the model") as caught:
        setup.prepare(None, bootstrap_updates=0, processes=Processes(), runtime=Runtime())  # type: ignore[arg-type]
    assert caught.value.where == "train.sharding"
