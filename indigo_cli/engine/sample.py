"""Validation by decoding: some sentences of `valid`, the same at every validation, decoded and scored."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from indigo_cli.core import console
from indigo_cli.core.chunks import chunked
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.references import read_references
from indigo_cli.engine.checkpoint import Checkpoint
from indigo_cli.engine.distributed import Processes
from indigo_cli.engine.generator import Generator
from indigo_cli.engine.lines import encode_item
from indigo_cli.engine.loaded_run import LoadedRun
from indigo_cli.engine.run_folder import RunFolder
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.signals import StopRequest
from indigo_cli.engine.train_config import LOSS
from indigo_cli.engine.writers import text_line
from indigo_cli.errors import DataError, UsageError
from indigo_cli.metrics import build_metrics
from indigo_cli.metrics.metric import corpus_score, corpus_statistics
from indigo_cli.metrics.tokenize import choose_tokenizer

if TYPE_CHECKING:
    from indigo_cli.recipe import Recipe

AT_ONCE = 32
"""A stop is looked for after so many sentences."""
SPLIT = "valid"


class Sample:
    """Sentences spread evenly over the split, with what their outputs are compared with.

    Args:
        recipe: How many, with which beam, and which metrics: the first of [evaluate], and `best_by`.
        corpus: Whose `valid`.
        system: Is in evaluation mode when it decodes. The search draws no random number.
        device: Where the system is.
        runtime: Precision.
        facts: That the run's folder will hold: the ratio of lengths in training is among them.

    Raises:
        UsageError: the system or a metric cannot be used like this.
    """

    def __init__(
        self,
        recipe: "Recipe",
        corpus: Corpus,
        system: nn.Module,
        *,
        device: torch.device,
        runtime: Runtime,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        beam = recipe.train.validate_beam
        if beam > 1 and getattr(system, "greedy_only", False):
            what = "a model that predicts the position first can only be decoded greedily"
            raise UsageError(what, where="train.validate_beam", fix="train.validate_beam = 1")
        names = [recipe.evaluate.metrics[0]] if recipe.evaluate.metrics else []
        names += [recipe.train.best_by] if recipe.train.best_by not in (LOSS, *names) else []
        tokenizer = choose_tokenizer(recipe.evaluate.tokenize, recipe.data.target_lang)
        self.metrics = build_metrics(names, tokenize=tokenizer, options=recipe.evaluate.options)
        decode = replace(recipe.decode, search="beam", beam_size=beam, rerank="none", hard_length=False)
        recipe = replace(recipe, decode=decode)
        # Nothing is read from its folder or checkpoint: the weights are those that the run has at the moment.
        run = LoadedRun(RunFolder(Path(), dict(facts or {})), recipe, corpus.codecs, system, Checkpoint(Path(), {}))
        self._generator = Generator(run, device=device, runtime=runtime)
        split = corpus.split(SPLIT)
        size = min(recipe.train.validate_decode, len(split))
        lengths = split.source.lengths
        items = sorted((i * len(split) // size for i in range(size)), key=lambda item: (lengths[item], item))
        self._lines = [encode_item(split, item, max_length=self._generator.max_source) for item in items]
        self._references = _references(corpus, items)

    def figures(self, stop: StopRequest, processes: Processes) -> dict[str, float] | None:
        """Decode and return the score of each metric; None if a stop was asked for.

        Each process decodes some of the sentences, the first one scores them, and all get the scores.
        """
        texts: list[str] = []
        for block in chunked(self._lines[processes.rank :: processes.world], AT_ONCE):
            texts += [text_line(outputs[0]) for outputs in self._generator.decode(block)]
            if stop:
                break
        if processes.total(torch.tensor(float(bool(stop)), device=processes.device)):
            return None
        texts = processes.lists(texts)
        places = sorted(range(len(texts)), key=lambda place: place % processes.world)
        return processes.first_does(lambda: self._scores(texts, places))

    def _scores(self, texts: Sequence[str], places: Sequence[int]) -> dict[str, float]:
        """Return the score of each metric; `places` says of each text which sentence of the sample it is of."""
        references = [[lines[place] for place in places] for lines in self._references]
        return {
            name: float(corpus_score(metric, corpus_statistics(metric, texts, references)))
            for name, metric in self.metrics.items()
        }


def _references(corpus: Corpus, items: Sequence[int]) -> list[list[str]]:
    """Return the raw references of some items; where these have gone or changed, the target as it was learnt."""
    split = corpus.split(SPLIT)
    try:
        return [[lines[split.lines[item]] for item in items] for lines in read_references(corpus, SPLIT)]
    except (DataError, IndexError) as error:
        console.note(f"{error}; validation compares with the preprocessed targets, turned back into text")
    text_of_ids = corpus.codecs.target.text_of_ids
    return [[text_of_ids(split.target[item].tolist()) for item in items]]
