"""Rules: what hypotheses must not do, as -inf in the scores of words and slots. Traces keep the model's own log-probs.

Shape letters: S sentences, B hypotheses a sentence, V words of the softmax, C candidates, A slots, P = S * B places,
L words placed, W windows of a string, U different words of a bag (`<eod>` first, padded with it).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from indigo_cli.core.vocab import EOD, FIRST_WORD, UNK
from indigo_cli.decoding.canvas import of_parents
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.given import keep_gaps_closed, keep_slots_closed
from indigo_cli.decoding.places import Places, Sentence
from indigo_cli.decoding.room import Room
from indigo_cli.models.protocol import SerialDecoder, WordScores

WordRule = Callable[[Tensor, Places], None]
"""Writes -inf into the (S, B, V) logits of banned words."""
SlotRule = Callable[[Tensor, Places, Tensor, Tensor], None]
"""Writes -inf into the (S, C, A) log-probs of banned slots of candidates: their (S, C) parents and words."""


@dataclass(frozen=True)
class Rules:
    """The rules of a search; `need_canvas` if one of them reads it. `room` also sees the scores before them all."""

    words: tuple[WordRule, ...] = ()
    slots: tuple[SlotRule, ...] = ()
    need_canvas: bool = False
    room: Room | None = None

    def score_words(self, decoder: SerialDecoder, state: Any, places: Places) -> WordScores:
        """Ask for the scores of the next words, and ban."""
        scores = decoder.words(state)
        if self.room is not None:
            self.room.look(decoder, state, scores, places)
        for rule in self.words:
            rule(scores.logits, places)
        return scores


def make_rules(
    config: DecodeConfig, sentences: Sequence[Sentence], device: torch.device, *, room: Room | None = None
) -> Rules:
    """Return the rules that can ban anything; `room` where lengths have a hard limit."""
    words: list[WordRule] = []
    slots: list[SlotRule] = []
    restricted = config.restrict_to_bag and any(sentence.bag is not None for sentence in sentences)
    if restricted:  # `<unk>` may stand in a bag, so the bag decides
        words.append(RestrictToBag(sentences, device))
    elif config.ban_unk:
        words.append(ban_unk)
    if any(sentence.min_length for sentence in sentences):
        words.append(MinLength(sentences, device))
    if any(sentence.canvas is not None and sentence.canvas.words for sentence in sentences):
        words.append(keep_gaps_closed)
        slots.append(keep_slots_closed)
    if config.block_ngrams:
        block = BlockNgrams(config.block_ngrams)
        words.append(block.words)
        slots.append(block.slots)
    if room is not None:
        words.append(room.words)
        slots.append(room.slots)
    need_canvas = restricted or config.block_ngrams > 0 or room is not None
    return Rules(tuple(words), tuple(slots), need_canvas, room)


def ban_unk(logits: Tensor, places: Places) -> None:
    """Never write `<unk>`."""
    logits[..., UNK - FIRST_WORD] = -torch.inf


class MinLength:
    """No `<eod>` before a sentence has its fewest words, if any may come."""

    def __init__(self, sentences: Sequence[Sentence], device: torch.device) -> None:
        fewest = [0 if _is_closed(sentence) else sentence.min_length for sentence in sentences]
        self.longest = max(fewest)
        self.fewest = torch.tensor(fewest, device=device)

    def __call__(self, logits: Tensor, places: Places) -> None:
        if places.length < self.longest:
            short = self.fewest[places.rows] > places.length
            logits[..., EOD - FIRST_WORD].masked_fill_(short[:, None], -torch.inf)


class RestrictToBag:
    """Only words that are left in the bag, each as often as it is in there; `<eod>` only when it is empty."""

    def __init__(self, sentences: Sequence[Sentence], device: torch.device) -> None:
        counts = []
        for i, sentence in enumerate(sentences):
            if sentence.bag is None:
                raise ValueError(f"all sentences of a batch have a bag or none has; sentence {i} has none")
            counts.append({EOD: 0, **Counter(sentence.bag)})
        longest = max(map(len, counts))
        self.words = torch.tensor([[*count, *[EOD] * (longest - len(count))] for count in counts], device=device)
        self.counts = torch.tensor(
            [[*count.values(), *[0] * (longest - len(count))] for count in counts], device=device
        )

    def __call__(self, logits: Tensor, places: Places) -> None:
        assert places.canvas is not None
        words = self.words[places.rows][:, None]  # (S, 1, U)
        used = (places.canvas.words[..., None] == words[:, :, None]).sum(2)
        left = (self.counts[places.rows][:, None] - used).clamp(min=0)  # more may be given than are in the bag
        allowed = torch.where(words == EOD, left.sum(2, keepdim=True) == 0, left > 0)
        column = words.expand_as(left) - FIRST_WORD
        kept = torch.where(allowed, logits.gather(2, column), -torch.inf)
        logits.fill_(-torch.inf).scatter_(2, column, kept)


class BlockNgrams:
    """No run of `size` words twice in the surface string, wherever the last word of the second one goes in.

    A word whose every slot is banned is banned as a word. Both rules of a step read one table.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.banned = torch.empty(0)

    def words(self, logits: Tensor, places: Places) -> None:
        """See `WordRule`."""
        assert places.canvas is not None
        surface = places.canvas.surface
        first = first_equal(surface)
        banned = repeats(first.flatten(0, 1), self.size, append_only=places.append_only)
        self.banned = banned.unflatten(0, surface.shape[:2])
        if places.length:
            nowhere = self._nowhere(surface, places).gather(2, first)
            column = (surface - FIRST_WORD).clamp(min=0)  # PAD of what ended: never mind
            logits.scatter_(2, column, torch.where(nowhere, -torch.inf, logits.gather(2, column)))

    def _nowhere(self, surface: Tensor, places: Places) -> Tensor:
        """Return (S, B, L or L + 1) bool: the word of each index has no slot, those that a canvas closes left out."""
        if places.gaps is None:
            return self.banned.all(dim=2)
        assert places.canvas is not None
        beam, length = surface.shape[1:]
        parent = torch.arange(beam, device=surface.device).repeat_interleave(length).expand(len(surface), -1)
        blocked = places.gaps.blocked(parent, surface.flatten(1)).unflatten(1, (beam, length))
        number = places.canvas.slot_of_anchor[:, :, None].expand_as(blocked)
        nowhere: Tensor = (self.banned[..., :length].transpose(2, 3).gather(3, number) | blocked).all(dim=3)
        return nowhere

    def slots(self, slots: Tensor, places: Places, parent: Tensor, word: Tensor) -> None:
        """See `SlotRule`."""
        assert places.canvas is not None
        if not places.length:
            return
        seen = of_parents(places.canvas.surface, parent) == word[..., None]
        index = torch.where(seen.any(dim=2), seen.byte().argmax(dim=2), places.length)
        sentence = torch.arange(len(slots), device=slots.device)[:, None]
        by_number = self.banned[sentence, parent, :, index]
        slots.masked_fill_(by_number.gather(2, of_parents(places.canvas.slot_of_anchor, parent)), -torch.inf)


