"""Recipes: which orders, searches and given words go together with which system, and what is said where they do not."""

from pathlib import Path

import pytest

from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.recipe import dump_recipe
from tests.recipes import SMALLEST, faults_of, load


def test_an_order_file_must_be_named(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, SMALLEST, "order.name=file")
    assert fault.what == 'order.name = "file" needs order.file'
    assert load(tmp_path, SMALLEST, "order.name=file", "order.file=o.jsonl").order.file == str(tmp_path / "o.jsonl")


def test_a_system_that_cannot_learn_the_order_is_a_fault(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, SMALLEST, "model.system=transformer", "order.name=odd")
    assert fault.what == 'order.name = "odd" does not go with model.system = "transformer"'


@pytest.mark.parametrize(
    ("overrides", "where", "what", "fix"),
    [
        (["model.system=transformer"], "order.name", 'does not go with model.system = "transformer"', "l2r only"),
        (["model.predict=position_first"], "order.name", 'with model.predict = "position_first"', "word_first"),
        (["train.sharding=full", "train.validate_decode=0"], "order.name", "calls single layers", 'sharding = "none"'),
        (["search.bootstrap_steps=20000"], "search.bootstrap_steps", "never search: all of its 20000", "share below 1"),
        (["search.bootstrap_steps=0.99999"], "search.bootstrap_steps", "never search", "share below 1"),
        (
            ["train.max_steps=0", "train.max_epochs=3"],
            "search.bootstrap_steps",
            "share of train.max_steps, which has no limit",
            "a number of updates",
        ),
        (["search.refresh=2", "train.bpe_dropout=0.1"], "search.refresh", "split anew", "search.refresh = 1"),
    ],
)
def test_what_cannot_search_is_a_fault(tmp_path: Path, overrides: list[str], where: str, what: str, fix: str) -> None:
    place = next((f"--set {text}" for text in overrides if text.startswith(f"{where}=")), None)
    (fault,) = faults_of(tmp_path, SMALLEST, "order.name=sao", *overrides)
    assert what in fault.what and fix in fault.fix
    assert place is None or fault.where == place
    load(tmp_path, SMALLEST, *(text for text in overrides if "sharding" not in text), "order.name=l2r")


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        (["model.system=transformer"], "only appends"),
        (["model.system=insertion"], "one pass"),
        (["order.name=sao"], 'order.name = "sao"'),
    ],
)
def test_where_given_words_cannot_come_first_is_a_fault(tmp_path: Path, overrides: list[str], what: str) -> None:
    (fault,) = faults_of(tmp_path, SMALLEST, "train.given_rate=0.3", *overrides)
    assert fault.where == "--set train.given_rate=0.3" and what in fault.what and "set it to 0" in fault.fix
    load(tmp_path, SMALLEST, "train.given_rate=0", *overrides)
    assert load(tmp_path, SMALLEST, "train.given_rate=0.3").train.given_rate == 0.3


def test_what_searches_is_none() -> None:
    steps = {0.0: 0, 0.25: 250, 1.0: 1, 300.0: 300}
    assert {share: SearchConfig(bootstrap_steps=share).bootstrap_updates(1000) for share in steps} == steps


@pytest.mark.parametrize("override", ["search.bootstrap_steps=0", "search.reference=none", "search.reference=syn"])
def test_searched_orders_are_written_out_and_come_back(tmp_path: Path, override: str) -> None:
    recipe = load(tmp_path, SMALLEST, "order.name=sao", override)
    assert "slot_weight" in dump_recipe(recipe), "defaults may change"
    assert load(tmp_path, dump_recipe(recipe)) == recipe
    assert load(tmp_path, SMALLEST, "order.name=sao", "search.bootstrap_steps=100", "train.max_steps=0",
                "train.max_minutes=1").search.bootstrap_steps == 100  # fmt: skip


@pytest.mark.parametrize("key", ["reference", "bootstrap_order"])
def test_orders_to_start_from_are_rules(tmp_path: Path, key: str) -> None:
    for order in ("sao", "file", *(["none"] if key == "bootstrap_order" else [])):
        (fault,) = faults_of(tmp_path, SMALLEST, "order.name=sao", f"search.{key}={order}")
        assert fault.what == f"search.{key}: there is no {order!r}" and "rnd" in fault.fix
