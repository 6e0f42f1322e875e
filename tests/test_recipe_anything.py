"""Whatever a document or an override says, the answer is a recipe or an error that a user can read."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indigo_cli.core.toml import dump_toml
from indigo_cli.errors import IndigoError
from indigo_cli.recipe import dump_recipe, load_recipe
from tests.recipes import SMALLEST, load

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
names = st.sampled_from(
    ["name", "seed", "data", "splits", "train", "valid", "source", "target", "task", "model", "system", "order", "file",
     "parse", "search", "decode", "beam_size", "evaluate", "metrics", "references", "max_steps", "dropout"]
)  # fmt: skip
words = st.sampled_from(["translation", "word_ordering", "indigo", "transformer", "lstm", "l2r", "sao", "file", "bleu"])
scalars = (
    words
    | texts
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.dates()
    | st.datetimes()
    | st.just(10**400)
    | st.none()
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars.filter(lambda value: value is not None),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | texts, inner, max_size=4),
    max_leaves=12,
)
quiet = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def check_answer(folder: Path, text: str, overrides: list[str]) -> None:
    try:
        recipe = load(folder, text, *overrides)
    except IndigoError as error:
        rendered = error.render()
        assert rendered.startswith("error: ")
        assert "\nat: " in rendered or "--set" in rendered
    else:
        assert load(folder, dump_recipe(recipe)) == recipe


@pytest.mark.slow
@quiet
@given(st.dictionaries(names | texts, values, max_size=5))
def test_any_document_is_a_recipe_or_a_readable_error(tmp_path: Path, content: dict[str, Any]) -> None:
    check_answer(tmp_path, dump_toml(content), [])


@quiet
@given(st.lists(st.tuples(st.lists(names | texts, min_size=1, max_size=4), values | texts), max_size=3), st.booleans())
def test_any_override_is_taken_or_refused_readably(tmp_path: Path, pairs: list[Any], as_toml: bool) -> None:
    overrides = []
    for key, value in pairs:
        shown = dump_toml({"v": value}).removeprefix("v = ").rstrip("\n") if as_toml else str(value)
        overrides.append(f"{'.'.join(key)}={shown}")
    check_answer(tmp_path, SMALLEST, overrides)


@quiet
@given(st.text(max_size=40) | st.lists(st.sampled_from(list("[]{}=\"'.,#\n\t \\ab1-")), max_size=40).map("".join))
def test_any_text_is_a_recipe_or_a_readable_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        load_recipe(path, [text])
    except IndigoError as error:
        assert error.render().startswith("error: ")
