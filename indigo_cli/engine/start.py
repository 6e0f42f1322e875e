"""May this run start here, or go on here? Checked before anything is written."""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from indigo_cli.core import console
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import sha256_file
from indigo_cli.engine.checkpoint import MODEL_FILE, Checkpoint, newest_whole_checkpoint, open_checkpoint
from indigo_cli.engine.prepare_settings import LEARNT, PreprocessConfig, resolve_settings
from indigo_cli.engine.run_folder import FACTS_FILE, RECIPE_FILE, RunFolder, vocabulary_digests
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.errors import CheckpointError, UsageError

if TYPE_CHECKING:
    from indigo_cli.recipe import Recipe

FREE_ON_RESUME = (
    "name",
    "preprocess.codecs",
    "order.file",
    "order.parse",
    "decode.",
    "evaluate.",
    "train.max_epochs",
    "train.max_minutes",
    "train.max_cpu_minutes",
    "train.patience",
    "train.log_every",
    "train.validate_",
    "train.best_by",
    "train.save_every",
    "train.keep",
    "train.spike_factor",
    "train.tensorboard",
    "train.accumulate",
    "train.sharding",
)
"""Keys that may change when a run is resumed: they do not touch what an update computes, or a digest is compared."""
SAME_FACTS = {
    "corpus_digest": "give the --corpus it had",
    "orders": "give the --orders it had",
    "precision": "give the --precision it had",
    "init": "leave --init out, or give the same run",
}
"""Facts that must not change, and how to mend it."""


def check_corpus(recipe: "Recipe", corpus: Corpus) -> None:
    """Refuse a corpus that was made with another task or other preprocessing than the recipe says."""
    task, settings, _ = resolve_settings(recipe.data, recipe.preprocess)
    wanted = {"task": task.name, **asdict(settings)}
    before = asdict(PreprocessConfig())  # the defaults of keys added since are what held before
    found = {"task": corpus.manifest["task"], **before, **corpus.manifest["settings"]}
    # The folder of known codecs may have moved: vocabularies are compared themselves where it matters.
    free = {"codecs", *LEARNT} if found["codecs"] else {"codecs"}
    differing = [
        f"{key}: {found.get(key)} in the corpus, {wanted[key]} here"
        for key in wanted
        if key not in free and found.get(key) != wanted[key]
    ]
    if differing:
        raise UsageError(
            "the corpus was not made with this recipe: " + "; ".join(differing),
            where=str(corpus.folder),
            fix="run `indigo preprocess RECIPE` with the same settings, or give its own --corpus",
        )


def init_fact(init: Path | None, run: Path, *, resume: bool) -> dict[str, str] | None:
    """Return which weights the run starts from; a resumed run remembers."""
    if init is None:
        if resume and (run / FACTS_FILE).exists():
            remembered: dict[str, str] | None = RunFolder.open(run).facts.get("init")
            return remembered
        return None
    weights = open_checkpoint(init).folder / MODEL_FILE
    return {"run": str(init.resolve()), "weights": sha256_file(weights)}


def bootstrap_fact(search: SearchConfig, max_steps: int, run: Path, *, resume: bool) -> int:
    """Return how many updates do not search; a resumed run remembers, so that more `max_steps` do not change it."""
    updates = search.bootstrap_updates(max_steps)
    if not resume or not (run / FACTS_FILE).exists():
        return updates
    remembered: Any = RunFolder.open(run).facts.get("bootstrap_updates")
    return remembered if type(remembered) is int else updates


def load_init(system: nn.Module, init: Path, corpus: Corpus) -> None:
    """Start from the weights of another run of the same vocabularies and sizes.

    It may be of another system or have other positions: what has the same name is taken (encoder, embeddings and
    decoder of a Transformer fit an Insertion Transformer), the rest begins as it would without, and a line says so.
    """
    found = open_checkpoint(init)
    if found.facts.get("vocabularies") != vocabulary_digests(corpus.codecs):
        raise CheckpointError(
            "the vocabulary does not belong to this checkpoint: the corpus has another than the run to start from",
            where=str(found.folder),
            fix="preprocess the text with that run's folder as preprocess.codecs, or train without --init",
        )
    weights, ours = found.weights(), system.state_dict()
    shared = weights.keys() & ours.keys()
    if weights.keys() == ours.keys() or not shared or _layers(weights) != _layers(ours):
        found.load_into(system, weights, whose="this model", fix=_FITS)
        return
    taken = ours | {name: weights[name] for name in shared}
    found.load_into(system, taken, whose="this model", fix=_FITS)
    console.note(
        "--init: another kind of model, so the weights that both have are taken; "
        f"begins anew: {_parts(ours.keys() - shared)}; not used: {_parts(weights.keys() - shared)}"
    )


