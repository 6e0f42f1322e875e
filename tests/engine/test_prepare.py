"""Preprocessing on tiny files: pairs stay pairs, settings hold for later input, same input gives the same bytes."""

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import sha256_file
from indigo_cli.engine.passes import REASONS, reasons_to_drop
from indigo_cli.engine.prepare import default_corpus_folder, prepare
from indigo_cli.engine.prepare_settings import DataConfig, PreprocessConfig, SplitConfig
from tests.workshop import PLAIN, Recipe, Workshop, content_of, tokens


@pytest.mark.parametrize("inner", ["\u2028", "\r", "\x85", "\x0b", "\x0c", "\u00a0", "\u3000"])
def test_only_newline_separates_pairs(workshop: Workshop, inner: str) -> None:
    source, target = f"the red{inner}cat sat\ntwo dogs ran\n", "le chat rouge\ndeux chiens\n"
    corpus = workshop.make(source, target, tokenizer="moses", vocabulary="word")
    assert tokens(corpus, "train", "source") == [["the", "red", "cat", "sat"], ["two", "dogs", "ran"]]
    assert tokens(corpus, "train", "target") == [["le", "chat", "rouge"], ["deux", "chiens"]]


def test_bom_and_carriage_returns_change_nothing(workshop: Workshop) -> None:
    plain = "the red cat sat\na dog ran far off\n"
    marked = "\ufeff" + plain.replace("\n", "\r\n")
    one, two = workshop.make(plain, plain), workshop.make(marked, marked)
    assert one.digest == two.digest
    same = set(content_of(one.folder)) - {"manifest.json"}
    assert all(content_of(one.folder)[name] == content_of(two.folder)[name] for name in same)


def test_empty_sides_drop_the_pair_in_training_only(workshop: Workshop) -> None:
    corpus = workshop.make("red cat\n\ntwo dogs\n\u00a0\nx\n", "chat rouge\nrien\ndeux chiens\n \n\u3000\n", **PLAIN)
    train, valid = corpus.split("train"), corpus.split("valid")
    assert tokens(corpus, "train", "source") == [["red", "cat"], ["two", "dogs"]]
    assert tokens(corpus, "train", "target") == [["chat", "rouge"], ["deux", "chiens"]]
    assert train.lines.tolist() == [0, 2]
    assert valid.lines.tolist() == [0, 1, 2, 3, 4] and valid.source.lengths.tolist() == [2, 0, 2, 0, 1]
    dropped = corpus.manifest["splits"]["train"]["dropped"]
    assert dropped == {"empty source": 2, "empty target": 1, "source too long": 0, "target too long": 0}
    assert not any(corpus.manifest["splits"]["valid"]["dropped"].values())


def test_dropped_pairs_leave_no_word_behind(workshop: Workshop) -> None:
    corpus = workshop.make("a\n\nb " + "long " * 9 + "\n", "x\nlost\ngone\n", **PLAIN, max_length=5)
    assert set(corpus.codecs.target.vocabulary.tokens) == {"a", "x"}


def test_too_long_pairs_leave_training_and_stay_elsewhere(workshop: Workshop) -> None:
    long = "w " * 10_000
    corpus = workshop.make(f"a\n{long}\nb\nc\n", f"x\ny\nz\n{long}\n", **PLAIN, max_length=256)
    assert corpus.split("train").lines.tolist() == [0, 2]
    assert corpus.manifest["splits"]["train"]["dropped"]["source too long"] == 1
    assert corpus.manifest["splits"]["train"]["dropped"]["target too long"] == 1
    assert corpus.split("valid").source.lengths.tolist() == [1, 10_000, 1, 1]


def test_length_is_counted_in_pieces(workshop: Workshop) -> None:
    corpus = workshop.make("abc\nab\n", "x\ny\n", tokenizer="none", vocabulary="char", max_length=2)
    assert tokens(corpus, "train", "source") == [["a@@", "b"]]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1), st.integers(1, 3))
