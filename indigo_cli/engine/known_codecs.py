"""Codecs of an earlier corpus or run in place of new ones (`preprocess.codecs`), so that its weights fit this text."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from indigo_cli.core.line_tokenizer import LineSettings
from indigo_cli.core.text import SETTINGS_FILE, Codecs, SideCodec
from indigo_cli.data.corpus import MANIFEST, SIDES, Corpus
from indigo_cli.engine.learn_codecs import settle_case
from indigo_cli.engine.pieces import Pieces
from indigo_cli.engine.run_folder import ASSETS, FACTS_FILE, RunFolder
from indigo_cli.engine.word_types import WordTypes
from indigo_cli.errors import UsageError

KEY = "preprocess.codecs"


def known_codecs(folder: str, lines: Mapping[str, LineSettings], *, source_is_bag: bool, truecase: bool) -> Codecs:
    """Return the codecs of a corpus or run folder.

    Args:
        lines: How this recipe reads the lines of each side.

    Raises:
        UsageError: nothing of the kind there, or the lines are read in another way there.
        DataError: damaged files, or changed since.
    """
    codecs = _load(Path(folder))
    differing = [] if codecs.source_is_bag == source_is_bag else ["data.task"]
    for side in SIDES:
        codec = getattr(codecs, side)
        here, there = asdict(lines[side]), asdict(codec.line_settings)
        differing += [
            f"{key} of the {side} side: {there[key]!r}, not {here[key]!r}" for key in here if here[key] != there[key]
        ]
        if (codec.truecaser is not None) != truecase:
            differing.append(f"truecase: {not truecase}, not {truecase}")
    if differing:
        fix = "write the settings in this recipe that the other one had"
        raise UsageError(
            f"the codecs of {folder} read text in another way: {'; '.join(dict.fromkeys(differing))}",
            where=KEY,
            fix=fix,
        )
    return codecs


def _load(folder: Path) -> Codecs:
    """Read the codecs, checked against the hashes that stand beside them."""
    if (folder / ASSETS / SETTINGS_FILE).is_file():
        if (folder / FACTS_FILE).is_file():
            RunFolder.open(folder).check_assets()
        return Codecs.load(folder / ASSETS)
    if not (folder / SETTINGS_FILE).is_file():
        raise UsageError(f"no codecs are in {folder}", where=KEY, fix="name a corpus folder or a run folder")
    return Corpus.open(folder).codecs if (folder / MANIFEST).is_file() else Codecs.load(folder)


def pieces_of(types: WordTypes, codecs: Codecs) -> dict[str, Pieces]:
    """Return by side the ids of every word type; pieces that the codecs do not know are `<unk>`."""
    source, target = codecs.source, codecs.target
    of_target = _pieces(types, target)
    both = (source.bpe, source.vocabulary, source.truecaser) == (target.bpe, target.vocabulary, target.truecaser)
    return {"source": of_target if both else _pieces(types, source), "target": of_target}


def _pieces(types: WordTypes, codec: SideCodec) -> Pieces:
    return Pieces.of_words(settle_case(types.words, codec.truecaser), codec.bpe).ids(codec.vocabulary)
