"""Clean English sentences out of Python files that are installed anyway: no downloads, and no file is ever imported.

Sources: the docstrings of the standard library and of PACKAGES, all of which this program needs itself (with the texts
that torch attaches by `_add_docstr`), and the topics of `pydoc_data`. Test folders are left out: they are a third of
the bytes and hold hardly any prose.

The filter, in this order:

1. A text is cut into blocks at blank lines, list items and fields (`name (type): ...`), whose heads are taken off.
   Plain words lose the quotation marks, backticks, stars and roles around them; bracketed asides go. A block is cut
   into sentences at `.`, `!` or `?` before a capital.
2. A sentence begins with a capital, ends with `.`, `!` or `?`, has MIN_WORDS to MAX_WORDS words, and consists of plain
   words (two letters or more, or "a"; inner hyphens and apostrophes; a capital only in front, or a short acronym) and
   commas. So no identifier with an underscore, dot, digit or inner capital, no bracket, quotation mark, backtick or
   colon comes through, and nothing that ends in an abbreviation.
3. At most one word is rare (in fewer than RARE of the sentences that came so far).
4. Of sentences with the same bag of words, case, articles and a final s aside, one stays.
5. The sentences are ranked by a hash of that bag. The first ones whose words, as they are spelt there, are all in at
   least KNOWN sentences are the test set: it asks for the order of words, not for words that nobody knows. The next
   such ones that are not near to it are the validation set; all others that are not near to either are for training.
   Near: one word put in, taken out or exchanged turns one bag into the other.

Neither the order in which the file system lists files nor PYTHONHASHSEED changes the result. Other versions of Python
or of the packages change it by the sentences that differ, and leave nearly all others on their side of the split.
"""

import ast
import hashlib
import os
import re
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import cleandoc
from pathlib import Path

from indigo_cli.errors import RunError

MIN_WORDS = 4
MAX_WORDS = 16
RARE = 3
KNOWN = 5
PACKAGES = ("torch", "numpy", "pydantic", "rich")

_SKIPPED_FOLDERS = {"test", "tests", "testing", "idle_test", "site-packages", "dist-packages", "__pycache__"}
_ALL_STRINGS = re.compile(r"(?:_docs|topics)\.py$")  # files whose texts are not docstrings but literals