def _is_closed(sentence: Sentence) -> bool:
    return sentence.canvas is not None and not any(sentence.canvas.open)


def first_equal(words: Tensor) -> Tensor:
    """Return (..., L): the index of the first word that is the same."""
    same = words[..., None] == words[..., None, :]
    return same.byte().argmax(dim=-1) if words.shape[-1] else torch.zeros_like(words)


def repeats(first_PL: Tensor, size: int, *, append_only: bool) -> Tensor:
    """Return (P, A, L + 1) bool: would the word of index l, put into slot a, make a run of `size` words stand twice?

    Every run that does not hold the new word stood before, once: so each of the up to `size` runs that hold it is
    compared with all others. It fits another run only as a word that stands already, so index L, any other word, is
    never banned.

    Args:
        first_PL: Surface strings, each word as the index of the first that is the same; the table has these indices.
        size: Of the runs.
        append_only: Slot L is the only one (A = 1, not L + 1).
    """
    length = first_PL.shape[1]
    windows = length + 2 - size  # of a string with one more word
    device = first_PL.device
    slot = torch.arange(length if append_only else 0, length + 1, device=device)[:, None]  # (A, 1)
    table = torch.zeros(len(first_PL), len(slot), length + 1, dtype=torch.bool, device=device)
    if windows < 2:
        return table
    other = torch.arange(windows, device=device)[None]  # (1, W)
    words = first_PL.int()

    def word_at(index: Tensor) -> Tensor:
        """Return (P, ...) the words at these places of the string with the new word in it, which has none itself."""
        return words[:, (index - (index > slot).long()).clamp(0, length - 1)]

    for hole in range(size):
        window = slot - hole  # (A, 1): in it the new word comes after `hole` others
        wanted = word_at(other + hole)  # (P, A, W): it would have to be this
        same = ((window >= 0) & (window < windows) & (other != window)).expand_as(wanted)
        for i in range(size):
            if i != hole:
                there = torch.where(other + i == slot, wanted, word_at(other + i))
                same = same & (word_at(window + i) == there)
        table.scatter_(2, torch.where(same, wanted, length).long(), True)
    table[..., length] = False
    return table
