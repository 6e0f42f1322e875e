"""The corpus folder as a reader sees it; `tests/engine/test_prepare.py` covers how it is made."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from indigo_cli.core.chunks import chunked
from indigo_cli.data.corpus import Corpus, Store, corpus_digest
from indigo_cli.data.corpus_writer import ArrayWriter, StoreWriter, id_type
from indigo_cli.data.files import sha256_file
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.prepare_settings import DataConfig, PreprocessConfig, SplitConfig
from indigo_cli.errors import DataError, UsageError


class Recipe:
    name = "tiny"
    preprocess = PreprocessConfig(tokenizer="none", vocabulary="word")

    def __init__(self, folder: Path) -> None:
        (folder / "s").write_text("red cat\n\ntwo dogs\n", "utf-8")
        (folder / "t").write_text("chat rouge\nrien\ndeux chiens las\n", "utf-8")
        split = SplitConfig([str(folder / "s")], [str(folder / "t")])
        self.data = DataConfig(splits={"train": split, "valid": split})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return prepare(Recipe(tmp_path), tmp_path / "corpus").folder


def test_items_lengths_and_raw_lines(folder: Path) -> None:
    corpus = Corpus.open(folder)
    assert corpus.splits == ["train", "valid"]
    train, valid = corpus.split("train"), corpus.split("valid")
    assert train.lines.tolist() == [0, 2] and valid.lines.tolist() == [0, 1, 2]
    assert len(train) == len(train.source) == len(train.target) == 2
    assert valid.source.lengths.tolist() == [2, 0, 2] and valid.target.lengths.tolist() == [2, 1, 3]
    assert valid.source[1].dtype == np.int64 and valid.source[1].tolist() == []
    texts = [corpus.codecs.target.text_of_ids(train.target[i].tolist()) for i in range(2)]
    assert texts == ["chat rouge", "deux chiens las"]
    assert corpus.manifest["task"] == "translation" and len(corpus.digest) == 64


def test_items_out_of_range(folder: Path) -> None:
    store = Corpus.open(folder).split("train").target
    for item in (-1, 2):
        with pytest.raises(IndexError):
            store[item]


def test_unknown_split_and_missing_corpus(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no split 'test'") as caught:
        Corpus.open(folder).split("test")
    assert "train, valid" in caught.value.fix
    with pytest.raises(UsageError, match="no corpus") as caught:
        Corpus.open(tmp_path / "nowhere")
    assert "indigo preprocess" in caught.value.fix


@pytest.mark.parametrize("name", ["train.source.ids", "valid.target.offsets", "train.lines", "vocabulary.json"])
def test_cut_and_missing_files_are_named(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1])
    with pytest.raises(DataError, match=f"{name} has {len(content) - 1} bytes instead of {len(content)}"):
        Corpus.open(folder)
    (folder / name).unlink()
    with pytest.raises(DataError, match=f"{name} is missing"):
        Corpus.open(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "newer"),
        ({"format": "other"}, "not an indigo-corpus"),
        ({"digest": None}, "lacks digest"),
        ({"digest": "0" * 64}, "digest differs"),
        ({"task": "word_ordering"}, "digest differs"),
        ({"files": {}}, "lacks the file"),
        ({"files": {"../x": {"bytes": 1, "sha256": ""}}}, "wrong entry"),
        ({"id_types": {"source": "O", "target": "O"}}, "wrong vocabulary or id type"),
        ({"splits": []}, "wrong splits"),
        ({"splits": {"train": {"lines": 1}}}, "wrong entry for the split 'train'"),
    ],
)
def test_other_manifests_are_refused(folder: Path, change: dict[str, object], message: str) -> None:
    path = folder / "manifest.json"
    manifest = {**json.loads(path.read_text("utf-8")), **change}
    path.write_text(json.dumps({k: v for k, v in manifest.items() if v is not None}), "utf-8")
    with pytest.raises(DataError, match=message):
        Corpus.open(folder)


def test_a_damaged_manifest_is_refused(folder: Path) -> None:
    for content in ("{", "[]"):
        (folder / "manifest.json").write_text(content, "utf-8")
        with pytest.raises(DataError):
            Corpus.open(folder)


def test_an_exchanged_vocabulary_is_refused(folder: Path, tmp_path: Path) -> None:
    """The codecs agree with themselves, only the ids are another corpus's."""
    other = Recipe(tmp_path)
    (tmp_path / "t").write_text("chat rouge\nrien\nchiens deux las\n" * 3, "utf-8")
    (tmp_path / "s").write_text("red cat\n\ndogs two two\n" * 3, "utf-8")
    foreign = prepare(other, tmp_path / "other").folder
    for name in ("vocabulary.json", "codecs.json"):
        replace_file(folder, name, (foreign / name).read_bytes())
    with pytest.raises(DataError, match="not the one of this corpus"):
        Corpus.open(folder)


