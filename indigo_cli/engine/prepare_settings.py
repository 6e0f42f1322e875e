"""What a recipe says of data and preprocessing, and what of it holds for a task."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from indigo_cli.core.line_tokenizer import PROTECTING, LineSettings
from indigo_cli.core.moses import moses_language
from indigo_cli.core.protect import check_pattern
from indigo_cli.core.settings import Count, NonNegativeInt
from indigo_cli.core.spelling import SPELLINGS
from indigo_cli.core.tokenizer import language_warning
from indigo_cli.errors import UsageError
from indigo_cli.tasks import find_task
from indigo_cli.tasks.task import Task

TRAIN, VALID = "train", "valid"
LEARNT = ("vocabulary", "merges", "joint", "vocabulary_size", "min_count", "vocabulary_threshold")
"""Keys of `PreprocessConfig` about what is learnt from the text; they say nothing where `codecs` are given."""


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
        tokenizer: `moses` for raw text; `tokenized` for text that a Moses tokenizer has split already (output is
            detokenised); `none` for words between blanks that stay as they are; `exact` for the same with every blank
            kept, as code needs it; `char` for single characters.
        lowercase: Lower-case every line, in training text and input.
        truecase: Write the first word of a sentence as it is usually written elsewhere, and output with a capital.
        spelling: `romanian` turns s and t with cedilla into those with comma below, on sides whose language is `ro`.
        protected: What stays one token as it is written: `url`, `email`, `markup`, `placeholder` or regular
            expressions; for tokenizer `moses`.
        vocabulary: Units of the vocabulary; `char` splits the tokens into characters, as BPE without merges does.
        merges: BPE merges, of both sides together if `joint`, else of each.
        joint: One BPE and one vocabulary for both sides.
        max_length: Tokens (pieces); training pairs with a longer side are dropped and counted.
        vocabulary_size: Most ordinary tokens to keep, 0 = all; the others become `<unk>`.
        min_count: Tokens seen less often in training become `<unk>`.
        vocabulary_threshold: BPE pieces that a side shows less often in training are split again into smaller ones
            on that side, as subword-nmt does; 0 = never.
        codecs: Corpus or run folder whose tokens are used, so that its weights fit; then nothing is learnt, and what
            is said here of the vocabulary (from `vocabulary` on, but for `max_length`) does not matter.
    """

    tokenizer: Literal["moses", "tokenized", "none", "exact", "char"] = "moses"
    lowercase: bool = False
    truecase: bool = False
    spelling: Literal["", "romanian"] = ""
    protected: list[str] = field(default_factory=list)
    vocabulary: Literal["bpe", "word", "char"] = "bpe"
    merges: NonNegativeInt = 8000
    joint: bool = True
    max_length: Count = 250
    vocabulary_size: NonNegativeInt = 0
    min_count: Count = 1
    vocabulary_threshold: NonNegativeInt = 0
    codecs: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for settings that contradict each other, and for patterns that cannot be used."""
        if self.truecase and self.lowercase:
            raise ValueError("truecase and lowercase contradict each other", "set one of them to false")
        for pattern in self.protected:
            if fault := check_pattern(pattern):
                raise ValueError(f"protected: {fault}")


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
    preprocess, without_effect = _drop_without_effect(data, preprocess, task)
    notes += without_effect
    for required in (TRAIN, VALID):
        if required not in data.splits:
            raise UsageError(f"the recipe has no split {required!r}", where="data.splits", fix="name its files there")
    for name, split in data.splits.items():
        if not split.target:
            fix = 'write target = ["FILE"]'
            raise UsageError("the split names no target file", where=f"data.splits.{name}.target", fix=fix)
        if task.reads_source and not split.source:
            fix = f'write source = ["FILE"]: task {task.name} reads two sides'
            raise UsageError("the split names no source file", where=f"data.splits.{name}.source", fix=fix)
        if split.source and not task.reads_source:
            notes.append(f"data.splits.{name}.source is not used by task {task.name}")
    languages = {"source_lang": data.source_lang} if task.reads_source else {}
    for lang_key, lang in {**languages, "target_lang": data.target_lang}.items():
        if warning := language_warning(preprocess.tokenizer, lang):
            notes.append(f"data.{lang_key}: {warning}")
    return task, preprocess, notes


def _drop_without_effect(
    data: DataConfig, settings: PreprocessConfig, task: Task
) -> tuple[PreprocessConfig, list[str]]:
    """Return the settings with those switched off that do nothing here, and a line for each of them."""
    off: dict[str, Any] = {}
    notes: list[str] = []

    def drop(key: str, nothing: object, why: str) -> None:
        if getattr(settings, key) != nothing:
            off[key] = nothing
            notes.append(f"preprocess.{key} has no effect: {why}")

    if task.source_is_bag:
        drop("truecase", False, f"in task {task.name} no word may tell that it comes first")
    if settings.tokenizer == "char":
        drop("truecase", False, "the tokens are characters")
    if settings.tokenizer not in PROTECTING:
        drop("protected", [], f'tokenizer "{settings.tokenizer}" splits at white space or at every character')
    if settings.vocabulary != "bpe":
        drop("vocabulary_threshold", 0, f'it is about BPE, and vocabulary is "{settings.vocabulary}"')
    if settings.spelling:
        language = SPELLINGS[settings.spelling][0]
        if language not in {moses_language(lang) for lang in _languages(data, task).values() if lang}:
            drop("spelling", "", f"no side is in language {language!r}")
    return replace(settings, **off), notes


def _languages(data: DataConfig, task: Task) -> dict[str, str]:
    """Return the language of each side; a bag is of the target's words."""
    return {"source": data.source_lang if task.reads_source else data.target_lang, "target": data.target_lang}


def line_settings(data: DataConfig, settings: PreprocessConfig, task: Task) -> dict[str, LineSettings]:
    """Return how the lines of each side are read."""
    sides: dict[str, LineSettings] = {}
    for side, lang in _languages(data, task).items():
        respelt = settings.spelling and lang and moses_language(lang) == SPELLINGS[settings.spelling][0]
        spelling = settings.spelling if respelt else ""
        sides[side] = LineSettings(settings.tokenizer, lang, settings.lowercase, spelling, tuple(settings.protected))
    return sides
