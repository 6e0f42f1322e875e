"""The kinds of text that break preprocessing, each in its general form; see README.md for what is tested elsewhere."""

import bz2
import gzip
import lzma
import random
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sacremoses.corpus import NonbreakingPrefixes

from indigo_cli.core.bpe import BPE, learn, num_merges, split_all
from indigo_cli.core.moses import WITHOUT_BLANKS, MosesTokenizer, language_warning, moses_language
from indigo_cli.core.text import SideCodec
from indigo_cli.core.vocab import NUM_SPECIALS, SPECIAL_NAMES, UNK, Vocabulary
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.corpus_writer import ArrayWriter, id_type
from indigo_cli.data.files import read_lines
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.prepare_settings import DataConfig, PreprocessConfig, SplitConfig
from indigo_cli.errors import DataError
from tests.workshop import PLAIN, Recipe, Workshop, content_of, tokens

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".txt": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


@cache
def white_space() -> list[str]:
    return [character for character in map(chr, range(sys.maxunicode + 1)) if character.isspace() and character != "\n"]


@cache
def invisible_characters() -> list[str]:
    return [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cf"]


EN = MosesTokenizer("en")
lines_of_text = st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", exclude_categories=["Cs"])))


@pytest.mark.parametrize("tokenizer", ["moses", "none", "char"])
def test_case_01_03_11_every_white_space_is_a_blank_and_ends_no_line(workshop: Workshop, tokenizer: str) -> None:
    """Inside a line it separates words; a line of nothing else is empty: not trained on, kept elsewhere."""
    assert {"\r", "\x85", "\xa0", "\u2028", "\u2029", "\u202f", "\u3000"} <= set(white_space())
    source = [line for blank in white_space() for line in (f"red{blank}cat", blank * 2 + " ")]
    target = [f"x{number}" for number in range(len(source))]
    corpus = workshop.make(
        "\n".join(source) + "\n", "\n".join(target) + "\n", tokenizer=tokenizer, vocabulary="word", joint=False
    )
    red_cat = ["red", "cat"] if tokenizer != "char" else [*"red", "<space>", *"cat"]
    assert tokens(corpus, "train", "source") == [red_cat] * len(white_space())
    assert corpus.split("train").lines.tolist() == list(range(0, len(source), 2))
    assert tokens(corpus, "valid", "source") == [red_cat, []] * len(white_space())
    if tokenizer != "char":
        assert tokens(corpus, "train", "target") == [[word] for word in target[::2]]
    assert corpus.manifest["splits"]["train"]["dropped"]["empty source"] == len(white_space())


@given(lines=lines_of_text, ends=st.randoms(use_true_random=False), suffix=st.sampled_from(list(PACKERS)))
def test_case_05_a_bom_and_windows_line_ends_are_not_text(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], ends: random.Random, suffix: str
) -> None:
    """Also where only some lines end so; a BOM further on is a character like others."""
    path = tmp_path_factory.mktemp("t") / f"t{suffix}"
    content = "\ufeff" + "".join(line + ends.choice(["\n", "\r\n"]) for line in lines)
    path.write_bytes(PACKERS[suffix](content.encode()))
    assert list(read_lines(path)) == lines


@pytest.mark.parametrize("settings", [{"merges": 9}, {"tokenizer": "none", "vocabulary": "char"}])
def test_case_05_the_corpus_is_the_same_but_for_the_names_of_its_inputs(
    workshop: Workshop, settings: dict[str, object]
) -> None:
    """Every file of a side has a BOM of its own."""
    contents: list[dict[str, bytes]] = []
    for mark, end in (("", "\n"), ("\ufeff", "\r\n")):
        parts = [
            workshop.write(f"{number}{end == chr(10)}", mark + end.join([text, "it's the red dog", ""]))
            for number, text in enumerate(("the red cat sat", "a dog ran far off"))
        ]
        splits = dict.fromkeys(("train", "valid"), SplitConfig(parts, parts))
        config = PreprocessConfig(**settings)  # type: ignore[arg-type]
        folder = workshop.folder / f"corpus{len(contents)}"
        contents.append(content_of(prepare(Recipe("tiny", DataConfig(splits=splits), config), folder).folder))
        assert Corpus.open(folder).split("train").lines.tolist() == [0, 1, 2, 3]
    same = contents[0].keys() - {"manifest.json"}
    assert contents[0].keys() == contents[1].keys() and all(contents[0][name] == contents[1][name] for name in same)
    assert not any("\ufeff".encode() in content or b"\\ufeff" in content for content in contents[1].values())


