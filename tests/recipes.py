"""The smallest recipe, and how tests load one with changes."""

from pathlib import Path

import pytest

from indigo_cli.errors import IndigoError, RecipeError
from indigo_cli.recipe import Recipe, load_recipe

SMALLEST = """\
[data.splits]
train = { source = ["t.en"], target = ["t.de"] }
valid = { source = ["v.en"], target = ["v.de"] }
"""


def load(folder: Path, text: str, *overrides: str) -> Recipe:
    path = folder / "my recipe.toml"
    path.write_text(text, encoding="utf-8")
    return load_recipe(path, overrides)


def faults_of(folder: Path, text: str, *overrides: str) -> list[IndigoError]:
    with pytest.raises(RecipeError) as caught:
        load(folder, text, *overrides)
    return caught.value.faults
