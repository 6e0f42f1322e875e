"""Columns and sentences beside each other, at widths that do and do not suffice."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from indigo_cli.engine.display import Growth
from indigo_cli.engine.side_by_side import GAP, Column, SideBySide, column_names, statistics
from tests.engine.test_display import render

FIGURES = {"sequences": "2", "tau": "", "finished": ""}


def column(name: str, **figures: str) -> Column:
    return Column(name, f"orders in {name}", {"order": name}, FIGURES | figures)


def test_parts_stand_beside_each_other_where_both_fit_whole() -> None:
    parts = [Text("one\ntwo"), Text("three\nfour\nfive")]
    needed = len("two") + GAP + len("three")
    assert render(SideBySide(parts), width=needed).splitlines() == ["one    three", "two    four ", "       five "]
    narrow = render(SideBySide(parts), width=needed - 1).splitlines()
    assert [line.rstrip() for line in narrow] == ["one", "two", "", "three", "four", "five"]


@pytest.mark.parametrize("width", [50, 200])
def test_growing_sentences_are_not_cut_to_stand_beside_each_other(width: int) -> None:
    words = [f"word{i}" for i in range(8)]
    shown = render(SideBySide([Growth(words, range(8)), Growth(words, range(7, -1, -1))]), width=width)
    beside = any("[word0]" in line and "[word7]" in line for line in shown.splitlines())
    assert beside == (width == 200)
    assert "…" in shown or beside


@given(st.lists(st.text("ab \n猫", max_size=30), min_size=1, max_size=3), st.integers(8, 80))
def test_no_line_is_wider_than_the_terminal(texts: list[str], width: int) -> None:
    for line in render(SideBySide([Text(text) for text in texts]), width=width).splitlines():
        assert cell_len(line.rstrip()) <= width


def test_one_file_has_no_empty_rows_and_its_title() -> None:
    lines = render(statistics([column("a", tau="+1")])).splitlines()
    assert [line.split() for line in lines] == [
        ["orders", "in", "a"],
        ["order", "a"],
        ["sequences", "2"],
        ["tau", "+1"],
    ]


def test_files_are_columns_of_one_table() -> None:
    lines = [
        line.split() for line in render(statistics([column("a", tau="+1"), column("b", finished="3")])).splitlines()
    ]
    assert ["a", "b"] in lines
    assert ["order", "a", "b"] in lines
    assert ["sequences", "2", "2"] in lines
    tau, finished = (next(line for line in lines if line[:1] == [name]) for name in ("tau", "finished"))
    assert (tau[1:], finished[1:]) == (["+1"], ["3"])


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["x/a.traces.jsonl.gz", "y/b.orders.jsonl"], ["a", "b"]),
        (["a.traces.jsonl", "a.orders.jsonl"], ["a.traces.jsonl", "a.orders.jsonl"]),
        (["x/a.jsonl", "y/a.jsonl"], ["x/a.jsonl", "y/a.jsonl"]),
        ([".jsonl", "-"], [".jsonl", "-"]),
        (["a.jsonl", "a.jsonl"], ["a.jsonl", "a.jsonl"]),
    ],
)
def test_column_names(paths: list[str], names: list[str]) -> None:
    assert column_names(paths) == names


@given(st.lists(st.sampled_from(["a/x.jsonl", "b/x.jsonl", "x.orders.jsonl", "x.traces.jsonl.gz", "y"]), unique=True))
def test_names_of_different_files_differ(paths: list[str]) -> None:
    assert all(before != after for before, after in pairwise(sorted(column_names(paths))))
