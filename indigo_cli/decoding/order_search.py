"""The best orders of known targets: a beam over partial orders, a whole batch at once (PAPERS.md A4).

Candidates are the indices of the target that are still to come, so equal words stay apart, each with the one slot it
can go to. No step waits for the device; what a sentence gets does not depend on the others of its batch.

Shape letters: S sentences, T words, B hypotheses a sentence (free ones, then the reference), K orders found.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from indigo_cli.models.protocol import Known, KnownDecoder
from indigo_cli.nn.sentence_dropout import SentenceDropout, uniform

DEAD = -1e9
"""Rank of what may not be chosen; finite, so that nothing becomes NaN."""
TIE = 2.0**-12
"""Ranks (nats) that differ by less are taken to be equal."""
STEP_STRIDE, ORDER_STRIDE = 1 << 40, 1 << 20
"""Numbers of the noise from one step to the next and from one hypothesis to the next: longer than any target."""


@dataclass(frozen=True)
class SearchOptions:
    """How hypotheses are ranked.

    Args:
        beam_size: Orders kept.
        slot_weight: Of log p(slot) beside log p(word).
        gumbel: Scale of Gumbel noise on the ranks of each step; it never adds up.
    """

    beam_size: int = 8
    slot_weight: float = 1.0
    gumbel: float = 0.0


@dataclass(frozen=True)
class FoundOrders:
    """The orders of each target, best first; where there was a reference it is the last one.

    Args:
        orders: (S, K, T) int64, indices beyond the target's length in their place.
        word, slot, end: (S, K) float32 sums of log-probabilities under the dropout of the search, nats; `end` is that
            of `<eod>`, 0 where nobody asked for it.
        alive: (S, K) bool: False on what fills up where fewer orders exist (a copy of the best), and on a reference
            that was found anyway.
    """

    orders: Tensor
    word: Tensor
    slot: Tensor
    end: Tensor
    alive: Tensor

    @property
    def score(self) -> Tensor:
        """(S, K) log-probabilities."""
        return self.word + self.slot + self.end


@torch.no_grad()
def search_orders(
    decoder: KnownDecoder,
    memory: Tensor,
    source_mask: Tensor,
    target: Tensor,
    lengths: Tensor,
    options: SearchOptions,
    *,
    dropout: SentenceDropout | None = None,
    keys: Tensor | None = None,
    reference: Tensor | None = None,
    first_piece: Tensor | None = None,
    with_end: bool = False,
) -> FoundOrders:
    """Return the orders of S targets.

    `<eod>` comes when everything stands, at no cost for the search; shorter targets wait for the others at none.

    Args:
        decoder: See `KnownDecoder`.
        memory, source_mask: (S, X, D) encoder's output, (S, X) True = real.
        target: (S, T) ids, padded on the right.
        lengths: (S,) int64.
        options: How hypotheses are ranked.
        dropout: Masks held through the search; None = a clean search.
        keys: (S,) int64 of the Gumbel noise, see `sentence_keys`; needed where there is any.
        reference: (S, T) an order each that is scored along with the others and never dropped.
        first_piece: (S, T) bool, True where a word begins: its pieces are then placed in a row, from left to right.
        with_end: Ask for `<eod>`, too: one step more.
    """
    search = _Search(decoder, target, lengths, options, keys, reference, first_piece)
    state = decoder.start_known(memory, source_mask, target, dropout)
    length = target.shape[1]
    for step in range(length + with_end):
        known = decoder.known(state, search.anchor)
        if with_end:
            search.add_end(known, step)
        if step < length:
            parent, index, anchor = search.choose(known, step)
            if step + 1 < length + with_end:
                state = decoder.advance_known(state, parent, index, anchor)
    return search.found()


class _Search:
    """The hypotheses of a batch. Free ones stand in front, the best first; the reference stands behind them."""

    def __init__(
        self,
        decoder: KnownDecoder,
        target: Tensor,
        lengths: Tensor,
        options: SearchOptions,
        keys: Tensor | None,
        reference: Tensor | None,
        first_piece: Tensor | None,
    ) -> None:
        sentences, length = target.shape
        device = target.device
        self.lengths, self.options, self.keys = lengths, options, keys
        self.reference, self.first_piece = reference, first_piece
        self.index = torch.arange(length, device=device)
        zeros = torch.zeros(sentences, 1, device=device)
        self.rank, self.word, self.slot, self.end = zeros, zeros, zeros, zeros
        self.anchor = torch.zeros(sentences, 1, length, dtype=torch.int64, device=device)
        self.used = torch.zeros(sentences, 1, length, dtype=torch.bool, device=device)
        self.orders = torch.empty(sentences, 1, 0, dtype=torch.int64, device=device)
        self.started = False

    def choose(self, known: Known, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Go on by one word each; return (S, B) parents, indices and anchors."""
        live = (self.lengths > step)[:, None, None]
        word, slot = (torch.where(live, x, 0.0) for x in (known.word, known.slot))
        gain = word + self.options.slot_weight * slot
        parent, index, alive = self._free(gain, live, step)
        if self.reference is not None:
            last = parent.new_full((len(parent), 1), self.used.shape[1] - 1)
            parent = torch.cat((parent, last), dim=1)
            index = torch.cat((index, self.reference[:, step, None]), dim=1)
            alive = torch.cat((alive, torch.ones_like(alive[:, :1])), dim=1)
        self.started = True

        def chosen(of_words: Tensor) -> Tensor:
            """(S, B, T) -> (S, B): what belongs to the chosen words."""
            return of_words.flatten(1).gather(1, parent * len(self.index) + index)

        self.rank = torch.where(alive, self.rank.gather(1, parent) + chosen(gain), DEAD)
        self.word = self.word.gather(1, parent) + chosen(word)
        self.slot = self.slot.gather(1, parent) + chosen(slot)
        self.end = self.end.gather(1, parent)
        anchor = chosen(self.anchor)
        rows = parent[..., None].expand(-1, -1, len(self.index))
        anchors = self.anchor.gather(1, rows)
        right_of_it = (anchors == anchor[..., None]) & (self.index > index[..., None])
        self.anchor = torch.where(right_of_it, step + 1, anchors)
        self.used = self.used.gather(1, rows).scatter(2, index[..., None], True)
        self.orders = torch.cat((self.orders.gather(1, rows[..., :step]), index[..., None]), dim=2)
        return parent, index, anchor

    def _free(self, gain: Tensor, live: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return parents and indices of the best continuations of the free hypotheses, and which of them exist."""
        free = self.used.shape[1] - (self.reference is not None and self.started)
        allowed = ~self.used[:, :free] & (self.index < self.lengths[:, None, None])
        if self.first_piece is not None:
            allowed &= self._whole_words(free, step)
        allowed = torch.where(live, allowed, self.index == step)
        rank = self.rank[:, :free, None] + gain[:, :free]
        if self.options.gumbel:
            rank = rank + self.options.gumbel * self._gumbel(free, step)
        rank = torch.where(allowed & (self.rank[:, :free, None] > DEAD / 2), rank, DEAD).flatten(1)
        width = min(self.options.beam_size, rank.shape[1])
        # A stable sort of rounded ranks: equal words make hypotheses that cost the same but for rounding, of which the
        # first one wins, in whatever batch it stands.
        place = (rank / TIE).round().sort(dim=1, descending=True, stable=True).indices[:, :width]
        return place // len(self.index), place % len(self.index), rank.gather(1, place) > DEAD / 2

    def _whole_words(self, free: int, step: int) -> Tensor:
        """Return (S, free, T) bool: the next piece of a word that was begun, else first pieces only."""
        assert self.first_piece is not None
        if not step:
            return self.first_piece[:, None]
        following = (self.orders[:, :free, -1] + 1).clamp(max=len(self.index) - 1)
        is_piece = (self.orders[:, :free, -1] + 1 < self.lengths[:, None]) & ~self.first_piece.gather(1, following)
        return torch.where(is_piece[..., None], self.index == following[..., None], self.first_piece[:, None])

    def _gumbel(self, free: int, step: int) -> Tensor:
        if self.keys is None:
            raise ValueError("Gumbel noise needs the keys of the sentences")
        order = torch.arange(free, device=self.keys.device)[:, None]
        number = step * STEP_STRIDE + order * ORDER_STRIDE + self.index
        chance = uniform(self.keys[:, None, None], number).clamp(min=2.0**-25)
        return -torch.log(-torch.log(chance))

    def add_end(self, known: Known, step: int) -> None:
        """Take down log p(`<eod>`) where everything stands now."""
        self.end = torch.where((self.lengths == step)[:, None], known.end, self.end)

    def found(self) -> FoundOrders:
        """Return what was found, sorted."""
        alive = self.rank > DEAD / 2
        score = torch.where(alive, self.word + self.slot + self.end, DEAD)
        if self.reference is not None:
            score[:, -1] = 2 * DEAD  # sorted behind all others
        place = score.sort(dim=1, descending=True, stable=True).indices
        alive = alive.gather(1, place)
        place = torch.where(alive, place, place[:, :1])
        orders = self.orders.gather(1, place[..., None].expand(-1, -1, self.orders.shape[2]))
        if self.reference is not None:
            alive[:, -1] = ~((orders[:, :-1] == orders[:, -1:]).all(dim=2) & alive[:, :-1]).any(dim=1)
        word, slot, end = (x.gather(1, place) for x in (self.word, self.slot, self.end))
        return FoundOrders(orders, word, slot, end, alive)
