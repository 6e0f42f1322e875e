"""Raw files to a corpus folder: checks the recipe, runs the passes of `passes.py`, writes the manifest."""

import importlib.metadata
import json
import os
import platform
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from indigo_cli import __version__
from indigo_cli.core.text import Codecs
from indigo_cli.data.corpus import FORMAT, MANIFEST, SIDES, VERSION, corpus_digest
from indigo_cli.data.corpus_writer import id_type
from indigo_cli.data.files import leftovers, sha256_file, sync_folder
from indigo_cli.engine.known_codecs import known_codecs, pieces_of
from indigo_cli.engine.learn_codecs import learn_codecs
from indigo_cli.engine.passes import Progress, SplitSummary, encode_split, tokenise_split
from indigo_cli.engine.prepare_settings import (
    LEARNT,
    TRAIN,
    DataConfig,
    PreprocessConfig,
    line_settings,
    resolve_settings,
)
from indigo_cli.engine.token_blocks import Reading
from indigo_cli.engine.tokenise_pool import TokenisePool
from indigo_cli.engine.word_types import NumberedText, WordTypes
from indigo_cli.errors import DataError, UsageError
from indigo_cli.tasks.task import Task

RECIPE_FILE = "recipe.toml"


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
    workers: int = 1,
) -> PrepareSummary:
    """Make the corpus folder of a recipe; it appears under its name only when it is complete.

    Args:
        output: The folder, `default_corpus_folder` if None.
        recipe_text: The resolved recipe as TOML, stored with the corpus.
        workers: Processes that tokenise, see `TokenisePool`; they change the time it takes, never a byte.
    Raises:
        UsageError: a recipe that cannot be used, a missing file, an existing folder.
        DataError: bad bytes, sides with different numbers of lines, no training pair left.
        RunError: a worker process died.
    """
    folder = output or default_corpus_folder(recipe)
    # `.` has no name to put anything beside; a symbolic link keeps pointing, its target is replaced.
    final = Path(os.path.realpath(folder))
    _clean_up(final)
    _refuse_folder(folder, overwrite)
    task, settings, warnings = resolve_settings(recipe.data, recipe.preprocess)
    partial = final.with_name(f".{final.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        with TokenisePool(workers) as pool:
            splits, codecs, manifest = _fill(
                partial, recipe.data, settings, task, warnings, progress or (lambda stage, lines: None), pool
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


def _fill(
    folder: Path,
    data: DataConfig,
    settings: PreprocessConfig,
    task: Task,
    warnings: list[str],
    progress: Progress,
    pool: TokenisePool,
) -> tuple[list[SplitSummary], Codecs, dict[str, Any]]:
    """Write everything but the manifest into the folder; return the manifest but for the recipe's name."""
    read = SIDES if task.reads_source else ("target",)
    lines = line_settings(data, settings, task)
    known = None
    if settings.codecs:
        known = known_codecs(settings.codecs, lines, source_is_bag=task.source_is_bag, truecase=settings.truecase)
    splits = {name: SplitSummary(name) for name in data.splits}
    texts = {name: NumberedText(folder, name) for name in splits}
    types = WordTypes()
    inputs: dict[str, Any] = {}
    for name, config in data.splits.items():
        inputs[name] = tokenise_split(
            splits[name],
            {side: config.source if side == "source" else config.target for side in read},
            config.references,
            reading=Reading(
                sides=tuple((side, lines[side]) for side in read),
                source_is_bag=task.source_is_bag,
                truecase=settings.truecase,
                max_length=settings.max_length if name == TRAIN else 0,
            ),
            pool=pool,
            types=types,
            output=texts[name],
            progress=progress,
        )
    if known is not None:
        codecs, pieces = known, pieces_of(types, known)
    else:
        progress("learn the vocabulary", splits[TRAIN].lines)
        codecs, pieces = learn_codecs(types, settings, lines=lines, source_is_bag=task.source_is_bag, warnings=warnings)
    del types
    files: dict[str, Any] = {}
    for name, summary in splits.items():
        files |= encode_split(
            summary,
            codecs,
            text=texts[name],
            pieces=pieces,
            folder=folder,
            max_length=settings.max_length if name == TRAIN else None,
            progress=progress,
        )
        texts[name].delete()
        if not summary.kept and name == TRAIN:
            what = f"no training pair is left: {summary.reasons() or 'no lines'}"
            fix = "name files with text on both sides, and see that preprocess.max_length is not too small"
            raise DataError(what, where="data.splits.train", fix=fix)
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
    vocabularies = {"source": codecs.source.vocabulary, "target": codecs.target.vocabulary}
    packages = {name: importlib.metadata.version(name) for name in ("numpy", "sacremoses")}
    return {
        "format": FORMAT,
        "version": VERSION,
        "digest": corpus_digest(task.name, files),
        "task": task.name,
        "source_lang": data.source_lang,
        "target_lang": data.target_lang,
        "settings": _settings_that_hold(settings),
        "vocabularies": {side: {"size": len(v), "digest": v.digest} for side, v in vocabularies.items()},
        "id_types": {side: id_type(len(v)) for side, v in vocabularies.items()},
        "splits": {name: {**asdict(summary), "inputs": inputs[name]} for name, summary in splits.items()},
        "files": files,
        "tools": {"indigo": __version__, "python": platform.python_version(), **packages},
    }


def _settings_that_hold(settings: PreprocessConfig) -> dict[str, Any]:
    """Return the settings, but for those of a vocabulary that was not learnt."""
    return {key: value for key, value in asdict(settings).items() if not (settings.codecs and key in LEARNT)}


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
