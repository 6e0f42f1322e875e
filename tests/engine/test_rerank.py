"""Re-ranking by source words: beside counting by hand, and beside the plain list put in order here."""

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.bpe import BPE, learn, split_all
from indigo_cli.core.format import Format
from indigo_cli.core.text import Codecs, SideCodec
from indigo_cli.core.tokenizer import make_tokenizer
from indigo_cli.core.vocab import UNK, Vocabulary
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.engine.generate import generate
from indigo_cli.engine.generator import Generator
from indigo_cli.engine.loaded_run import load_run
from indigo_cli.engine.nbest import Output
from indigo_cli.engine.rerank import Reranker, make_reranker
from indigo_cli.engine.runtime import Runtime
from tests.tiny import WORDS, Tiny

SOURCE = 'The generators don\'t run: 1,000 well-fed dogs ran & 5 < 6 "A|B".'
RERANK = "decode.rerank=source_words"


def reranker(*, merges: int | None, tokenizer: str = "moses", known: Sequence[str] = (SOURCE,), stemmed: bool = False):  # type: ignore[no-untyped-def]
    """Of codecs that know the words of some lines; returns it with the side."""
    tool = make_tokenizer(tokenizer, "en")
    words = [token for line in known for token in tool.tokenize(line)]
    bpe = None if merges is None else BPE(learn(dict.fromkeys(words, 1), merges))
    pieces = words if bpe is None else split_all(bpe, words)
    side = SideCodec(tokenizer, "en", False, bpe, Vocabulary.from_counts((piece, 1) for piece in pieces))
    made = make_reranker(Codecs(side, side), DecodeConfig(rerank="source_words", rerank_stemmed=stemmed))
    assert isinstance(made, Reranker)
    return made, side


@pytest.mark.parametrize("merges", [None, 0, 20])
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("dogs ran", 2),
        ("Dogs Ran the THE", 4),  # case is no difference; each time counts
        ("1,000 5 6 7 & < : .", 3),  # numbers are words, punctuation is not
        ("do n't run", 2),  # do, n, 't, run
        ("don't run", 3),  # don, 't, run
        ("generator cats", 0),
        ('"A|B"', 1),
        ("well-fed", 1),
        ("", 0),
    ],
)
def test_words_are_counted_as_by_hand(merges: int | None, text: str, kept: int) -> None:
    made, side = reranker(merges=merges)
    assert made.kept_words(side.encode(SOURCE), [side.pieces(text)]) == [kept]


def test_stems_are_compared_where_asked() -> None:
    made, side = reranker(merges=None, stemmed=True)
    texts = ["generator", "generation", "running dog", "cats"]
    assert made.kept_words(side.encode(SOURCE), [side.pieces(text) for text in texts]) == [1, 1, 2, 0]


def test_unknown_words_are_like_nothing() -> None:
    """Neither each other, nor a word of the text that is spelt like them."""
    made, side = reranker(merges=None, tokenizer="none", known=["a b <unk>"])
    source = [*side.encode("a"), UNK]
    assert made.kept_words(source, [["a", "<unk>"], ["<unk>"], ["b"]]) == [1, 0, 0]
    assert made.kept_words(side.encode("a <unk>"), [["a", "<unk>"]]) == [2]


@given(
    source=st.lists(st.sampled_from(["a", "B", "b", "c", ".", "7", "ё", "Ё"]), max_size=6),
    hypotheses=st.lists(st.lists(st.sampled_from(["a", "A", "b", "d", ".", "7", "ё"]), max_size=6), max_size=4),
)
def test_it_is_the_count_of_words_that_the_source_has(source: list[str], hypotheses: list[list[str]]) -> None:
    made, side = reranker(merges=None, tokenizer="none", known=["a A b B c d . 7 ё Ё"])
    known = {word.lower() for word in source} - {"."}
    expected = [sum(word.lower() in known for word in hypothesis) for hypothesis in hypotheses]
    assert made.kept_words(side.encode(" ".join(source)), hypotheses) == expected


