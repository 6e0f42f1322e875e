"""What a recipe may ask of preprocessing beyond its defaults: corpus, later input and output agree on it."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.core.text import Codecs
from indigo_cli.data.corpus import Corpus
from indigo_cli.engine import passes
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.prepare_settings import DataConfig, PreprocessConfig, SplitConfig, resolve_settings
from indigo_cli.errors import RecipeError
from indigo_cli.recipe import load_recipe
from tests.workshop import Recipe, Workshop, content_of, tokens

TEXT = """The cat sat. "Paris is big," he said.
A dog and the cat! The dog saw Paris.
see http://A.b/?x&amp;Y now (the URL). the cat sat
"Never mind," said the dog.

He said: the end ... A cat
"""


@pytest.mark.parametrize(
    "settings",
    [
        {"truecase": True, "merges": 30},
        {"truecase": True, "merges": 30, "joint": False, "vocabulary_threshold": 3},
        {"truecase": True, "vocabulary": "word", "protected": ["url", "[Pp]aris"]},
        {"truecase": True, "tokenizer": "tokenized", "merges": 5},
        {"vocabulary_threshold": 4, "merges": 40},
        {"protected": ["url"], "lowercase": True, "merges": 20},
        {"vocabulary": "char", "truecase": True},
    ],
)
def test_later_input_is_encoded_like_the_training_text(workshop: Workshop, settings: dict[str, Any]) -> None:
    """The stores hold what the saved codecs make of the raw lines."""
    other = TEXT.replace("cat", "Katze")
    corpus = workshop.make(TEXT, other, **settings)
    codecs, valid = Codecs.load(corpus.folder), corpus.split("valid")
    for i, (source, target) in enumerate(zip(TEXT.splitlines(), other.splitlines(), strict=True)):
        assert codecs.encode_source(source) == valid.source[i].tolist()
        assert codecs.target.encode(target) == valid.target[i].tolist()


def test_words_that_start_sentences_take_their_usual_case(workshop: Workshop) -> None:
    corpus = workshop.make(TEXT, TEXT, truecase=True, vocabulary="word")
    lines = [" ".join(line) for line in tokens(corpus, "valid", "source")]
    assert lines[0] == "the cat sat . &quot; Paris is big , &quot; he said ."
    assert lines[1] == "A dog and the cat ! the dog saw Paris ."
    counts = Counter(" ".join(lines).split())
    vocabulary = corpus.codecs.source.vocabulary
    joint = {token: 2 * counts[token] for token in counts}
    joint["Never"] = 2
    assert dict(zip(vocabulary.tokens, vocabulary.counts, strict=True)) == joint
    ids = corpus.split("valid").target[1].tolist()
    assert corpus.codecs.target.text_of_ids(ids) == "A dog and the cat! The dog saw Paris."


def test_each_side_learns_its_own_case(workshop: Workshop) -> None:
    corpus = workshop.make("Die dog , a die\n", "Die b , so Die\n", truecase=True, vocabulary="word")
    assert tokens(corpus, "train", "source") == ["die dog , a die".split()]
    assert tokens(corpus, "train", "target") == ["Die b , so Die".split()]


def test_protected_parts_survive_every_step(workshop: Workshop) -> None:
    corpus = workshop.make(TEXT, TEXT, protected=["url"], lowercase=True, merges=20)
    text = corpus.codecs.target.text_of_ids(corpus.split("valid").target[2].tolist())
    assert text == "see http://A.b/?x&amp;Y now (the url). the cat sat"


def test_pieces_that_a_side_hardly_shows_are_split_there_alone(workshop: Workshop) -> None:
    source, target = "abab abab cd\n" * 2, "abab cd cd ab\n\n"
    plain = workshop.make(source, target, tokenizer="none", merges=6)
    limited = workshop.make(source, target, tokenizer="none", merges=6, vocabulary_threshold=2)
    assert tokens(plain, "valid", "target")[0] == ["abab", "cd", "cd", "ab"]
    assert tokens(limited, "valid", "source")[0] == ["abab", "abab", "c@@", "d"]  # one of them can train
    assert tokens(limited, "valid", "target")[0] == ["a@@", "b@@", "a@@", "b", "cd", "cd", "a@@", "b"]
    assert (limited.folder / "target.pieces.json").is_file()


def test_a_threshold_of_one_splits_what_a_side_never_shows(workshop: Workshop) -> None:
    corpus = workshop.make("ab ab\n", "a b\n", tokenizer="none", merges=1, vocabulary_threshold=1)
    assert (corpus.codecs.source.pieces("ab"), corpus.codecs.target.pieces("ab")) == (["ab"], ["a@@", "b"])


def test_romanian_is_respelt_on_its_side_only(workshop: Workshop) -> None:
    line = "şi ţara\n"
    recipe = workshop.recipe(line, line, spelling="romanian", vocabulary="word")
    data = DataConfig("translation", "RO", "tr", recipe.data.splits)
    corpus = Corpus.open(prepare(Recipe("x", data, recipe.preprocess), workshop.folder / "corpus").folder)
    assert tokens(corpus, "train", "source") == [["și", "țara"]]
    assert tokens(corpus, "train", "target") == [["şi", "ţara"]]
    assert corpus.codecs.encode_source("ŞI şi")[1] == corpus.split("train").source[0][0]


@pytest.mark.parametrize(
    ("settings", "task", "key"),
    [
        ({"truecase": True, "tokenizer": "char", "vocabulary": "char"}, "translation", "truecase"),
        ({"truecase": True}, "word_ordering", "truecase"),
        ({"protected": ["url"], "tokenizer": "none"}, "translation", "protected"),
        ({"vocabulary_threshold": 9, "vocabulary": "word"}, "translation", "vocabulary_threshold"),
        ({"spelling": "romanian"}, "translation", "spelling"),
    ],
)
def test_settings_without_effect_are_said_and_switched_off(settings: dict[str, Any], task: str, key: str) -> None:
    splits = dict.fromkeys(("train", "valid"), SplitConfig([] if task == "word_ordering" else ["s"], ["t"]))
    _, resolved, notes = resolve_settings(DataConfig(task, "en", "de", splits), PreprocessConfig(**settings))
    assert [note for note in notes if note.startswith(f"preprocess.{key} has no effect: ")] == notes
    assert getattr(resolved, key) == getattr(PreprocessConfig(), key)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("truecase = true\nlowercase = true", "truecase and lowercase contradict"),
        ('protected = ["url", "a("]', "'a(' is neither"),
        ('protected = ["b*"]', "'b*' matches the empty text"),
    ],
)
def test_settings_that_cannot_be_used_are_faults_of_the_recipe(tmp_path: Path, settings: str, message: str) -> None:
    recipe = tmp_path / "r.toml"
    split = '{ source = ["s"], target = ["t"] }'
    recipe.write_text(f'name = "x"\n[data.splits]\ntrain = {split}\nvalid = {split}\n[preprocess]\n{settings}\n')
    with pytest.raises(RecipeError) as caught:
        load_recipe(recipe)
    assert message in caught.value.render() and "preprocess" in caught.value.render()


@pytest.mark.slow
def test_block_size_and_workers_change_no_byte(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [*TEXT.splitlines(), "", "x " * 30, "ąć d"]
    source, target = "\n".join(lines * 4), "\n".join([*reversed(lines)] * 4)
    recipe = workshop.recipe(source, target, tokenizer="none", merges=30, truecase=True, max_length=25)
    contents = []
    for number, (workers, most_lines, most_chars) in enumerate([(1, 2000, 1 << 20), (2, 3, 1 << 20), (3, 2000, 50)]):
        monkeypatch.setattr(passes, "BLOCK_LINES", most_lines)
        monkeypatch.setattr(passes, "BLOCK_CHARS", most_chars)
        folder = prepare(recipe, workshop.folder / f"corpus{number}", workers=workers).folder
        contents.append(content_of(folder))
    assert contents[0] == contents[1] == contents[2]


SCRIPT = """
import sys
from pathlib import Path
from types import SimpleNamespace
from indigo_cli.engine import passes
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.prepare_settings import DataConfig, PreprocessConfig, SplitConfig
passes.BLOCK_LINES = int(sys.argv[3]) + 1
files = dict.fromkeys(("train", "valid"), SplitConfig([sys.argv[1]], [sys.argv[1]]))
settings = PreprocessConfig(truecase=True, protected=["url"], vocabulary_threshold=2)
recipe = SimpleNamespace(name="x", data=DataConfig("translation", "en", "en", files), preprocess=settings)
prepare(recipe, Path(sys.argv[2]), workers=int(sys.argv[3]))
"""


@pytest.mark.slow
def test_same_bytes_under_any_hash_seed_and_number_of_workers(workshop: Workshop, repository: Path) -> None:
    text = workshop.write("text.en", "b a c\nc b a\n" + TEXT * 3)
    contents = []
    for workers in ("1", "4"):
        folder = workshop.folder / f"corpus {workers}"
        environment = {**os.environ, "PYTHONHASHSEED": workers}
        call = [sys.executable, "-c", SCRIPT, text, str(folder), workers]
        subprocess.run(call, env=environment, cwd=repository, check=True)
        contents.append(content_of(folder))
    assert contents[0] == contents[1]


@pytest.mark.slow
def test_text_without_blanks_is_split_by_bpe(workshop: Workshop) -> None:
    text = "私は猫が好きです。\n猫は私が好きです。\n" * 2
    recipe = workshop.recipe(text, text, merges=20, lang="ja")
    summary = prepare(recipe, workshop.folder / "corpus")
    assert sum("written without blanks" in warning for warning in summary.warnings) == 2
    corpus = Corpus.open(summary.folder)
    for i, line in enumerate(text.splitlines()):
        assert corpus.codecs.target.text_of_ids(corpus.split("valid").target[i].tolist()).replace(" ", "") == line