_BLOCK_END = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*+•]|\d+[.)]|[\w, *]+(?: \([^()\n]*\))?:)[ \t])|:[ \t]*\n")
_BLOCK_START = re.compile(r"^(?:[-*+•]|\d+[.)])\s+|^[\w, *]+(?: \([^()]*\))?:\s+(?=[A-Z])")
_ROLE = re.compile(r":[a-z]+(?::[a-z]+)?:(?=`)")
_QUOTED = re.compile(r"``([A-Za-z-]+)``|[`'\"“*]([A-Za-z-]+)[`'\"”*]")
_ASIDE = re.compile(r" \([^()]*\)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_WORD = r"(?:[A-Z]?[a-z]+|[A-Z]{2,5}|A)(?<![^\w'-][b-z])(?:-[a-z]+)*(?:'[a-z]{1,2})?"
_SENTENCE = re.compile(rf"(?=[A-Z]){_WORD}(?:,? {_WORD})*[.!?]")
_ABBREVIATION = re.compile(r"\b(?:[a-zA-Z]|eg|ie|etc|vs|cf|al|fig|eq|sec|ref|no|dr|mr|st|inc)\.$", re.IGNORECASE)
_ARTICLES = {"a", "an", "the"}


@dataclass(frozen=True)
class Sentences:
    """Three lists without a common or nearly common sentence."""

    train: list[str]
    valid: list[str]
    test: list[str]


def load_sentences(folders: Sequence[Path] | None = None, *, num_valid: int = 500, num_test: int = 500) -> Sentences:
    """Read, filter and split the sentences that this machine has (about 25 CPU seconds).

    Args:
        folders: Where to look; None is `source_folders()`.
    Raises: RunError if nothing is left to train on, as where Python came without the sources of its library.
    """
    if folders is None:
        folders = source_folders()
    sentences = split_sentences(filter_sentences(read_texts(folders)), num_valid=num_valid, num_test=num_test)
    if not (sentences.train and sentences.valid and sentences.test):
        raise RunError(
            "the installed Python files hold too few sentences",
            where=", ".join(str(folder) for folder in folders),
            fix="use a Python whose standard library is there as .py files, or preprocess a text of your own",
        )
    return sentences


def source_folders() -> list[Path]:
    """Return the folders of the standard library and of PACKAGES, without importing any."""
    folders = [Path(sysconfig.get_path("stdlib"))]
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            folders.extend(Path(place) for place in spec.submodule_search_locations)
    return folders


def read_texts(folders: Iterable[Path]) -> Iterator[str]:
    """Yield the texts of every readable Python file below the folders; files that do not parse are passed over."""
    for top in folders:
        for folder, subfolders, files in os.walk(top):
            subfolders[:] = sorted(set(subfolders) - _SKIPPED_FOLDERS)
            for name in sorted(files):
                if name.endswith(".py"):
                    yield from _texts_of_file(Path(folder, name))


def _texts_of_file(path: Path) -> Iterator[str]:
    try:
        code = path.read_bytes()
        if b'"""' not in code and b"'''" not in code and not _ALL_STRINGS.search(path.name):
            return  # hardly a docstring: not worth parsing
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's files
            tree = ast.parse(code)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    yield from _strings(tree) if _ALL_STRINGS.search(path.name) else _docstrings(tree)


def _strings(node: ast.AST) -> Iterator[str]:
    """Yield every string literal that may hold a sentence."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and " " in part.value:
            yield part.value


def _docstrings(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield docstrings, and literals in calls that stand alone or are assigned (`f = _add_docstr(f, "text")`)."""
    docstring = ast.get_docstring(node, clean=False)
    if docstring:
        yield docstring
    for statement in node.body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstrings(statement)
        elif isinstance(statement, ast.Expr | ast.Assign) and isinstance(statement.value, ast.Call):
            yield from _strings(statement.value)


def filter_sentences(texts: Iterable[str]) -> list[str]:
    """Return the sentences that pass rules 1 to 4, in code point order."""
    candidates = {sentence for text in texts for sentence in _sentences(text)}
    counts = Counter(word for sentence in candidates for word in set(words(sentence)))
    kept: dict[tuple[str, ...], str] = {}
    for sentence in sorted(candidates):
        if sum(counts[word] < RARE for word in words(sentence)) <= 1:
            kept.setdefault(bag(sentence), sentence)
    return sorted(kept.values())


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text that pass rules 1 and 2."""
    for block in _BLOCK_END.split(cleandoc(text)):
        prose = _BLOCK_START.sub("", " ".join(block.split()))
        prose = _ASIDE.sub("", _QUOTED.sub(r"\1\2", _ROLE.sub("", prose)))
        for sentence in _SENTENCE_END.split(prose):
            if (
                _SENTENCE.fullmatch(sentence)
                and MIN_WORDS <= sentence.count(" ") + 1 <= MAX_WORDS
                and not _ABBREVIATION.search(sentence)
            ):
                yield sentence


def words(sentence: str) -> list[str]:
    """Return the words in lower case, without punctuation."""
    return sentence.lower().rstrip(".!?").replace(",", "").split()


def bag(sentence: str) -> tuple[str, ...]:
    """Return what two sentences share that differ in word order, case, articles or a final s only."""
    return tuple(sorted(word.removesuffix("s") for word in words(sentence) if word not in _ARTICLES))


def split_sentences(sentences: Iterable[str], *, num_valid: int, num_test: int) -> Sentences:
    """Split by hash (rule 5); each list keeps the order of the hashes."""
    ranked = sorted(sentences, key=lambda sentence: hashlib.sha256(" ".join(bag(sentence)).encode()).digest())
    counts = Counter(word for sentence in ranked for word in set(_spelt(sentence)))
    known = [sentence for sentence in ranked if all(counts[word] >= KNOWN for word in _spelt(sentence))]
    test = known[:num_test]
    near_test = {key for sentence in test for key in _neighbourhood(sentence)}
    valid = [sentence for sentence in known[num_test:] if near_test.isdisjoint(_neighbourhood(sentence))][:num_valid]
    near = near_test.union(*map(_neighbourhood, valid))
    train = [sentence for sentence in ranked if near.isdisjoint(_neighbourhood(sentence))]
    return Sentences(train=train, valid=valid, test=test)


def _spelt(sentence: str) -> list[str]:
    """Return the words as they stand, without punctuation."""
    return sentence.rstrip(".!?").replace(",", "").split()


def _neighbourhood(sentence: str) -> set[tuple[str, ...]]:
    """Return the bag and every bag with one word less: bags within one word of each other share one of these."""
    whole = bag(sentence)
    return {whole} | {whole[:index] + whole[index + 1 :] for index in range(len(whole))}
