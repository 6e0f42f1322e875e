"""Raw references: all lines as they are, further references behind, nothing silently replaced."""

from pathlib import Path

import pytest

from indigo_cli.data.corpus import Corpus
from indigo_cli.data.references import read_references
from indigo_cli.engine.prepare import prepare
from indigo_cli.errors import DataError, UsageError
from indigo_cli.recipe import load_recipe

LINES = {"a": ["Über  Größe\u2028!", ""], "b": ["<s> $"], "more": ["eins", "", "drei"]}


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    for name, lines in LINES.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "none").write_text("", encoding="utf-8")
    (tmp_path / "recipe.toml").write_text(
        'name = "t"\n[data]\ntask = "word_ordering"\nsource_lang = "de"\ntarget_lang = "de"\n'
        '[data.splits]\ntrain = { target = ["a", "b"] }\nempty = { target = ["none"] }\n'
        'valid = { target = ["a", "b"], references = [["more"]] }\n'
        '[preprocess]\ntokenizer = "none"\nvocabulary = "word"\n',
        encoding="utf-8",
    )
    prepare(load_recipe(tmp_path / "recipe.toml"), tmp_path / "corpus")
    return Corpus.open(tmp_path / "corpus")


def test_files_of_a_reference_are_one_and_lines_are_raw(corpus: Corpus) -> None:
    assert read_references(corpus, "valid") == [LINES["a"] + LINES["b"], LINES["more"]]
    assert read_references(corpus, "train") == [LINES["a"] + LINES["b"]], "also the line that was dropped"


def test_a_file_that_changed_or_went_is_not_read(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "more").write_text("eins\n\nvier\n", encoding="utf-8")
    with pytest.raises(DataError, match="changed") as changed:
        read_references(corpus, "valid")
    assert changed.value.where == str(tmp_path / "more")
    assert len(read_references(corpus, "train")) == 1
    (tmp_path / "b").unlink()
    with pytest.raises(DataError, match="not there any more"):
        read_references(corpus, "train")


def test_there_must_be_something_to_score(corpus: Corpus) -> None:
    with pytest.raises(DataError, match="no line"):
        read_references(corpus, "empty")
    with pytest.raises(UsageError, match="no split"):
        read_references(corpus, "tset")


@pytest.mark.parametrize(
    "inputs", [{}, {"target": None}, {"target": [{"path": "a"}], "references": []}, {"target": [3]}]
)
def test_a_manifest_without_references_is_said(corpus: Corpus, inputs: dict[str, object]) -> None:
    corpus.manifest["splits"]["valid"]["inputs"] = inputs
    with pytest.raises(DataError, match="does not name the references") as caught:
        read_references(corpus, "valid")
    assert caught.value.where == str(corpus.folder)