NOT_UTF8 = [b"\xff", b"\x80", b"\xc3", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xf8\x88\x80"]


@given(
    before=lines_of_text,
    bad=st.sampled_from(NOT_UTF8),
    around=st.sampled_from([(b"", b""), (b"red ", b" cat"), (b"", b"\r")]),
    suffix=st.sampled_from(list(PACKERS)),
    more=st.booleans(),
)
def test_case_07_the_line_of_a_bad_byte_is_named(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[str],
    bad: bytes,
    around: tuple[bytes, bytes],
    suffix: str,
    more: bool,
) -> None:
    """Of every kind: a stray byte, half a character, a surrogate, an overlong form; in any line, packed or not."""
    path = tmp_path_factory.mktemp("t") / f"t{suffix}"
    content = "".join(f"{line}\n" for line in before).encode() + bad.join(around) + b"\nfine\n" * more
    path.write_bytes(PACKERS[suffix](content))
    read: list[str] = []
    with pytest.raises(DataError, match="not valid UTF-8") as caught:
        read.extend(read_lines(path))
    assert caught.value.where == f"{path}:{len(before) + 1}" and caught.value.exit_code == 2


@pytest.mark.parametrize("place", ["source", "target", "reference"])
@pytest.mark.parametrize("line", [0, 2])
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_case_07_19_bad_input_of_any_side_leaves_no_corpus(
    workshop: Workshop, place: str, line: int, workers: int
) -> None:
    for name, damage in (("bad.txt", None), ("cut.gz", gzip.compress(b"red cat\n" * 1000)[:-10])):
        paths = {side: workshop.write(side, "red cat\n" * 3) for side in ("source", "target", "reference")}
        lines = [b"red cat", b"red cat", b"red cat"]
        lines[line] = b"red \xff cat"
        paths[place] = workshop.write(name, damage or b"\n".join(lines))
        train = SplitConfig([paths["source"]], [paths["target"]])
        splits = {"train": train, "valid": SplitConfig(train.source, train.target, [[paths["reference"]]])}
        with pytest.raises(DataError) as caught:
            prepare(
                Recipe("tiny", DataConfig(splits=splits), PreprocessConfig(**PLAIN)),
                workshop.folder / "corpus",
                workers=workers,
            )
        assert caught.value.where.startswith(f"{paths[place]}:") and caught.value.exit_code == 2
        assert damage or caught.value.where.endswith(f":{line + 1}")
        assert workshop.leftovers() <= {"source", "target", "reference", "bad.txt", "cut.gz"}


@pytest.mark.parametrize("tokenizer", ["moses", "none", "char"])
def test_case_13_every_invisible_character_is_a_character(workshop: Workshop, tokenizer: str) -> None:
    """Format characters are kept as the tokeniser has them, on both sides; a line of one is not empty."""
    assert {"\u200b", "\u200d", "\u2060", "\u00ad", "\ufeff", "\u061c"} <= set(invisible_characters())
    lines = ["first", *(line for invisible in invisible_characters() for line in (f"red{invisible}cat", invisible))]
    text = "\n".join(lines) + "\n"
    corpus = workshop.make(text, text, tokenizer=tokenizer, vocabulary="word")
    assert corpus.split("train").lines.tolist() == list(range(len(lines)))
    found = tokens(corpus, "train", "target")
    assert found == tokens(corpus, "train", "source")
    for number, invisible in enumerate(invisible_characters()):
        pieces, alone = found[1 + 2 * number : 3 + 2 * number]
        assert "".join(pieces) == f"red{invisible}cat" and alone == [invisible]
        assert tokenizer != "moses" or pieces == ["red", invisible, "cat"]


sides_of_text = st.sampled_from(["", " ", "\u3000", "\u2028\xa0", "red cat", "a", "\u200b", "x x x x x"])


@settings(max_examples=3)
@given(pairs=st.lists(st.tuples(sides_of_text, sides_of_text), min_size=6, max_size=40))
def test_case_15_pairs_go_and_stay_together(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    """A pair that cannot be trained on leaves both sides and is counted once; other splits keep every line."""
    pairs = [*pairs, ("kept", "gardé")]
    workshop = Workshop(tmp_path_factory.mktemp("w"))
    sides = ["".join(f"{pair[side]}\n" for pair in pairs) for side in (0, 1)]
    corpus = workshop.make(sides[0], sides[1], **PLAIN, max_length=4)
    kept = [number for number, pair in enumerate(pairs) if all(1 <= len(text.split()) <= 4 for text in pair)]
    assert corpus.split("train").lines.tolist() == kept
    for number, side in enumerate(("source", "target")):
        assert tokens(corpus, "train", side) == [pairs[line][number].split() for line in kept]
        lengths = getattr(corpus.split("valid"), side).lengths.tolist()
        assert lengths == [len(pair[number].split()) for pair in pairs]
    counts = corpus.manifest["splits"]["train"]
    assert counts["kept"] + sum(counts["dropped"].values()) == counts["lines"] == len(pairs)
    assert len(corpus.split("valid")) == len(pairs)


@pytest.mark.parametrize(
    ("source", "target"),
    [([3], [2]), ([2], [3]), ([0], [1]), ([1, 4], [2, 2]), ([2, 2, 2], [5]), ([5000], [4999]), ([1], [5000])],
)
def test_case_17_files_of_other_lengths_are_named_with_their_counts(
    workshop: Workshop, source: list[int], target: list[int]
) -> None:
    """Whichever side is short, in however many files, within a block of lines or beyond it."""
    paths = [
        [workshop.write(f"{side}{number}", "red cat\n" * size) for number, size in enumerate(sizes)]
        for side, sizes in (("s", source), ("t", target))
    ]
    splits = dict.fromkeys(("train", "valid"), SplitConfig(paths[0], paths[1]))
    recipe = Recipe("tiny", DataConfig(splits=splits), PreprocessConfig(**PLAIN))
    with pytest.raises(DataError) as caught:
        prepare(recipe, workshop.folder / "corpus")
    for names, sizes in zip(paths, (source, target), strict=True):
        assert f"{' + '.join(names)} has {sum(sizes)} lines" in caught.value.what
    assert caught.value.exit_code == 2
    assert workshop.leftovers() == {Path(path).name for side in paths for path in side}


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_case_19_a_file_that_ends_anywhere_is_refused(tmp_path: Path, suffix: str) -> None:
    """Without its last byte, without any, without half of its header: never a shorter text."""
    path = tmp_path / f"t{suffix}"
    content = PACKERS[suffix](b"".join(b"red cat %d\n" % number for number in range(30)))
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(DataError, match="truncated") as caught:
            list(read_lines(path))
        assert caught.value.where.startswith(f"{path}:") and caught.value.fix
    path.write_bytes(PACKERS[suffix](b""))
    assert list(read_lines(path)) == []


ESCAPED = ["|", "&", "<", ">", "[", "]", '"', "'", "&amp;", "&#124;", "&quot", "it's", "5", "cat", "a", "``", "''"]


@given(words=st.lists(st.sampled_from(ESCAPED)), glue=st.sampled_from([" ", ""]))
def test_case_25_escapes_never_reach_a_reader(words: list[str], glue: str) -> None:
    """Tokens hold no character that Moses escapes; the text has as many of each as the line, only blanks move."""
    line = glue.join(words)
    found = EN.tokenize(line)
    assert not set("".join(found)) & set("|<>[]\"'")
    assert Counter(EN.detokenize(found).replace(" ", "")) == Counter(EN.normalize(line).replace(" ", ""))


@given(line=st.lists(st.sampled_from(ESCAPED), min_size=1).map(" ".join), tokenizer=st.sampled_from(["none", "char"]))
def test_case_25_without_escapes_nothing_is_unescaped(line: str, tokenizer: str) -> None:
    side = SideCodec(tokenizer, "en", False, None, Vocabulary(("a",), (1,)))
    assert side.text(side.pieces(line)) == line


separators = st.text(alphabet="ab@\\", min_size=1, max_size=6)


@given(text=st.lists(st.lists(separators, min_size=1, max_size=5).map(" ".join), min_size=1, max_size=8))
@example(["foo@@ bar", "a @@ b"])
def test_case_27_every_line_of_the_training_text_comes_back(text: list[str]) -> None:
    """Through ids: `@@` in the text is text, whether BPE learnt the word whole or not."""
    bpe = BPE(learn(Counter(" ".join(text * 5).split()), 30))
    pieces = Counter(piece for line in text for piece in split_all(bpe, line.split()))
    side = SideCodec("none", "en", False, bpe, Vocabulary.from_counts(pieces.items()))
    assert [side.text_of_ids(side.encode(line)) for line in text] == text


specials = st.sampled_from([*SPECIAL_NAMES, "<unk>", "<s>", "</s>", "<eod>", "<pad>", "<space>", "<PAD>", "a", "@@"])


@given(known=st.lists(specials, max_size=6), line=st.lists(specials, min_size=1, max_size=9))
def test_case_29_no_text_spells_a_special_symbol(known: list[str], line: list[str]) -> None:
    """Known words have ids of words, others that of the unknown one; each keeps its place."""
    vocabulary = Vocabulary.from_counts(Counter(known).items())
    side = SideCodec("none", "en", False, None, vocabulary)
    ids = side.encode(" ".join(line))
    assert len(ids) == len(line)
    for word, number in zip(line, ids, strict=True):
        assert number >= NUM_SPECIALS if word in known else number == UNK
    assert side.text_of_ids(ids).split() == [word if word in known else "<unk>" for word in line]


@given(line=st.text(alphabet=".?!,;:…-/()%*+=~^_—–'\"`´¿¡。、", min_size=1, max_size=12))  # noqa: RUF001
@example("...")
@example("?!")
@example(".")
@example("'")
def test_case_31_punctuation_alone_is_text(line: str) -> None:
    """No line of signs is empty after tokenising, none of its tokens is, and none of its signs is lost."""
    found = EN.tokenize(line)
    assert found and all(token.split() == [token] for token in found)
    assert EN.detokenize(found).replace(" ", "") == EN.normalize(line).replace(" ", "")


def test_case_31_punctuation_alone_is_kept_in_a_corpus(workshop: Workshop) -> None:
    lines = ["...", "?!", ".", "-", ", ,", "(!)", "'", '" "']
    text = "".join(f"{line}\n" for line in lines)
    corpus = workshop.make(text, text, vocabulary="word")
    assert corpus.split("train").lines.tolist() == list(range(len(lines)))
    assert tokens(corpus, "train", "target")[:3] == [["..."], ["?", "!"], ["."]]


MOSES_LANGUAGES = {*NonbreakingPrefixes().available_langs.values(), "ja", "ko", "cjk"}


@given(code=st.sampled_from(["de", "fr-CA", "RO"]) | st.text(alphabet="abcdefghijklmnopqrstuvwxyzENDE-_", max_size=6))
@example("xx")
@example("engl")
@example("EN")
@example("")
def test_case_33_a_language_is_known_or_said(code: str) -> None:
    """A code without a list of its own is named, with what is done instead; case and region never matter."""
    language = code.lower().replace("_", "-").split("-")[0]
    warning = language_warning(code)
    if language in MOSES_LANGUAGES - WITHOUT_BLANKS:
        assert not warning and moses_language(code) == language
    elif code:
        assert repr(code) in warning and ("English" in warning or language in WITHOUT_BLANKS)
    else:
        assert "English" in warning


unquoted = st.sampled_from(["See this!", "It’s big.", "we’re off, she’s not", "yes.", "the red cat sat.", "5 dogs?"])  # noqa: RUF001


@given(parts=st.lists(st.tuples(unquoted, st.booleans()), min_size=1, max_size=5))
@example([("See this!", True), ("she said.", False), ("It’s big.", True)])  # noqa: RUF001
def test_case_35_typographic_quotes_come_back_on_their_side(parts: list[tuple[str, bool]]) -> None:
    """As straight ones, with no blank moved: the normaliser runs before the tokeniser."""
    line = " ".join(f"“{text}”" if is_quoted else text for text, is_quoted in parts)
    straight = line.replace("“", '"').replace("”", '"').replace("’", "'")  # noqa: RUF001
    assert EN.normalize(line) == straight
    assert EN.detokenize(EN.tokenize(line)) == straight


@given(line=st.text() | st.text(alphabet="cafe\u0301\u0323 A\u030aÅÅ각\u1100\u1161ﬁ."))
@example("cafe\u0301 noir")
def test_case_39_composed_and_decomposed_text_are_one(line: str) -> None:
    """Training text and input alike, since both come this way; compatibility forms stay apart."""
    composed, decomposed = (unicodedata.normalize(form, line) for form in ("NFC", "NFD"))
    assert EN.tokenize(line) == EN.tokenize(composed) == EN.tokenize(decomposed)
    assert EN.tokenize("ﬁ") == ["ﬁ"]


@given(
    counts=st.dictionaries(st.text(alphabet="ab", min_size=1, max_size=3), st.integers(1, 3)), asked=st.integers(0, 9)
)
@example({"a": 1, "b": 1, "c": 1}, 5)
@example({"ab": 2}, 5)
@example({}, 5)
def test_case_41_as_many_merges_as_there_are(counts: dict[str, int], asked: int) -> None:
    """Never more than were asked for or than occur twice, and a file that can be read whatever their number."""
    codes = learn(counts, asked)
    learnt = num_merges(codes)
    assert learnt <= asked and len(codes.splitlines()) == 1 + learnt
    bpe = BPE(codes)
    assert all("".join(bpe.split(word)).replace("@@", "") == word for word in counts)


@pytest.mark.parametrize("size", [2**16 - 1, 2**16, 2**16 + 1, 2**17])
def test_case_45_ids_of_any_vocabulary_fit(tmp_path: Path, size: int) -> None:
    """The last id of a vocabulary is read back as itself; one that does not fit is refused, never wrapped."""
    writer = ArrayWriter(tmp_path / "ids", id_type(size))
    writer.extend(np.array([0, size - 1], dtype=np.int64))
    assert np.fromfile(tmp_path / "ids", np.dtype(id_type(size))).tolist() == [0, size - 1]
    with pytest.raises(OverflowError):
        writer.extend(np.array([np.iinfo(id_type(size)).max + 1], dtype=np.int64))


counted = st.dictionaries(st.text(alphabet="abc", min_size=1, max_size=4), st.integers(1, 3), min_size=1)


@given(counts=counted, merges=st.integers(0, 12), data=st.data())
def test_case_49_what_was_seen_first_decides_no_tie(counts: dict[str, int], merges: int, data: st.DataObject) -> None:
    """Nor does a worker that was faster: ties go by code points, the first token and the last pair of two."""
    shuffled = dict(data.draw(st.permutations(list(counts.items()))))
    assert learn(counts, merges) == learn(shuffled, merges)
    vocabulary = Vocabulary.from_counts(shuffled.items())
    assert vocabulary == Vocabulary.from_counts(counts.items())
    assert list(vocabulary.tokens) == sorted(counts, key=lambda token: (-counts[token], token))


def test_case_49_the_order_of_lines_and_of_sides_decides_nothing(workshop: Workshop) -> None:
    lines = ["b a c", "c b a", "ab ca", "ca ab", "d"]
    contents = []
    for some in (lines, lines[::-1], random.Random(1).sample(lines, len(lines))):
        corpus = workshop.make("\n".join(some), "\n".join(some[::-1]), tokenizer="none", merges=8)
        contents.append([(corpus.folder / name).read_bytes() for name in ("vocabulary.json", "bpe.codes")])
    assert contents[0] == contents[1] == contents[2]
