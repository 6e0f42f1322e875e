"""Codecs: raw text to ids and back, sorted bags, and folders that notice an exchanged file."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.bpe import BPE, learn, split_all
from indigo_cli.core.text import Codecs, SideCodec
from indigo_cli.core.tokenizer import make_tokenizer
from indigo_cli.core.vocab import NUM_SPECIALS, UNK, Vocabulary
from indigo_cli.errors import DataError

LINES = ["A red cat sat.", 'He said: "it\'s 5 < 6" & left.', "a <unk> b <s> c </s> d", "foo@@ bar @@ b"]


def make_side(*, tokenizer: str = "moses", merges: int | None = 30, lowercase: bool = False) -> SideCodec:
    tool = make_tokenizer(tokenizer, "en")
    words = Counter(token for line in LINES for token in tool.tokenize(line.lower() if lowercase else line))
    bpe = None if merges is None else BPE(learn(words, merges))
    pieces = words if bpe is None else Counter(split_all(bpe, words.elements()))
    return SideCodec(tokenizer, "en", lowercase, bpe, Vocabulary.from_counts(pieces.items()))


@pytest.mark.parametrize("tokenizer", ["moses", "none", "char"])
@pytest.mark.parametrize("merges", [None, 0, 30])
def test_known_text_comes_back(tokenizer: str, merges: int | None) -> None:
    codec = make_side(tokenizer=tokenizer, merges=merges)
    for line in LINES[:2] if tokenizer == "moses" else LINES:  # Moses writes punctuation where it belongs
        ids = codec.encode(line)
        assert codec.text_of_ids(ids) == line
        assert min(ids) >= NUM_SPECIALS


def test_words_with_the_separator_come_back_from_pieces() -> None:
    codec = make_side(tokenizer="none", merges=60)
    assert codec.text(codec.pieces(LINES[3])) == LINES[3]


def test_unknown_words_read_unk_and_keep_their_place() -> None:
    codec = make_side(tokenizer="none", merges=None)
    ids = codec.encode("a zebra b")
    assert ids[1] == UNK and len(ids) == 3
    assert codec.text_of_ids(ids) == "a <unk> b"


def test_lowercase() -> None:
    codec = make_side(lowercase=True)
    assert codec.encode("A RED CAT SAT.") == codec.encode("a red cat sat.")
    assert codec.text_of_ids(codec.encode(LINES[0])) == "a red cat sat."


def test_an_empty_line_has_no_ids() -> None:
    codec = make_side()
    assert codec.encode("\u00a0 ") == [] and codec.text_of_ids([]) == ""


@given(st.permutations("a red cat sat on a mat".split()))
def test_the_order_of_a_bag_tells_nothing(words: list[str]) -> None:
    side = make_side(tokenizer="none")
    codecs = Codecs(side, side, source_is_bag=True)
    ids = codecs.encode_source(" ".join(words))
    assert ids == codecs.encode_source("a red cat sat on a mat") == sorted(side.encode(" ".join(words)))
    assert Codecs(side, side).encode_source("red a") == side.encode("red a")


@pytest.mark.parametrize("joint", [True, False])
def test_folder_round_trip(tmp_path: Path, joint: bool) -> None:
    target = make_side()
    source = target if joint else make_side(tokenizer="none", merges=None, lowercase=True)
    codecs = Codecs(source, target, source_is_bag=joint)
    codecs.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(codecs.to_files())
    assert (tmp_path / "vocabulary.json").exists() == joint
    read = Codecs.load(tmp_path)
    assert read.joint == joint and read.source_is_bag == joint
    assert read.to_files() == codecs.to_files()
    for line in LINES:
        assert read.encode_source(line) == codecs.encode_source(line)
        assert read.target.encode(line) == codecs.target.encode(line)


def test_a_foreign_vocabulary_is_refused(tmp_path: Path) -> None:
    """It is whole in itself, and of the same size, but its ids mean other words."""
    Codecs(make_side(), make_side()).save(tmp_path)
    path = tmp_path / "vocabulary.json"
    own = Vocabulary.from_json(path.read_text("utf-8"), where="")
    path.write_text(Vocabulary(own.tokens[::-1], own.counts).to_json(), "utf-8")
    with pytest.raises(DataError, match="does not belong") as caught:
        Codecs.load(tmp_path)
    assert caught.value.where == str(path)


@pytest.mark.parametrize("name", ["codecs.json", "vocabulary.json", "bpe.codes"])
def test_missing_and_damaged_files_are_named(tmp_path: Path, name: str) -> None:
    Codecs(make_side(), make_side()).save(tmp_path)
    (tmp_path / name).write_bytes(b"\xff")
    with pytest.raises(DataError) as caught:
        Codecs.load(tmp_path)
    assert caught.value.where.startswith(str(tmp_path / name))
    (tmp_path / name).unlink()
    with pytest.raises(DataError, match="missing"):
        Codecs.load(tmp_path)


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    Codecs(make_side(), make_side()).save(tmp_path)
    path = tmp_path / "codecs.json"
    path.write_text(path.read_text("utf-8").replace('"version": 1', '"version": 9'), "utf-8")
    with pytest.raises(DataError, match="newer"):
        Codecs.load(tmp_path)


@given(st.permutations(["I", "like", "Dr.", "cats.", "(no", 'kidding)"', "U.S.", "it's", "a.m."]))
def test_a_raw_bag_says_nothing_of_its_order(words: list[str]) -> None:
    """Moses keeps a full stop within a line and splits it off at the end; a bag must not show which was where."""
    side = make_side()
    codecs = Codecs(side, side, source_is_bag=True)
    assert codecs.encode_source(" ".join(words)) == codecs.encode_source(" ".join(sorted(words)))


def test_a_bag_word_is_tokenised_as_if_it_stood_alone() -> None:
    side = make_side(merges=None)
    codecs = Codecs(side, side, source_is_bag=True)
    assert codecs.encode_source("sat. cat") == sorted(side.encode("sat.") + side.encode("cat"))
    assert len(codecs.encode_source("sat. cat")) == 3
