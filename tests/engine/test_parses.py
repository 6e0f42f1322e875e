"""Trees of a CoNLL-U file on the tokens of targets: generated files against a slow second implementation."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.bpe import BPE, HEADER
from indigo_cli.core.text import SideCodec
from indigo_cli.core.vocab import UNK, Vocabulary
from indigo_cli.engine.parses import ConlluParses, Spelling, bare
from indigo_cli.errors import DataError
from indigo_cli.orders import ORDERS, Example, OrderContext


@dataclass(frozen=True)
class Line:
    """Words of a raw line with their heads (themselves for roots), in surfaces of one or more words."""

    heads: tuple[int, ...]
    sentences: tuple[int, ...]
    surfaces: tuple[tuple[str, int, int], ...]

    @property
    def text(self) -> str:
        return "".join(text for text, _, _ in self.surfaces)


@st.composite
def lines(draw: st.DrawFn) -> Line:
    """One to three sentences of any trees and contractions. No character occurs twice, so there is one alignment."""
    heads: list[int] = []
    sentences: list[int] = []
    surfaces: list[tuple[str, int, int]] = []
    next_character = 0x4E00
    for sentence in range(draw(st.integers(1, 3))):
        size, start = draw(st.integers(1, 6)), len(heads)
        names = draw(st.permutations(range(size)))
        own = [0] * size
        for child in range(size):  # a word hangs on one that was named before it, the first is the root
            own[names[child]] = names[draw(st.integers(0, max(child - 1, 0)))] if child else names[0]
        heads += [start + head for head in own]
        sentences += [sentence] * size
        word = start
        while word < start + size:
            last = min(word + draw(st.integers(0, 2)), start + size - 1)
            length = draw(st.integers(1, 4))
            surfaces.append(("".join(map(chr, range(next_character, next_character + length))), word, last))
            next_character += length
            word = last + 1
    return Line(tuple(heads), tuple(sentences), tuple(surfaces))


def conllu(line: Line, number: int) -> str:
    """Write the sentences of a line, with an empty node before each contraction."""
    rows: list[str] = []
    for sentence in range(max(line.sentences) + 1):
        start = line.sentences.index(sentence)
        rows += ["", f"# line = {number}"]
        for text, first, last in line.surfaces:
            if line.sentences[first] != sentence:
                continue
            if first < last:
                rows.append(f"{first - start}.1\tgone" + "\t_" * 8)
                rows.append(f"{first - start + 1}-{last - start + 1}\t{text}" + "\t_" * 8)
            for word in range(first, last + 1):
                head = 0 if line.heads[word] == word else line.heads[word] - start + 1
                form = text if first == last else "form"
                rows.append(f"{word - start + 1}\t{form}\t_\t_\t_\t_\t{head}\t_\t_\t_")
    return "\n".join(rows) + "\n"


def level(line: Line, word: int) -> tuple[int, int, list[int]]:
    """Sort key of level order: the sentence, the depth, the path from the root."""
    path = [word]
    while line.heads[path[0]] != path[0]:
        path.insert(0, line.heads[path[0]])
    return line.sentences[word], len(path), path


def expected_order(line: Line, tokens: list[str]) -> tuple[int, ...]:
    """A token is due with the first of the words whose surfaces it touches; ties from left to right."""
    rank = {word: n for n, word in enumerate(sorted(range(len(line.heads)), key=lambda word: level(line, word)))}
    touched = [(first, last) for text, first, last in line.surfaces for _ in text]
    due, start = [], 0
    for token in tokens:
        words = [w for first, last in touched[start : start + len(token)] for w in range(first, last + 1)]
        due.append(min(rank[w] for w in words))
        start += len(token)
    return tuple(sorted(range(len(tokens)), key=lambda place: (due[place], place)))


def codec_of(tokens: list[str], *, pieces: bool = False) -> SideCodec:
    """Tokens as the only words, or all their characters as pieces."""
    words = [c + mark for c in sorted({*"".join(tokens)}) for mark in ("", "@@")] if pieces else tokens
    vocabulary = Vocabulary(tuple(dict.fromkeys(words)), (1,) * len(dict.fromkeys(words)))
    return SideCodec("none", "xx", False, BPE(HEADER + "\n") if pieces else None, vocabulary)


def order_of(path: Path, codec: SideCodec, ids: list[int], number: int) -> tuple[int, ...]:
    parses = ConlluParses(path, codec)
    (parse,) = parses([(number, ids)])
    assert parse is not None
    return ORDERS["syn"].order(Example(number, ids), OrderContext(parses={number: parse}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trees")


@given(line=lines(), data=st.data())
def test_any_tokens_on_any_trees(folder: Path, line: Line, data: st.DataObject) -> None:
    text, number = line.text, data.draw(st.integers(0, 9))
    path = folder / "any.conllu"
    path.write_text((conllu(line, 0) if number else "") + conllu(line, number), encoding="utf-8")
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text)), max_size=8)) - {len(text)})
    tokens = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    order = expected_order(line, tokens)
    codec = codec_of(tokens)
    assert order_of(path, codec, codec.encode(" ".join(tokens)), number) == order

    pieces = codec_of(tokens, pieces=True)  # each token gives way to its pieces, in a row
    starts = [sum(map(len, tokens[:place])) for place in range(len(tokens) + 1)]
    whole = tuple(p for place in order for p in range(starts[place], starts[place + 1]))
    assert order_of(path, pieces, pieces.encode(" ".join(tokens)), number) == whole


@given(line=lines(), data=st.data())
def test_an_unknown_token_that_is_a_surface_of_its_own(folder: Path, line: Line, data: st.DataObject) -> None:
    """Between known neighbours there is one place it can be."""
    path = folder / "unknown.conllu"
    path.write_text(conllu(line, 0), encoding="utf-8")
    tokens = [text for text, _, _ in line.surfaces]
    codec = codec_of(tokens)
    ids = codec.encode(" ".join(tokens))
    for place in range(data.draw(st.integers(0, 1)), len(ids), 2):
        ids[place] = UNK
    assert order_of(path, codec, ids, 0) == expected_order(line, tokens)


HAND_MADE = """\
# text = Im "Haus"&Hof, don't!
1-2\tIm\t_\t_\t_\t_\t_\t_\t_\t_
1\tIn\t_\t_\t_\t_\t4\t_\t_\t_
2\tdem\t_\t_\t_\t_\t4\t_\t_\t_
3\t\u201e\t_\t_\t_\t_\t4\t_\t_\t_
4\tHaus\t_\t_\t_\t_\t0\t_\t_\t_
5\t\u201c\t_\t_\t_\t_\t4\t_\t_\t_
6\t&\t_\t_\t_\t_\t7\t_\t_\t_
7\tHof\t_\t_\t_\t_\t4\t_\t_\t_
8\t,\t_\t_\t_\t_\t9\t_\t_\t_
9\tdo\t_\t_\t_\t_\t4\t_\t_\t_
10\tn't\t_\t_\t_\t_\t9\t_\t_\t_
11\t!\t_\t_\t_\t_\t9\t_\t_\t_
"""


def test_moses_escapes_quotes_and_its_own_cuts(tmp_path: Path) -> None:
    """Moses writes `&quot; &amp; &apos;`, makes plain quotes of curved ones, and cuts don't as `don 't`."""
    (tmp_path / "t.conllu").write_text(HAND_MADE, encoding="utf-8")
    text = "Im \u201eHaus\u201c & Hof, don't!"
    raw = SideCodec("moses", "en", False, None, Vocabulary((), ()))
    words = raw.words(text)
    assert words == ["Im", "&quot;", "Haus", "&quot;", "&amp;", "Hof", ",", "don", "&apos;t", "!"]
    codec = SideCodec("moses", "en", False, None, Vocabulary(tuple(dict.fromkeys(words)), (1,) * 9))
    order = order_of(tmp_path / "t.conllu", codec, codec.encode(text), 0)
    assert [words[place] for place in order] == "Haus Im &quot; &quot; Hof don &amp; , &apos;t !".split()
    pieces = BPE(HEADER + "\n")
    lower = SideCodec("moses", "en", True, pieces, Vocabulary((), ())).pieces(text)
    by_piece = SideCodec("moses", "en", True, pieces, Vocabulary(tuple(dict.fromkeys(lower)), (1,) * len({*lower})))
    order = order_of(tmp_path / "t.conllu", by_piece, by_piece.encode(text), 0)
    said = "".join(lower[place] for place in order).replace("@@", "")
    assert said == "hausim&quot;&quot;hofdon&amp;,&apos;t!"


def test_targets_without_a_tree_and_trees_without_a_target(tmp_path: Path) -> None:
    (tmp_path / "t.conllu").write_text(
        "".join(f"# line = {n}\n1\t{w}\t_\t_\t_\t_\t0\t_\t_\t_\n\n" for n, w in [(1, "a"), (3, "b"), (4, "c")]), "utf-8"
    )
    parses = ConlluParses(tmp_path / "t.conllu", codec_of(["a", "b", "c"]))
    first = list(parses([(0, [5]), (1, []), (2, [5])]))
    second = list(parses([(4, [7]), (9, [5])]))
    assert first == [None, None, None]
    assert [parse.heads if parse else None for parse in second] == [(0,), None]


def test_another_sentence_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.conllu").write_text("1\tquite\t_\t_\t_\t_\t0\t_\t_\t_\n", "utf-8")
    with pytest.raises(DataError, match="do not spell") as caught:
        list(ConlluParses(tmp_path / "t.conllu", codec_of(["other"]))([(0, [5])]))
    assert caught.value.where == f"{tmp_path / 't.conllu'}:1"


@given(st.lists(st.text(), max_size=4))
def test_bare_cuts_join_to_the_bare_whole(cuts: list[str]) -> None:
    """Else tokens and words could not be compared by their characters."""
    assert "".join(map(bare, cuts)) == bare("".join(cuts))


def test_an_unknown_piece_ends_its_token() -> None:
    spelling = Spelling(codec_of(["ab"], pieces=True), unknown="?")
    a, ab = 6, 8  # "a@@", "b@@"
    assert spelling.tokens([a, UNK, ab, ab]) == (["a?", "bb"], [2, 2])
    assert spelling.sentence([a, UNK, ab, ab]) == "a? bb"
