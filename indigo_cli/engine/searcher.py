"""Which search a run is decoded by, and what it can be asked."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from indigo_cli.core.trace import Hypothesis
from indigo_cli.data.batch import Source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.one_slot import OneSlot
from indigo_cli.decoding.parallel import search_rounds
from indigo_cli.decoding.places import Sentence
from indigo_cli.decoding.search import search_batch
from indigo_cli.engine.loaded_run import LoadedRun
from indigo_cli.errors import UsageError
from indigo_cli.models import MODELS
from indigo_cli.nn.units import UnitCounter


class Searcher:
    """Searches in rounds, many slots at once, or one insertion a step.

    Args:
        run: Its recipe's [decode] section says how to search.
        seed: Of draws.

    Raises:
        UsageError: a setting that its system cannot follow.
    """

    def __init__(self, run: LoadedRun, *, seed: int) -> None:
        self.run, self.seed = run, seed
        self.config: DecodeConfig = run.recipe.decode
        self.in_rounds = run.in_rounds and not (self.config.serial or run.system.ends_at_once)
        self._check_settings()
        self._decoder: Any = run.system
        # The recipe has noted what has no effect; in a rank it would have one.
        if self.in_rounds:
            self.config = replace(self.config, eod_penalty=0.0)
        elif not run.in_rounds:
            self.config = replace(self.config, close_penalty=0.0)
        else:
            penalty = self.config.close_penalty  # it says when slots are left alone; when all are, this is the end
            self._decoder = OneSlot(run.system, close_penalty=penalty)
            self.config = replace(self.config, close_penalty=0.0, eod_penalty=self.config.eod_penalty + penalty)
        self.continuing = run.codecs.target.continuing

    def _refuse(self, key: str, what: str, fix: str) -> None:
        raise UsageError(f"{what} ({self.run.folder.path})", where=f"decode.{key}", fix=fix)

    def _check_settings(self) -> None:
        if self.in_rounds and self.config.search == "joint":
            what = "no slot is chosen where all are filled at once"
            self._refuse("search", what, 'decode.search = "beam" or "sample", or decode.serial = true')
        if self.in_rounds or not self.run.in_rounds:
            return
        if not self.run.system.can_wait:
            what = "this model has learnt to fill all slots at once: a slot cannot wait"
            self._refuse("serial", what, 'models with positions = "absolute" can be decoded serially')
        if not self.run.system.chooses_slots:
            what = "this model has not learnt which slot to fill"
            self._refuse("serial", what, 'train with model.slot_choice = "joint" or "factorised"')

    def check(self, *, greedy: bool) -> None:
        """Refuse what only some systems can be asked.

        Args:
            greedy: A beam of 1 for the best alone.

        Raises:
            UsageError: the system is decoded greedily only.
        """
        if not greedy and not self.run.in_rounds and self.run.system.greedy_only:
            raise UsageError(
                "a model that predicts the position first can only be decoded greedily: a hypothesis shows the words "
                "of one slot only",
                where=str(self.run.folder.path),
                fix="--beam 1, without samples or n-best lists",
            )

    def check_canvas(self) -> None:
        """Refuse given words where a search cannot start from them.

        Raises:
            UsageError: the system only appends, shows one slot only, or fills slots that wait for each other.
        """
        system, fix = self.run.recipe.system, ""
        if MODELS[system].orders is not None:
            what = f"a model with system {system!r} writes from left to right: nothing comes between given words"
            fix = 'train with model.system = "indigo" or "insertion"'
        elif not self.run.in_rounds and self.run.system.greedy_only:
            what = "a model that predicts the position first shows the words of one slot only, which may be closed"
            fix = 'train with model.predict = "word_first"'
        elif self.run.in_rounds and not self.in_rounds:
            what = "slots that are filled one at a time, the others waiting, cannot start from given words"
            fix = 'leave decode.serial out, and train with model.termination = "slot"'
        if fix:
            raise UsageError(f"{what} ({self.run.folder.path})", where="--canvas", fix=fix)

    @property
    def orders_canvas(self) -> bool:
        """Whether given words are to be fed in an order that is searched for."""
        return not self.in_rounds and self.config.canvas_order == "best"

    def search(
        self,
        source: Source,
        sentences: Sequence[Sentence],
        *,
        width: int,
        distinct: bool = False,
        counter: UnitCounter | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence; see `search_batch` and `search_rounds`.

        Args:
            distinct: A beam holds no string twice; only one insertion a step can tell.
            counter: Of the units of hard limits.
        """
        search = search_rounds if self.in_rounds else partial(search_batch, distinct=distinct)
        return search(
            self._decoder,
            source,
            self.config,
            sentences,
            width=width,
            seed=self.seed,
            continuing=self.continuing,
            counter=counter,
        )
