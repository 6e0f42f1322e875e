"""Star graphs: what the items are by an oracle that reads the text alone, and that nothing leaks between the splits."""

import tomllib
from collections import Counter
from importlib.resources import files
from itertools import islice
from pathlib import Path

import pytest

from indigo_cli.demo.star_graph import (
    HALVES,
    SIZES,
    StarGraph,
    TaskSize,
    half_of,
    items,
    split_halves,
    split_of,
    write_star_graphs,
)

SMALL, LARGE, WIDE = SIZES["small"].graph, SIZES["large"].graph, StarGraph(5, 2, num_names=30)
SPLITS = ("train", "valid", "test")


def read(source: str) -> tuple[list[tuple[str, str]], str, str]:
    """Return the edges, the start and the goal of a source line."""
    edges, ends = [], {}
    for token in source.split():
        if ":" in token:
            key, ends[key] = token.split(":")
        else:
            first, second = token.split(">")
            edges.append((first, second))
    assert set(ends) == {"start", "goal"}
    return edges, ends["start"], ends["goal"]


def paths(edges: list[tuple[str, str]], start: str, goal: str) -> list[list[str]]:
    """Return every walk from start to goal, found by trying all edges."""
    if start == goal:
        return [[goal]]
    return [[start, *rest] for first, then in edges if first == start for rest in paths(edges, then, goal)]


@pytest.mark.parametrize("graph", [SMALL, LARGE, WIDE, StarGraph(2, 1)], ids=str)
class TestItems:
    def test_the_target_is_the_one_path_from_start_to_goal(self, graph: StarGraph) -> None:
        for item in islice(items(graph, "train", seed=1), 3):
            assert paths(*read(item.source)) == [item.target.split()]
            assert len(item.target.split()) == graph.arm_length + 1

    def test_the_graph_is_a_star_with_its_centre_at_one_end_of_the_path(self, graph: StarGraph) -> None:
        for item, half in zip(islice(items(graph, "train", seed=1), 3), ("out", "in", "out"), strict=True):
            edges, start, goal = read(item.source)
            if half == "in":
                edges, start, goal = [(second, first) for first, second in edges], goal, start
            from_node, into_node = (Counter(edge[side] for edge in edges) for side in (0, 1))
            nodes = {node for edge in edges for node in edge}
            assert (len(nodes), len(edges)) == (graph.num_nodes, graph.num_nodes - 1)
            assert {node for node in nodes if into_node[node] != 1} == {start}
            assert from_node.pop(start) == graph.arms
            assert set(from_node.values()) <= {1}
            tips = nodes - set(from_node) - {start}
            assert goal in tips
            assert [len(paths(edges, start, tip)[0]) for tip in tips] == [graph.arm_length + 1] * graph.arms

    def test_the_order_of_a_source_tells_nothing(self, graph: StarGraph) -> None:
        for item in islice(items(graph, "train", seed=1), 3):
            assert item.source.split() == sorted(item.source.split())


class TestChance:
    """What a model could learn without looking at the graph: nothing. 2,000 items; bounds are 5 sigma."""

    def made(self) -> list[tuple[list[tuple[str, str]], str, str]]:
        return [read(item.source) for item in islice(items(LARGE, "train", seed=3), 2000)]

    def test_every_name_is_as_often_the_start_and_the_goal(self) -> None:
        for ends in zip(*(item[1:] for item in self.made()), strict=True):
            counts: Counter[object] = Counter(ends)
            assert set(counts) == set("abcdefghijklmn")
            assert all(abs(count - 2000 / 14) < 58 for count in counts.values())

    def test_the_arm_of_the_path_is_no_special_one_in_the_sorted_source(self) -> None:
        ranks = Counter(
            [second for first, second in edges if first == start].index(path[1])
            for edges, start, goal in self.made()[::2]
            for path in paths(edges, start, goal)
        )
        assert all(abs(ranks[rank] - 1000 / 3) < 75 for rank in range(3))


