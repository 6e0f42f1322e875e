"""Decoding in rounds where every insertion changes the positions of others: all states are made anew in each round.

Shape letters: S sentences, B hypotheses a sentence, P = S * B places, G open slots (the most of any), L words (the most
of any).
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from indigo_cli.core.vocab import BOS, EOD, EOS, PAD
from indigo_cli.data.batch import Source
from indigo_cli.models.insertion_kept import score_slots, true_first
from indigo_cli.models.protocol import Canvas, SlotScores
from indigo_cli.models.serial import places, places_of
from indigo_cli.nn.positions.budget import Spending, with_told
from indigo_cli.nn.rounds import RoundState, append_rows, start_rounds

if TYPE_CHECKING:
    from indigo_cli.models.insertion import Insertion


@dataclass
class AnewState:
    """Words and open slots of every hypothesis.

    Args:
        rounds: What attention keeps of the sources.
        words_PL: Words of the canvas, PAD on the right.
        lengths_P: How many.
        gap_PG: Open gaps, from left to right; gap g is left of word g.
        open_PG: False on padding, which comes last.
        spending: Of a system that counts lengths.
    """

    rounds: RoundState
    words_PL: Tensor
    lengths_P: Tensor
    gap_PG: Tensor
    open_PG: Tensor
    spending: Spending | None = None


class AnewRounds:
    """See `ParallelDecoder`.

    Args:
        system: Whose positions are not reusable.
    """

    def __init__(self, system: "Insertion") -> None:
        self.system = system

    def start(self, source: Source, canvas: Canvas | None = None) -> AnewState:
        """See `ParallelDecoder`."""
        rounds = start_rounds(self.system.decoder, self.system.encode(source), source.mask, own=0)
        num, like = len(source.values), source.values
        spending = None if self.system.budget is None else self.system.budget.start(source.wish)
        if canvas is None:
            nothing, gap = like.new_zeros(num, 0), like.new_zeros(num, 1)
            opened = torch.ones_like(gap, dtype=torch.bool)
            return AnewState(rounds, nothing, like.new_zeros(num), gap, opened, spending)
        length, most = int(canvas.lengths.max()), int(canvas.open.sum(dim=1).max())
        gap = true_first(canvas.open, most)
        words, spending = canvas.words[:, :length], spending and spending.spend(canvas.words)
        return AnewState(rounds, words, canvas.lengths, gap, canvas.open.gather(1, gap), spending)

    def slots(self, state: AnewState) -> SlotScores:
        """See `ParallelDecoder`."""
        num, length = state.words_PL.shape
        rows = functional.pad(functional.pad(state.words_PL, (1, 0), value=BOS), (0, 1), value=PAD)
        rows = rows.scatter(1, state.lengths_P[:, None] + 1, EOS)
        cache = state.rounds.cache
        cache.clear(num)
        row = cache.grow(state.lengths_P + 2, length + 2, length + 2)
        codes = self.system.positions.first_codes(length + 2, rows.device)
        told = state.spending.told() if state.spending else None
        embedded = self.system.embeddings.embed_target(rows, with_told(codes, told))
        sides = self.system.sides_of(append_rows(self.system.decoder, embedded, state.rounds, row))
        to_right, to_left = sides.chunk(2, dim=2)
        features = to_right[:, :-1] + to_left[:, 1:]
        standing = torch.arange(length + 1, device=rows.device) <= state.lengths_P[:, None]
        features = self.system.biased(features, standing)
        features = features.gather(1, state.gap_PG[..., None].expand(-1, -1, features.shape[2]))
        return score_slots(self.system, features, state.open_PG, state.rounds.sentences)

    def insert(self, state: AnewState, parent_SB: Tensor, word_SBG: Tensor) -> AnewState:
        """See `ParallelDecoder`."""
        place, moved = places(parent_SB, len(state.open_PG))
        words, lengths, gap, opened = state.words_PL, state.lengths_P, state.gap_PG, state.open_PG
        spending = state.spending
        if moved:
            spending = spending and spending.choose(place)
            words, lengths, gap, opened = words[place], lengths[place], gap[place], opened[place]
        word = word_SBG.flatten(0, 1)
        filled = opened & (word != EOD) & (word != PAD)
        waits = opened & (word == PAD)
        count = filled.sum(dim=1)
        before = filled.cumsum(dim=1) - filled.long()  # new words left of each open gap
        kept = torch.stack((filled | waits, filled), dim=2).flatten(1)
        most, length = torch.stack((kept.sum(dim=1).max(), (lengths + count).max())).tolist()
        # Old words move right by the new ones in gaps left of them; places behind the end take what is padding.
        old = torch.arange(words.shape[1], device=words.device)
        moved_by = ((gap[:, :, None] <= old) & filled[..., None]).sum(dim=1)
        behind = words.shape[1] + gap.shape[1]
        room = words.new_full((len(words), behind + 1), PAD)
        room.scatter_(1, torch.where(old < lengths[:, None], old + moved_by, behind), words)
        room.scatter_(1, torch.where(filled, gap + before, behind), word)
        new_gap = torch.stack((gap + before, gap + before + 1), dim=2).flatten(1)
        first = true_first(kept, most)
        gap = new_gap.gather(1, first).clamp(max=length)  # padding may lie behind the last gap that anybody has
        spending = spending and spending.spend(word.masked_fill(~filled, PAD))
        return AnewState(state.rounds, room[:, :length], lengths + count, gap, kept.gather(1, first), spending)

    def keep(self, state: AnewState, sentence_index: Tensor) -> AnewState:
        """See `ParallelDecoder`."""
        place = places_of(sentence_index, len(state.open_PG) // state.rounds.sentences)
        state.rounds.cache.clear(len(state.open_PG))
        lengths = state.lengths_P[place]
        length = int(lengths.max())  # one hypothesis alone is not masked: it must not have the padding of a longer one
        return replace(
            state,
            rounds=state.rounds.keep(sentence_index, place),
            words_PL=state.words_PL[place, :length],
            lengths_P=lengths,
            gap_PG=state.gap_PG[place].clamp(max=length),
            open_PG=state.open_PG[place],
            spending=state.spending and state.spending.choose(place),
        )
