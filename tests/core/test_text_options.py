"""Codecs with settings that their first version did not know: saved, read back, and understood by what they say."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.core.bpe import BPE, learn, split_all
from indigo_cli.core.line_tokenizer import BagTokenizer, LineSettings, LineTokenizer
from indigo_cli.core.text import Codecs, SideCodec
from indigo_cli.core.truecase import Truecaser
from indigo_cli.core.vocab import Vocabulary
from indigo_cli.errors import DataError

LINES = ["Şi the cat.", 'See HTTP://x http://A.b/?c&D; "The Cat" sat.', "the cat"]
WORDS = Counter(token for line in LINES for token in LineTokenizer(LineSettings("moses", "ro")).tokenize(line))
CODES = learn(WORDS, 40)
BASE = SideCodec(
    "moses", "ro", False, BPE(CODES), Vocabulary.from_counts(Counter(split_all(BPE(CODES), WORDS)).items())
)
OPTIONS: list[dict[str, Any]] = [
    {"spelling": "romanian"},
    {"protected": ("url", "[A-Z]at")},
    {"truecaser": Truecaser({"the": "the", "şi": "şi"})},
    {"bpe": BPE(CODES, pieces=["the", "c@@"])},
    {"tokenizer_name": "tokenized", "bpe": None, "truecaser": Truecaser({"see": "see"})},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_options_survive_a_file_and_change_what_is_read(tmp_path: Path, options: dict[str, Any]) -> None:
    side = replace(BASE, **options)
    codecs = Codecs(BASE, side)
    codecs.save(tmp_path)
    settings = json.loads((tmp_path / "codecs.json").read_text("utf-8"))
    assert settings["version"] == (2 if options.keys() - {"tokenizer_name", "bpe"} or side.bpe else 1)
    read = Codecs.load(tmp_path)
    assert read.to_files() == codecs.to_files()
    assert any(BASE.pieces(line) != side.pieces(line) for line in LINES)
    for line in LINES:
        assert read.source.pieces(line) == BASE.pieces(line)
        assert read.target.pieces(line) == side.pieces(line)
        assert read.target.text(side.pieces(line)) == side.text(side.pieces(line))


def test_codecs_without_options_are_still_of_version_1(tmp_path: Path) -> None:
    Codecs(BASE, BASE).save(tmp_path)
    settings = json.loads((tmp_path / "codecs.json").read_text("utf-8"))
    assert settings["version"] == 1
    assert set(settings["source"]) == {"tokenizer", "lang", "lowercase", "bpe", "vocabulary", "vocabulary_digest"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("target.pieces.json", "{}"),
        ("target.pieces.json", "[1]"),
        ("target.pieces.json", ""),
        ("target.truecase.json", "[]"),
        ("codecs.json", '"romaniaan"'),
        ("codecs.json", '["a("]'),
    ],
)
def test_damaged_options_are_named(tmp_path: Path, name: str, content: str) -> None:
    side = replace(
        BASE, bpe=BPE(CODES, pieces=["the"]), truecaser=Truecaser({}), spelling="romanian", protected=("x1",)
    )
    Codecs(BASE, side).save(tmp_path)
    path = tmp_path / name
    if name == "codecs.json":
        key = '"protected": [\n   "x1"\n  ]' if content.startswith("[") else '"spelling": "romanian"'
        text = path.read_text("utf-8")
        assert key in text
        content = text.replace(key, f"{key.partition(':')[0]}: {content}")
    path.write_text(content, "utf-8")
    with pytest.raises(DataError) as caught:
        Codecs.load(tmp_path)
    assert caught.value.where == str(path)


def test_output_starts_with_a_capital() -> None:
    side = replace(BASE, truecaser=Truecaser({"the": "the"}), bpe=None, protected=("url",))
    assert side.text(["the", "cat", ".", "&quot;", "it", "sat", "&quot;"]) == 'The cat. "It sat"'
    assert side.text(["http://a.b", "is", "up"]) == "http://a.b is up"
    assert side.words("The cat") == ["the", "cat"]
    assert side.words("Http://A.b The") == ["Http://A.b", "The"]


def test_a_bag_protects_what_a_line_does() -> None:
    lines = LineTokenizer(LineSettings("moses", "en", lowercase=True, protected=("url",)))
    assert BagTokenizer(lines).tokenize("Cats. http://A.b Dogs,") == ["cats", ".", "http://A.b", "dogs", ","]
