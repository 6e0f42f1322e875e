"""Raw text to ids and back, one codec a side: the same code in preprocess, training and decoding."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from indigo_cli.core import bpe as bpe_module
from indigo_cli.core.bpe import BPE
from indigo_cli.core.format import check_header, read_object
from indigo_cli.core.line_tokenizer import BagTokenizer, LineSettings, LineTokenizer
from indigo_cli.core.protect import check_pattern
from indigo_cli.core.spelling import SPELLINGS
from indigo_cli.core.truecase import Truecaser, recase
from indigo_cli.core.vocab import NUM_SPECIALS, Vocabulary
from indigo_cli.errors import DataError

FORMAT = "indigo-codecs"
VERSION = 2
"""Version 1 knows no spelling, protected patterns, truecasing or limit of pieces, and is still written without them."""
SETTINGS_FILE = "codecs.json"


@dataclass(frozen=True)
class SideCodec:
    """Turns the text of one side into ids and back.

    Args:
        tokenizer_name: A name in `TOKENIZERS`.
        lang: Language code; it matters to Moses only.
        lowercase: Whether a line is lower-cased before anything else (and stays so).
        bpe: Splits the tokens into pieces; None where tokens are the pieces.
        vocabulary: Of the pieces.
        spelling: A name in `SPELLINGS`; empty leaves the spelling alone.
        protected: What stays one token, see `Protector`.
        truecaser: Writes the first word of a sentence in its usual case; then output starts with a capital.
    """

    tokenizer_name: str
    lang: str
    lowercase: bool
    bpe: BPE | None
    vocabulary: Vocabulary
    spelling: str = ""
    protected: tuple[str, ...] = ()
    truecaser: Truecaser | None = None

    @property
    def line_settings(self) -> LineSettings:
        """What turns a raw line into words, but for truecasing."""
        return LineSettings(self.tokenizer_name, self.lang, self.lowercase, self.spelling, self.protected)

    @property
    def continuing(self) -> list[int]:
        """Ids of pieces whose word goes on; none without BPE, where a token that ends in `@@` is a word of the text."""
        tokens = self.vocabulary.tokens if self.bpe is not None else ()
        return [NUM_SPECIALS + i for i, token in enumerate(tokens) if token.endswith(bpe_module.CONTINUES)]

    @cached_property
    def _lines(self) -> LineTokenizer:
        return LineTokenizer(self.line_settings)

    @cached_property
    def _bag(self) -> BagTokenizer:
        return BagTokenizer(self._lines)

    def words(self, line: str) -> list[str]:
        """Return the tokens of a raw line, before they are split into pieces."""
        words = self._lines.tokenize(line)
        return self.truecaser.truecase(words, keep=self._lines.is_protected) if self.truecaser else words

    def pieces(self, line: str) -> list[str]:
        """Return the pieces of a raw line; none for a line of white space."""
        words = self.words(line)
        return words if self.bpe is None else bpe_module.split_all(self.bpe, words)

    def encode(self, line: str) -> list[int]:
        """Return the ids of a raw line, `UNK` for pieces that training never saw."""
        return self.vocabulary.encode(self.pieces(line))

    def encode_bag(self, line: str) -> list[int]:
        """Return the sorted ids of the words of a raw line, each tokenised by itself (see `BagTokenizer`)."""
        words = self._bag.tokenize(line)
        return sorted(self.vocabulary.encode(words if self.bpe is None else bpe_module.split_all(self.bpe, words)))

    def text(self, pieces: Sequence[str]) -> str:
        """Return the plain text that the pieces spell."""
        words = list(pieces) if self.bpe is None else bpe_module.join(pieces)
        return self._lines.detokenize(recase(words, keep=self._lines.is_protected) if self.truecaser else words)

    def text_of_ids(self, ids: Sequence[int]) -> str:
        """Return the plain text of ids; `UNK` reads `<unk>`."""
        return self.text(self.vocabulary.decode(ids))


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
                **_newer_settings(codec),
            }
            if codec.bpe is not None and codec.bpe.pieces is not None:
                sides[side]["pieces"] = f"{side}.pieces.json"
                files[f"{side}.pieces.json"] = json.dumps(sorted(codec.bpe.pieces), indent=0) + "\n"
            if codec.truecaser is not None:
                sides[side]["truecase"] = f"{side}.truecase.json"
                files[f"{side}.truecase.json"] = codec.truecaser.to_json()
        plain = all(sides[side].keys() <= _KEYS_OF_VERSION_1 for side in sides)
        settings = {
            "format": FORMAT,
            "version": 1 if plain else VERSION,
            "source_is_bag": self.source_is_bag,
            **sides,
        }
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
            settings = read_object(_read_text(where))
            check_header(settings, where=str(where), format=FORMAT, version=VERSION, fix=_RESTORE)
            reader = _Reader(folder)
            source, target = reader.side(settings["source"]), reader.side(settings["target"])
            return cls(source, target, source_is_bag=bool(settings["source_is_bag"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError("this is not a codecs file of indigo", where=str(where), fix=_RESTORE) from error


_KEYS_OF_VERSION_1 = {"tokenizer", "lang", "lowercase", "bpe", "vocabulary", "vocabulary_digest"}


def _newer_settings(codec: SideCodec) -> dict[str, Any]:
    """Return the settings that version 1 lacks, but for those that do nothing."""
    settings = {"spelling": codec.spelling, "protected": list(codec.protected)}
    return {name: value for name, value in settings.items() if value}


def _codes(codec: SideCodec) -> str | None:
    """Return the BPE codes of a side."""
    return None if codec.bpe is None else codec.bpe.codes


_RESTORE = "restore the files that `indigo preprocess` wrote, or run preprocess again"


class _Reader:
    """Reads the codec files of one folder, each once: sides that share a file share the object."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._vocabularies: dict[str, Vocabulary] = {}
        self._bpe: dict[tuple[str, str], BPE] = {}

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
        spelling, protected = str(settings.get("spelling", "")), settings.get("protected", [])
        if (
            (spelling and spelling not in SPELLINGS)
            or not isinstance(protected, list)
            or any(map(check_pattern, protected))
        ):
            what = "a spelling or a protected pattern is none of this indigo"
            raise DataError(what, where=self._where(SETTINGS_FILE), fix=_RESTORE)
        return SideCodec(
            tokenizer_name=str(settings["tokenizer"]),
            lang=str(settings["lang"]),
            lowercase=bool(settings["lowercase"]),
            bpe=self._read_bpe(codes, str(settings.get("pieces", ""))),
            vocabulary=vocabulary,
            spelling=spelling,
            protected=tuple(protected),
            truecaser=self._read_truecaser(str(settings.get("truecase", ""))),
        )

    def _where(self, name: str) -> str:
        return str(self._folder / name)

    def _read_bpe(self, codes: str, pieces: str) -> BPE | None:
        """Return the BPE of a codes file, limited to the pieces of another file where one is named."""
        if not codes:
            return None
        if (codes, pieces) not in self._bpe:
            known = self._read_pieces(pieces) if pieces else None
            self._bpe[codes, pieces] = BPE(_read_text(self._folder / codes), where=self._where(codes), pieces=known)
        return self._bpe[codes, pieces]

    def _read_pieces(self, name: str) -> list[str]:
        """Return the pieces of a JSON list."""
        try:
            pieces: Any = json.loads(_read_text(self._folder / name))
        except (ValueError, RecursionError):
            pieces = None
        if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
            raise DataError("a list of pieces is needed", where=self._where(name), fix=_RESTORE)
        return pieces

    def _read_truecaser(self, name: str) -> Truecaser | None:
        return Truecaser.from_json(_read_text(self._folder / name), where=self._where(name)) if name else None


def _read_text(path: Path) -> str:
    """Return the text of a file of ours."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError as error:
        raise DataError("the file is missing", where=str(path), fix=_RESTORE) from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the file: {error}", where=str(path), fix=_RESTORE) from error
