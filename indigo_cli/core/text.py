"""Raw text to ids and back, one codec a side: the same code in preprocess, training and decoding."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from indigo_cli.core import bpe as bpe_module
from indigo_cli.core.bpe import BPE
from indigo_cli.core.format import check_header
from indigo_cli.core.recent import remember
from indigo_cli.core.tokenizer import Tokenizer, make_tokenizer
from indigo_cli.core.vocab import Vocabulary
from indigo_cli.errors import DataError

FORMAT = "indigo-codecs"
VERSION = 1
SETTINGS_FILE = "codecs.json"


@dataclass(frozen=True)
class SideCodec:
    """Turns the text of one side into ids and back.

    Args:
        tokenizer_name: `moses`, `none` or `char`.
        lang: Language code; it matters to Moses only.
        lowercase: Whether a line is lower-cased before anything else (and stays so).
        bpe: Splits the tokens into pieces; None where tokens are the pieces.
        vocabulary: Of the pieces.
    """

    tokenizer_name: str
    lang: str
    lowercase: bool
    bpe: BPE | None
    vocabulary: Vocabulary
    tokenizer: Tokenizer = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokenizer", make_tokenizer(self.tokenizer_name, self.lang))

    @cached_property
    def _bag(self) -> "BagTokenizer":
        return BagTokenizer(self.tokenizer, lowercase=self.lowercase)

    def words(self, line: str) -> list[str]:
        """Return the tokens of a raw line, before they are split into pieces."""
        return tokenize_line(self.tokenizer, line, lowercase=self.lowercase)

    def pieces(self, line: str) -> list[str]:
        """Return the pieces of a raw line; none for a line of white space."""
        words = self.words(line)
        return words if self.bpe is None else bpe_module.split_all(self.bpe, words)

    def encode(self, line: str) -> list[int]:
        """Return the ids of a raw line, `UNK` for pieces that training never saw."""
        return self.vocabulary.encode(self.pieces(line))

    def encode_bag(self, line: str) -> list[int]:
        """Return the sorted ids of the words of a raw line, each tokenised by itself (see `BagTokenizer`)."""
        words = self._bag(line)
        return sorted(self.vocabulary.encode(words if self.bpe is None else bpe_module.split_all(self.bpe, words)))

    def text(self, pieces: Sequence[str]) -> str:
        """Return the plain text that the pieces spell."""
        words = list(pieces) if self.bpe is None else bpe_module.join(pieces)
        return self.tokenizer.detokenize(words)

    def text_of_ids(self, ids: Sequence[int]) -> str:
        """Return the plain text of ids; `UNK` reads `<unk>`."""
        return self.text(self.vocabulary.decode(ids))


def tokenize_line(tokenizer: Tokenizer, line: str, *, lowercase: bool) -> list[str]:
    """Return the tokens of a raw line, lower-cased first if asked for."""
    return tokenizer.tokenize(line.lower() if lowercase else line)


class BagTokenizer:
    """Gives the tokens of a bag of words: each word between white space is tokenised by itself.

    Tokenizers look at neighbours: Moses keeps the full stop of `cats.` inside a line and splits it off at the end, so a
    line tokenised whole would tell something of its order. Here `cats.` gives `cats` and `.` wherever it stands.
    White space, a token for `char`, is no part of a bag.
    """

    def __init__(self, tokenizer: Tokenizer, *, lowercase: bool) -> None:
        self._tokens = remember(lambda word: tokenize_line(tokenizer, word, lowercase=lowercase))

    def __call__(self, line: str) -> list[str]:
        """Return the tokens of a raw line, in the order of its words."""
        return [token for word in line.split() for token in self._tokens(word)]


@dataclass(frozen=True)
class Codecs:
    """Both sides, and how the source of a task is read.

    Args:
        source: May share its vocabulary and BPE with `target`, but has a language and a tokenizer of its own.
        source_is_bag: The source is a bag of target words: encoded by the target side, word by word, and sorted.
    """

    source: SideCodec
    target: SideCodec
    source_is_bag: bool = False

    @property
    def joint(self) -> bool:
        """Tell whether one vocabulary serves both sides."""
        return self.source.vocabulary.digest == self.target.vocabulary.digest

    def encode_source(self, line: str) -> list[int]:
        """Return the ids that the encoder reads; a bag comes sorted, so that its order cannot tell anything."""
        return self.target.encode_bag(line) if self.source_is_bag else self.source.encode(line)

    def to_files(self) -> dict[str, str]:
        """Return name and content of every file that `load` needs; shared parts are written once."""
        shared = self.joint and _codes(self.source) == _codes(self.target)
        prefix = {"source": "", "target": ""} if shared else {"source": "source.", "target": "target."}
        files: dict[str, str] = {}
        sides: dict[str, Any] = {}
        for side, codec in (("source", self.source), ("target", self.target)):
            vocabulary_file = f"{prefix[side]}vocabulary.json"
            if vocabulary_file not in files:
                files[vocabulary_file] = codec.vocabulary.to_json()
            codes_file = ""
            if codec.bpe is not None:
                codes_file = f"{prefix[side]}bpe.codes"
                files[codes_file] = codec.bpe.codes
            sides[side] = {
                "tokenizer": codec.tokenizer_name,
                "lang": codec.lang,
                "lowercase": codec.lowercase,
                "bpe": codes_file,
                "vocabulary": vocabulary_file,
                "vocabulary_digest": codec.vocabulary.digest,
            }
        settings = {"format": FORMAT, "version": VERSION, "source_is_bag": self.source_is_bag, **sides}
        files[SETTINGS_FILE] = json.dumps(settings, indent=1, ensure_ascii=False) + "\n"
        return files

    def save(self, folder: Path) -> list[str]:
        """Write the files into a folder and return their names, the settings last: without them it is not complete."""
        folder.mkdir(parents=True, exist_ok=True)
        files = self.to_files()
        for name, content in files.items():
            (folder / name).write_bytes(content.encode("utf-8"))
        return list(files)

    @classmethod
    def load(cls, folder: Path) -> "Codecs":
        """Read what `save` wrote.

        Raises:
            DataError: a file is missing, damaged, of a newer version, or a vocabulary belongs to other codecs.
        """
        where = folder / SETTINGS_FILE
        try:
            settings = json.loads(_read_text(where))
            check_header(settings, where=str(where), format=FORMAT, version=VERSION)
            reader = _Reader(folder)
            source, target = reader.side(settings["source"]), reader.side(settings["target"])
            return cls(source, target, source_is_bag=bool(settings["source_is_bag"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError("this is not a codecs file of indigo", where=str(where), fix=_RESTORE) from error


def _codes(codec: SideCodec) -> str | None:
    """Return the BPE codes of a side."""
    return None if codec.bpe is None else codec.bpe.codes


_RESTORE = "restore the files that `indigo preprocess` wrote, or run preprocess again"


class _Reader:
    """Reads the codec files of one folder, each once: sides that share a file share the object."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._vocabularies: dict[str, Vocabulary] = {}
        self._bpe: dict[str, BPE] = {}

    def side(self, settings: dict[str, Any]) -> SideCodec:
        """Build a side from its settings."""
        name, codes = str(settings["vocabulary"]), str(settings["bpe"])
        path = self._folder / name
        if name not in self._vocabularies:
            self._vocabularies[name] = Vocabulary.from_json(_read_text(path), where=str(path))
        vocabulary = self._vocabularies[name]
        if vocabulary.digest != settings["vocabulary_digest"]:
            what = "the vocabulary does not belong to these codecs (another digest)"
            raise DataError(what, where=str(path), fix=_RESTORE)
        if codes and codes not in self._bpe:
            self._bpe[codes] = BPE(_read_text(self._folder / codes), where=str(self._folder / codes))
        tokenizer, lang, lowercase = str(settings["tokenizer"]), str(settings["lang"]), bool(settings["lowercase"])
        return SideCodec(tokenizer, lang, lowercase, self._bpe.get(codes), vocabulary)


def _read_text(path: Path) -> str:
    """Return the text of a file of ours."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError as error:
        raise DataError("the file is missing", where=str(path), fix=_RESTORE) from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the file: {error}", where=str(path), fix=_RESTORE) from error
