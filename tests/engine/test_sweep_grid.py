"""Options of a sweep: what they spell, and every way to get them wrong before a minute is spent."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.engine.sweep_grid import make_grid, parse_axis
from indigo_cli.errors import IndigoError, RecipeError, UsageError

BASE = DecodeConfig(beam_size=7, length_penalty=0.3)


@pytest.mark.parametrize(
    ("option", "key", "values"),
    [
        ("decode.beam_size=1,2,5", "beam_size", (1, 2, 5)),
        ("decode.beam_size=1..4", "beam_size", (1, 2, 3, 4)),
        ("decode.beam_size=1..3, 10 ,20..20", "beam_size", (1, 2, 3, 10, 20)),
        ("decode.length_penalty=0.6,1.0,1e-1", "length_penalty", (0.6, 1.0, 0.1)),
        ("decode.eod_penalty=-2..1", "eod_penalty", (-2, -1, 0, 1)),
        ("decode.search=beam,'joint'", "search", ("beam", "joint")),
        ("decode.ban_unk = true,false", "ban_unk", (True, False)),
    ],
)
def test_values(option: str, key: str, values: tuple[Any, ...]) -> None:
    axis = parse_axis(option)
    assert (axis.key, axis.values) == (key, values)
    assert [type(value) for value in axis.values] == [type(value) for value in values]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=4, unique=True), st.lists(st.sampled_from("01"), min_size=1))
def test_all_combinations_once_with_everything_else_as_it_was(beams: list[int], penalties: list[str]) -> None:
    options = [f"decode.beam_size={','.join(map(str, beams))}", f"decode.length_penalty={','.join(penalties)}"]
    points = make_grid(options, BASE)
    wanted = list(itertools.product(beams, dict.fromkeys(map(float, penalties))))
    assert [tuple(point.values.values()) for point in points] == wanted
    assert [point.config for point in points] == [
        replace(BASE, beam_size=beam, length_penalty=penalty) for beam, penalty in wanted
    ]


def test_a_point_says_what_it_is() -> None:
    (point,) = make_grid(["decode.search=joint", "decode.length_penalty=1"], BASE)
    assert point.text() == 'search "joint", length_penalty 1.0'


@pytest.mark.parametrize(
    ("options", "what", "fix"),
    [
        (["decode.beam_sise=1"], "unknown key decode.beam_sise", "did you mean `beam_size`?"),
        (["beam_size=1,2"], "beam_size cannot vary", "did you mean `decode.beam_size`?"),
        (["train.beam_size=1"], "train.beam_size cannot vary", "did you mean `decode.beam_size`?"),
        (["train.max_steps=1,2"], "only settings of [decode]", "e.g. --sweep"),
        (["decode.merge_strings=true,false"], "both rankings", "leave"),
        (["decode.beam_size"], "--sweep needs", "e.g. --sweep"),
        (["=1"], "--sweep needs", "e.g. --sweep"),
        (["decode.beam_size="], "an empty value", "e.g. --sweep"),
        (["decode.beam_size=1,,2"], "an empty value", "e.g. --sweep"),
        (["decode.beam_size=5..2"], "the range 5..2 is empty", "e.g. --sweep"),
        (["decode.beam_size=1..999999999"], "too long", "e.g. --sweep"),
        (["decode.beam_size=1", "decode.beam_size=2"], "given twice", "one --sweep"),
        (["decode.beam_size=1..200", "decode.top_k=0..200"], "40,200 combinations", "fewer"),
    ],
)
def test_wrong_options_say_what_and_how_to_mend_it(options: list[str], what: str, fix: str) -> None:
    with pytest.raises(IndigoError) as error:
        make_grid(options, BASE)
    assert what in error.value.what
    assert fix in error.value.fix


def test_all_wrong_values_are_named_once() -> None:
    with pytest.raises(RecipeError) as error:
        make_grid(["decode.beam_size=1,0,2.5", "decode.length_penalty=1,x"], BASE)
    assert [fault.what for fault in error.value.faults] == [
        'decode.length_penalty must be a number, got "x"',
        "decode.beam_size must be greater than or equal to 1, got 0",
        "decode.beam_size must be a whole number, got 2.5",
    ]
    assert error.value.faults[1].where == "--sweep decode.beam_size=1,0,2.5"
    with pytest.raises(UsageError):
        parse_axis("decode.a.b=1")
