"""TOML: where keys stand, and writing what reads back equal."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.toml import dump_toml, key_lines, read_key, read_toml
from indigo_cli.errors import RecipeError

DOCUMENT = '''\
name = "x" # a = 1
[data] # c
"task name" = "t"
splits.train = { source = ["a", "b"], target = [
  "c=d", # ] = comment
  "e",
] }
text = """
[not.a.section]
key = 1
"""
quotes = \'\'\'a'\'\'\'\'
'single' = 'a\\'
[data.splits."de v"]
source = [["x"], []]
[[list]]
a = 1
[[list]]
b = { c = 2, d.e = "}" }
[list.inner]
f = 1979-05-27 07:32:00
[empty]
'''


def test_lines_of_keys_are_those_a_person_counts() -> None:
    tomllib.loads(DOCUMENT)
    assert key_lines(DOCUMENT) == {
        ("name",): 1,
        ("data",): 2,
        ("data", "task name"): 3,
        ("data", "splits"): 4,
        ("data", "splits", "train"): 4,
        ("data", "splits", "train", "source"): 4,
        ("data", "splits", "train", "source", 0): 4,
        ("data", "splits", "train", "source", 1): 4,
        ("data", "splits", "train", "target"): 4,
        ("data", "splits", "train", "target", 0): 5,
        ("data", "splits", "train", "target", 1): 6,
        ("data", "text"): 8,
        ("data", "quotes"): 12,
        ("data", "single"): 13,
        ("data", "splits", "de v"): 14,
        ("data", "splits", "de v", "source"): 15,
        ("data", "splits", "de v", "source", 0): 15,
        ("data", "splits", "de v", "source", 0, 0): 15,
        ("data", "splits", "de v", "source", 1): 15,
        ("list",): 16,
        ("list", 0): 16,
        ("list", 0, "a"): 17,
        ("list", 1): 18,
        ("list", 1, "b"): 19,
        ("list", 1, "b", "c"): 19,
        ("list", 1, "b", "d"): 19,
        ("list", 1, "b", "d", "e"): 19,
        ("list", 1, "inner"): 20,
        ("list", 1, "inner", "f"): 21,
        ("empty",): 22,
    }


def test_windows_line_ends_do_not_move_lines() -> None:
    assert key_lines(DOCUMENT.replace("\n", "\r\n")) == key_lines(DOCUMENT)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a = 1\nb = \n", 2, "Invalid value"),
        ('a = 1\n\nname = "x\n', 3, "Illegal character"),
        ("a = 1\na = 2\n", 2, "Cannot overwrite a value"),
        ('a = """\nb\nc', 3, "Unterminated string"),
        ("a = bare\n", 1, "Invalid value"),
        ("[a]\nb = 1\n[a]\n", 3, "Cannot declare"),
        ("a = " + "[" * 100_000, 0, "nested too deeply"),
        ("a = " + "9" * 5000, 1, "digits"),
    ],
)
def test_a_syntax_error_names_its_line(text: str, line: int, what: str) -> None:
    with pytest.raises(RecipeError) as caught:
        read_toml(text, name="r.toml")
    (fault,) = caught.value.faults
    assert fault.where == (f"r.toml:{line}" if line else "r.toml")
    assert what in fault.what
    assert "(at line" not in fault.what and "(at end" not in fault.what


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a", ("a",)),
        ("a.b-c._1", ("a", "b-c", "_1")),
        ('a."b.c"', ("a", "b.c")),
        (" a . 'b c' ", ("a", "b c")),
        ("", None),
        ("a.", None),
        ("a b", None),
        ("[a]\nb", None),
        ("a = 1 # ", None),
        ("a = {x", None),
    ],
)
def test_keys_are_read_as_toml_spells_them(text: str, key: tuple[str, ...] | None) -> None:
    assert read_key(text) == key


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = texts | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.dates()
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=5
)


@given(st.dictionaries(texts, values, max_size=4))
def test_what_is_written_reads_back_equal(content: dict[str, Any]) -> None:
    text = dump_toml(content)
    assert read_toml(text, name="x")[0] == content


@given(st.dictionaries(texts, scalars | st.lists(scalars, max_size=2), max_size=4), st.data())
def test_every_key_has_the_line_it_was_written_on(content: dict[str, Any], data: st.DataObject) -> None:
    text = ""
    expected = {}
    for key, value in content.items():
        text += data.draw(st.sampled_from(["", "\n", "# a = 1\n", "\t \r\n"]))
        expected[key] = text.count("\n") + 1
        text += dump_toml({key: value})
    assert {key[0]: line for key, line in key_lines(text).items() if len(key) == 1} == expected
