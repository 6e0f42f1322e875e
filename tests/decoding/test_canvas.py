"""Surface strings of hypotheses that change places, grow and end, against lists; and keys of strings never built."""

import random

import torch
from torch import Tensor

from indigo_cli.core.vocab import EOD, PAD
from indigo_cli.decoding.canvas import FACTORS, Canvas, scrambled
from indigo_cli.decoding.places import CARRIED

CPU = torch.device("cpu")
Row = list[tuple[list[int], list[int]]]
"""Of every hypothesis: generation index (from 1) and word of each token, from left to right."""


def grow(
    choose: random.Random, *, steps: int, beam: int
) -> tuple[Canvas, list[list[list[int]]], list[list[list[int]]]]:
    """Return a canvas of two sentences after random steps, and its strings and generation indices by lists."""
    canvas = Canvas.start(2, CPU)
    strings: list[list[list[int]]] = [[[]], [[]]]
    indices: list[list[list[int]]] = [[[]], [[]]]
    ended = [[False], [False]]
    for step in range(steps):
        parents, words, anchors = [], [], []
        for i in range(2):
            parents.append([choose.randrange(len(strings[i])) for _ in range(beam)])
            words.append([choose.choice([5, 6, 7, 7, EOD]) if not ended[i][p] else CARRIED for p in parents[i]])
            anchors.append([choose.randint(0, step) if w > EOD else 0 for w in words[i]])
            new_strings, new_indices = [], []
            for p, w, a in zip(parents[i], words[i], anchors[i], strict=True):
                string, index = list(strings[i][p]), list(indices[i][p])
                if w > EOD:
                    at = index.index(a) + 1 if a else 0
                    string.insert(at, w)
                    index.insert(at, step + 1)
                new_strings.append(string)
                new_indices.append(index)
            ended[i] = [w <= EOD for w in words[i]]
            strings[i], indices[i] = new_strings, new_indices
        canvas = canvas.advance(torch.tensor(parents), torch.tensor(words), torch.tensor(anchors))
    return canvas, strings, indices


def test_the_surface_is_what_lists_say() -> None:
    choose = random.Random(0)
    for steps in (1, 2, 5, 8):
        canvas, strings, indices = grow(choose, steps=steps, beam=4)
        for i in range(2):
            for b, string in enumerate(strings[i]):
                assert canvas.surface[i, b].tolist() == string + [PAD] * (steps - len(string))
                by_anchor = canvas.slot_of_anchor[i, b].tolist()
                if len(string) == steps:
                    assert by_anchor == [indices[i][b].index(a) + 1 if a else 0 for a in range(steps + 1)]
        kept = canvas.keep(torch.tensor([1]))
        assert torch.equal(kept.surface, canvas.surface[1:])


def test_two_strings_have_one_key_where_they_are_one_string() -> None:
    """Of every word at every anchor of every hypothesis, all strings of a step together."""
    choose, word_list = random.Random(1), [5, 6, 7, EOD]
    for steps in (0, 1, 4, 7):
        canvas, strings, indices = (
            grow(choose, steps=steps, beam=6) if steps else (Canvas.start(2, CPU), [[[]]] * 2, [[[]]] * 2)
        )
        beam = len(strings[0])
        parent = torch.arange(beam).repeat_interleave(len(word_list)).expand(2, -1)
        word = torch.tensor(word_list * beam).expand(2, -1)
        keys: Tensor = canvas.inserted_keys(parent, word)
        by_string: dict[tuple[int, ...], set[int]] = {}
        for i in range(2):
            for b, string in enumerate(strings[i]):
                for j, w in enumerate(word_list):
                    row = keys[i, b * len(word_list) + j].tolist()
                    if w == EOD:
                        by_string.setdefault(tuple(string), set()).update(row)
                    elif len(string) == steps:
                        for anchor, key in enumerate(row):
                            at = indices[i][b].index(anchor) + 1 if anchor else 0
                            by_string.setdefault((*string[:at], w, *string[at:]), set()).add(key)
        assert all(len(found) == 1 for found in by_string.values())
        assert len(set().union(*by_string.values())) == len(by_string)


def test_scrambling_is_one_to_one() -> None:
    """Also where the product and its complement differ in every bit, which a shift with the sign would take for one."""
    products = torch.arange(1 << 40, (1 << 40) + 1000)
    inverse = torch.tensor(pow(FACTORS[0], -1, 1 << 64) - (1 << 64))
    opposite = torch.cat((products, ~products)) * inverse
    for numbers in (torch.arange(-5000, 5000), torch.arange(1000) << 48, opposite):
        assert len(scrambled(numbers).unique()) == len(numbers)
    assert scrambled(torch.tensor([0])).item() == 0
