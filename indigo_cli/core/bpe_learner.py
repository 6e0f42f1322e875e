"""Learning byte pair encoding: exactly subword-nmt's merges, ties included, in a small part of its time.

Each symbol is one character of a private alphabet, so a word is a short `str`, a pair is a `str` of two, and a merge in
a word is `str.split` and `str.join`, which find what stands from the left as BPE does. A merge looks at the words of
its pair alone and, in them, at the neighbours of the merged places alone.

A symbol's text tells how it was built (nothing from outside may reach into it while it grows), so no later merge makes
an older symbol again, the count of a pair never rises, and a pair that occurs once can be forgotten. The one exception
is text that itself holds `</w>`: what it spells may equal a last symbol, as in subword-nmt; then every pair is kept.

Source: Sennrich, Haddow & Birch 2016 (ACL); ties as in subword-nmt 0.3.8.
"""

import heapq
from array import array
from bisect import insort
from collections import defaultdict
from collections.abc import Mapping
from operator import add

from indigo_cli.errors import UsageError

END_OF_WORD = "</w>"
MAX_MERGES = 1_000_000
"""A symbol is one of the 1,114,112 characters that a `str` can hold, and the text has some of its own."""
FIRST_SHARE = 1000
"""The first threshold is the tokens of the text divided by this."""
THRESHOLD_STEP = 16
"""A threshold is the one before it divided by this."""


def learn_pairs(word_counts: Mapping[str, int], merges: int) -> list[tuple[str, str]]:
    """Return the merges in the order in which they are learnt, fewer than asked for when no pair occurs twice any more.

    Among pairs of one count the last by code points comes first, so the merges depend on the counts alone. Memory
    beside `word_counts`: see `WordTable`.

    Raises:
        UsageError: more merges than there can be symbols.
    """
    if merges > MAX_MERGES:
        raise UsageError(f"{merges:,} merges are too many", where="preprocess.merges", fix=f"at most {MAX_MERGES:,}")
    table = WordTable(word_counts)
    learnt: list[tuple[str, str]] = []
    while len(learnt) < merges and (pair := table.pop()) is not None:
        learnt.append(table.texts(pair))
        table.merge(pair)
    return learnt


