"""RND: a uniform random order, drawn anew for each epoch.

Counter-based: the priority of a token is a hash of (seed, epoch, target id, position), so an order depends on nothing
else, neither on the batch nor on the number of processes, and a whole split is drawn in a few numpy operations. The
hash is the generator SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators") started at
a state that is itself mixed from seed, epoch and id. Sorting independent uniform keys gives every order the same
probability; two equal keys among T tokens have a chance below T^2 / 2^41 and go from left to right.
"""

import numpy as np
from numpy.typing import NDArray

from indigo_cli.orders.rule import PRIORITY_BITS, Ints, OrderContext, Targets

WORD = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
"""The generator's increment: 2^64 divided by the golden ratio, odd."""


def mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble each 64-bit word: every input bit moves about half of the output bits (SplitMix64's finaliser)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def streams(ids: Ints, context: OrderContext) -> NDArray[np.uint64]:
    """Return where the random numbers of each target start: a hash of seed, epoch and id."""
    run = mix(np.array([context.seed & WORD], dtype=np.uint64) + np.uint64(GOLDEN))
    run = mix((run ^ np.uint64(context.epoch & WORD)) + np.uint64(GOLDEN))
    return mix(run + ids.astype(np.uint64) * np.uint64(GOLDEN))


def draw(stream: NDArray[np.uint64], number: Ints) -> NDArray[np.uint64]:
    """Return the `number`-th random number of each stream, from 0."""
    return mix(stream + (number + 1).astype(np.uint64) * np.uint64(GOLDEN))


def priority(targets: Targets, context: OrderContext) -> Ints:
    """Uniform in 0 .. 2^40 - 1."""
    numbers = draw(np.repeat(streams(targets.ids, context), targets.lengths), targets.position)
    return (numbers >> np.uint64(64 - PRIORITY_BITS)).astype(np.int64)