def test_reasons_to_drop(pairs: list[tuple[int, int]], longest: int) -> None:
    source, target = np.array(pairs).T
    reasons = reasons_to_drop({"source": source, "target": target}, longest).tolist()
    for (x, y), number in zip(pairs, reasons, strict=True):
        reason = [*REASONS, ""][number]
        assert (reason == "") == (1 <= x <= longest and 1 <= y <= longest)
        assert not reason or ("source" in reason) == (x == 0 or (y > 0 and x > longest))
    assert set(reasons_to_drop({"source": source, "target": target}, None).tolist()) == {len(REASONS)}


def test_files_of_a_side_are_one_text(workshop: Workshop) -> None:
    parts = [workshop.write("s1", "a\nb"), workshop.write("s2.gz", gzip.compress(b"\xef\xbb\xbfc\n"))]
    whole = [workshop.write("t1", "x\ny\nz\n")]
    splits = dict.fromkeys(("train", "valid"), SplitConfig(parts, whole))
    recipe = Recipe("tiny", DataConfig(splits=splits), PreprocessConfig(**PLAIN))
    corpus = Corpus.open(prepare(recipe, workshop.folder / "corpus").folder)
    assert tokens(corpus, "train", "source") == [["a"], ["b"], ["c"]]
    inputs = corpus.manifest["splits"]["train"]["inputs"]
    assert [(entry["path"], entry["lines"]) for entry in inputs["source"]] == [(parts[0], 2), (parts[1], 1)]
    assert inputs["target"][0]["sha256"] == sha256_file(whole[0])


def test_names_with_blanks_dashes_and_letters_reload(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workshop.folder)
    for name in ("my data/train 1.en", "-x.en", "dată.ro"):
        workshop.write(name, "a b\n")
        splits = dict.fromkeys(("train", "valid"), SplitConfig([name], [name]))
        recipe = Recipe(f"r {name}".replace("/", "_"), DataConfig(splits=splits), PreprocessConfig(**PLAIN))
        summary = prepare(recipe)
        assert summary.folder == default_corpus_folder(recipe)
        assert Corpus.open(summary.folder).manifest["splits"]["train"]["inputs"]["source"][0]["path"] == name


@pytest.mark.parametrize("lang", ["xx", "engl", ""])
def test_unknown_languages_are_said_once_a_side(workshop: Workshop, lang: str) -> None:
    summary = prepare(workshop.recipe("ab\n" * 2, "ab\n" * 2, lang=lang, merges=1), workshop.folder / "corpus")
    assert [line.split(":")[0] for line in summary.warnings] == ["data.source_lang", "data.target_lang"]


def test_lowercase_and_nfc_hold_for_training_text_and_later_input(workshop: Workshop) -> None:
    corpus = workshop.make("Cafe\u0301 Noir\n", "X\n", lowercase=True, vocabulary="word")
    assert tokens(corpus, "train", "source") == [["café", "noir"]]
    assert corpus.codecs.encode_source("CAFÉ noir") == corpus.split("train").source[0].tolist()


def test_later_input_is_encoded_like_the_training_text(workshop: Workshop) -> None:
    text = "“It’s 5 < 6,” he said.\n...\n?!\ncafé\n"  # noqa: RUF001
    corpus = workshop.make(text, text, merges=10)
    valid = corpus.split("valid")
    for i, line in enumerate(text.splitlines()):
        assert corpus.codecs.encode_source(line) == valid.source[i].tolist()
        assert corpus.codecs.target.encode(line) == valid.target[i].tolist()


def test_word_ordering_needs_targets_only_and_sorts_the_bag(workshop: Workshop) -> None:
    corpus = workshop.make(None, "b a c a\nc b\n\n", task="word_ordering", **PLAIN)
    assert corpus.codecs.source_is_bag
    for split in ("train", "valid"):
        stored = corpus.split(split)
        for i in range(len(stored)):
            assert stored.source[i].tolist() == sorted(stored.target[i].tolist())
    assert corpus.split("train").lines.tolist() == [0, 1]
    for bag in ("a a b c", "c b a a"):
        assert corpus.codecs.encode_source(bag) == corpus.split("train").source[0].tolist()


