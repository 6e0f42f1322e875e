"""The Python interface: what `indigo_cli.load` returns. It runs the code of the command line: results are the same."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from indigo_cli.core.settings import did_you_mean, parse_section
from indigo_cli.data.orders_file import OrdersRow
from indigo_cli.data.traces_file import TraceRecord, parse_row
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.engine.generator import Generator
from indigo_cli.engine.loaded_run import LoadedRun, load_ensemble
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.score import Scorer
from indigo_cli.engine.target_orders import GivenOrders, Orders, trained_orders
from indigo_cli.engine.targets import text_items
from indigo_cli.engine.training_orders import own_order
from indigo_cli.engine.writers import text_line, traces_row
from indigo_cli.errors import RecipeError, UsageError
from indigo_cli.orders import ORDERS


@dataclass(frozen=True)
class Model:
    """A trained run, or several as an ensemble, on a device; made by `indigo_cli.load`."""

    run: LoadedRun
    device: torch.device
    runtime: Runtime

    @classmethod
    def load(
        cls,
        run: str | PathLike[str],
        *,
        checkpoint: str = "",
        ensemble: Sequence[str | PathLike[str]] = (),
        overrides: Sequence[str] = (),
        device: str = "auto",
        precision: str = "fp32",
        threads: int = 0,
    ) -> "Model":
        """See `indigo_cli.load`."""
        runtime = Runtime(device, precision, threads)
        place = runtime.start()
        folders = [Path(folder) for folder in (run, *ensemble)]
        return cls(load_ensemble(folders, checkpoint=checkpoint, overrides=overrides, device=place), place, runtime)

    def texts(
        self, lines: Iterable[str], *, settings: Mapping[str, Any] | None = None, seed: int | None = None
    ) -> Iterator[str]:
        """Yield the best text of each line: the lines that `indigo decode` writes, without their ends.

        Args:
            lines: Raw text, one sentence each. They are read in blocks, so memory does not grow with their number.
            settings: Keys of the recipe's [decode] section and their values, such as `{"beam_size": 8}`.
            seed: Of samples (`{"search": "sample"}`); None takes the recipe's.

        Raises:
            indigo_cli.errors.RecipeError: a setting that there is not, or a value it cannot have.
        """
        generator = self._generator(1, settings, seed)
        for _, outputs in generator.decode_lines(_checked(lines)):
            yield text_line(outputs[0])

    def decode(
        self,
        lines: Iterable[str],
        *,
        n_best: int = 1,
        settings: Mapping[str, Any] | None = None,
        seed: int | None = None,
    ) -> Iterator[list[TraceRecord]]:
        """Yield the hypotheses of each line, best first: the rows that `indigo decode --format jsonl` writes.

        Args:
            lines, settings, seed: See `texts`.
            n_best: Most hypotheses of a line, no string twice; with `{"search": "sample"}` the number of draws.

        Raises:
            indigo_cli.errors.IndigoError: as `texts`, or for a length that no list has.
        """
        generator = self._generator(n_best, settings, seed)
        vocabulary = self.run.codecs.target.vocabulary
        for number, outputs in generator.decode_lines(_checked(lines)):
            yield [
                parse_row(traces_row(number, rank, output, vocabulary), f"line {number + 1}")
                for rank, output in enumerate(outputs, start=1)
            ]

    def score(
        self,
        sources: Iterable[str] | None,
        targets: Iterable[str],
        *,
        order: str = "",
        orders: Iterable[Sequence[Sequence[int]]] | None = None,
        draws: int = 1,
        seed: int | None = None,
    ) -> Iterator[OrdersRow]:
        """Yield what each target costs in its orders: the rows that `indigo score` writes, not yet rounded.

        Args:
            sources: Raw text, one sentence each; None for a task that makes its sources from the targets.
            targets: Raw text, as many.
            order: Name of a predefined order; default: the one that the run was trained on.
            orders: Instead of it one or more orders of each target, by 0-based index of its tokens.
            draws: How many orders of a target, where they are drawn (`rnd`).
            seed: Of the draws; None takes the recipe's.

        Raises:
            indigo_cli.errors.IndigoError: texts or orders that do not belong together, or an order that the system does
                not generate.
        """
        run = self.run
        if sources is None and not run.codecs.source_is_bag:
            raise UsageError("these targets need their sources", where="sources", fix="give one source for each target")
        scorer = Scorer(run, device=self.device, runtime=self.runtime)
        chosen: Orders
        if orders is not None:
            if order or draws != 1:
                raise UsageError("orders are given already", where="orders", fix="leave order and draws out")
            chosen = GivenOrders(orders)
        else:
            if order and order not in ORDERS:
                fix = f"{did_you_mean(order, ORDERS)} known: {', '.join(ORDERS)}".strip()
                raise UsageError(f"unknown order {order!r}", where="order", fix=fix)
            config = own_order(run.recipe, order or run.recipe.order.name)
            seed = run.recipe.seed if seed is None else seed
            chosen = trained_orders(config, split="", open_corpus=run.open_corpus, seed=seed, draws=draws)
        max_length = run.recipe.preprocess.max_length
        items = text_items(
            run.codecs, None if sources is None else _checked(sources), _checked(targets), max_length=max_length
        )
        for block in scorer.blocks(items, chosen):
            for _, row in block:
                yield row

    def _generator(self, n_best: int, settings: Mapping[str, Any] | None, seed: int | None) -> Generator:
        run = self.run
        if settings:
            table = {**asdict(run.recipe.decode), **settings}
            config, faults = parse_section(DecodeConfig, table, prefix=("decode",), places={})
            if config is None:
                raise RecipeError(faults)
            run = run.with_decode(config)
        return Generator(run, device=self.device, runtime=self.runtime, n_best=n_best, seed=seed)


def _checked(lines: Iterable[str]) -> Iterable[str]:
    """Refuse one text in place of several: it would be decoded character by character."""
    if isinstance(lines, str):
        raise TypeError("lines must be an iterable of texts, got one text: put it into a list")
    return lines
