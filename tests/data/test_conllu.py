"""CoNLL-U: reading, errors with file and line, alignment by characters."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.data import conllu as module
from indigo_cli.data.conllu import UNKNOWN, Tree, align, read_conllu
from indigo_cli.errors import DataError


def word(name: str, form: str, head: str = "0") -> str:
    return "\t".join([name, form, "_", "_", "_", "_", head, "_", "_", "_"])


def block(*rows: str, comments: tuple[str, ...] = ()) -> str:
    return "\n".join([*comments, *rows]) + "\n\n"


def write(path: Path, *blocks: str) -> Path:
    path.write_text("".join(blocks), encoding="utf-8")
    return path


def flat(*words: str) -> Tree:
    """A tree of roots over these words."""
    n = range(len(words))
    return Tree(tuple(n), tuple((text, i, i) for i, text in zip(n, words, strict=True)), "t:1")


def test_one_block_a_line(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.conllu",
        block(word("1", "dogs", "2"), word("2", "bark"), comments=("# text = dogs bark",)),
        block(word("1", "yes")),
    )
    trees = dict(read_conllu(path))
    assert trees[0] == Tree((1, 1), (("dogs", 0, 0), ("bark", 1, 1)), f"{path}:2")
    assert trees[1].heads == (0,)
    assert len(trees) == 2


def test_line_comments_skip_and_join(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.conllu",
        block(word("1", "Go"), word("2", ".", "1"), comments=("# line = 2",)),
        block(word("1", "Stop"), word("2", ".", "1"), comments=("#line=2",)),
        block(word("1", "next")),
    )
    trees = dict(read_conllu(path))
    assert sorted(trees) == [2, 3]
    assert trees[2].heads == (0, 0, 2, 2)
    assert trees[2].surfaces[2] == ("Stop", 2, 2)


def test_a_file_is_read_along(tmp_path: Path) -> None:
    """A fault further down does not keep the sentences before it, and lines that fall back are one."""
    path = write(
        tmp_path / "t.conllu",
        block(word("1", "a"), comments=("# line = 3",)),
        block(word("1", "b"), comments=("# line = 5",)),
        block(word("1", "c"), comments=("# line = 3",)),
    )
    trees = read_conllu(path)
    assert next(trees)[0] == 3
    with pytest.raises(DataError, match="line 3 comes after one of line 5") as caught:
        list(trees)
    assert caught.value.where == f"{path}:8"
    assert "sort the blocks" in caught.value.fix


def test_contractions_and_empty_nodes(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.conllu",
        block(
            word("1", "er", "4"),
            word("2-3", "im", "_"),
            word("2", "in", "4"),
            word("3", "dem", "4"),
            word("3.1", "ghost", "_"),
            word("4", "Haus"),
        ),
    )
    ((_, tree),) = read_conllu(path)
    assert tree.heads == (3, 3, 3, 3)
    assert tree.surfaces == (("er", 0, 0), ("im", 1, 2), ("Haus", 3, 3))
    assert align(["er", "i", "m", "Haus"], tree) == ((0, 0), (1, 2), (1, 2), (3, 3))


def test_the_last_block_needs_no_blank_line_and_crlf_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "t.conllu"
    path.write_bytes(("\ufeff" + word("1", "dogs", "2") + "\r\n" + word("2", "bark")).encode())
    ((_, tree),) = read_conllu(path)
    assert tree.heads == (1, 1)


@pytest.mark.parametrize(
    ("rows", "message", "line"),
    [
        ([word("1", "a"), "2\tb"], "10 columns", 2),
        ([word("1", "a"), word("3", "b")], "word 2 is due", 2),
        ([word("x", "a")], "'x' is no number", 1),
        ([word("1", "a", "_")], "'_' is no number", 1),
        ([word("1", "a", "-1")], "'-1' is no number", 1),
        ([word("1", "a", "2")], "word 1 has head 2, but there are 1 words", 1),
        ([word("1-2", "ab", "_"), word("1", "a")], "contraction reaches to word 2", 1),
        ([word("2-3", "ab", "_"), word("1", "a")], "contraction 2-3 does not fit", 1),
        ([word("1-2", "a", "_"), word("1-2", "a", "_")], "contraction 1-2 does not fit", 2),
        (["# line = one", word("1", "a")], "'one' is no number", 1),
        ([word("1" * 5000, "a")], "no number", 1),
        ([word("²", "a")], "no number", 1),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, rows: list[str], message: str, line: int) -> None:
    path = write(tmp_path / "t.conllu", block(*rows))
    with pytest.raises(DataError, match=message) as caught:
        list(read_conllu(path))
    assert caught.value.where == f"{path}:{line}"


@given(st.text(alphabet="12-.\t_#\nab ", max_size=60))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "t.conllu"
    path.write_text(text, encoding="utf-8")
    try:
        list(read_conllu(path))
    except DataError as error:
        assert str(path) in error.where


def test_tokens_that_cut_differently_align_by_characters() -> None:
    tree = flat("do", "n't", "stop")
    assert align(["don", "'t", "st", "op"], tree) == ((0, 1), (1, 1), (2, 2), (2, 2))


def test_unknown_and_empty_tokens_take_their_place() -> None:
    tree = flat("the", "quokka", "smiles")
    assert align(["the", UNKNOWN, "smiles"], tree) == ((0, 0), (1, 1), (2, 2))
    assert align(["the", "", "quokka", "", "smiles"], tree) == ((0, 0), (0, 0), (1, 1), (1, 1), (2, 2))
    assert align([UNKNOWN, "quokka", UNKNOWN], flat("a", "quokka", "b")) == ((0, 0), (1, 1), (2, 2))
    assert align(["quo" + UNKNOWN, "smiles"], flat("quokka", "smiles")) == ((0, 0), (1, 1))


def test_unknown_tokens_in_a_row_share_the_words_between() -> None:
    tree = flat("one", "2", "3", "4", "five")
    unknown = [UNKNOWN] * 3
    assert align(["one", *unknown, "five"], tree) == ((0, 0), (1, 1), (2, 2), (3, 3), (4, 4))
    assert align(["one", *unknown[:2], "five"], tree) == ((0, 0), (1, 1), (2, 3), (4, 4))
    assert align(["one", *unknown, "4", "five"], tree) == ((0, 0), (1, 1), (1, 1), (2, 2), (3, 3), (4, 4))
    assert align(unknown, flat("a", "b")) == ((0, 0), (0, 0), (1, 1))
    assert align(["", UNKNOWN, "a"], flat("a")) == ((0, 0), (0, 0), (0, 0)), "nothing is left of the only word"


def test_small_differences_of_normalisation_are_bridged() -> None:
    """Moses moves a comma before a closing quote."""
    tree = flat("he", "said", '"', "very", "well", '"', ",", "twice")
    spans = align(["he", "said", '"', "very", "well", ",", '"', "twice"], tree)
    assert spans[:5] == ((0, 0), (1, 1), (2, 2), (3, 3), (4, 4))
    assert spans[-1] == (7, 7)
    assert {spans[5], spans[6]} <= {(5, 5), (6, 6), (5, 6)}


@given(st.lists(st.integers(0, 99), max_size=6), st.integers(0, 2**32))
def test_long_lines_that_differ_here_and_there(places: list[int], seed: int) -> None:
    """Characters that only one of both texts has do not move the rest, whatever the window."""
    generator = random.Random(seed)
    words = ["".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(100)]
    tokens = list(words)
    for place in places:
        tokens[place] = tokens[place][:3] + "X" + tokens[place][3:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WINDOW", 100)
        assert align(tokens, flat(*words)) == tuple((i, i) for i in range(100))


def test_texts_that_part_for_good_end_soon() -> None:
    with pytest.raises(DataError, match="do not spell"):
        align(["a" * 100_000], flat("b" * 100_000, "a" * 50_000))


def test_normalise_is_applied_to_the_words() -> None:
    assert align(["dogs"], flat("DOGS"), normalise=str.lower) == ((0, 0),)


def test_another_sentence_is_refused() -> None:
    with pytest.raises(DataError, match="do not spell the target") as caught:
        align(["completely", "different"], flat("yes", "sir"))
    assert caught.value.where == "t:1"


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=4), min_size=1, max_size=8), st.data())
def test_every_cut_of_the_text_covers_the_words_it_touches(words: list[str], data: st.DataObject) -> None:
    text = "".join(words)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(len(text) - 1, 1)), max_size=6)) - {len(text)})
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    owner = [i for i, each in enumerate(words) for _ in each]
    start, expected = 0, []
    for piece in pieces:
        covered = owner[start : start + len(piece)]
        expected.append((covered[0], covered[-1]))
        start += len(piece)
    assert align(pieces, flat(*words)) == tuple(expected)
