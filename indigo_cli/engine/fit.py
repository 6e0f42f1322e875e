"""The start of a training run: everything is checked before anything is written."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from indigo_cli.core import console
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.fresh_pieces import why_no_effect
from indigo_cli.engine.build import build_system
from indigo_cli.engine.disk import check_writable
from indigo_cli.engine.distributed import Processes, processes_of
from indigo_cli.engine.events import wants_events
from indigo_cli.engine.length_wish import length_fact
from indigo_cli.engine.loop import Loop
from indigo_cli.engine.prepare import default_corpus_folder
from indigo_cli.engine.run_folder import RunFolder, lock_folder, vocabulary_digests
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.sample import Sample
from indigo_cli.engine.search_config import free_on_resume
from indigo_cli.engine.start import (
    FREE_ON_RESUME,
    bootstrap_fact,
    check_corpus,
    check_start,
    checkpoint_to_resume,
    init_fact,
    load_init,
)
from indigo_cli.engine.train_setup import TrainSetup
from indigo_cli.engine.train_summary import TrainSummary as TrainSummary
from indigo_cli.engine.training_orders import orders_of_files, orders_of_recipe, training_splits
from indigo_cli.engine.validate import Validator
from indigo_cli.errors import UsageError
from indigo_cli.models import MODELS
from indigo_cli.models.length_config import length_unit

if TYPE_CHECKING:
    from indigo_cli.recipe import Recipe


def train(
    recipe: "Recipe",
    *,
    output: Path | None = None,
    corpus_folder: Path | None = None,
    orders: Sequence[Path] = (),
    init: Path | None = None,
    resume: bool = False,
    runtime: Runtime | None = None,
) -> TrainSummary:
    """Train a recipe's model and return a summary.

    Args:
        recipe: Checked settings.
        output: Run folder; default `runs/NAME/ORDER`.
        corpus_folder: Default: where `indigo preprocess` puts it.
        orders: Orders files, at most one a split.
        init: A run whose best weights to start from.
        resume: Go on where the newest whole checkpoint stands.
        runtime: Device, precision, threads.

    Raises:
        UsageError: no corpus, a run folder in the way, settings that changed since the run to resume.
        RunError: a gradient was not finite, or something could not be written.
    """
    runtime = runtime or Runtime()
    with processes_of(runtime, recipe.train.sharding) as processes:
        return _train(recipe, output, corpus_folder, orders, init, resume=resume, runtime=runtime, processes=processes)


def _train(
    recipe: "Recipe",
    output: Path | None,
    corpus_folder: Path | None,
    orders: Sequence[Path],
    init: Path | None,
    *,
    resume: bool,
    runtime: Runtime,
    processes: Processes,
) -> TrainSummary:
    """See `train`; runs on every process."""
    corpus_folder = corpus_folder or default_corpus_folder(recipe)
    if not (corpus_folder / "manifest.json").exists():
        raise UsageError(
            "there is no corpus folder here",
            where=str(corpus_folder),
            fix="run `indigo preprocess RECIPE` first, or give --corpus",
        )
    corpus = Corpus.open(corpus_folder)
    check_corpus(recipe, corpus)
    splits = training_splits(corpus)
    if orders:
        order_of, order_name = orders_of_files(recipe.system, orders, splits)
        recipe = replace(recipe, order=order_of["train"])
    else:
        order_of, order_name = orders_of_recipe(recipe, splits), recipe.order.name
    run_path = output or Path("runs") / recipe.name / order_name
    setup = TrainSetup(recipe, corpus, order_of)
    facts: dict[str, Any] = {
        "corpus": str(corpus_folder.resolve()),
        "corpus_digest": corpus.digest,
        "task": recipe.data.task,
        "orders": setup.digests(),
        "precision": runtime.precision,
        "init": init_fact(init, run_path, resume=resume),
        **length_fact(corpus, length_unit(recipe.model), run_path, resume=resume),
    }
    bootstrap_updates = 0
    if setup.searches:
        bootstrap_updates = bootstrap_fact(recipe.search, recipe.train.max_steps, run_path, resume=resume)
        facts["bootstrap_updates"] = bootstrap_updates
    if recipe.train.bpe_dropout and (reason := why_no_effect(corpus)):
        console.note(f"train.bpe_dropout has no effect: {reason}")
    for key, why in MODELS[recipe.system].unused(recipe.model, recipe.order.name).items():
        console.note(f"model.{key} has no effect with {why}")
    recipe_text = _recipe_text(recipe)

    def check() -> None:
        free = (*FREE_ON_RESUME, *recipe.train.free_on_resume, *free_on_resume(recipe.order.name))
        check_start(run_path, recipe_text, facts, resume=resume, free=free)
        check_writable(run_path)

    processes.first_does(check)
    events = wants_events(recipe.train.tensorboard)
    torch.manual_seed(recipe.seed)
    system = build_system(recipe, corpus.codecs).to(processes.device)
    found = None
    if resume:
        micro_batches = processes.world * recipe.train.accumulate
        found = processes.first_does(lambda: checkpoint_to_resume(run_path, corpus, micro_batches=micro_batches))
    if found is not None:
        found.load_into(system, whose="this model", fix="resume with the settings of the run")
    elif facts["init"]:
        load_init(system, Path(facts["init"]["run"]), corpus)
    sample = _sample(recipe, corpus, system, facts, device=processes.device, runtime=runtime)
    called = processes.spread(system, recipe.train.sharding)
    inputs = setup.prepare(system, bootstrap_updates=bootstrap_updates, processes=processes, runtime=runtime)
    validator = None
    if inputs.losses is not None:
        validator = Validator(system, inputs.losses, sample, processes=processes, watchers=inputs.watchers)
    with ExitStack() as stack:

        def begin() -> None:
            stack.enter_context(lock_folder(run_path))
            RunFolder.create(run_path, recipe_text=recipe_text, codecs=corpus.codecs, facts=facts)

        processes.first_does(begin)
        loop = Loop(
            recipe.train,
            system,
            called,
            inputs.stream,
            inputs.policy,
            validator,
            run_path,
            seed=recipe.seed,
            digests=vocabulary_digests(corpus.codecs),
            events=events,
            processes=processes,
            runtime=runtime,
        )
        return loop.run(found)


def _sample(
    recipe: "Recipe",
    corpus: Corpus,
    system: torch.nn.Module,
    facts: dict[str, Any],
    *,
    device: torch.device,
    runtime: Runtime,
) -> Sample | None:
    """Return what validations decode; say what has no effect without sentences to validate on."""
    if "valid" in corpus.splits and len(corpus.split("valid")):
        size = recipe.train.validate_decode
        return Sample(recipe, corpus, system, facts=facts, device=device, runtime=runtime) if size else None
    for key in ("patience", "validate_decode"):
        if getattr(recipe.train, key):
            console.note(f"train.{key} has no effect: the corpus has no sentence in valid")
    return None


def _recipe_text(recipe: "Recipe") -> str:
    from indigo_cli.recipe import dump_recipe

    return dump_recipe(recipe)
