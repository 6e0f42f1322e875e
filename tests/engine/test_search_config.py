"""Presets of [search]: what they are, and that what is written, in the recipe or on the command line, is stronger."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch

from indigo_cli.engine.loaded_run import load_run
from indigo_cli.engine.offline_search import search_config
from indigo_cli.engine.search_config import PRESETS, SearchConfig, free_on_resume, keys_set
from indigo_cli.errors import RecipeError
from indigo_cli.recipe import Recipe, dump_recipe, load_recipe
from tests import recipes
from tests.tiny import Tiny


def load(folder: Path, written: str, *overrides: str) -> Recipe:
    return recipes.load(folder, f"{recipes.SMALLEST}{written}", *overrides)


def test_presets_are_those_of_the_issue(tmp_path: Path) -> None:
    found = {name: load(tmp_path, "", f"search.preset={name}").search for name in PRESETS}
    keys = ("bootstrap_order", "bootstrap_steps", "train_on", "beam_size", "reference")
    assert {name: tuple(getattr(search, key) for key in keys) for name, search in found.items()} == {
        "language": ("l2r", 0.5, "best", 8, "l2r"),
        "structured": ("rnd", 0.25, "average", 4, "none"),
        "paper": ("l2r", 6000, "average", 8, "none"),
    }
    assert found["language"] == SearchConfig() == load(tmp_path, "").search
    assert set(get_args(get_type_hints(SearchConfig)["preset"])) == set(PRESETS)
    for name, search in found.items():
        assert replace(search, **PRESETS["language"], preset="language") == SearchConfig(), name


def test_what_is_written_is_stronger_wherever_it_is_written(tmp_path: Path) -> None:
    written = '[search]\nbeam_size = 2\npreset = "structured"\n'
    assert load(tmp_path, written).search == replace(load(tmp_path, "", "search.preset=structured").search, beam_size=2)
    other = load(tmp_path, written, "search.preset=paper", "search.train_on=sample").search
    assert (other.beam_size, other.train_on, other.bootstrap_steps) == (2, "sample", 6000)


@pytest.mark.parametrize("name", PRESETS)
def test_a_resolved_recipe_has_all_values_and_comes_back(tmp_path: Path, name: str) -> None:
    recipe = load(tmp_path, "", "order.name=sao", f"search.preset={name}")
    resolved = tmp_path / "resolved.toml"
    resolved.write_text(dump_recipe(recipe), encoding="utf-8")
    assert all(f"\n{key} = " in resolved.read_text("utf-8") for key in PRESETS[name])
    assert load_recipe(resolved) == recipe


@pytest.mark.parametrize(("value", "hint"), [("structure", "did you mean `structured`?"), ("3", ""), ("[1]", "")])
def test_another_preset_is_a_fault(tmp_path: Path, value: str, hint: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, "", f"search.preset={value}")
    (fault,) = caught.value.faults
    assert fault.what.startswith('search.preset must be one of "language", "structured"') and fault.fix == hint


def test_a_preset_without_use_is_named_and_its_values_are_not(tmp_path: Path) -> None:
    assert keys_set(load(tmp_path, "", "search.preset=paper").search) == ["search.preset"]
    found = keys_set(load(tmp_path, "", "search.preset=paper", "search.beam_size=3", "search.gumbel=1").search)
    assert sorted(found) == ["search.beam_size", "search.gumbel", "search.preset"]
    assert keys_set(SearchConfig()) == []


def test_a_resumed_run_looks_at_the_values_not_at_the_preset() -> None:
    assert "search.preset" in free_on_resume("sao")
    assert not {f"search.{key}" for key in PRESETS["paper"]} & set(free_on_resume("sao"))


def test_a_search_of_a_run_takes_one_too(tiny: Tiny) -> None:
    run = load_run(tiny.run, device=torch.device("cpu"))
    kept = asdict(run.recipe.search)
    assert asdict(search_config(run, [])) == kept
    assert asdict(search_config(run, ["search.preset=structured", "search.beam_size=2"])) == {
        **kept,
        **PRESETS["structured"],
        "preset": "structured",
        "beam_size": 2,
    }
