"""Paths in star graphs as text: a task in which no fixed generation order is good. Generated, so nothing is downloaded.

A graph is `arms` arms of `arm_length` nodes round a centre, thus arms * arm_length + 1 nodes, which have different
random names out of `num_names` letters. The source is the bag of its edges, each ONE token `a>b`, with the tokens
`start:x` and `goal:y`; the target is the path from start to goal, both included. With two arms of two nodes:

    out: d>a d>c a>b c>e goal:b start:d   ->   d a b
    in:  b>a a>d e>c c>d goal:d start:b   ->   b a d

Half of the items are *out* stars: the start is the centre and the edges lead away from it, so that the first step
forward is a guess (which arm?) while each step back from the goal is forced. The other half are *in* stars: the start
is the tip of an arm, the goal is the centre, and the same holds with the directions exchanged. Without looking ahead,
left to right and right to left both end up at (1 + 1 / arms) / 2 of the items; an order that depends on the input
solves all.

- The tokens of a source are sorted, so their order tells nothing that the bag does not. The recipes give the encoder no
  positions anyway.
- Out-stars and in-stars alternate, so that every even number of first lines is balanced.
- A graph is for training, validation or test by a hash of its edges: two splits have no graph in common, not even with
  another goal, and not even if they were made with different seeds. Within a split each item is there once.
- The items of a split are a function of (seed, split) alone; fewer of them are the first ones of more.

Source: SAO.md section 3. Its small graph has 10 nodes, 3 arms of 3. Its large one, "14 nodes, 3 arms of 4", cannot be
meant to the letter, since 3 * 4 + 1 = 13; we read the 14 as the names that the 13 nodes are drawn from.
"""

import hashlib
import random
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, pairwise
from pathlib import Path

from indigo_cli.data.files import atomic_write_text

NAMES = string.ascii_letters
"""What nodes are called: one letter each, so that `>` and `:` are in no name."""
HALVES = ("out", "in")
HELD_OUT = {"valid": range(8, 16), "test": range(8)}
"""The values of the hash (0 to 255) that keep a graph out of training."""
TRIES = 10_000
"""So many draws in a row without a new item of a split (1 draw in 32 or more is of it) mean that none is left."""


@dataclass(frozen=True)
class StarGraph:
    """The shape of the graphs.

    Args:
        num_names: Letters to draw the names of the nodes from; 0 = as many as there are nodes.
    Raises: ValueError if the halves could not be told apart, or if there are too few names.
    """

    arms: int
    arm_length: int
    num_names: int = 0

    def __post_init__(self) -> None:
        if self.arms < 2 or self.arm_length < 1:
            raise ValueError(f"a star has two arms or more, of a node or more; got {self.arms} of {self.arm_length}")
        num_names = self.num_names or self.num_nodes
        if not self.num_nodes <= num_names <= len(NAMES):
            raise ValueError(f"{self.num_nodes} nodes have {num_names} names, of at most {len(NAMES)}")

    @property
    def num_nodes(self) -> int:
        return self.arms * self.arm_length + 1

    @property
    def names(self) -> str:
        return NAMES[: self.num_names or self.num_nodes]


@dataclass(frozen=True)
class Item:
    """A line of each side."""

    source: str
    target: str


@dataclass(frozen=True)
class TaskSize:
    """Graphs of one shape, and how many items each split has."""

    graph: StarGraph
    num_items: dict[str, int]


SIZES = {
    "tiny": TaskSize(StarGraph(2, 2, num_names=8), {"train": 60, "valid": 8, "test": 8}),
    "small": TaskSize(StarGraph(3, 3), {"train": 70_000, "valid": 500, "test": 500}),
    "large": TaskSize(StarGraph(3, 4, num_names=14), {"train": 200_000, "valid": 500, "test": 500}),
}
"""The two of SAO.md, with as many items as their recipes visit, once each; and one whose chain is over in seconds."""


def items(graph: StarGraph, split: str, *, seed: int) -> Iterator[Item]:
    """Yield different items of a split, out-stars and in-stars in turn, for as long as anybody asks.

    Args:
        split: `train`, `valid` or `test`.
    Raises: ValueError if (nearly) all that there are have been drawn.
    """
    generator = random.Random(f"{seed} {split}")
    seen: set[str] = set()
    for half in cycle(HALVES):
        drawn = (_item(graph, split, half, generator) for _ in range(TRIES))
        item = next((item for item in drawn if item is not None and item.source not in seen), None)
        if item is None:
            raise ValueError(f"there are hardly more than {len(seen)} items of {graph} for {split}")
        seen.add(item.source)
        yield item


def _item(graph: StarGraph, split: str, half: str, generator: random.Random) -> Item | None:
    """Draw a graph and a path in it; return None if the graph belongs to another split."""
    centre, *others = generator.sample(graph.names, graph.num_nodes)
    path: list[str] = []
    edges: list[str] = []
    for first in range(0, len(others), graph.arm_length):
        outwards = [centre, *others[first : first + graph.arm_length]]
        path = outwards if half == "out" else outwards[::-1]  # that of the last arm stays: arms are drawn alike
        edges += map(">".join, pairwise(path))
    if split_of(edges) != split:
        return None
    return Item(" ".join(sorted([*edges, f"start:{path[0]}", f"goal:{path[-1]}"])), " ".join(path))


def split_of(edges: Iterable[str]) -> str:
    """Return the split that a graph belongs to, whoever made it."""
    value = hashlib.blake2b(" ".join(sorted(edges)).encode(), digest_size=1).digest()[0]
    return next((split for split, values in HELD_OUT.items() if value in values), "train")


def half_of(source: str) -> str:
    """Return `out` or `in` for a source line: the centre alone has several edges on one side, and is start or goal.

    Raises: ValueError if the line is no star with a path between its centre and a tip.
    """
    tokens = source.split()
    (start,) = (token.removeprefix("start:") for token in tokens if token.startswith("start:"))
    (goal,) = (token.removeprefix("goal:") for token in tokens if token.startswith("goal:"))
    num_out = sum(token.startswith(f"{start}>") for token in tokens)
    num_in = sum(token.endswith(f">{goal}") for token in tokens)
    if (num_out > 1) == (num_in > 1):
        raise ValueError(f"neither or both of start and goal are the centre: {source}")
    return "out" if num_out > 1 else "in"


def split_halves(sources: Iterable[str]) -> dict[str, list[int]]:
    """Return the indices of the lines of each half: no fixed order is good at both, so each is scored by itself."""
    indices: dict[str, list[int]] = {half: [] for half in HALVES}
    for index, source in enumerate(sources):
        indices[half_of(source)].append(index)
    return indices


def write_star_graphs(folder: Path, size: TaskSize, *, seed: int = 1) -> None:
    """Write `train`, `valid`, `test.out`, `test.in` and, one after the other, `test`, each with `.src` and `.tgt`."""
    for split, num_items in size.num_items.items():
        made = list(islice(items(size.graph, split, seed=seed), num_items))
        if split == "test":
            halves = {
                half: [made[index] for index in indices]
                for half, indices in split_halves(item.source for item in made).items()
            }
            for half, its_items in halves.items():
                _write(folder, f"{split}.{half}", its_items)
            made = [item for its_items in halves.values() for item in its_items]
        _write(folder, split, made)


def _write(folder: Path, name: str, made: Sequence[Item]) -> None:
    atomic_write_text(folder / f"{name}.src", "".join(f"{item.source}\n" for item in made))
    atomic_write_text(folder / f"{name}.tgt", "".join(f"{item.target}\n" for item in made))
