"""Searched orders of a split: clean prices, the same bytes whatever happens on the way, every wrong input named."""

import json
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from indigo_cli.data import batching
from indigo_cli.data.collate import collate
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.orders_file import read_order_rows
from indigo_cli.engine import offline_search, order_searcher
from indigo_cli.engine.assign import OrderConfig
from indigo_cli.engine.loaded_run import load_run
from indigo_cli.engine.offline_search import search_config, search_split
from indigo_cli.engine.order_choice import Candidates
from indigo_cli.engine.order_planner import OrderPlanner, Searching
from indigo_cli.engine.order_searcher import OrderSearcher
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.search_config import SearchConfig
from indigo_cli.errors import DataError, IndigoError, PeerError, RecipeError, RunError, UsageError
from tests.ranks import on_ranks
from tests.runs import multiply_weights
from tests.scoring import CPU, Score, near, tolerance
from tests.searching import ONE_THREAD, SEEDED, Search, prices
from tests.tiny import Tiny

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_scores_are_clean(search: Search, scored: Score, tiny: Tiny, dropout: float) -> None:
    """Without dropout they come from the search itself, with it from a prefix tree: both are those of `score`, and of
    teacher forcing of each order alone."""
    rows = search(f"search.dropout={dropout}")
    again = scored(search.run, split="train", orders=search.output)
    assert len(rows) == len(again) == 60
    for row, wanted in zip(rows, again, strict=True):
        assert len(set(row.orders)) == len(row.orders) == len(wanted.orders) <= 3
        found = prices(row)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        for order, log_prob in zip(wanted.orders, wanted.log_probs or (), strict=True):
            assert found[order] == near(log_prob, abs=tolerance(log_prob))
    assert {len(row.orders) for row in rows if len(row.orders[0]) == 2} == {2}  # no more exist
    assert any(row.orders[0] != tuple(range(len(row.orders[0]))) for row in rows)
    system, split = load_run(search.run, device=CPU).system, Corpus.open(tiny.corpus).split("train")
    for place, row in enumerate(rows[:10]):
        source, target = split.source[place].tolist(), split.target[place].tolist()
        for order, log_prob in prices(row).items():
            steps = system.log_probs(collate(["x"], [source], [target], [[order]]))
            alone = float(steps.words.sum() + steps.slots.sum())
            assert log_prob == near(alone, abs=tolerance(alone) + 5e-6 * abs(alone))  # a file holds six digits


@pytest.mark.parametrize("model_dropout", [0.2, 0.1], ids=["one encoding", "an encoding of its own"])
def test_it_finds_what_training_finds_at_the_first_visit(search: Search, tiny: Tiny, model_dropout: float) -> None:
    """Of the same weights, by the same seed; training has other batches, and the model in training mode."""
    rows = {row.id: set(row.orders) for row in search("search.gumbel=0.5")}
    system = load_run(search.run, device=CPU).system.train()
    split = OrderedSplit(Corpus.open(tiny.corpus), "train", OrderConfig(), seed=1, batch_tokens=64)
    config = SearchConfig(beam_size=3, dropout=0.2, gumbel=0.5, train_on="sample", reference="none")
    found: dict[int, set[tuple[int, ...]]] = {}
    for micro_batch in split.once():
        lines, told, batch = split.lines(micro_batch.items), list[Candidates](), micro_batch.load()
        due = np.ones(len(lines), dtype=np.bool_)
        searching = Searching(config, seed=1, model_dropout=model_dropout)
        system(batch, 0.1, OrderPlanner(searching, 0, lines, due, found=told.append))
        for place, line in enumerate(lines.tolist()):
            real = told[0].orders[place, told[0].score[place].isfinite(), : int(batch.lengths[place])]
            found[line] = {tuple(order) for order in real.tolist()}
    assert found == rows