def replace_file(folder: Path, name: str, content: bytes) -> None:
    """Put another file into a corpus, with a manifest that says so."""
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    manifest["files"][name] = {"bytes": len(content), "sha256": sha256_file(folder / name)}
    manifest["digest"] = corpus_digest(manifest["task"], manifest["files"])
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")


@pytest.mark.parametrize("name", ["train.source.ids", "valid.target.offsets", "train.lines", "vocabulary.json"])
def test_a_flipped_bit_is_noticed(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    for place in range(0, len(content), 5):
        content[place] ^= 4
        (folder / name).write_bytes(content)
        with pytest.raises(DataError, match="changed after it was written") as caught:
            Corpus.open(folder).split(name.split(".")[0])
        assert caught.value.where == str(folder / name) and "preprocess" in caught.value.fix
        content[place] ^= 4


@pytest.mark.parametrize(
    ("name", "numbers", "message"),
    [
        ("train.target.ids", np.array([5, 6, 7, 8, 9000], "<u2"), "id 9000 is outside the vocabulary"),
        ("train.target.ids", np.array([5, 6, 7, 8], "<u2"), "do not cut"),
        ("train.target.offsets", np.array([0, 3, 2], "<i8"), "do not rise"),
        ("train.target.offsets", np.array([1, 2, 5], "<i8"), "do not cut"),
        ("train.target.offsets", np.array([-1, 2, 5], "<i8"), "do not rise"),
        ("train.target.offsets", np.array([0, 5], "<i8"), "do not cut"),
        ("train.target.offsets", np.array([], "<i8"), "do not cut"),
        ("train.target.offsets", np.array([0, 2, 5], "<i2"), "no whole number"),
        ("train.lines", np.array([2, 2], "<i8"), "do not rise"),
        ("train.lines", np.array([-1, 2], "<i8"), "do not rise"),
    ],
)
def test_numbers_that_fit_nothing_are_refused(
    folder: Path, name: str, numbers: NDArray[Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that are too large to be hashed, or were written by somebody else."""
    monkeypatch.setattr("indigo_cli.data.corpus.BLOCK", 2)  # several blocks
    replace_file(folder, name, numbers.tobytes())
    corpus = Corpus.open(folder)
    with pytest.raises(DataError, match=message) as caught:
        corpus.split("train")
    assert Path(caught.value.where).parent == folder and Path(caught.value.where).name.startswith("train.")
    assert len(corpus.split("valid")) == 3


def test_large_files_are_not_hashed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indigo_cli.data.corpus.HASHED_BYTES", 8)
    content = np.fromfile(folder / "train.target.ids", "<u2")
    content[:2] = content[:2][::-1]
    content.tofile(folder / "train.target.ids")
    assert Corpus.open(folder).split("train").target[0].tolist() == content[:2].tolist()


@given(st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=5), max_size=20))
def test_what_is_added_comes_back(tmp_path_factory: pytest.TempPathFactory, items: list[list[int]]) -> None:
    folder = tmp_path_factory.mktemp("store")
    writer = StoreWriter(folder, "s", "target", "uint32")
    for block in chunked(items, 3):
        writer.add(
            np.array([number for item in block for number in item], np.int64), np.array([len(item) for item in block])
        )
    entries = writer.finish()
    for name, entry in entries.items():
        assert entry == {"bytes": (folder / name).stat().st_size, "sha256": sha256_file(folder / name)}
    store = Store(np.fromfile(folder / "s.target.ids", "<u4"), np.fromfile(folder / "s.target.offsets", "<i8"))
    assert [store[i].tolist() for i in range(len(store))] == items


def test_ids_never_wrap(tmp_path: Path) -> None:
    assert id_type(2**16) == "uint16" and id_type(2**16 + 1) == "uint32"
    writer = ArrayWriter(tmp_path / "x", "uint16")
    for wrong in (2**16, -1):
        with pytest.raises(OverflowError):
            writer.extend(np.array([1, wrong]))
