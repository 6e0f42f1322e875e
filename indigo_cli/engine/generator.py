"""A loaded run that turns encoded lines into n-best lists: the same lists whatever else stands in the block."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from indigo_cli.core.trace import Hypothesis
from indigo_cli.data.collate import collate_source
from indigo_cli.decoding.config import length_limits
from indigo_cli.decoding.parallel import trace_of
from indigo_cli.decoding.places import Sentence
from indigo_cli.engine.canvas_orders import CanvasOrders
from indigo_cli.engine.hard_length import HardLength
from indigo_cli.engine.length_wish import LengthOption, make_wisher
from indigo_cli.engine.lines import BLOCK_LINES, EncodedLine, encode_line, in_blocks
from indigo_cli.engine.loaded_run import LoadedRun
from indigo_cli.engine.nbest import (
    LARGEST,
    NOTHING,
    Output,
    join_searches,
    num_finished,
    rank_strings,
    wider_beams,
)
from indigo_cli.engine.rerank import make_reranker
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.searcher import Searcher
from indigo_cli.errors import UsageError


def block_size(n_best: int) -> int:
    """Return the most lines of a block: their lists are in memory together."""
    return max(1, BLOCK_LINES // n_best)


class Generator:
    """Decodes lines with one run (or several as an ensemble).

    Args:
        run: Its recipe's [decode] section says how to search.
        device: Where its weights are.
        runtime: Precision.
        n_best: Length of the lists, at most `LARGEST`; with `search = "sample"` the number of draws.
        seed: Of the draws; None takes the recipe's.
        length: How long outputs are to be, for lines that come without a wish; None = by the ratio of training, where
            the system counts lengths.

    Raises:
        UsageError: no list has this length, or the system cannot be searched like this.
    """

    def __init__(
        self,
        run: LoadedRun,
        *,
        device: torch.device,
        runtime: Runtime,
        n_best: int = 1,
        seed: int | None = None,
        length: LengthOption | None = None,
    ) -> None:
        self.run, self.device, self.runtime, self.n_best = run, device, runtime, n_best
        self.seed = run.recipe.seed if seed is None else seed
        self._searcher = Searcher(run, seed=self.seed)
        self.config = self._searcher.config
        self.max_source = run.recipe.preprocess.max_length
        self.samples = self.config.search == "sample"
        self.width = n_best if self.samples else self.config.beam_size
        self._reranker = make_reranker(run.codecs, self.config)
        self.list_size = n_best if self._reranker is None else max(n_best, self.config.rerank_from)
        self.wider = [] if self.samples else wider_beams(self.width, self.list_size)
        self._orders: CanvasOrders | None = None
        self.wisher = make_wisher(run, length)
        self.hard_length = self._hard_length()
        self._check()

    def _check(self) -> None:
        if not 1 <= self.n_best <= LARGEST:
            raise UsageError(f"{self.n_best} best cannot be given", where="--n-best", fix=f"from 1 to {LARGEST}")
        self._searcher.check(greedy=self.config.search == "beam" and self.width == self.list_size == 1)

    def _hard_length(self) -> HardLength | None:
        if not self.config.hard_length:
            return None
        if self.wisher is None:
            what = f"nothing says how long outputs may be ({self.run.folder.path})"
            raise UsageError(what, where="--hard-length", fix="add --length, --length-file or --length-ratio")
        return HardLength(self.run.codecs.target, self.wisher.unit, self.device)

    def use_canvas(self) -> None:
        """Prepare for lines with given words; refuse them where the search cannot start from them.

        Raises:
            UsageError: it cannot.
        """
        self._searcher.check_canvas()
        if self._searcher.orders_canvas:
            self._orders = CanvasOrders(self.run, device=self.device, runtime=self.runtime)

    def encode(self, number: int, text: str) -> EncodedLine:
        """Return what the encoder reads of a raw line (0-based number in the whole input)."""
        return encode_line(self.run.codecs, number, text, max_length=self.max_source)

    def encode_blocks(self, blocks: Iterable[Sequence[str]]) -> Iterator[list[EncodedLine]]:
        """Encode raw lines, block by block (see `in_blocks`), and number them."""
        number = 0
        for texts in blocks:
            yield [self.encode(number + i, text) for i, text in enumerate(texts)]
            number += len(texts)

    def decode_lines(self, lines: Iterable[str]) -> Iterator[tuple[int, list[Output]]]:
        """Yield number and list of raw lines, decoded in the blocks that a file of them has: the very same lists."""
        for block in self.encode_blocks(in_blocks(lines, most=block_size(self.n_best))):
            for line, outputs in zip(block, self.decode(block), strict=True):
                yield line.number, outputs

    def decode(self, block: Sequence[EncodedLine]) -> list[list[Output]]:
        """Return the list of each line, best first (draws: in the order they were made); never an empty one.

        With `rerank`, best means: keeps the most words of the source (`rerank.py`), then by score.
        A list holds no string twice. It is shorter than `n_best` where the widest search finds no more; hypotheses that
        ran out of steps come last. A line without tokens gives one output without text.
        """
        block = self._orders(block) if self._orders is not None else block
        block = self._wished(block)
        lists: list[list[Output]] = [[self._nothing(line)] for line in block]
        for batch in self._batches(block, self.width):
            for i, found in zip(batch, self._lists([block[i] for i in batch]), strict=True):
                lists[i] = found
        return lists

    def searches(self, block: Sequence[EncodedLine]) -> Iterator[list[tuple[int, list[Output]]]]:
        """Yield (place in the block, all that one search finds for that line), before strings are ranked.

        Lines come in batches of similar length, so that memory is that of a batch. No search is repeated for a list.
        """
        block = self._wished(block)
        yield [(i, [self._nothing(line)]) for i, line in enumerate(block) if not len(line.ids)]
        for batch in self._batches(block, self.width):
            yield list(zip(batch, self._search([block[i] for i in batch], self.width), strict=True))

    def _wished(self, block: Sequence[EncodedLine]) -> Sequence[EncodedLine]:
        """Return lines that say how long their outputs are to be, where the system heeds it."""
        return block if self.wisher is None else self.wisher.add(block)

    def num_batches(self, block: Sequence[EncodedLine]) -> int:
        """Return how many batches `decode` makes of a block, without those that are searched again for longer lists."""
        return sum(1 for _ in self._batches(block, self.width))

    def _batches(self, lines: Sequence[EncodedLine], width: int) -> Iterator[list[int]]:
        """Yield places of lines of similar length within the budget; those without tokens are left out."""
        lengths = np.array([len(line.ids) for line in lines], dtype=np.int64)
        batch: list[int] = []
        for i in np.argsort(lengths, kind="stable").tolist():
            if not lengths[i]:
                continue
            if batch and (len(batch) + 1) * lengths[i] * width > self.config.batch_tokens:
                yield batch
                batch = []
            batch.append(i)
        if batch:
            yield batch

    def _lists(self, lines: Sequence[EncodedLine]) -> list[list[Output]]:
        """Decode one batch. Each line is searched again, wider, until its own list is full: no other line matters."""
        found = self._search(lines, self.width)
        if self.samples:
            return found
        lists = [rank_strings(outputs, self.config) for outputs in found]
        for width in self.wider:
            short = [i for i, ranked in enumerate(lists) if num_finished(ranked) < self.list_size]
            for batch in self._batches([lines[i] for i in short], width):
                places = [short[j] for j in batch]
                for i, more in zip(places, self._search([lines[i] for i in places], width, distinct=True), strict=True):
                    found[i] = join_searches(found[i], more)
                    lists[i] = rank_strings(found[i], self.config)
        lists = [ranked[: self.list_size] for ranked in lists]
        if self._reranker is not None:
            lists = [self._reranked(line, ranked) for line, ranked in zip(lines, lists, strict=True)]
        return [ranked[: self.n_best] for ranked in lists]

    def _reranked(self, line: EncodedLine, ranked: list[Output]) -> list[Output]:
        """Return a list with those first that keep the most words of the source; unfinished ones stay last."""
        assert self._reranker is not None
        kept = self._reranker.kept_words(line.ids, [self._pieces(output.hypothesis, line) for output in ranked])
        places = sorted(range(len(ranked)), key=lambda i: (not ranked[i].hypothesis.finished, -kept[i]))
        return [ranked[i] for i in places]

    def _search(self, lines: Sequence[EncodedLine], width: int, *, distinct: bool = False) -> list[list[Output]]:
        wishes = [line.wish for line in lines if line.wish is not None]
        source = collate_source([line.ids for line in lines], wishes).to(self.device)
        sentences = [self._sentence(line) for line in lines]
        counter = None if self.hard_length is None else self.hard_length.counter
        with self.runtime.autocast(self.device):
            found = self._searcher.search(source, sentences, width=width, distinct=distinct, counter=counter)
        return [
            [self._output(hypothesis, line) for hypothesis in hypotheses]
            for line, hypotheses in zip(lines, found, strict=True)
        ]

    def _sentence(self, line: EncodedLine) -> Sentence:
        fewest, most = length_limits(len(line.ids), self.config)
        restricted = self.config.restrict_to_bag and self.run.codecs.source_is_bag
        bag = tuple(line.ids) if restricted else None
        given = len(line.canvas.words) if line.canvas is not None else 0  # they come on top of the most
        limit = None
        if self.hard_length is not None:
            limit = self.hard_length.limit(line, lambda hypothesis: self._output(hypothesis, line).text)
        return Sentence(line.number, fewest, most + given, bag, line.canvas, limit)

    def _output(self, hypothesis: Hypothesis, line: EncodedLine) -> Output:
        return Output(hypothesis, self.run.codecs.target.text(self._pieces(hypothesis, line)), line.wish)

    def _pieces(self, hypothesis: Hypothesis, line: EncodedLine) -> list[str]:
        """Return the pieces in surface order."""
        pieces = self.run.codecs.target.vocabulary.decode(hypothesis.trace.tokens())
        if line.canvas is not None and line.canvas.pieces:  # given words are written as they were given
            places = sorted(hypothesis.trace.order()[: len(line.canvas.pieces)])
            for place, piece in zip(places, line.canvas.pieces, strict=True):
                pieces[place] = piece
        return pieces

    def _nothing(self, line: EncodedLine) -> Output:
        """Return what a line without tokens gives: its canvas, if it has one."""
        if line.canvas is None:
            return NOTHING
        closed = replace(line.canvas, open=(False,) * len(line.canvas.open))
        return self._output(Hypothesis(trace_of((), closed), score=0.0, finished=False), line)
