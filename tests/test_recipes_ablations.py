"""The lines of recipes/ablations/README.md: the program takes them, and each changes what it says and nothing else."""

import re
import shlex
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from indigo_cli.cli import app
from indigo_cli.engine.search_config import PRESETS, SearchConfig
from indigo_cli.recipe import Recipe, load_recipe

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "recipes" / "ablations" / "README.md").read_text("utf-8")
SHELL = "\n".join(re.findall(r"^```sh\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE))
BASES = re.findall(r"^R=.+$", SHELL, flags=re.MULTILINE)
"""What sets the variables of the lines, at each of the sizes."""
SIZES = ("small", "paper")
GROUP: Any = typer.main.get_command(app)
LINES = [line.split("  #")[0].strip() for line in re.findall(r"\bindigo .*?(?=;|$)", SHELL, flags=re.MULTILINE)]


@cache
def parsed(line: str, base: str) -> tuple[str, dict[str, Any]]:
    """Return command and parameters of a line, as the program reads them."""
    values = dict(word.split("=", 1) for word in shlex.split(base))
    line = re.sub(r"\$([A-Z]+)", lambda name: values[name[1]], line)  # not quoted there: it is cut at its blanks
    program, command, *words = shlex.split(line)
    assert program == "indigo"
    return command, GROUP.commands[command].make_context(command, words).params


@cache
def trainings(base: str) -> dict[str, tuple[dict[str, Any], Recipe]]:
    """Return parameters and recipe of every `train`, by its run folder's name."""
    runs = {}
    lines = [line for line in LINES if line.startswith("indigo train ")]
    for _, params in (parsed(line, base) for line in lines):
        order = [] if params["order"] is None else [f"order.name={params['order']}"]
        recipe = load_recipe(ROOT / params["recipe"], [*(params["override"] or []), *order])
        runs[params["output"].name] = params, recipe
    assert len(runs) == len(lines)
    return runs


@pytest.mark.parametrize("base", BASES, ids=SIZES)
def test_every_line_is_taken_and_every_training_is_another_one(base: str) -> None:
    assert {parsed(line, base)[0] for line in LINES} == {
        "preprocess", "train", "search-orders", "decode", "evaluate", "show"
    }  # fmt: skip
    texts = [repr((recipe, params["orders"])) for params, recipe in trainings(base).values()]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("base", BASES, ids=SIZES)
def test_what_parts_are_taken_from_is_the_preset(base: str) -> None:
    _, whole = trainings(base)["paper"]
    steps = whole.search.bootstrap_steps
    assert whole.search == SearchConfig(**{**PRESETS["paper"], "preset": "paper", "bootstrap_steps": steps})
    assert steps < whole.train.max_steps / 2


@pytest.mark.parametrize("base", BASES, ids=SIZES)
def test_a_line_changes_what_it_sets_and_nothing_else(base: str) -> None:
    runs = trainings(base)
    base_params, whole = runs["paper"]
    own = len(base_params["override"] or [])
    for name, (params, recipe) in runs.items():
        for setting in (params["override"] or [])[own:]:
            section, _, key = setting.partition("=")[0].partition(".")
            before = getattr(getattr(whole, section), key)
            assert getattr(getattr(recipe, section), key) != before, f"{name}: {setting} is what it was"
            recipe = replace(recipe, **{section: replace(getattr(recipe, section), **{key: before})})
        assert replace(recipe, order=whole.order) == whole, name
        assert recipe.order.name == (params["order"] or "sao"), name


def test_the_ablations_of_the_issue_are_there() -> None:
    searches = [recipe.search for _, recipe in trainings(BASES[0]).values()]
    assert 0 in {search.bootstrap_steps for search in searches}
    assert {search.dropout for search in searches} == {0, 0.1}
    assert {search.bootstrap_order for search in searches} == {"l2r", "r2l", "syn", "rnd"}
    assert {search.beam_size for search in searches} == {1, 4, 8}
    assert {search.refresh for search in searches} == {1, 4}
    assert {(search.train_on, search.reference) for search in searches} == {
        (train_on, reference) for train_on in ("best", "sample", "average") for reference in ("none", "l2r")
    }


@pytest.mark.parametrize("base", BASES, ids=SIZES)
def test_orders_that_are_found_once_are_those_of_the_start_and_the_updates_add_up(base: str) -> None:
    runs = trainings(base)
    (start_params, start), (params, offline), (_, whole) = (runs[name] for name in ("start", "offline", "paper"))
    (search,) = (found for command, found in (parsed(line, base) for line in LINES) if command == "search-orders")
    assert search["run"] == start_params["output"] == params["init"]
    assert [str(path) for path in params["orders"]] == [search["output"]]
    assert (search["beam"], offline.search.train_on) == (whole.search.beam_size, whole.search.train_on)
    assert start.train.max_steps == whole.search.bootstrap_updates(whole.train.max_steps)
    assert start.train.max_steps + offline.train.max_steps == whole.train.max_steps
    assert start.order.name == whole.search.bootstrap_order
