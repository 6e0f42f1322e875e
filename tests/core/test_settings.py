"""Sections checked strictly: each fault with its key, value, place and mend; overrides."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.settings import (
    Count,
    PositiveFloat,
    Rate,
    apply_overrides,
    did_you_mean,
    parse_section,
    place_of,
    read_value,
    spell,
)
from indigo_cli.core.toml import Places, dump_value
from indigo_cli.errors import IndigoError


@dataclass(frozen=True)
class Inner:
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Section:
    name: str = "x"
    kind: Literal["best", "sample"] = "best"
    steps: Count = 1
    rate: Rate = 0.0
    speed: PositiveFloat = 1.0
    wide: bool = False
    pair: tuple[str, ...] = ()
    splits: dict[str, Inner] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.steps == 13:
            raise ValueError("steps (13) bring bad luck")


PLACES: Places = {(): "r.toml", ("s",): "r.toml:1", ("s", "steps"): "r.toml:2"}


def faults_of(table: Any, places: Places = PLACES) -> list[IndigoError]:
    value, faults = parse_section(Section, table, prefix=("s",), places=places)
    assert (value is None) == bool(faults)
    return faults


def test_a_good_table_becomes_its_dataclass() -> None:
    table = {"name": "é", "steps": 3, "rate": 0, "pair": ["a"], "splits": {"a.b": {"files": ["f"]}}}
    value, faults = parse_section(Section, table, prefix=("s",), places={})
    assert faults == []
    assert value == Section(name="é", steps=3, rate=0.0, pair=("a",), splits={"a.b": Inner(["f"])})


@pytest.mark.parametrize(
    ("table", "what", "fix"),
    [
        ({"stpes": 3}, "unknown key s.stpes", "did you mean `steps`?"),
        ({"zzz": 3}, "unknown key s.zzz", "[s] knows name, kind, steps, rate, speed, wide, pair, splits"),
        ({"splits": {"t": {"fiels": []}}}, "unknown key s.splits.t.fiels", "did you mean `files`?"),
        ({"steps": "many"}, 's.steps must be a whole number, got "many"', ""),
        ({"steps": "3"}, 's.steps must be a whole number, got "3"', ""),
        ({"steps": 1.0}, "s.steps must be a whole number, got 1.0", ""),
        ({"steps": True}, "s.steps must be a whole number, got true", ""),
        ({"steps": 0}, "s.steps must be greater than or equal to 1, got 0", ""),
        ({"rate": 1.0}, "s.rate must be less than 1, got 1.0", ""),
        ({"rate": float("nan")}, "s.rate must be a finite number, got nan", ""),
        ({"speed": float("inf")}, "s.speed must be a finite number, got inf", ""),
        ({"wide": "yes"}, 's.wide must be true or false, got "yes"', ""),
        ({"wide": 1}, "s.wide must be true or false, got 1", ""),
        ({"name": 5}, "s.name must be text in quotes, got 5", 'write s.name = "5"'),
        ({"name": ["a"]}, 's.name must be text in quotes, got ["a"]', ""),
        ({"pair": "a"}, 's.pair must be a list in brackets, got "a"', ""),
        ({"splits": {"t": {"files": ["a", 3]}}}, "s.splits.t.files[1] must be text in quotes, got 3", None),
        ({"splits": {"t": 3}}, "s.splits.t must be a table, got 3", ""),
        ({"splits": {"a.b": 3}}, 's.splits."a.b" must be a table, got 3', ""),
        ({"kind": "bset"}, 's.kind must be one of "best" or "sample", got "bset"', "did you mean `best`?"),
        ({"steps": 13}, "[s] steps (13) bring bad luck", ""),
        ({"steps": 2**64}, "s.steps is a number beyond 64 bits", ""),
        ({"name": "\udcff"}, "s.name is not valid UTF-8", ""),
        ({"name": "a\0b"}, "s.name contains a NUL character", ""),
        (5, "s must be a table, got 5", ""),
    ],
)
def test_each_kind_of_fault_says_what_and_how_to_mend(table: Any, what: str, fix: str | None) -> None:
    (fault,) = faults_of(table)
    assert fault.what == what
    assert fix is None or fault.fix == fix


def test_all_faults_come_at_once_with_the_nearest_place() -> None:
    faults = faults_of({"steps": 0, "wide": 3, "nmae": "x", "splits": {"t": {"x": 1}}})
    assert [fault.where for fault in faults] == ["r.toml:2", "r.toml:1", "r.toml:1", "r.toml:1"]


def test_a_long_value_is_cut_in_the_message() -> None:
    (fault,) = faults_of({"steps": "x" * 500})
    assert len(fault.what) < 130


def test_a_deep_value_is_refused() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    (fault,) = faults_of({"name": deep})
    assert "nested too deeply" in fault.what


def test_a_key_of_another_section_is_sent_home() -> None:
    _, (fault,) = parse_section(Section, {"beam": 3}, prefix=("s",), places={}, known_elsewhere={"beam": "[decode]"})
    assert fault.fix == "`beam` belongs to [decode]"


def test_place_falls_back_to_the_table_around() -> None:
    assert place_of(("s", "steps"), PLACES) == "r.toml:2"
    assert place_of(("s", "splits", "x"), PLACES) == "r.toml:1"
    assert place_of(("t",), PLACES) == "r.toml"
    assert place_of(("t", "u"), {}) == "t.u"


def test_keys_are_spelt_so_that_set_takes_them() -> None:
    assert spell(("a", "b c", 0, "d.e", "")) == 'a."b c"[0]."d.e".""'


def test_no_far_fetched_suggestion() -> None:
    assert did_you_mean("dropout", ["beam_size"]) == ""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-0.5", -0.5),
        ("5e-4", 5e-4),
        ("true", True),
        ('"3"', "3"),
        ('["bleu", "chrf"]', ["bleu", "chrf"]),
        ("{ a = 1 }", {"a": 1}),
        ("rnd", "rnd"),
        ("ldpe+pe", "ldpe+pe"),
        ("", ""),
        ("[bleu", "[bleu"),
        ("2024-01-01", "2024-01-01"),
        ("1\n[train]\nmax_steps = 1", "1\n[train]\nmax_steps = 1"),
        ("1 # x", 1),
    ],
)
def test_values_of_overrides(text: str, value: Any) -> None:
    assert read_value(text) == value


def test_overrides_reach_every_depth_and_leave_the_original_alone() -> None:
    tables = {"a": {"b": 1, "c": {"d": [1]}}, "e": 5}
    result, places = apply_overrides(tables, ["a.b=2", "a.c.d=[3]", 'f."g.h"=x', "a.b=4"])
    assert result == {"a": {"b": 4, "c": {"d": [3]}}, "e": 5, "f": {"g.h": "x"}}
    assert tables == {"a": {"b": 1, "c": {"d": [1]}}, "e": 5}
    assert places == {("a", "b"): "--set a.b=4", ("a", "c", "d"): "--set a.c.d=[3]", ("f", "g.h"): '--set f."g.h"=x'}


@pytest.mark.parametrize("override", ["a", "=3", "a.=3", "a b=3", "", "e.x=1", "e.x.y=1", "a.b=\udcff"])
def test_overrides_of_another_form_are_refused(override: str) -> None:
    with pytest.raises(IndigoError) as caught:
        apply_overrides({"e": 5}, [override])
    assert "--set" in caught.value.render()


@given(st.recursive(st.integers(-9, 9) | st.booleans() | st.text(max_size=5), lambda x: st.lists(x, max_size=3)))
def test_a_value_spelt_as_toml_is_read_back(value: Any) -> None:
    assert read_value(dump_value(value)) == value


def test_annotations_of_other_modules_work_too() -> None:
    from pydantic import Field

    @dataclass(frozen=True)
    class Other:
        width: Annotated[int, Field(gt=0, multiple_of=2)] = 2

    _, (fault,) = parse_section(Other, {"width": 3}, prefix=("o",), places={})
    assert fault.what == "o.width must be a multiple of 2, got 3"
