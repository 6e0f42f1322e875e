"""Decoding in rounds where the states of words are kept: only new words go through the decoder.

Shape letters: S sentences, B hypotheses a sentence, P = S * B places, G open slots (the most of any), n new words of a
round (the most of any), R rows (the most of any) in the order they came (`<s>`, `</s>`, words), L words of a canvas, V
words of the softmax, D width.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from indigo_cli.core.vocab import BOS, EOD, EOS, PAD
from indigo_cli.data.batch import Source
from indigo_cli.models.protocol import Canvas, SlotScores
from indigo_cli.models.serial import places, places_of
from indigo_cli.nn.positions.budget import Spending, with_told
from indigo_cli.nn.rounds import RoundState, append_rows, start_rounds
from indigo_cli.orders.balanced_tree import ranks

if TYPE_CHECKING:
    from indigo_cli.models.insertion import Insertion


@dataclass
class KeptState:
    """Rows and open slots of every hypothesis.

    Args:
        rounds: Keys and values, and of each row its position code, if it has one, and what it adds to slots.
        rank_PR: Present place of each row on the canvas, 0 = `<s>`.
        left_PG, right_PG: Rows around the open slots, from left to right.
        open_PG: False on padding, which comes last.
        spending: Of a system that counts lengths.
    """

    rounds: RoundState
    rank_PR: Tensor
    left_PG: Tensor
    right_PG: Tensor
    open_PG: Tensor
    spending: Spending | None = None


class KeptRounds:
    """See `ParallelDecoder`.

    Args:
        system: Whose positions are reusable.
    """

    def __init__(self, system: "Insertion") -> None:
        self.system = system
        self.model_dim = system.embeddings.model_dim
        self.code_dim = 0 if system.positions.first_codes() is None else self.model_dim

    def start(self, source: Source, canvas: Canvas | None = None) -> KeptState:
        """See `ParallelDecoder`. The words of a canvas come as a balanced tree inserts them: they need a history."""
        memory = self.system.encode(source)
        own = self.code_dim + 2 * self.model_dim
        rounds = start_rounds(self.system.decoder, memory, source.mask, own=own)
        ends = source.values.new_tensor([BOS, EOS]).expand(len(memory), 2)
        rank = source.values.new_tensor([0, 1]).expand(len(memory), 2)
        row = rounds.cache.grow(rank.new_full((len(memory),), 2), 2, 2)
        codes = self.system.positions.first_codes()
        budget = self.system.budget
        spending = None if budget is None else budget.start(source.wish)
        codes = None if codes is None else codes.expand(len(memory), -1, -1)
        self._append(rounds, ends, row, rank, rank, codes, spending)
        slot = rank[:, :1]
        state = KeptState(rounds, rank, slot, slot + 1, torch.ones_like(slot, dtype=torch.bool), spending)
        return state if canvas is None else self._on_canvas(state, canvas)

    def _on_canvas(self, state: KeptState, canvas: Canvas) -> KeptState:
        """Insert the words of canvases, and open their gaps.

        All of them are told what is left when they all stand: a slot between two must not think that it has more.
        """
        words = functional.pad(canvas.words, (0, 1), value=PAD)
        parent, index = torch.zeros_like(canvas.lengths)[:, None], torch.arange(words.shape[1], device=words.device)
        step = [functional.pad(torch.from_numpy(ranks(n)), (0, len(index) - n)) for n in canvas.lengths.tolist()]
        step_PL = torch.stack(step).to(words.device)
        low, high = torch.zeros_like(state.left_PG), canvas.lengths[:, None]  # the span of words of each open slot
        while state.open_PG.any():
            inside = (low[..., None] <= index) & (index < high[..., None])
            first = torch.where(inside, step_PL[:, None], len(index)).argmin(dim=2)
            filled = state.open_PG & (low < high)
            word = torch.where(filled, words.gather(1, first), EOD)
            spending = state.spending and state.spending.before(canvas.words, word)
            state = self.insert(replace(state, spending=spending), parent, word[:, None])
            slot = true_first(filled, state.open_PG.shape[1] // 2)
            low, first, high = low.gather(1, slot), first.gather(1, slot), high.gather(1, slot)
            low, high = torch.stack((low, first + 1), dim=2).flatten(1), torch.stack((first, high), dim=2).flatten(1)
        lengths, num_rows = state.rounds.cache.lengths_P, state.rank_PR.shape[1]
        real = torch.arange(num_rows, device=lengths.device) < lengths[:, None]
        row_at = torch.where(real, state.rank_PR, num_rows).argsort(dim=1)  # (P, R): the row at each place
        opened = canvas.open[:, : num_rows - 1]
        gap = true_first(opened, int(opened.sum(dim=1).max()))
        left, right = row_at.gather(1, gap), row_at.gather(1, gap + 1)
        return replace(state, left_PG=left, right_PG=right, open_PG=opened.gather(1, gap))

    def slots(self, state: KeptState) -> SlotScores:
        """See `ParallelDecoder`."""
        cache, code_dim, middle = state.rounds.cache, self.code_dim, self.code_dim + self.model_dim
        features = cache.own(state.left_PG, slice(code_dim, middle)) + cache.own(state.right_PG, slice(middle, None))
        features = self.system.biased(features, state.open_PG)
        return score_slots(self.system, features, state.open_PG, state.rounds.sentences)

    def insert(self, state: KeptState, parent_SB: Tensor, word_SBG: Tensor) -> KeptState:
        """See `ParallelDecoder`."""
        place, moved = places(parent_SB, len(state.open_PG))
        rounds, rank, left, right, opened = state.rounds, state.rank_PR, state.left_PG, state.right_PG, state.open_PG
        spending = state.spending
        if moved:
            spending = spending and spending.choose(place)
            rounds.cache.choose(place)
            rank, left, right, opened = rank[place], left[place], right[place], opened[place]
        word = word_SBG.flatten(0, 1)
        filled = opened & (word != EOD) & (word != PAD)
        count = filled.sum(dim=1)
        most, num_rows = torch.stack((count.max(), (rounds.cache.lengths_P + count).max())).tolist()
        slot = true_first(filled, most)
        word, left, right = word.gather(1, slot), left.gather(1, slot), right.gather(1, slot)
        opened = torch.arange(most, device=slot.device) < count[:, None]
        if not most:
            return KeptState(rounds, rank, left, right, opened, spending)
        row = rounds.cache.grow(count, most, num_rows)
        at = rank.gather(1, left)
        pushed = ((at[:, :, None] < rank[:, None]) & opened[..., None]).sum(dim=1)
        new_rank = at + 1 + torch.arange(most, device=slot.device)
        room = rank.new_zeros(len(rank), int(state.rank_PR.shape[1]) + most)
        room[:, : rank.shape[1]] = rank + pushed
        rank = room.scatter_(1, row, new_rank)[:, :num_rows]
        codes = None
        if self.code_dim:
            around = (rounds.cache.own(side, slice(0, self.code_dim)) for side in (left, right))
            codes = self.system.positions.code_between(*around)
        spending = spending and spending.spend(word.masked_fill(~opened, PAD))
        self._append(rounds, word, row, new_rank, rank, codes, spending)
        # Padding may name rows behind the last one that anybody has: it is looked up like the rest.
        left, right = (
            torch.stack(sides, dim=2).flatten(1).clamp(max=num_rows - 1) for sides in ((left, row), (row, right))
        )
        return KeptState(rounds, rank, left, right, opened.repeat_interleave(2, dim=1), spending)

    def _append(
        self,
        rounds: RoundState,
        word_Pn: Tensor,
        row_Pn: Tensor,
        new_rank_Pn: Tensor,
        rank_PR: Tensor,
        codes_PnD: Tensor | None,
        spending: Spending | None,
    ) -> None:
        """Run new rows through the decoder and keep what slots need of them: not what lengths they were told."""
        told = spending.told() if spending else None
        embedded = self.system.embeddings.embed_target(word_Pn, with_told(codes_PnD, told))
        left = self.system.positions.new_left(new_rank_Pn, rank_PR)
        sides = self.system.sides_of(append_rows(self.system.decoder, embedded, rounds, row_Pn, left_PnR=left))
        own = sides if codes_PnD is None else torch.cat((codes_PnD, sides.to(codes_PnD.dtype)), dim=2)
        rounds.cache.write_own(own)

    def keep(self, state: KeptState, sentence_index: Tensor) -> KeptState:
        """See `ParallelDecoder`."""
        place = places_of(sentence_index, len(state.open_PG) // state.rounds.sentences)
        return KeptState(
            state.rounds.keep(sentence_index, place),
            state.rank_PR[place],
            state.left_PG[place],
            state.right_PG[place],
            state.open_PG[place],
            state.spending and state.spending.choose(place),
        )


def true_first(marked_PG: Tensor, count: int) -> Tensor:
    """Return (P, count) the places of what is marked, from left to right, and behind them others."""
    return (~marked_PG).to(torch.uint8).argsort(dim=1, stable=True)[:, :count]


def score_slots(system: "Insertion", features_PGD: Tensor, open_PG: Tensor, sentences: int) -> SlotScores:
    """Score the open slots of each place."""
    num, width = open_PG.shape
    index = open_PG.flatten().nonzero()[:, 0]
    features, size = features_PGD.flatten(0, 1)[index], len(system.embeddings.words)
    logits, log_z = system.embeddings.scores(features)
    if len(index) < num * width:
        logits = logits.new_zeros(num * width, size).index_copy_(0, index, logits)
        log_z = log_z.new_zeros(num * width).index_copy_(0, index, log_z)
    shape = (sentences, num // sentences, width)
    slots = None
    if system.chooses_slots:
        score = log_z
        if system.slot_query is not None:
            own = system.slot_query(features)[:, 0].float()
            score = own.new_zeros(num * width).index_copy_(0, index, own)
        slots = score.view(num, width).masked_fill(~open_PG, -torch.inf).log_softmax(dim=1).view(shape)
    return SlotScores(logits.view(*shape, size), log_z.view(shape), open_PG.view(shape), slots)