class TestSplits:
    def test_no_graph_is_in_two_splits_whatever_the_seed(self) -> None:
        graph = StarGraph(2, 2, num_names=7)  # so few that seeds meet each other's graphs
        found: dict[str, set[frozenset[tuple[str, str]]]] = {split: set() for split in SPLITS}
        for seed in (1, 2):
            for split in SPLITS:
                made = islice(items(graph, split, seed=seed), 40)
                found[split] |= {frozenset(read(item.source)[0]) for item in made}
        assert all(found.values())
        assert not found["train"] & found["valid"]
        assert not (found["train"] | found["valid"]) & found["test"]

    def test_edges_decide_in_any_order(self) -> None:
        assert split_of(["a>b", "c>d"]) == split_of(["c>d", "a>b"])
        counts = Counter(split_of([str(number)]) for number in range(3200))
        assert set(counts) == set(SPLITS)
        assert 50 < counts["valid"] < 150  # 100 meant, sigma 10
        assert 50 < counts["test"] < 150

    def test_no_item_comes_twice(self) -> None:
        made = list(islice(items(StarGraph(2, 1), "train", seed=1), 10))  # of 12 that there are without a split
        assert len({item.source for item in made}) == 10

    def test_a_split_with_nothing_left_says_so(self) -> None:
        with pytest.raises(ValueError, match="hardly more than"):
            list(islice(items(StarGraph(2, 1), "train", seed=1), 13))

    def test_seed_and_split_decide(self) -> None:
        def first(split: str, seed: int, count: int) -> list[str]:
            return [item.source for item in islice(items(SMALL, split, seed=seed), count)]

        assert first("train", 1, 20) == first("train", 1, 30)[:20]
        assert len({*first("train", 1, 20), *first("train", 2, 20), *first("valid", 1, 2)}) == 42

    def test_items_do_not_change_between_versions(self) -> None:
        """Written down once: figures in the documentation belong to these very items."""
        assert next(items(SMALL, "train", seed=1)).source == "b>j c>b e>c e>g e>i f>d g>h goal:a h>a i>f start:e"


class TestHalves:
    def test_halves_take_turns(self) -> None:
        sources = [item.source for item in islice(items(SMALL, "train", seed=1), 6)]
        assert [half_of(source) for source in sources] == ["out", "in"] * 3
        assert split_halves(sources) == {"out": [0, 2, 4], "in": [1, 3, 5]}

    def test_by_hand(self) -> None:
        assert half_of("a>b a>c goal:c start:a") == "out"
        assert half_of("b>a c>a goal:a start:b") == "in"

    @pytest.mark.parametrize(
        "source", ["a>b goal:b start:a", "a>b a>c d>c goal:c start:a", "a>b b>c b>d goal:d start:a"]
    )
    def test_what_is_no_star_has_none(self, source: str) -> None:
        with pytest.raises(ValueError, match="start and goal"):
            half_of(source)

    @pytest.mark.parametrize("shape", [(1, 3, 0), (3, 0, 0), (3, 3, 9), (3, 3, 53), (8, 7, 0)])
    def test_shapes_that_cannot_be(self, shape: tuple[int, int, int]) -> None:
        with pytest.raises(ValueError, match=r"two arms|nodes have"):
            StarGraph(*shape)


class TestFiles:
    def test_what_the_recipes_name(self, tmp_path: Path) -> None:
        size = TaskSize(SMALL, {"train": 10, "valid": 4, "test": 6})
        write_star_graphs(tmp_path / "data", size, seed=5)
        lines = {path.name: path.read_text("utf-8").splitlines() for path in (tmp_path / "data").iterdir()}
        counts = {"train": 10, "valid": 4, "test": 6, "test.out": 3, "test.in": 3}
        sides = {f"{name}.{side}": count for name, count in counts.items() for side in ("src", "tgt")}
        assert {name: len(text) for name, text in lines.items()} == sides
        for split in SPLITS[:2]:
            made = list(islice(items(SMALL, split, seed=5), counts[split]))
            assert lines[f"{split}.src"] == [item.source for item in made]
            assert lines[f"{split}.tgt"] == [item.target for item in made]
        for half in HALVES:
            assert {half_of(source) for source in lines[f"test.{half}.src"]} == {half}
            for source, target in zip(lines[f"test.{half}.src"], lines[f"test.{half}.tgt"], strict=True):
                assert paths(*read(source)) == [target.split()]

    def test_sizes_are_balanced(self) -> None:
        for size in SIZES.values():
            assert all(count % 2 == 0 for count in size.num_items.values())


@pytest.mark.parametrize("size", ["tiny", "small"])
def test_an_update_is_a_number_of_whole_paths(size: str) -> None:
    text = files("indigo_cli.demo").joinpath(f"star_graph_{size}_sao.toml").read_text("utf-8")
    train = tomllib.loads(text)["train"]
    batch, rest = divmod(train["batch_tokens"], SIZES[size].graph.arm_length + 1)
    assert rest == 0
    assert size == "tiny" or batch * train["max_steps"] == SIZES[size].num_items["train"]