def make(run: Path, *overrides: str, n_best: int = 1) -> Generator:
    device = torch.device("cpu")
    return Generator(load_run(run, overrides=overrides, device=device), device=device, runtime=Runtime(), n_best=n_best)


def lists(generator: Generator, lines: Sequence[str]) -> list[list[Output]]:
    return generator.decode([generator.encode(i, line) for i, line in enumerate(lines)])


LINES = ["ant bee cat dog", "koi koi fox", "", "hen jay lærk gnu eel", "ibis"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 20])
@pytest.mark.parametrize("kind", ["indigo", "transformer"])
def test_it_is_the_plain_list_put_in_order(tiny: Tiny, transformer: Path, kind: str, size: int) -> None:
    run = tiny.run if kind == "indigo" else transformer
    plain = lists(make(run, n_best=size), LINES)
    chosen = lists(make(run, RERANK, f"decode.rerank_from={size}"), LINES)
    whole = lists(make(run, RERANK, f"decode.rerank_from={size}", n_best=size), LINES)
    some = lists(make(run, RERANK, f"decode.rerank_from={size}", n_best=2), LINES)
    moved = 0
    for line, before, best, after, two in zip(LINES, plain, chosen, whole, some, strict=True):
        kept = [sum(word in line.split() for word in output.text.split()) for output in before]
        expected: list[Output] = []
        for finished in (True, False):
            for count in range(len(WORDS), -1, -1):
                expected += [
                    output
                    for output, words in zip(before, kept, strict=True)
                    if words == count and output.hypothesis.finished == finished
                ]
        assert [output.text for output in after] == [output.text for output in expected]
        assert [output.hypothesis.score for output in after] == [output.hypothesis.score for output in expected]
        assert ([output.text for output in best], two) == ([after[0].text], after[:2])
        moved += after[0].text != before[0].text
    assert moved, "nothing was re-ranked: this shows nothing"


@pytest.mark.slow
def test_longer_lists_than_it_looks_at_are_put_in_order_whole(tiny: Tiny) -> None:
    assert lists(make(tiny.run, RERANK, "decode.rerank_from=2", n_best=6), LINES) == lists(
        make(tiny.run, RERANK, "decode.rerank_from=6", n_best=6), LINES
    )


@pytest.mark.slow
def test_text_lists_traces_and_pipes_agree(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    options = {"source": str(tmp_path / "in"), "overrides": [RERANK]}
    generate(tiny.run, output=str(tmp_path / "text"), **options)  # type: ignore[arg-type]
    generate(tiny.run, output=str(tmp_path / "tsv"), form=Format.tsv, n_best=3, **options)  # type: ignore[arg-type]
    generate(tiny.run, output=str(tmp_path / "jsonl"), form=Format.jsonl, n_best=3, **options)  # type: ignore[arg-type]
    texts = (tmp_path / "text").read_text("utf-8").split("\n")[:-1]
    table = [row.split("\t") for row in (tmp_path / "tsv").read_text("utf-8").split("\n")[:-1]]
    traces = [json.loads(row) for row in (tmp_path / "jsonl").read_text("utf-8").splitlines()[1:]]
    assert [row[3] for row in table if row[1] == "1"] == texts
    assert [(str(row["id"]), str(row["rank"]), row["text"]) for row in traces] == [(*row[:2], row[3]) for row in table]
    assert {row["rank"] for row in traces} == {1, 2, 3}
    stream = io.TextIOWrapper(io.BytesIO((tmp_path / "in").read_bytes()), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stream)
    generate(tiny.run, overrides=[RERANK])
    assert capsys.readouterr().out.split("\n")[:-1] == texts


@pytest.mark.slow
def test_samples_are_left_as_they_were_drawn(tiny: Tiny) -> None:
    drawn = lists(make(tiny.run, "decode.search=sample", RERANK, n_best=5), LINES)
    assert drawn == lists(make(tiny.run, "decode.search=sample", n_best=5), LINES)