def test_left_to_right_competes(search: Search, tiny: Tiny) -> None:
    """As in training: it takes the place of the worst order where it is better, at the price of teacher forcing."""
    free, joined = search(), 0
    system, split = load_run(search.run, device=CPU).system, Corpus.open(tiny.corpus).split("train")
    for place, (row, alone) in enumerate(zip(search("search.reference=l2r", overwrite=True), free, strict=True)):
        source, target = split.source[place].tolist(), split.target[place].tolist()
        l2r = tuple(range(len(target)))
        steps = system.log_probs(collate(["x"], [source], [target], [[l2r]]))
        orders = {l2r: float(steps.words.sum() + steps.slots.sum())} | prices(alone)
        assert prices(row).keys() <= orders.keys()
        best = sorted(orders.values(), reverse=True)[: len(alone.orders)]
        assert list(prices(row).values()) == pytest.approx(best, rel=1e-4, abs=1e-4)
        joined += row.orders != alone.orders
    assert 0 < joined < len(free)
    assert read_order_rows(search.output)[0]["reference"] == "l2r"
    assert search.summary is not None and search.summary.config.reference == "l2r"  # no advice to let it compete


def test_other_references_compete_in_training_only(search: Search, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="only l2r can compete offline"):
        search("search.reference=r2l")
    run = load_run(search.run, device=CPU)
    learnt = replace(run.recipe, search=SearchConfig(reference="r2l"))
    assert search_config(replace(run, recipe=learnt), []) == SearchConfig(reference="none")
    assert "competes in training only" in capsys.readouterr().err


def test_what_is_found_depends_on_seed_and_dropout(search: Search) -> None:
    def bytes_of(*settings: str, **options: Any) -> bytes:
        search(*settings, overwrite=True, **options)
        return search.output.read_bytes().partition(b"\n")[2]

    usual = bytes_of()
    assert bytes_of() == usual == bytes_of(overrides=["search.beam_size=9", "train.max_steps=7"])
    others = (
        bytes_of(seed=5),
        bytes_of("search.dropout=0"),
        bytes_of("search.gumbel=3"),
        bytes_of("search.slot_weight=5"),
    )
    assert len({usual, *others}) == 5


@pytest.mark.parametrize(("tokens", "lines"), [(1, 512), (19, 7), (1000, 512)])
def test_neither_batches_nor_blocks_matter(
    search: Search, monkeypatch: pytest.MonkeyPatch, tokens: int, lines: int
) -> None:
    """Nor how many orders of a target are scored as one tree: with a budget of one token, of six words two."""
    usual = search("search.gumbel=0.5")
    monkeypatch.setattr(batching, "FEWEST_NODES", 1)
    monkeypatch.setattr(offline_search, "BLOCK_TARGETS", lines)
    changed = search("search.gumbel=0.5", f"search.batch_tokens={tokens}", overwrite=True)
    for row, other in zip(usual, changed, strict=True):
        assert row.id == other.id and prices(other) == near(prices(row), abs=3e-4)  # 1e-4, and six digits


def test_the_header_says_how(search: Search, tiny: Tiny) -> None:
    search("search.whole_words=true", split="valid", seed=9)
    header = read_order_rows(search.output)[0]
    assert {"order": "sao", "split": "valid", "seed": 9, "beam": 3, "dropout": 0.2, "whole_words": True}.items() <= (
        header.items()
    )
    assert {"slot_weight", "gumbel", "weights", "corpus", "run", "checkpoint", "vocabulary"} <= header.keys()
    assert not search.parts.exists()


def test_training_takes_the_file_and_no_other_corpus_does(search: Search, tiny: Tiny, tmp_path: Path) -> None:
    search()
    options: dict[str, Any] = {"orders": [search.output], "runtime": ONE_THREAD}
    assert tiny.train(tmp_path / "run", "train.max_steps=2", **options).step == 2
    header, *rows = search.output.read_text("utf-8").splitlines(keepends=True)
    search.output.write_text(header.replace(json.loads(header)["corpus"], "0" * 64) + "".join(rows), "utf-8")
    with pytest.raises(DataError, match="another corpus"):
        tiny.train(tmp_path / "other", "train.max_steps=2", **options)


def test_without_an_output_it_stands_in_the_corpus(tiny: Tiny, scaled: Path, tmp_path: Path) -> None:
    corpus = Path(shutil.copytree(tiny.corpus, tmp_path / "corpus"))
    search_split(scaled, corpus_folder=corpus, runtime=ONE_THREAD)
    header, rows = read_order_rows(corpus / "train.sao.orders.jsonl")
    assert (header["beam"], header["dropout"], header["seed"]) == (8, 0.1, 1) and len(list(rows)) == 60


