"""A trained run, ready to compute: settings, codecs, weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from indigo_cli.core.text import Codecs
from indigo_cli.core.units import LengthUnit
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import sha256_file
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.ensemble import Ensemble, RoundEnsemble
from indigo_cli.engine.build import build_system
from indigo_cli.engine.checkpoint import MODEL_FILE, Checkpoint, open_checkpoint
from indigo_cli.engine.run_folder import RECIPE_FILE, RunFolder, vocabulary_digests
from indigo_cli.errors import CheckpointError, UsageError
from indigo_cli.models import MODELS
from indigo_cli.models.length_config import length_unit

if TYPE_CHECKING:
    from indigo_cli.recipe import Recipe


@dataclass(frozen=True)
class LoadedRun:
    """What decoding and scoring need; everything comes from the run folder.

    Args:
        folder: The run.
        recipe: As trained, with the overrides of the command.
        codecs: Text to ids and back.
        system: In evaluation mode, on its device; of an ensemble the decoder that averages.
        checkpoint: Whose weights it has.
        others: The further runs of an ensemble.
    """

    folder: RunFolder
    recipe: "Recipe"
    codecs: Codecs
    system: Any
    checkpoint: Checkpoint
    others: tuple["LoadedRun", ...] = ()

    def header(self) -> dict[str, Any]:
        """Return what a traces file says about where it came from."""
        others = [{"run": run.folder.path.name, "checkpoint": run.checkpoint_name} for run in self.others]
        return {
            "run": self.folder.path.name,
            "checkpoint": self.checkpoint_name,
            **({"ensemble": others} if others else {}),
            "system": self.recipe.system,
            "source_lang": self.recipe.data.source_lang,
            "target_lang": self.recipe.data.target_lang,
            "vocabulary": self.codecs.target.vocabulary.digest,
            **({"length_unit": unit} if (unit := self.length_unit or self.limit_unit) else {}),
        }

    @property
    def length_unit(self) -> LengthUnit | None:
        """In which unit the system is told lengths; None if it is told none. The runs of an ensemble have one unit."""
        return next(filter(None, (length_unit(run.recipe.model) for run in (self, *self.others))), None)

    @property
    def limit_unit(self) -> LengthUnit | None:
        """In which unit lengths are limited where the system is told none."""
        return getattr(self.recipe.model, "length_unit", "character") if self.recipe.decode.hard_length else None

    def with_decode(self, config: DecodeConfig) -> "LoadedRun":
        """Return the same run with other [decode] settings; the weights are shared."""
        return replace(self, recipe=replace(self.recipe, decode=config))

    @property
    def in_rounds(self) -> bool:
        """Whether the system is a `ParallelDecoder`; else it is a `SerialDecoder`."""
        return MODELS[self.recipe.system].parallel

    @property
    def checkpoint_name(self) -> str:
        """Name of the checkpoint's folder, behind the link that `best` and `last` are."""
        return self.checkpoint.folder.resolve().name

    def weights_digest(self) -> str:
        """Return the sha256 of the weights, with `+` between those of an ensemble."""
        known = self.checkpoint.facts.get("sha256")
        own = known.get(MODEL_FILE) if isinstance(known, dict) else None
        if not isinstance(own, str):  # a checkpoint of 0.1 does not know it
            own = sha256_file(self.checkpoint.folder / MODEL_FILE)
        return "+".join([own, *(run.weights_digest() for run in self.others)])

    def open_corpus(self, folder: Path | None = None) -> Corpus:
        """Open the corpus that the run recorded, or another folder, and check that it is the one it was trained on.

        Raises:
            UsageError: no corpus there, or another one.
            DataError: a damaged one.
        """
        corpus = Corpus.open(folder or Path(self.folder.text_fact("corpus")))
        if corpus.digest != self.folder.text_fact("corpus_digest"):
            raise UsageError(
                "this corpus is not the one that the run was trained on (another digest)",
                where=str(corpus.folder),
                fix="preprocess it with the run's recipe, or decode raw text with --input",
            )
        return corpus


