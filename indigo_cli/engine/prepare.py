"""Raw files to a corpus folder: checks the recipe, runs the passes of `passes.py`, writes the manifest."""

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from indigo_cli import __version__
from indigo_cli.core.settings import Count, NonNegativeInt
from indigo_cli.core.text import Codecs
from indigo_cli.core.tokenizer import language_warning, make_tokenizer
from indigo_cli.data.corpus import FORMAT, MANIFEST, SIDES, VERSION
from indigo_cli.data.corpus_writer import id_type
from indigo_cli.data.files import leftovers, sha256_file, sync_folder
from indigo_cli.engine.passes import (
    Progress,
    SplitSummary,
    encode_split,
    learn_codecs,
    reason_to_drop,
    tokenise_split,
)
from indigo_cli.errors import DataError, UsageError
from indigo_cli.tasks import find_task
from indigo_cli.tasks.task import Task

TRAIN, VALID = "train", "valid"
RECIPE_FILE = "recipe.toml"


@dataclass(frozen=True)
class SplitConfig:
    """Raw files of a split; the files of a side are read one after another as if they were one.

    Args:
        references: Further references of the target side, each a list of files.
    """

    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    references: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True)
class DataConfig:
    """Section `[data]`."""

    task: str = "translation"
    source_lang: str = ""
    target_lang: str = ""
    splits: dict[str, SplitConfig] = field(default_factory=dict)


@dataclass(frozen=True)
class PreprocessConfig:
    """Section `[preprocess]`.

    Args:
        vocabulary: Units of the vocabulary; `char` splits the tokens into characters, as BPE without merges does.
        merges: BPE merges, of both sides together if `joint`, else of each.
        joint: One BPE and one vocabulary for both sides.
        max_length: Tokens (pieces); training pairs with a longer side are dropped and counted.
        vocabulary_size: Most ordinary tokens to keep, 0 = all; the others become `<unk>`.
        min_count: Tokens seen less often in training become `<unk>`.
    """

    tokenizer: Literal["moses", "none", "char"] = "moses"
    lowercase: bool = False
    vocabulary: Literal["bpe", "word", "char"] = "bpe"
    merges: NonNegativeInt = 8000
    joint: bool = True
    max_length: Count = 250
    vocabulary_size: NonNegativeInt = 0
    min_count: Count = 1


class PrepareRecipe(Protocol):
    """The part of a recipe that this module reads."""

    @property
    def name(self) -> str:
        """Names the default folder."""
        ...

    @property
    def data(self) -> DataConfig:
        """Which files."""
        ...

    @property
    def preprocess(self) -> PreprocessConfig:
        """What to do with them."""
        ...


@dataclass(frozen=True)
class PrepareSummary:
    """What `prepare` made, and in `warnings` what the user should know about it."""

    folder: Path
    splits: list[SplitSummary]
    vocabulary_sizes: dict[str, int]
    joint: bool
    warnings: list[str]

    def text(self) -> str:
        """Return a few lines for people, without the warnings."""
        sizes = self.vocabulary_sizes
        words = f"{sizes['target']} for both sides" if self.joint else f"{sizes['source']} and {sizes['target']}"
        return "\n".join([f"corpus: {self.folder}", *(s.text() for s in self.splits), f"vocabulary: {words}"])


def default_corpus_folder(recipe: PrepareRecipe) -> Path:
    """Return `runs/NAME/corpus`, under the working directory."""
    return Path("runs") / recipe.name / "corpus"


