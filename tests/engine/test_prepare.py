"""Preprocessing on tiny files: pairs stay pairs, nothing half-made is left, same input gives the same bytes."""

import gzip
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.vocab import NUM_SPECIALS, UNK
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import sha256_file
from indigo_cli.engine.passes import reason_to_drop
from indigo_cli.engine.prepare import (
    DataConfig,
    PreprocessConfig,
    SplitConfig,
    default_corpus_folder,
    prepare,
    resolve_settings,
)
from indigo_cli.errors import DataError, IndigoError, UsageError

PLAIN: dict[str, Any] = {"tokenizer": "none", "vocabulary": "word"}


@dataclass(frozen=True)
class Recipe:
    name: str
    data: DataConfig
    preprocess: PreprocessConfig = field(default_factory=PreprocessConfig)


class Workshop:
    """Writes raw files and makes corpora of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = 0

    def write(self, name: str, content: str | bytes) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def recipe(
        self,
        source: str | bytes | None,
        target: str | bytes,
        *,
        task: str = "translation",
        lang: str = "en",
        **settings: Any,
    ) -> Recipe:
        """Return a recipe whose splits all read the same text."""
        sides = ([] if source is None else [self.write("s", source)], [self.write("t", target)])
        splits = {name: SplitConfig(*sides) for name in ("train", "valid")}
        return Recipe("tiny", DataConfig(task, lang, lang, splits), PreprocessConfig(**settings))

    def make(self, source: str | bytes | None, target: str | bytes, **settings: Any) -> Corpus:
        self.made += 1
        recipe = self.recipe(source, target, **settings)
        return Corpus.open(prepare(recipe, self.folder / f"corpus{self.made}").folder)

    def leftovers(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()} - {"s", "t"}


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def tokens(corpus: Corpus, split: str, side: str) -> list[list[str]]:
    store = getattr(corpus.split(split), side)
    vocabulary = getattr(corpus.codecs, side).vocabulary
    return [vocabulary.decode(store[i].tolist()) for i in range(len(store))]


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# Lines and pairs


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


@given(st.lists(st.integers(0, 4), min_size=2, max_size=2), st.integers(1, 3))
def test_reasons_to_drop(lengths: list[int], longest: int) -> None:
    source, target = lengths
    reason = reason_to_drop({"source": [0] * source, "target": [0] * target}, longest)
    assert (reason == "") == (1 <= source <= longest and 1 <= target <= longest)
    assert not reason or ("source" in reason) == (source == 0 or (target > 0 and source > longest))


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


# Faults leave nothing behind


@pytest.mark.parametrize(
    ("source", "target", "parts"),
    [
        ("a\nb\nc\n", "x\ny\n", ["/s has 3 lines", "/t has 2 lines"]),
        ("a\n", "x\ny\n", ["/s has 1 lines", "/t has 2 lines"]),
        (b"a\nred \xff cat\n", "x\ny\n", ["0xFF"]),
        ("\n", "x\n", ["no training pair is left: 1 empty source"]),
        ("", "", ["no training pair is left: no lines"]),
    ],
)
def test_bad_input_is_refused_and_nothing_left(
    workshop: Workshop, source: str | bytes, target: str, parts: list[str]
) -> None:
    with pytest.raises(DataError) as caught:
        workshop.make(source, target, **PLAIN)
    assert all(part in caught.value.what for part in parts)
    assert caught.value.exit_code == 2 and workshop.leftovers() == set()


def test_a_bad_byte_is_named_with_file_and_line(workshop: Workshop) -> None:
    with pytest.raises(DataError) as caught:
        workshop.make("a\nb\n", b"a\nred \xff cat\n", **PLAIN)
    assert caught.value.where == f"{workshop.folder / 't'}:2"


def test_truncated_and_missing_files(workshop: Workshop) -> None:
    recipe = workshop.recipe("red cat\n" * 1000, "chat\n" * 1000, **PLAIN)
    cut = workshop.write("cut.gz", gzip.compress(b"red cat\n" * 1000)[:-10])
    for path, message in ((cut, "truncated"), (str(workshop.folder / "none"), "no such file")):
        splits = {**recipe.data.splits, "valid": SplitConfig([path], recipe.data.splits["valid"].target)}
        with pytest.raises(IndigoError, match=message) as caught:
            prepare(Recipe("tiny", DataConfig(splits=splits), recipe.preprocess), workshop.folder / "corpus")
        assert path in caught.value.where and workshop.leftovers() == {"cut.gz"}


def test_references_belong_to_their_split(workshop: Workshop) -> None:
    recipe = workshop.recipe("a\nb\n", "x\ny\n", **PLAIN)
    files = recipe.data.splits["valid"]
    for content, whole in (("r\ns\n", True), ("r\n", False)):
        split = SplitConfig(files.source, files.target, [[workshop.write("r", content)]])
        wanted = Recipe("tiny", DataConfig(splits={**recipe.data.splits, "valid": split}), recipe.preprocess)
        if whole:
            corpus = Corpus.open(prepare(wanted, workshop.folder / "corpus").folder)
            assert corpus.manifest["splits"]["valid"]["inputs"]["references"][0][0]["lines"] == 2
            assert set(corpus.codecs.target.vocabulary.tokens) == set("abxy")
        else:
            with pytest.raises(DataError, match="/r has 1 lines"):
                prepare(wanted, workshop.folder / "other")


@pytest.mark.parametrize("stage", ["tokenise train", "learn the vocabulary", "encode valid"])
def test_an_interrupted_run_leaves_nothing(workshop: Workshop, stage: str) -> None:
    def interrupt(now: str, lines: int) -> None:
        if now == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(workshop.recipe("a\n", "x\n", **PLAIN), workshop.folder / "corpus", progress=interrupt)
    assert workshop.leftovers() == set()


def test_an_existing_corpus_is_replaced_only_when_told_and_when_the_new_one_stands(workshop: Workshop) -> None:
    corpus = workshop.make("a\n", "x\n", **PLAIN)
    before = content_of(corpus.folder)
    other = workshop.recipe("b\n", "y\n", **PLAIN)
    with pytest.raises(UsageError, match="exists already") as caught:
        prepare(other, corpus.folder)
    assert "--overwrite" in caught.value.fix
    with pytest.raises(DataError):
        prepare(workshop.recipe("b\n", "y\ny\n", **PLAIN), corpus.folder, overwrite=True)
    assert content_of(corpus.folder) == before
    prepare(workshop.recipe("b\n", "y\n", **PLAIN), corpus.folder, overwrite=True)
    assert tokens(Corpus.open(corpus.folder), "train", "source") == [["b"]]
    assert workshop.leftovers() == {"corpus1"}


def test_a_folder_that_is_no_corpus_is_never_replaced(workshop: Workshop) -> None:
    recipe = workshop.recipe("a\n", "x\n", **PLAIN)
    (workshop.folder / "home").mkdir()
    (workshop.folder / "home" / "thesis.txt").touch()
    with pytest.raises(UsageError, match="not a corpus"):
        prepare(recipe, workshop.folder / "home", overwrite=True)
    (workshop.folder / "empty").mkdir()
    assert len(Corpus.open(prepare(recipe, workshop.folder / "empty").folder).split("train")) == 1


# Vocabularies


def test_codes_and_vocabulary_come_from_training_alone(workshop: Workshop) -> None:
    recipe = workshop.recipe("low lower\n" * 5, "low slow\n" * 5, tokenizer="none", merges=20)
    unseen = workshop.write("v", "qqqq qqqq low\n")
    splits = {**recipe.data.splits, "valid": SplitConfig([unseen], [unseen])}
    summary = prepare(Recipe("tiny", DataConfig(splits=splits), recipe.preprocess), workshop.folder / "corpus")
    corpus = Corpus.open(summary.folder)
    assert not any("q" in token for token in corpus.codecs.target.vocabulary.tokens)
    assert corpus.split("valid").target[0].tolist()[:4] == [UNK] * 4
    assert summary.splits[1].unknown == {"source": 8, "target": 8}
    assert "unknown: 8 on the source side" in summary.text()


def test_joint_and_separate(workshop: Workshop) -> None:
    text = ("red cat\n" * 3, "chat rouge\n" * 3)
    joint = workshop.make(*text, tokenizer="none", merges=9)
    apart = workshop.make(*text, tokenizer="none", merges=9, joint=False)
    assert joint.codecs.joint and (joint.folder / "bpe.codes").exists()
    assert not apart.codecs.joint and (apart.folder / "source.bpe.codes").exists()
    assert any("d" in token for token in joint.codecs.target.vocabulary.tokens)
    assert not any("d" in token for token in apart.codecs.target.vocabulary.tokens)
    for corpus in (joint, apart):
        store = corpus.split("train").source
        assert corpus.codecs.source.text_of_ids(store[0].tolist()) == "red cat"


def test_vocabulary_counts_are_those_of_the_stored_pieces(workshop: Workshop) -> None:
    corpus = workshop.make("red cat reads\n" * 3 + "a\n", "a cat\n" * 4, tokenizer="none", merges=5)
    ids = Counter[int]()
    for side in ("source", "target"):
        ids.update(getattr(corpus.split("train"), side).ids.tolist())
    vocabulary = corpus.codecs.target.vocabulary
    assert [ids[NUM_SPECIALS + i] for i in range(len(vocabulary.tokens))] == list(vocabulary.counts)


def test_limits_of_the_vocabulary(workshop: Workshop) -> None:
    corpus = workshop.make("a a a\n", "b b c\n", **PLAIN, min_count=2)
    assert corpus.codecs.target.vocabulary.tokens == ("a", "b")
    assert workshop.make("a a a\n", "b b c\n", **PLAIN, vocabulary_size=1).codecs.target.vocabulary.tokens == ("a",)
    assert corpus.split("train").target[0].tolist()[2] == UNK


def test_literal_specials_and_separators_are_ordinary_text(workshop: Workshop) -> None:
    text = "a <unk> b <s> c </s> d\nfoo@@ bar\na @@ b\n"
    corpus = workshop.make(text, text, tokenizer="none", merges=60)
    store = corpus.split("train").target
    for i, line in enumerate(text.splitlines()):
        ids = store[i].tolist()
        assert min(ids) >= NUM_SPECIALS
        assert corpus.codecs.target.text_of_ids(ids) == line


@pytest.mark.slow
def test_more_than_65536_words_do_not_wrap(workshop: Workshop) -> None:
    line = " ".join(f"w{i}" for i in range(70_000))
    corpus = workshop.make(line + "\n", line + "\n", **PLAIN, max_length=100_000)
    ids = corpus.split("train").target[0]
    assert corpus.split("train").target.ids.dtype == np.uint32
    assert len(set(ids.tolist())) == 70_000
    assert corpus.codecs.target.text_of_ids(ids.tolist()) == line


@pytest.mark.parametrize(
    ("text", "learnt", "warning"),
    [("a b c\n", 0, "asked for 5 merges, learnt 0"), ("ab\n", 1, "asked for 5 merges, learnt 1")],
)
def test_fewer_merges_than_asked_for_is_said(workshop: Workshop, text: str, learnt: int, warning: str) -> None:
    summary = prepare(workshop.recipe(text, text, tokenizer="none", merges=5), workshop.folder / "corpus")
    assert any(warning in line for line in summary.warnings)
    assert len((summary.folder / "bpe.codes").read_text("utf-8").splitlines()) == 1 + learnt


# Settings and tasks


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


@pytest.mark.parametrize("settings", [{"vocabulary": "word"}, {"merges": 20}, {"merges": 20, "lowercase": True}])
def test_the_bag_of_a_target_is_what_decoding_reads(workshop: Workshop, settings: dict[str, Any]) -> None:
    lines = ["I like Dr. Who.", "cats. like (it) I", "He isn't in the U.S. now."]
    corpus = workshop.make(None, "\n".join(lines) + "\n", task="word_ordering", **settings)
    for split in ("train", "valid"):
        source = corpus.split(split).source
        for i, line in enumerate(lines):
            assert source[i].tolist() == corpus.codecs.encode_source(" ".join(reversed(line.split())))


def test_leftovers_of_a_killed_run_go(workshop: Workshop) -> None:
    """Those of processes that are gone: a half-made corpus goes, a replaced one gets its name back if none stands."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    recipe = workshop.recipe("a b\n", "c d\n", **PLAIN)
    folder = workshop.folder / "corpus"
    old, partial = (workshop.folder / f".corpus.{dead.pid}.{kind}" for kind in ("old", "partial"))
    alive = workshop.folder / f".corpus.{os.getppid()}.partial"
    alive.mkdir()
    partial.mkdir()
    prepare(recipe, old)
    before = content_of(old)
    with pytest.raises(UsageError, match="exists already"):
        prepare(recipe, folder)
    assert content_of(folder) == before and workshop.leftovers() == {"corpus", alive.name}
    old.mkdir()
    prepare(recipe, folder, overwrite=True)
    assert workshop.leftovers() == {"corpus", alive.name}


