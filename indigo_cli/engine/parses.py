"""Dependency parses of targets, aligned with their tokens: what gives them, and the trees of a CoNLL-U file."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from indigo_cli.core.bpe import CONTINUES
from indigo_cli.core.console import warn
from indigo_cli.core.recent import remember
from indigo_cli.core.vocab import UNK
from indigo_cli.data.conllu import UNKNOWN, Tree, align, read_conllu
from indigo_cli.orders import Parse

if TYPE_CHECKING:
    from indigo_cli.core.text import SideCodec

Item = tuple[int, Sequence[int]]
"""Raw line of a target, and its ids."""


class Parses(Protocol):
    """Gives the parses of targets."""

    def __call__(self, items: Iterable[Item]) -> Iterator[Parse | None]:
        """Yield the parse of each target, None for one that is empty or has none; lines rise from call to call."""
        ...

    def finish(self) -> None:
        """Say what may be wrong with the parses as a whole, and let go of what is not needed any more."""
        ...


class ConlluParses:
    """The trees of a CoNLL-U file; one at a time is in memory.

    Args:
        path: The file; trees of lines that nobody asks for are passed over.
        codec: Of the targets.
    """

    def __init__(self, path: Path | str, codec: "SideCodec") -> None:
        self._path, self._spelling = path, Spelling(codec)
        self._trees = read_conllu(path)
        self._next: tuple[int, Tree] | None = next(self._trees, None)
        self._any, self._any_structure = False, False

    def __call__(self, items: Iterable[Item]) -> Iterator[Parse | None]:
        """See `Parses`.

        Raises:
            DataError: a file that is not CoNLL-U, or another sentence than the target.
        """
        for line, ids in items:
            while self._next is not None and self._next[0] < line:
                self._next = next(self._trees, None)
            if not ids or self._next is None or self._next[0] > line:
                yield None
                continue
            tree = self._next[1]
            self._any = True
            self._any_structure = self._any_structure or tree.heads != tuple(range(len(tree.heads)))
            texts, sizes = self._spelling.tokens(ids)
            yield parse_of_tokens(align(texts, tree, normalise=self._spelling.of_raw), sizes, tree)

    def finish(self) -> None:
        """Warn if no word hangs on another."""
        if self._any and not self._any_structure:
            warn(f"in {self._path} every word is a root: syn gives left to right; is it parsed at all?")


class Spelling:
    """The characters that tokens and the words of a tree share, after the codec's own normalisation of both.

    Upper and lower case are alike here: a codec may write the first word of a line in either.

    Args:
        codec: Of the targets.
        unknown: Stands for an unknown piece.
    """

    def __init__(self, codec: "SideCodec", *, unknown: str = UNKNOWN) -> None:
        self._codec, self._unknown = codec, unknown
        self._of_token = remember(lambda joined: bare(codec.text(joined.split(" "))))
        self.of_raw = remember(lambda text: "".join(self._of_token(token) for token in codec.words(text)))
        """The characters of a raw word."""

    def tokens(self, ids: Sequence[int]) -> tuple[list[str], list[int]]:
        """Return the characters of each whole token, and of how many pieces it is. An unknown piece ends its token."""
        has_pieces = self._codec.bpe is not None
        texts: list[str] = []
        sizes: list[int] = []
        begun: list[str] = []
        for place, piece in enumerate(self._pieces(ids), start=1):
            begun.append(piece)
            if not has_pieces or not piece.endswith(CONTINUES) or place == len(ids):
                texts.append(self._of_token(" ".join(begun)))
                sizes.append(len(begun))
                begun = []
        return texts, sizes

    def sentence(self, ids: Sequence[int]) -> str:
        """Return the text of a target with single blanks."""
        return " ".join(self._codec.text(self._pieces(ids)).split())

    def _pieces(self, ids: Sequence[int]) -> list[str]:
        vocabulary = self._codec.vocabulary
        return [self._unknown if i == UNK else vocabulary.token(i) for i in ids]


def bare(text: str) -> str:
    """Return the text without white space and case. Texts may be cut anywhere: the bare cuts join to the bare whole."""
    return "".join(text.split()).casefold()


def parse_of_tokens(spans: Sequence[tuple[int, int]], sizes: Sequence[int], tree: Tree) -> Parse:
    """Return the parse in which every piece of a token has the words that the whole token covers: they stay together.

    Args:
        spans: (first, last) word of each token.
        sizes: Pieces of each token.
        tree: Of the words.
    """
    of_pieces = tuple(span for span, size in zip(spans, sizes, strict=True) for _ in range(size))
    return Parse(tree.heads, of_pieces, where=tree.where)