def prepare(
    recipe: PrepareRecipe,
    output: Path | None = None,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    recipe_text: str = "",
) -> PrepareSummary:
    """Make the corpus folder of a recipe; it appears under its name only when it is complete.

    Args:
        output: The folder, `default_corpus_folder` if None.
        recipe_text: The resolved recipe as TOML, stored with the corpus.
    Raises:
        UsageError: a recipe that cannot be used, a missing file, an existing folder.
        DataError: bad bytes, sides with different numbers of lines, no training pair left.
    """
    folder = output or default_corpus_folder(recipe)
    final = Path(os.path.abspath(folder))  # `.` has no name to put anything beside
    _clean_up(final)
    _refuse_folder(folder, overwrite)
    task, settings, warnings = resolve_settings(recipe.data, recipe.preprocess)
    partial = final.with_name(f".{final.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        splits, codecs, manifest = _fill(
            partial, recipe.data, settings, task, warnings, progress or (lambda stage, lines: None)
        )
        if recipe_text:
            (partial / RECIPE_FILE).write_bytes(recipe_text.encode("utf-8", "surrogateescape"))
        manifest = {**manifest, "name": recipe.name}
        # ASCII, since a file name may hold bytes that are not UTF-8.
        (partial / MANIFEST).write_bytes((json.dumps(manifest, indent=1) + "\n").encode("ascii"))
        _install(partial, final)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sizes = {"source": len(codecs.source.vocabulary), "target": len(codecs.target.vocabulary)}
    return PrepareSummary(folder, splits, sizes, codecs.joint, warnings)


def resolve_settings(data: DataConfig, preprocess: PreprocessConfig) -> tuple[Task, PreprocessConfig, list[str]]:
    """Return the task, the settings that hold for it, and a line for each setting of the recipe that does not.

    Raises:
        UsageError: an unknown task, a split that is missing or lacks a side.
    """
    task = find_task(data.task)
    notes: list[str] = []
    for key, replaced in task.prefers.items():
        asked = getattr(preprocess, key)
        if asked in replaced:
            notes.append(f"preprocess.{key}: task {task.name} uses {replaced[asked]!r} instead of {asked!r}")
            changed: dict[str, Any] = {key: replaced[asked]}
            preprocess = replace(preprocess, **changed)
    if preprocess.tokenizer == "char" and preprocess.vocabulary != "char":
        notes.append(f"preprocess.vocabulary = {preprocess.vocabulary!r} has no effect: the tokens are characters")
        preprocess = replace(preprocess, vocabulary="char")
    for required in (TRAIN, VALID):
        if required not in data.splits:
            raise UsageError(f"the recipe has no split {required!r}", where="data.splits", fix="name its files there")
    for name, split in data.splits.items():
        if not split.target:
            raise UsageError("the split names no target file", where=f"data.splits.{name}.target")
        if task.reads_source and not split.source:
            raise UsageError("the split names no source file", where=f"data.splits.{name}.source")
        if split.source and not task.reads_source:
            notes.append(f"data.splits.{name}.source is not used by task {task.name}")
    languages = {"source_lang": data.source_lang} if task.reads_source else {}
    for lang_key, lang in {**languages, "target_lang": data.target_lang}.items():
        if warning := language_warning(preprocess.tokenizer, lang):
            notes.append(f"data.{lang_key}: {warning}")
    return task, preprocess, notes