def load_run(run: Path, *, checkpoint: str = "", overrides: Sequence[str] = (), device: torch.device) -> LoadedRun:
    """Load a run.

    Args:
        run: Run folder.
        checkpoint: Name under `checkpoints/`; default `best` where it exists, else `last`.
        overrides: `section.key=value`.
        device: Where to put the weights.

    Raises:
        UsageError: not a run folder.
        CheckpointError: no such checkpoint, damaged, or of another vocabulary.
    """
    from indigo_cli.recipe import load_recipe

    folder = RunFolder.open(run)
    recipe = load_recipe(run / RECIPE_FILE, overrides)
    codecs = folder.codecs()
    found = open_checkpoint(run, checkpoint)
    folder.check_checkpoint(found.facts, codecs)
    system: nn.Module = build_system(recipe, codecs)
    fix = "restore the run's recipe.toml, and leave [model] out of --set"
    found.load_into(system, whose="the recipe of the run", fix=fix)
    return LoadedRun(folder, recipe, codecs, system.to(device).eval(), found)


def load_ensemble(
    runs: Sequence[Path], *, checkpoint: str = "", overrides: Sequence[str] = (), device: torch.device
) -> LoadedRun:
    """Load runs whose probabilities are averaged; settings, codecs and corpus are those of the first.

    Args:
        runs: Run folders, one or more; one alone is just that run.
        checkpoint, overrides: For each of them, see `load_run`.

    Raises:
        UsageError: not a run folder, or runs that do not belong together.
        CheckpointError: see `load_run`; also for a run with other vocabularies than the first.
    """
    first, *others = (load_run(run, checkpoint=checkpoint, overrides=overrides, device=device) for run in runs)
    for other in others:
        _check_kin(first, other)
    if not others:
        return first
    kind = RoundEnsemble if first.in_rounds else Ensemble
    return replace(first, system=kind([run.system for run in (first, *others)]), others=tuple(others))


def _check_kin(first: LoadedRun, other: LoadedRun) -> None:
    """Refuse a run that cannot be averaged with another one."""
    where = str(other.folder.path)
    if other.recipe.system != first.recipe.system:
        raise UsageError(
            f"an ensemble is of one kind of model: {first.folder.path} is {first.recipe.system!r}, this run is "
            f"{other.recipe.system!r}",
            where=where,
            fix=f'give runs with model.system = "{first.recipe.system}"',
        )
    if first.in_rounds and first.system.ends_at_once != other.system.ends_at_once:
        raise UsageError(
            "the slots of this run do not end as those of the first: model.termination differs",
            where=where,
            fix="give runs with one termination",
        )
    units = {run.length_unit for run in (first, other)} - {None}
    if len(units) > 1:
        raise UsageError(
            f"the runs are told lengths in different units: {first.length_unit} and {other.length_unit}",
            where=where,
            fix="give runs with one model.length_unit",
        )
    for run in (first, other):
        if not run.in_rounds and run.system.greedy_only:
            raise UsageError(
                "a model that predicts the position first cannot be averaged: it shows the words of one slot only, and "
                "others choose another one",
                where=str(run.folder.path),
                fix='give runs with model.predict = "word_first"',
            )
    fix = "an ensemble needs runs that were trained on one corpus"
    pairs = zip(vocabulary_digests(first.codecs), vocabulary_digests(other.codecs), strict=True)
    differing = [side for side, (one, two) in zip(("source", "target"), pairs, strict=True) if one != two]
    if differing:
        raise CheckpointError(
            f"the vocabulary ({', '.join(differing)}) does not belong to the ensemble: {first.folder.path} has "
            "another one (another digest)",
            where=where,
            fix=fix,
        )
    if _reading(other.codecs) != _reading(first.codecs):
        what = f"text is not tokenised as in {first.folder.path} (tokenizer, language, case or BPE codes differ)"
        raise UsageError(what, where=where, fix=fix)


def _reading(codecs: Codecs) -> tuple[object, ...]:
    """Return all that decides how raw text becomes pieces, and pieces text."""
    sides = [
        (side.line_settings, side.truecaser, side.bpe and (side.bpe.codes, side.bpe.pieces))
        for side in (codecs.source, codecs.target)
    ]
    return codecs.source_is_bag, *sides