def test_standard_output_has_no_parts(
    search: Search, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    search()
    monkeypatch.chdir(search.folder)
    search_split(search.run, output="-", settings=SEEDED, runtime=ONE_THREAD)
    assert capsysbinary.readouterr().out == search.output.read_bytes()
    assert os.listdir(search.folder) == [search.output.name]
    with pytest.raises(UsageError, match="output is a stream"):
        search_split(search.run, output="-", resume=True, runtime=ONE_THREAD)


@pytest.mark.usefixtures("small_blocks")
class TestProcesses:
    def test_the_bytes_are_those_of_one(self, search: Search) -> None:
        search()
        whole = search.output.read_bytes()
        search.output.unlink()
        answers = on_ranks(2, partial(_text_of, search))
        assert search.output.read_bytes() == whole and not search.parts.exists()
        assert answers[1] == "" and "60 targets" in str(answers[0])

    def test_what_is_in_the_way_ends_all(self, search: Search) -> None:
        search.output.write_text("mine")
        answers = on_ranks(2, partial(_text_of, search))
        assert [type(answer) for answer in answers] == [UsageError, PeerError]
        assert search.output.read_text() == "mine"


def _text_of(search: Search) -> str:
    options: dict[str, Any] = {"settings": SEEDED, "output": str(search.output), "runtime": ONE_THREAD}
    summary = search_split(search.run, **options)
    return "" if summary is None else summary.text()


def test_what_is_in_the_way_is_left_alone(search: Search) -> None:
    search.output.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        search()
    with pytest.raises(UsageError, match="keeps what --overwrite deletes"):
        search(resume=True, overwrite=True)
    with pytest.raises(DataError):
        search(resume=True)
    assert search.output.read_text() == "mine" and not search.parts.exists()
    with pytest.raises(UsageError, match="folder"):
        search(output=str(search.folder), overwrite=True)
    assert len(search(overwrite=True)) == 60


@pytest.mark.parametrize(
    ("settings", "options", "kind", "message"),
    [
        (["search.dropout=1.5"], {}, RecipeError, "search.dropout"),
        (["search.beam_size=0"], {}, RecipeError, "search.beam_size"),
        ([], {"overrides": ["search.beam_sise=3"]}, RecipeError, "unknown key search.beam_sise"),
        ([], {"split": "tset"}, UsageError, "no split 'tset'"),
        ([], {"checkpoint": "step-9"}, IndigoError, "no checkpoint 'step-9'"),
    ],
)
def test_wrong_options(
    search: Search, settings: list[str], options: dict[str, Any], kind: type[IndigoError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        search(*settings, **options)
    assert os.listdir(search.folder) == []


def test_systems_without_a_choice_of_orders(transformer: Path, position_first: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="generates l2r only"):
        search_split(transformer, output=str(tmp_path / "x"))
    with pytest.raises(UsageError, match="position first"):
        search_split(position_first, output=str(tmp_path / "x"))


def test_weights_that_broke_are_named(scaled: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(scaled, tmp_path / "run", symlinks=True))
    multiply_weights(run, float("nan"))
    with pytest.raises(RunError, match="no finite log-probability"):
        search_split(run, output=str(tmp_path / "x"), checkpoint="last", runtime=ONE_THREAD)


def test_pieces_of_a_word_stay_together(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every second token went on: `first_pieces` is what the search is told."""

    class EverySecond:
        def first_pieces(self, target: torch.Tensor) -> torch.Tensor:
            return (torch.arange(target.shape[1]) % 2 == 0).expand(target.shape)

    monkeypatch.setattr(order_searcher, "whole_words", lambda codec, device: EverySecond())
    for row in search("search.whole_words=true"):
        for order in row.orders:
            for index in range(1, len(order), 2):
                assert order.index(index) == order.index(index - 1) + 1


def test_batches_suit_the_device(tiny: Tiny) -> None:
    def tokens(device: str, asked: int = 0) -> int:
        options: dict[str, Any] = {"seed": 1, "device": torch.device(device), "runtime": ONE_THREAD}
        return OrderSearcher(load_run(tiny.run, device=CPU), SearchConfig(batch_tokens=asked), **options).batch_tokens

    assert tokens("cpu") == order_searcher.HOST_TOKENS and tokens("cuda") == 8 * 64
    assert tokens("cpu", 30) == tokens("cuda", 30) == 30