def _fill(
    folder: Path, data: DataConfig, settings: PreprocessConfig, task: Task, warnings: list[str], progress: Progress
) -> tuple[list[SplitSummary], Codecs, dict[str, Any]]:
    """Write everything but the manifest into the folder; return the manifest but for the recipe's name."""
    read = SIDES if task.reads_source else ("target",)
    languages = {"source": data.source_lang if task.reads_source else data.target_lang, "target": data.target_lang}
    tokenizers = {side: make_tokenizer(settings.tokenizer, languages[side]) for side in read}
    counts: dict[str, Counter[str]] = {side: Counter() for side in SIDES}

    def count_words(words: dict[str, list[str]]) -> None:
        if not reason_to_drop(words, settings.max_length):  # no word has less than one piece
            for side, tokens in words.items():
                counts[side].update(tokens)

    splits = {name: SplitSummary(name) for name in data.splits}
    tokens = {name: folder / f"{name}.tokens" for name in splits}
    inputs: dict[str, Any] = {}
    for name, config in data.splits.items():
        inputs[name] = tokenise_split(
            splits[name],
            {side: config.source if side == "source" else config.target for side in read},
            config.references,
            tokenizers=tokenizers,
            lowercase=settings.lowercase,
            source_is_bag=task.source_is_bag,
            output=tokens[name],
            count=count_words if name == TRAIN else (lambda words: None),
            progress=progress,
        )
    progress("learn the vocabulary", splits[TRAIN].lines)
    codecs = learn_codecs(counts, settings, languages=languages, source_is_bag=task.source_is_bag, warnings=warnings)
    files: dict[str, Any] = {}
    for name, summary in splits.items():
        files |= encode_split(
            summary,
            (*read, "source") if task.source_is_bag else read,
            codecs,
            tokens=tokens[name],
            folder=folder,
            max_length=settings.max_length if name == TRAIN else None,
            progress=progress,
        )
        tokens[name].unlink()
        if not summary.kept and name == TRAIN:
            raise DataError(f"no training pair is left: {summary.reasons() or 'no lines'}", where="data.splits.train")
        if not summary.kept:
            warnings.append(f"split {name!r} is empty")
    for file_name in codecs.save(folder):
        path = folder / file_name
        files[file_name] = {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
    return list(splits.values()), codecs, _manifest(data, settings, task, splits, inputs, codecs, files)


def _manifest(
    data: DataConfig,
    settings: PreprocessConfig,
    task: Task,
    splits: dict[str, SplitSummary],
    inputs: dict[str, Any],
    codecs: Codecs,
    files: dict[str, Any],
) -> dict[str, Any]:
    """Return what the corpus was made from and what it consists of."""
    # What makes two corpora the same: neither names nor paths nor the versions of tools, but every byte made.
    defining = {"format": FORMAT, "version": VERSION, "task": task.name, "files": files}
    vocabularies = {"source": codecs.source.vocabulary, "target": codecs.target.vocabulary}
    packages = {name: importlib.metadata.version(name) for name in ("numpy", "sacremoses")}
    return {
        "format": FORMAT,
        "version": VERSION,
        "digest": hashlib.sha256(json.dumps(defining, sort_keys=True).encode()).hexdigest(),
        "task": task.name,
        "source_lang": data.source_lang,
        "target_lang": data.target_lang,
        "settings": asdict(settings),
        "vocabularies": {side: {"size": len(v), "digest": v.digest} for side, v in vocabularies.items()},
        "id_types": {side: id_type(len(v)) for side, v in vocabularies.items()},
        "splits": {name: {**asdict(summary), "inputs": inputs[name]} for name, summary in splits.items()},
        "files": files,
        "tools": {"indigo": __version__, "python": platform.python_version(), **packages},
    }


def _clean_up(folder: Path) -> None:
    """Undo what a killed run left: give an old corpus its name back if no corpus stands, delete everything else."""
    for old in leftovers(folder, "old"):
        if os.path.lexists(folder):
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.rename(old, folder)
    for partial in leftovers(folder, "partial"):
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)


def _refuse_folder(folder: Path, overwrite: bool) -> None:
    """Raise UsageError if the folder is taken; only a corpus is ever overwritten."""
    if not os.path.lexists(folder) or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not overwrite:
        fix = "add --overwrite to make it anew, or choose another -o"
        raise UsageError(f"the corpus folder {folder} exists already", where=str(folder), fix=fix)
    if not (folder / MANIFEST).is_file():
        raise UsageError(f"{folder} is not a corpus and is not overwritten", where=str(folder), fix="choose another -o")


def _install(partial: Path, folder: Path) -> None:
    """Sync every file and give the finished folder its name; an old corpus goes only when the new one stands."""
    for path in partial.iterdir():
        with open(path, "rb") as stream:
            os.fsync(stream.fileno())
    sync_folder(partial)
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    replaces = folder.exists()
    if replaces:
        os.rename(folder, old)
    try:
        os.rename(partial, folder)
    except BaseException:
        if replaces:
            os.rename(old, folder)
        raise
    sync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)
