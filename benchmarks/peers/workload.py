"""What every system is given: one configuration, made-up sentences, batches. Plain Python: peers have other libraries.

Words are numbers 0 .. NUM_WORDS - 1, the most frequent first; each system adds special symbols of its own.
"""

import itertools
import random

VOCABULARY = 4776
"""Rows of every embedding."""
NUM_WORDS = VOCABULARY - 5
"""What is left beside the special symbols of the system that has most."""
MODEL_DIM, FF_DIM, HEADS, LAYERS, DROPOUT = 256, 1024, 4, 3, 0.1
LEARNING_RATE, CLIP_NORM, SMOOTHING = 5e-4, 1.0, 0.1
BATCH_TOKENS = 2048
"""Of a training batch: sentences times the longest of both sides, `</s>` counted."""

SENTENCES = {"train": 600, "greedy": 128, "beam": 64}
"""Of one round of each task: a few seconds of CPU time."""
BEAM_SIZE = 5
LENGTH = 14
"""Words of every output: forced, since what an untrained model says has no natural end."""
BATCH_SENTENCES = 32

Pair = tuple[list[int], list[int]]


def sentence_pairs(count: int) -> list[Pair]:
    """Return made-up sentences and "translations": Zipf-like words, 4 to 30 of them, neighbours swapped here and there.

    A word is translated by its own number; where one with an odd number comes first, it goes behind the next.
    """
    draw = random.Random(count)
    weights = list(itertools.accumulate(1.0 / (rank + 8) for rank in range(NUM_WORDS)))
    pairs = []
    for _ in range(count):
        length = min(30, max(4, round(draw.gauss(13.0, 4.0))))
        source = draw.choices(range(NUM_WORDS), cum_weights=weights, k=length)
        target = list(source)
        at = 0
        while at < length - 1:
            if target[at] % 2:
                target[at], target[at + 1] = target[at + 1], target[at]
                at += 1
            at += 1
        pairs.append((source, target))
    return pairs


def training_batches() -> list[list[Pair]]:
    """Return pairs in batches of similar length, in random but fixed order."""
    batches: list[list[Pair]] = [[]]
    for pair in sorted(sentence_pairs(SENTENCES["train"]), key=lambda pair: (len(pair[1]), len(pair[0]))):
        longest = 1 + max(len(side) for other in (*batches[-1], pair) for side in other)
        if batches[-1] and longest * (len(batches[-1]) + 1) > BATCH_TOKENS:
            batches.append([])
        batches[-1].append(pair)
    random.Random(0).shuffle(batches)
    return batches


def source_batches(task: str) -> list[list[list[int]]]:
    """Return the sources to be decoded, longest first, in batches."""
    sources = sorted((source for source, _ in sentence_pairs(SENTENCES[task])), key=len, reverse=True)
    return [sources[first : first + BATCH_SENTENCES] for first in range(0, len(sources), BATCH_SENTENCES)]


def units(task: str) -> int:
    """Return what a rate counts: target tokens with `</s>` in training, else sentences."""
    if task != "train":
        return SENTENCES[task]
    return sum(len(target) + 1 for _, target in sentence_pairs(SENTENCES["train"]))