def test_the_working_directory_may_become_the_corpus(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = workshop.recipe("a b\n", "c d\n", **PLAIN)
    here = workshop.folder / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    prepare(recipe, Path("."))
    assert len(Corpus.open(here).split("train")) == 1
    monkeypatch.chdir(here)
    with pytest.raises(UsageError, match="exists already"):
        prepare(recipe, Path("."))


def test_word_ordering_says_that_it_reads_no_source(workshop: Workshop) -> None:
    summary = prepare(workshop.recipe("zzz\n", "a b\n", task="word_ordering", **PLAIN), workshop.folder / "corpus")
    assert "data.splits.train.source is not used by task word_ordering" in summary.warnings
    assert "zzz" not in Corpus.open(summary.folder).codecs.source.vocabulary.tokens


def test_code_is_neither_escaped_nor_cut(workshop: Workshop) -> None:
    code = 'if x [ 0 ] != "it\'s" : return _ ( "%s&amp;" )\n'
    recipe = workshop.recipe("if x differs, return it.\n", code, task="nl2code", lang="python")
    summary = prepare(recipe, workshop.folder / "corpus")
    corpus = Corpus.open(summary.folder)
    assert tokens(corpus, "train", "target") == [code.split()]
    assert corpus.codecs.target.text_of_ids(corpus.split("train").target[0].tolist()) == code.strip()
    assert [line.split(":")[0] for line in summary.warnings] == ["preprocess.tokenizer", "preprocess.vocabulary"]


@pytest.mark.parametrize("task", ["captioning", "translatoin", ""])
def test_tasks_that_are_not_there(workshop: Workshop, task: str) -> None:
    with pytest.raises(UsageError) as caught:
        prepare(workshop.recipe("a\n", "b\n", task=task), workshop.folder / "corpus")
    assert caught.value.where == "data.task" and "translation" in caught.value.fix
    assert workshop.leftovers() == set()


@pytest.mark.parametrize(
    ("splits", "where"),
    [
        ({}, "data.splits"),
        ({"train": SplitConfig(["s"], ["t"])}, "data.splits"),
        ({"train": SplitConfig([], ["t"]), "valid": SplitConfig(["s"], ["t"])}, "data.splits.train.source"),
        ({"train": SplitConfig(["s"], ["t"]), "valid": SplitConfig(["s"])}, "data.splits.valid.target"),
    ],
)
def test_splits_that_cannot_be_used(splits: dict[str, SplitConfig], where: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_settings(DataConfig(splits=splits), PreprocessConfig())
    assert caught.value.where == where


def test_characters_as_tokens_need_no_bpe(workshop: Workshop) -> None:
    summary = prepare(workshop.recipe("a b\n", "ab\n", tokenizer="char"), workshop.folder / "corpus")
    corpus = Corpus.open(summary.folder)
    assert tokens(corpus, "train", "source") == [["a", "<space>", "b"]]
    assert any("preprocess.vocabulary" in line for line in summary.warnings)


# The same bytes wherever it runs

SCRIPT = """
import sys
from pathlib import Path
from types import SimpleNamespace
from indigo_cli.engine.prepare import DataConfig, PreprocessConfig, SplitConfig, prepare
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