class WordTable:
    """The word types as symbols, how often each pair of neighbours occurs in them, and in which.

    Only pairs above a threshold are followed, a small share of all; when none of them is left the threshold falls and
    the pairs are counted anew, which a short pass over the types does (they have fewer symbols by then).

    A type of C characters takes about 110 + 8 C bytes: its `str`, its count, and four bytes for each of its pairs. A
    pair that is followed takes about 350; there are as many as stand above the threshold.
    """

    def __init__(self, word_counts: Mapping[str, int]) -> None:
        self._texts: list[str] = []  # of each symbol, by its code point
        self._symbols: dict[str, str] = {}
        self._words: list[str] = []
        self._word_counts = array("q")
        self._pair_counts: dict[str, int] = {}
        self._words_with: dict[str, array[int]] = {}  # may hold words that lost the pair since, or words twice
        # Pairs wait by count, those of the highest one sorted; that a count fell is noticed when its turn comes.
        self._waiting: dict[int, list[str]] = {}
        self._heap: list[int] = []  # the negative counts in `_waiting`
        self._sorted = 0
        for word, count in word_counts.items():
            if len(word) > 1:
                last = self._symbol(word[-1] + END_OF_WORD)
                self._words.append("".join([*map(self._symbol, word[:-1]), last]))
                self._word_counts.append(count)
        literal = any(END_OF_WORD in word for word in word_counts)
        self._threshold = 1 if literal else max(2, sum(self._word_counts) // FIRST_SHARE)
        self._count_pairs()

    def _count_pairs(self) -> None:
        """Find the pairs that reach the threshold, and their words.

        Pairs that share a slot of a table are counted together first: a slot below the threshold holds no such pair,
        and most pairs are spared an entry of their own.
        """
        slots = array("q", bytes(8 << len(self._words).bit_length() + 2))
        mask = len(slots) - 1
        for symbols, count in zip(self._words, self._word_counts, strict=True):
            for pair in map(add, symbols, symbols[1:]):
                slots[hash(pair) & mask] += count
        words_with: defaultdict[str, array[int]] = defaultdict(_no_words)
        for word, symbols in enumerate(self._words):
            for pair in map(add, symbols, symbols[1:]):
                if slots[hash(pair) & mask] >= self._threshold:
                    words_with[pair].append(word)
        self._sorted = 0
        for pair in list(words_with):
            self._add(pair, words_with.pop(pair))

    def _symbol(self, text: str) -> str:
        """Return the symbol of a text, a new one if it is met for the first time."""
        symbol = self._symbols.get(text)
        if symbol is None:
            symbol = self._symbols[text] = chr(len(self._texts))
            self._texts.append(text)
        return symbol

    def texts(self, pair: str) -> tuple[str, str]:
        """Return what the two symbols of a pair spell."""
        return self._texts[ord(pair[0])], self._texts[ord(pair[1])]

    def pop(self) -> str | None:
        """Return the best pair; None if no pair occurs twice."""
        while self._heap or self._lower_threshold():
            most = -self._heap[0]
            if most < 2:
                return None
            waiting = self._waiting[most]
            if self._sorted != most:
                waiting.sort(key=self.texts)
                self._sorted = most
            while waiting:
                pair = waiting.pop()
                count = self._pair_counts.get(pair, 0)
                if count == most:
                    return pair
                if 0 < count < most:  # had it risen, it would have come before
                    self._wait(pair, count)
            heapq.heappop(self._heap)
            del self._waiting[most]
        return None

    def _lower_threshold(self) -> bool:
        """Follow rarer pairs; tell whether there are any."""
        while self._threshold > 2 and not self._heap:
            self._threshold = max(2, self._threshold // THRESHOLD_STEP)
            self._count_pairs()
        return bool(self._heap)

    def _wait(self, pair: str, count: int) -> None:
        if count not in self._waiting:
            self._waiting[count] = []
            heapq.heappush(self._heap, -count)
        if count == self._sorted:
            insort(self._waiting[count], pair, key=self.texts)
        else:
            self._waiting[count].append(pair)

    def merge(self, pair: str) -> None:
        """Make the pair one symbol in every word."""
        left, right = pair[0], pair[1]
        merged = self._symbol("".join(self.texts(pair)))
        before: defaultdict[str, array[int]] = defaultdict(_no_words)  # symbols left of a merged place: words
        behind: defaultdict[str, array[int]] = defaultdict(_no_words)
        twins = _no_words()  # words in which two merged places touch
        words = self._words
        del self._pair_counts[pair]
        done = -1
        for word in self._words_with.pop(pair):
            if word == done:  # an entry for each place; all places of a long word were merged at the first
                continue
            done = word
            parts = words[word].split(pair)
            if len(parts) == 1:
                continue
            words[word] = merged.join(parts)
            if parts[0]:
                before[parts[0][-1]].append(word)
            for part in parts[1:-1]:
                if part:
                    behind[part[0]].append(word)
                    before[part[-1]].append(word)
                else:
                    twins.append(word)
            if parts[-1]:
                behind[parts[-1][0]].append(word)
        for symbol, where in before.items():
            self._lose(symbol + left, self._add(symbol + merged, where))
        for symbol, where in behind.items():
            self._lose(right + symbol, self._add(merged + symbol, where))
        if twins:
            self._lose(right + left, self._add(merged + merged, twins))

    def _add(self, pair: str, where: "array[int]") -> int:
        """Note that a pair came up in these words, one entry for each place; return how often that is in the text."""
        added = sum(map(self._word_counts.__getitem__, where))
        count = self._pair_counts.get(pair, 0) + added
        if count >= self._threshold:
            self._pair_counts[pair] = count
            if pair in self._words_with:
                self._words_with[pair].extend(where)
            else:
                self._words_with[pair] = where
            self._wait(pair, count)
        return added

    def _lose(self, pair: str, lost: int) -> None:
        """Note that a pair occurs less often than it did; one that is forgotten stays so."""
        count = self._pair_counts.get(pair, 0) - lost
        if count >= self._threshold:
            self._pair_counts[pair] = count
        elif self._pair_counts.pop(pair, 0):
            del self._words_with[pair]


def _no_words() -> "array[int]":
    return array("i")