_FITS = "give --init a run of the same sizes in [model], or set here what gave the named weights their shape there"


def _layers(names: Iterable[str]) -> set[str]:
    """Return the layers that have weights, as `decoder.layers.0`."""
    return {match[0] for name in names if (match := re.match(r"\D*\.\d+(?=\.)", name))}


def _parts(names: Iterable[str]) -> str:
    """Return what is named for people to read: a part of all layers once, its weight and bias once."""
    parts = {re.sub(r"\.\d+\.", ".*.", name.removesuffix(".weight").removesuffix(".bias")) for name in names}
    return ", ".join(sorted(parts)) or "nothing"


def checkpoint_to_resume(run: Path, corpus: Corpus, *, micro_batches: int) -> Checkpoint | None:
    """Return the newest whole checkpoint of a run that is to go on; None if nothing was saved yet.

    Args:
        micro_batches: Of an update on all processes; fewer or more than before make it another run.
    """
    found, complaints = newest_whole_checkpoint(run)
    for complaint in complaints:
        console.warn(complaint)
    if found is None:
        console.note("nothing was saved yet: starting at the beginning")
    elif found.facts.get("vocabularies") != vocabulary_digests(corpus.codecs):
        raise CheckpointError("the vocabulary does not belong to this checkpoint", where=str(found.folder))
    elif (before := found.facts.get("micro_batches", micro_batches)) != micro_batches:
        console.warn(
            f"an update was made of {before} micro-batches and is now made of {micro_batches}: results will differ "
            "from those of a run that was not stopped; processes times train.accumulate decides"
        )
    return found


def check_start(
    path: Path, recipe_text: str, facts: dict[str, Any], *, resume: bool, free: Sequence[str] = FREE_ON_RESUME
) -> dict[str, Any]:
    """Refuse to write over a run, or to resume one under other settings or with other data.

    Args:
        path: Run folder.
        recipe_text: Resolved recipe.
        facts: What `run.json` will say.
        resume: Whether the run is to go on.
        free: What keys may begin with that differ nevertheless.
    Returns: the facts of the run that stands; empty if none does.
    """
    recipe_file = path / RECIPE_FILE
    if not recipe_file.exists():
        if path.exists() and not all(entry.name.startswith(".") for entry in path.iterdir()):
            raise UsageError("the folder is not empty and holds no run", where=str(path), fix="choose another -o")
        return {}
    if not resume:
        raise UsageError("a run stands here already", where=str(path), fix="go on with --resume, or choose another -o")
    changed = differing_keys(_as_read_now(recipe_file), recipe_text)
    changed = [line for line in changed if not line.startswith(tuple(free))]
    if changed:
        raise UsageError(
            "the run was started with other settings: " + "; ".join(changed),
            where=str(recipe_file),
            fix="resume with the settings it has, or start another run with -o",
        )
    before = RunFolder.open(path).facts if (path / FACTS_FILE).exists() else {}
    for key, fix in SAME_FACTS.items():
        if before.get(key, facts[key]) != facts[key]:
            raise UsageError(
                f"the run was started with another {key}: {before[key]} -> {facts[key]}",
                where=str(path / FACTS_FILE),
                fix=f"{fix}, or start another run with -o",
            )
    return before


def _as_read_now(recipe_file: Path) -> str:
    """Return a stored recipe with the keys that were added since: their defaults are what held before."""
    from indigo_cli.recipe import dump_recipe, load_recipe

    return dump_recipe(load_recipe(recipe_file))


def differing_keys(old: str, new: str) -> list[str]:
    """Return `section.key: old -> new` for every key that differs between two resolved recipes."""
    before, after = flat_keys(tomllib.loads(old)), flat_keys(tomllib.loads(new))
    return [
        f"{key}: {before.get(key, 'not set')} -> {after.get(key, 'not set')}"
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]


def flat_keys(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the leaves of nested tables under their full keys."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= flat_keys(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat
