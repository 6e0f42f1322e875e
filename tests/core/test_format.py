"""What files say of themselves: objects, versions and seals."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.format import check_header, check_seal, parse_object, read_object, sealed, shorten
from indigo_cli.errors import DataError

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
objects = st.dictionaries(st.text().filter(lambda key: key != "digest"), scalars | st.lists(scalars), max_size=5)


@pytest.mark.parametrize("content", ["", "[1]", "1", "null", "{", b"\xff", b'{"a": "\xff"}', "[" * 100_000, "9" * 5000])
def test_what_is_no_object_is_a_value_error(content: str | bytes) -> None:
    with pytest.raises(ValueError):
        read_object(content)
    assert isinstance(content, bytes) or parse_object(content) is None


@given(objects)
def test_a_seal_holds_through_json(content: dict[str, Any]) -> None:
    whole = json.loads(json.dumps(sealed(content)))
    check_seal(whole, required=True)
    check_seal(content, required=False)  # of a version that wrote no seals
    with pytest.raises(ValueError, match="changed after it was written"):
        check_seal(content, required=True)
    for key in content:
        for changed in ({**whole, key: [content[key]]}, {k: v for k, v in whole.items() if k != key}):
            with pytest.raises(ValueError, match="changed after it was written"):
                check_seal(changed, required=False)
    with pytest.raises(ValueError):
        check_seal({**whole, "one more": 1}, required=False)


@pytest.mark.parametrize("version", [None, True, 0, -1, 1.0, "1", [1]])
def test_what_is_no_version_is_refused(version: Any) -> None:
    with pytest.raises(DataError, match="no valid version"):
        check_header({"format": "x", "version": version}, where="f", format="x", version=3)


def test_older_versions_pass_and_newer_ones_do_not() -> None:
    for version in (1, 2, 3):
        check_header({"format": "x", "version": version}, where="f", format="x", version=3)
    with pytest.raises(DataError, match="x version 4 is newer than this indigo reads") as caught:
        check_header({"format": "x", "version": 4}, where="f", format="x", version=3)
    assert (caught.value.where, caught.value.fix) == ("f", "upgrade indigo")
    with pytest.raises(DataError, match="not an x file") as caught:
        check_header({"format": ["y"] * 99, "version": 1}, where="f", format="x", version=3, fix="mend it")
    assert len(caught.value.what) < 100 and caught.value.fix == "mend it"


def test_values_are_shortened_for_messages() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert shorten("a") == "'a'" and len(shorten("x" * 9999)) == 40 and shorten(deep) == "a list"
