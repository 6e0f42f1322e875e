"""The summary of a search against figures counted one by one."""

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.core.order import Order, kendall_tau
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.orders_file import read_order_rows
from indigo_cli.engine.offline_search import search_split
from indigo_cli.engine.order_health import FoundTarget, OrderHealth
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.engine.search_summary import SearchSummary
from tests.scoring import Score, near
from tests.tiny import Tiny


def found(
    orders: list[Order], text: str, log_probs: list[float], *, l2r: float, nodes: int = 1, words: float = 0.5
) -> FoundTarget:
    """What a search may give; `words` is the share of the words in -log p, the rest is slots."""
    return FoundTarget(
        text.split(),
        orders[0],
        word=words * log_probs[0],
        slot=(1 - words) * log_probs[0],
        end=0.0,
        log_sum=math.log(math.fsum(math.exp(p) for p in log_probs)),
        l2r=l2r,
        num_orders=len(orders),
        num_nodes=nodes,
    )


def summarised(*targets: FoundTarget, seconds: float = 2.0) -> SearchSummary:
    health = OrderHealth(((0, 2), (3, None)))
    for target in targets:
        health.add(target)
    return SearchSummary(health.row(), SearchConfig(), "out.jsonl", seconds=seconds)


def rows_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_figures_by_hand() -> None:
    text = summarised(
        found([(1, 0), (0, 1)], "a b", [-2.0, -4.0], l2r=-4.0, nodes=4),
        found([(2, 1, 0), (2, 0, 1)], "a a c", [-3.0, -3.0], l2r=-5.0, nodes=4),
        found([(0, 1, 2), (0, 2, 1)], "d e f", [-1.0, -7.0], l2r=-1.0, nodes=5),
    ).text()
    entropy = math.log1p(math.exp(-2)) + math.log(2) + math.log1p(math.exp(-6))
    wanted = {
        "searched 3 targets, 8 tokens, 1.5 targets a CPU second",
        "written to out.jsonl; left to right competes there, the figures are those of what was found",
        "0–2 1 2.000 1.873 4.000 2.000 50.0 %",  # noqa: RUF001
        "3+ 2 2.000 1.652 3.000 1.000 33.3 %",
        "all 3 2.000 1.726 3.333 1.333 40.0 %",
        f"Kendall tau to left to right {(-1 - 1 + 1) / 3:+.3f}",
        f"mean run of rightward neighbours {8 / 6:.2f}",
        "strictly left to right 33.3 %",
        "different orders 100.0 %",
        "generated first b 33.3 %, c 33.3 %, d 33.3 %",
        "first from left to right a 66.7 %, d 33.3 %",
        "of -log p words 50.0 %, slots 50.0 %, <eod> 0.0 %",
        "targets with p > 0.5 best found 0.0 %, all found 0.0 %, left to right 0.0 %",
        "orders found a target 2.00",
        f"order entropy {entropy / 3:.3f} nats",
        f"u, nodes of trees a step {13 / 16:.3f}",
    }
    assert wanted <= set(rows_of(text)), wanted - set(rows_of(text))


def test_no_targets_and_one_of_no_words() -> None:
    assert "searched 0 targets" in summarised().text() and not list(summarised().flags())
    assert "searched 1 target, 0 tokens" in summarised(found([()], "", [0.0], l2r=0.0)).text()
    assert "a CPU second" not in summarised(found([()], "", [0.0], l2r=0.0), seconds=0.0).text()


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [({}, []), ({"l2r": -1.5}, ["above_l2r"]), ({"words": 0.25}, ["few_words"])],
)
def test_red_flags_are_those_of_validations(changes: dict[str, Any], kinds: list[str]) -> None:
    orders: list[Order] = [(1, 0), (0, 1)]
    many = (found(orders, f"w{i} v{i}", [-2.0, -4.0], **{"l2r": -3.0, **changes}) for i in range(10))
    summary = summarised(*many)
    assert [flag.kind for flag in summary.flags()] == kinds


def test_a_search_against_figures_from_its_file(tiny: Tiny, scaled: Path, scored: Score, tmp_path: Path) -> None:
    output = tmp_path / "out.orders.jsonl"
    alone = ["search.reference=none"]
    summary = search_split(scaled, split="train", output=str(output), settings=alone, runtime=Runtime(threads=1))
    assert summary is not None
    rows = scored(scaled, split="train", orders=output)
    in_l2r = {row.id: (row.log_probs or ())[0] for row in scored(scaled, "order.name=l2r", split="train")}
    corpus = Corpus.open(tiny.corpus)
    split, names = corpus.split("train"), corpus.codecs.target.vocabulary.decode
    texts = [names(split.target[i].tolist()) for i in range(len(split))]
    best = [row.orders[0] for row in rows]
    costs = [-(row.log_probs or ())[0] for row in rows]
    row, text = summary.figures, rows_of(summary.text())
    assert f"written to {output}" in text
    assert read_order_rows(output)[0]["search"] == row
    assert (row["targets"], row["best"], row["l2r"]) == (60, near(sum(costs) / 60), near(-sum(in_l2r.values()) / 60))
    assert sum(bucket["targets"] for bucket in row["lengths"]) == 60
    for bucket in row["lengths"]:
        inside = [i for i, order in enumerate(best) if bucket["low"] <= len(order) <= bucket["high"]]
        assert bucket["targets"] == len(inside)
        assert bucket["best"] == near(sum(costs[i] for i in inside) / len(inside))
        assert bucket["l2r"] == near(-sum(in_l2r[rows[i].id] for i in inside) / len(inside))
    assert row["tau"] == near(sum(map(kendall_tau, best)) / 60)
    runs = sum(1 + sum(b != a + 1 for a, b in pairwise(order)) for order in best)
    assert f"mean run of rightward neighbours {sum(map(len, best)) / runs:.2f}" in text
    (word, count), *_ = Counter(words[order[0]] for words, order in zip(texts, best, strict=True)).most_common(1)
    assert any(line.startswith(f"generated first {word} {100 * count / 60:.1f} %") for line in text)
    assert row["different"] == near(len(set(best)) / 60)
    assert row["orders"] == near(sum(len(scored_row.orders) for scored_row in rows) / 60)
    assert row["entropy"] == near(
        sum((scored_row.bound or 0.0) + cost for scored_row, cost in zip(rows, costs, strict=True)) / 60
    )
    parts = [scored_row.parts for scored_row in rows if scored_row.parts]
    for name, values in (("word", "words"), ("slot", "slots"), ("end", "ends")):
        assert row[name] == near(-sum(getattr(part, values)[0] for part in parts) / 60)
    nodes = 0
    for words, scored_row in zip(texts, rows, strict=True):
        histories = set()
        for order in scored_row.orders:
            steps = [(words[index], sorted(order[: t + 1]).index(index)) for t, index in enumerate(order)]
            histories |= {tuple(steps[: t + 1]) for t in range(len(order))}
        nodes += len(histories)
    assert row["u"] == near(nodes / sum(len(order) for scored_row in rows for order in scored_row.orders))
