"""`decode.canvas_order = "best"`: given words are fed in the best order that the run finds for them."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from indigo_cli.engine.lines import EncodedLine
from indigo_cli.engine.loaded_run import LoadedRun
from indigo_cli.engine.order_searcher import OrderSearcher
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.targets import Item


class CanvasOrders:
    """Searches as `indigo search-orders` does, without dropout and noise, the given words being the whole target.

    Args:
        run: Its recipe's [search] section says how; of an ensemble the first model searches.
        device: Where the weights are.
        runtime: Precision.
    """

    def __init__(self, run: LoadedRun, *, device: torch.device, runtime: Runtime) -> None:
        if run.others:
            run = replace(run, system=run.system.members[0], others=())
        config = replace(run.recipe.search, dropout=0.0, gumbel=0.0)
        self._searcher = OrderSearcher(run, config, seed=run.recipe.seed, device=device, runtime=runtime)

    def __call__(self, block: Sequence[EncodedLine]) -> list[EncodedLine]:
        """Return the lines with their canvases in order; a line without a source stays as it is."""
        lines = list(block)
        items, places = [], []
        for place, line in enumerate(block):
            if line.canvas is not None and len(line.canvas.words) > 1 and len(line.ids):
                items.append(Item(line.number, line, line.canvas.words))
                places.append(place)
        for place, found in zip(places, self._searcher.find(items), strict=True):
            line = block[place]
            assert line.canvas is not None
            best = found.ranked(with_l2r=True).orders[0]  # a narrow beam may have missed it
            lines[place] = replace(line, canvas=replace(line.canvas, order=best))
        return lines