@pytest.mark.parametrize(
    "settings",
    [
        {"vocabulary": "word"},
        {"merges": 20},
        {"merges": 20, "lowercase": True},
        {"merges": 20, "vocabulary_threshold": 2},
        {"merges": 20, "joint": False},
    ],
)
def test_the_bag_of_a_target_is_what_decoding_reads(workshop: Workshop, settings: dict[str, Any]) -> None:
    lines = ["I like Dr. Who.", "cats. like (it) I", "He isn't in the U.S. now."]
    corpus = workshop.make(None, "\n".join(lines) + "\n", task="word_ordering", **settings)
    for split in ("train", "valid"):
        source = corpus.split(split).source
        for i, line in enumerate(lines):
            assert source[i].tolist() == corpus.codecs.encode_source(" ".join(reversed(line.split())))


def test_word_ordering_says_that_it_reads_no_source(workshop: Workshop) -> None:
    summary = prepare(workshop.recipe("zzz\n", "a b\n", task="word_ordering", **PLAIN), workshop.folder / "corpus")
    assert "data.splits.train.source is not used by task word_ordering" in summary.warnings
    assert "zzz" not in Corpus.open(summary.folder).codecs.source.vocabulary.tokens


def test_code_is_neither_escaped_nor_cut(workshop: Workshop) -> None:
    code = 'if x [ 0 ] != "it\'s" : return _ ( "%s&amp;  so" )\n'
    recipe = workshop.recipe("if x differs, return it.\n", code, task="nl2code", lang="python")
    summary = prepare(recipe, workshop.folder / "corpus")
    corpus = Corpus.open(summary.folder)
    assert tokens(corpus, "train", "target") == [[*code.split()[:-2], "\u2581__", *code.split()[-2:]]]
    assert corpus.codecs.target.text_of_ids(corpus.split("train").target[0].tolist()) == code.strip()
    assert [line.split(":")[0] for line in summary.warnings] == ["preprocess.tokenizer", "preprocess.vocabulary"]


def test_characters_as_tokens_need_no_bpe(workshop: Workshop) -> None:
    summary = prepare(workshop.recipe("a b\n", "ab\n", tokenizer="char"), workshop.folder / "corpus")
    corpus = Corpus.open(summary.folder)
    assert tokens(corpus, "train", "source") == [["a", "<space>", "b"]]
    assert any("preprocess.vocabulary" in line for line in summary.warnings)


SCRIPT = """
import sys
from pathlib import Path
from types import SimpleNamespace
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.prepare_settings import DataConfig, PreprocessConfig, SplitConfig
files = dict.fromkeys(("train", "valid"), SplitConfig([sys.argv[1]], [sys.argv[1]]))
recipe = SimpleNamespace(name="x", data=DataConfig("translation", "ro", "ro", files), preprocess=PreprocessConfig())
prepare(recipe, Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_same_bytes_under_any_locale_and_hash_seed(workshop: Workshop, repository: Path) -> None:
    text = workshop.write("text.ro", "și țara e mare\nb a c\nc b a\n")
    contents = []
    for locale, hash_seed in (("C", "1"), ("C.UTF-8", "2")):
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHON"))},
            "LC_ALL": locale,
            "PYTHONUTF8": "0",
            "PYTHONCOERCECLOCALE": "0",
            "PYTHONHASHSEED": hash_seed,
        }
        folder = workshop.folder / f"corpus {locale}"
        subprocess.run([sys.executable, "-c", SCRIPT, text, str(folder)], env=environment, cwd=repository, check=True)
        contents.append(content_of(folder))
    assert contents[0] == contents[1] and "manifest.json" in contents[0]


def test_file_names_that_are_no_utf8(workshop: Workshop) -> None:
    name = os.fsdecode(os.fsencode(workshop.folder) + b"/\xff.txt")
    try:
        Path(name).write_text("a\n", "utf-8")
    except OSError:
        pytest.skip("this file system has only UTF-8 names")
    splits = dict.fromkeys(("train", "valid"), SplitConfig([name], [name]))
    recipe = Recipe("tiny", DataConfig(splits=splits), PreprocessConfig(**PLAIN))
    manifest = Corpus.open(prepare(recipe, workshop.folder / "corpus").folder).manifest
    assert manifest["splits"]["valid"]["inputs"]["target"][0]["path"] == name
