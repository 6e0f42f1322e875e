"""How valid files are damaged: bytes, lines, values of JSON and of TOML, and files that were never ours."""

import copy
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

SNIPPETS = (
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",  # a surrogate in UTF-8
    b"\xef\xbb\xbf",
    b"\n",
    b"\r\n",
    b"\r",
    b"\t",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"=",
    b"#",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-1",
    b"9" * 40,
    b"9" * 5000,
    b"[" * 3000,
    b'{"a":' * 3000,
    b"x" * 70_000,
    "\u2028\u0085\U0001f600".encode(),
    "löng".encode("utf-16"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 2**31, 2**40, 2**63, 2**64, 10**30, -(2**63), 0.5, 1e308, -1e-320),
    *(float("nan"), float("inf"), -float("inf")),
    *("", "a", "\0", "\ud800", "../../etc/passwd", "/", ".", "x" * 5000, "\u2028", "-"),
    *([], {}, [[]], [None], [1, 2], ["a"], {"a": 1}, [[0, "a"]], [["a"]]),
)
RAW = ("[" * 2000 + "]" * 2000, '{"a":' * 2000 + "1" + "}" * 2000, "9" * 4000, "9" * 5000, "1e999", "-0", "nope")
"""Values as they stand in the file, which no JSON writer gives."""
TOML_VALUES = (
    *("", "1", "-1", "0.5", "1e400", "nan", "-inf", "9" * 30, "9" * 5000, "true", '""', '"x"', "'y'", "[]", "{}"),
    *("[1, 2]", '["a"]', "{ a = 1 }", "2026-01-01", "07:32:00", '"""\n"""', '"\\u0000"', '"\\ud800"', "0x1F", "1_0"),
    *("[" * 200 + "]" * 200, '"' + "x" * 9000 + '"', "[[1], [2]]", "{ a.b.c = 1 }", '"../.."', '"file"', '"sao"'),
)


def free_bytes() -> st.SearchStrategy[bytes]:
    """Bytes that were never a file of ours, foreign pickles among them."""
    return st.one_of(st.binary(max_size=300), st.text(max_size=200).map(_encode), st.sampled_from(foreign_files()))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class Trap:
    """Its pickle makes a file named `trapped` in the working directory when something unpickles it."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, ("trapped", "w")


def foreign_files() -> list[bytes]:
    """A pickle that runs code, the same as a numpy file and as a zip like torch's, and headers that claim too much."""
    import numpy as np

    array, packed = io.BytesIO(), io.BytesIO()
    np.save(array, np.array([Trap()], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Trap()))
        archive.writestr("archive/version", "3\n")
    huge = json.dumps({"w": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    claims = [
        (2**63 - 1).to_bytes(8, "little") + b"{}",  # the length of a safetensors header
        (2**30).to_bytes(8, "little") + b"{" + b" " * 100,
        len(huge).to_bytes(8, "little") + huge,
    ]
    return [pickle.dumps(Trap()), array.getvalue(), packed.getvalue(), b"", b"\x80\x04.", *claims]


@st.composite
def damaged_bytes(draw: st.DrawFn, content: bytes, *, head: int = 0) -> bytes:
    """Flip, cut, double, exchange and insert bytes, one to three times.

    Args:
        head: Where this is given, half of the places lie in so many first bytes: a header before much data.
    """
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        place = st.integers(0, len(data))
        near = st.one_of(st.integers(0, min(head, len(data))), place) if head else place
        start = draw(near)
        stop = min(len(data), start + draw(st.sampled_from((1, 2, 8, 64, 4096))))
        kind = draw(st.sampled_from(("flip", "byte", "cut", "end", "double", "swap", "insert")))
        if kind == "flip" and start < stop:
            data[start] ^= 1 << draw(st.integers(0, 7))
        elif kind == "byte" and start < stop:
            data[start] = draw(st.integers(0, 255))
        elif kind == "cut":
            del data[start:stop]
        elif kind == "end":
            del data[start:]
        elif kind == "double":
            data[start:start] = data[start:stop]
        elif kind == "swap":
            other = draw(place)
            end = min(len(data), other + stop - start)
            data[start:stop], data[other:end] = data[other:end], data[start:stop]
        elif kind == "insert":
            data[start:start] = draw(st.sampled_from(SNIPPETS))
    return bytes(data)


@st.composite
def damaged_lines(draw: st.DrawFn, content: bytes, damage: Callable[[str], st.SearchStrategy[str]]) -> bytes:
    """Damage a line or two with `damage`; or drop, double or exchange lines."""
    lines = content.decode("utf-8").split("\n")
    for _ in range(draw(st.integers(1, 2))):
        i, j = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        kind = draw(st.sampled_from(("damage", "damage", "damage", "drop", "double", "swap")))
        if kind == "damage":
            lines[i] = draw(damage(lines[i]))
        elif kind == "drop" and len(lines) > 1:
            del lines[i]
        elif kind == "double":
            lines.insert(j, lines[i])
        elif kind == "swap":
            lines[i], lines[j] = lines[j], lines[i]
    return _encode("\n".join(lines))


@st.composite
def damaged_json(draw: st.DrawFn, text: str) -> str:
    """Change, drop, add or double values of one JSON document, whatever their type was; other text stays as it is."""
    try:
        content = {"": json.loads(text)}
    except (ValueError, RecursionError):  # the latter where a value of RAW stands in it already
        return text
    raw = ""
    for _ in range(draw(st.integers(1, 2))):
        places = list(_places(content))
        parent, key = draw(st.sampled_from(places))
        kind = draw(st.sampled_from(("value", "value", "value", "near", "drop", "add", "raw")))
        if kind == "value":
            parent[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
        elif kind == "near" and type(parent[key]) in (int, float):
            parent[key] += draw(st.sampled_from((-1, 1, 0.5, 100, -(10**6))))
        elif kind == "drop" and parent is not content:
            del parent[key]
        elif kind == "add" and isinstance(parent, list):
            parent.insert(key, copy.deepcopy(draw(st.sampled_from((parent[key], *VALUES)))))
        elif kind == "raw" and not raw:
            parent[key], raw = "@raw@", draw(st.sampled_from(RAW))
    return json.dumps(content[""], ensure_ascii=draw(st.booleans())).replace('"@raw@"', raw)


def _places(value: Any) -> Any:
    """Yield (container, key) of everything inside."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)


@st.composite
def damaged_toml_line(draw: st.DrawFn, line: str) -> str:
    """Give a key another value, another name, or the line another form."""
    key, separator, value = line.partition("=")
    if not separator:
        return draw(
            st.sampled_from(("[train]", "[[data]]", "[a.b]", "a = 1", "[", 'data.x."y.z" = 1', "= 1", line[:3]))
        )
    kind = draw(st.sampled_from(("value", "value", "value", "name", "both", "inline")))
    if kind == "value":
        return f"{key}={draw(st.sampled_from(TOML_VALUES))}"
    if kind == "name":
        return f"{key.strip()[:-1]} ={value}"
    if kind == "both":
        return f"{line}\n{line}"
    return f"{key}={{ x = {draw(st.sampled_from(TOML_VALUES))}, y ={value} }}"
