"""Masks that belong to a sentence: their numbers, and that nothing but the key, the site and the width matters."""

import torch

from indigo_cli.nn.sentence_dropout import SentenceDropout, sentence_keys, uniform

WORD = 1 << 64


def splitmix64(seed: int, number: int) -> int:
    """The `number`-th output, as published, on Python's whole numbers."""
    z = (seed + (number + 1) * 0x9E3779B97F4A7C15) % WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % WORD
    return z ^ (z >> 31)


def test_numbers_are_those_of_splitmix64() -> None:
    assert splitmix64(1234567, 0) == 6457827717110365317  # the known first output of this seed
    keys, numbers = [0, 1, -5, 1234567, -(1 << 63)], [0, 1, 2, 77, (1 << 40) + 3]
    found = uniform(torch.tensor(keys)[:, None], torch.tensor(numbers))
    for i, key in enumerate(keys):
        for j, number in enumerate(numbers):
            assert float(found[i, j]) == (splitmix64(key % WORD, number) >> 40) / (1 << 24)


def test_masks_keep_the_mean_and_their_rate() -> None:
    masks = SentenceDropout(sentence_keys(1, 0, range(500)), 0.25).masks(3, 4, 64)
    assert masks.shape == (4, 500, 1, 64)
    assert set(masks.unique().tolist()) == {0.0, float(torch.tensor(1 / 0.75))}
    assert abs(float((masks == 0).float().mean()) - 0.25) < 0.005
    assert abs(float(masks.mean()) - 1) < 0.01
    of_sites = (masks == 0).float().mean(dim=(1, 2, 3))
    assert float((of_sites - 0.25).abs().max()) < 0.01


def test_a_mask_is_a_function_of_key_and_site() -> None:
    keys = sentence_keys(1, 2, [5, 6, 7])
    masks = SentenceDropout(keys, 0.5).masks(0, 6, 32)
    assert torch.equal(SentenceDropout(keys[1:2], 0.5).masks(4, 1, 32)[0, 0], masks[4, 1])
    assert len({tuple(row.tolist()) for row in masks.flatten(0, 2)}) == 18


def test_keys_differ_by_seed_visit_and_line() -> None:
    keys = torch.cat([sentence_keys(seed, visit, range(50)) for seed in range(10) for visit in range(10)])
    assert len(keys.unique()) == 5000
    assert torch.equal(sentence_keys(1 << 70, 0, [3]), sentence_keys(1 << 70, 0, [3]))
