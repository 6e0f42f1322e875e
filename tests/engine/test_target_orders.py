"""In which orders targets are scored: the run's own, draws, another rule, or those of a file."""

import json
import math
import shutil
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.data.collate import collate
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.orders_file import OrdersRow, read_orders, write_orders
from indigo_cli.engine.assign import OrderConfig, assign
from indigo_cli.engine.loaded_run import load_run
from indigo_cli.errors import DataError, UsageError
from tests.fake_spacy import install_fake_spacy
from tests.runs import valid_rows
from tests.scoring import CPU, Score, near, strip
from tests.tiny import Tiny

L2R = ("order.name=l2r",)


class TestOwnOrders:
    def test_a_split_costs_what_validation_said(
        self, tiny: Tiny, transformer: Path, position_first: Path, scored: Score
    ) -> None:
        """Random orders are those of validation."""
        for run in (tiny.run, transformer, position_first):
            for step, row in valid_rows(run).items():
                rows = scored(run, checkpoint=f"step-{step:08}")
                assert scored.summary.nats() == near(row["loss"], rel=1e-5)
                assert len(rows) == scored.summary.targets == 8
        assert (scored.header["split"], scored.header["order"]) == ("valid", "rnd")
        assert scored.header["corpus"] == Corpus.open(tiny.corpus).digest

    def test_text_costs_what_the_split_made_of_it_costs(self, tiny: Tiny, scored: Score) -> None:
        folder = tiny.recipe_path.parent
        sides = {"source": str(folder / "valid.src"), "target": str(folder / "valid.tgt")}
        for options in ({}, {"draws": 3, "seed": 7}):
            split = scored(tiny.run, **options)
            assert "corpus" in scored.header
            assert [strip(row) for row in scored(tiny.run, **sides, **options)] == [strip(row) for row in split]
            assert "corpus" not in scored.header and "split" not in scored.header

    def test_draws_are_seeded_and_distinct(self, tiny: Tiny, scored: Score) -> None:
        one, six, other = (scored(tiny.run, draws=draws, seed=seed) for draws, seed in ((1, 3), (6, 3), (1, 4)))
        assert [row.orders for row in one] != [row.orders for row in other]
        for a, b in zip(one, six, strict=True):
            assert a.orders[0] in b.orders and len(set(b.orders)) == len(b.orders) <= 6
            assert b.bound is not None and a.log_probs is not None and b.bound >= a.log_probs[0] - 1e-4
        assert any(len(row.orders) == 6 for row in six) and any(len(row.orders) == 2 for row in six)

    def test_another_order_by_a_setting(self, tiny: Tiny, scored: Score) -> None:
        assert all(row.orders == (tuple(range(len(row.orders[0]))),) for row in scored(tiny.run, *L2R))
        assert "left to right" not in scored.summary.text()
        assert all(
            row.orders == (tuple(range(len(row.orders[0])))[::-1],) for row in scored(tiny.run, "order.name=r2l")
        )
        assert "left to right for 0.0% of the targets" in scored.summary.text()
        with pytest.raises(UsageError, match="all be the same order"):
            scored(tiny.run, *L2R, draws=2)
        with pytest.raises(UsageError, match="0 orders"):
            scored(tiny.run, draws=0)

    def test_frequencies_come_from_the_corpus_also_for_raw_text(
        self, tiny: Tiny, scored: Score, tmp_path: Path
    ) -> None:
        pairs = [("bee cat dog", "dog cat bee"), ("ant", "ant hen koi jay")]
        assert scored.text(tiny.run, pairs, "order.name=rf") != scored.text(tiny.run, pairs, "order.name=cf")
        run = Path(shutil.copytree(tiny.run, tmp_path / "run", symlinks=True))
        facts = json.loads((run / "run.json").read_text("utf-8"))
        (run / "run.json").write_text(json.dumps({**facts, "corpus": str(tmp_path / "gone")}), "utf-8")
        with pytest.raises(UsageError, match="order cf needs the training text: there is no corpus") as caught:
            scored.text(run, pairs, "order.name=cf")
        assert "--corpus" in caught.value.fix and "order.name=l2r" in caught.value.fix
        assert scored.text(run, pairs, "order.name=cf", corpus_folder=tiny.corpus)
        assert scored.text(run, pairs), "random orders need the run folder only"
        with pytest.raises(UsageError, match="raw text has none"):
            scored.text(run, pairs, "order.name=syn")

    def test_syn_is_parsed_anew(
        self, tiny: Tiny, scored: Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install_fake_spacy(tmp_path, monkeypatch)
        config, path = OrderConfig(name="syn", parser="fake_model"), tmp_path / "valid.syn.orders.jsonl"
        assign(Corpus.open(tiny.corpus), config, splits=["valid"], output=str(path))
        expected = scored(tiny.run, orders=path)
        found = scored(tiny.run, "order.name=syn", "order.parser=fake_model")
        assert [strip(row) for row in found] == [strip(row) for row in expected]
        assert any(row.orders[0] != tuple(range(len(row.orders[0]))) for row in found)
        with pytest.raises(UsageError, match="no spaCy model 'none'"):
            scored(tiny.run, "order.name=syn", "order.parser=none")

    def test_a_run_that_was_trained_on_a_file(
        self, tiny: Tiny, scored: Score, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "train.mine.orders.jsonl"
        split = Corpus.open(tiny.corpus).split("train")
        rows = [OrdersRow(int(line), (tuple(range(len(split.target[i])))[::-1],)) for i, line in enumerate(split.lines)]
        write_orders(path, {"order": "mine", "split": "train"}, rows)
        tiny.train(tmp_path / "run", "train.max_steps=3", orders=[path])
        found = scored(tmp_path / "run")
        assert scored.summary.nats() == near(valid_rows(tmp_path / "run")[3]["loss"], rel=1e-5)
        assert found[0].orders == (tuple(range(len(found[0].orders[0]))),) and scored.header["order"] == "l2r"
        assert "scored in l2r" in capsys.readouterr().err


class TestFiles:
    def test_all_orders_of_a_target(self, tiny: Tiny, scored: Score, tmp_path: Path) -> None:
        """Best first; the bound is log p(target | source) itself, and a repeated order counts once."""
        text, path = "cat dog bee", tmp_path / "all.orders.jsonl"
        orders = tuple(permutations(range(3)))
        write_orders(path, {"order": "all"}, [OrdersRow(0, (*orders, orders[0])), OrdersRow(1, ((1, 0),))])
        one, two = scored.text(tiny.run, [("bee dog cat", text), ("ant", "ant ant")], orders=path)
        assert sorted(one.orders) == sorted(orders) and len(two.orders) == 1
        assert one.log_probs is not None and list(one.log_probs) == sorted(one.log_probs, reverse=True)
        loaded = load_run(tiny.run, device=CPU)
        source, target = loaded.codecs.encode_source("bee dog cat"), loaded.codecs.target.encode(text)
        steps = loaded.system.log_probs(collate(["x"], [source], [target], [one.orders]))
        sums = (steps.words.sum(2) + steps.slots.sum(2))[0].double()
        assert list(one.log_probs) == near(sums.tolist(), abs=1e-4)
        assert one.bound == near(sums.logsumexp(0).item(), abs=1e-4)
        assert one.parts is not None
        for k in range(6):
            parts = one.parts.words[k], one.parts.slots[k], one.parts.ends[k] or math.nan
            assert math.fsum(parts) == near(one.log_probs[k], abs=2e-4)
        assert scored.header["order"] == "all"
        said = scored.summary.text().splitlines()
        assert said[0] == "scored 2 targets, 5 tokens, 3.5 orders each" and "bound on log p(target | source)" in said[2]

    def test_what_is_written_is_an_orders_file_to_train_on(self, tiny: Tiny, scored: Score, tmp_path: Path) -> None:
        first = scored(tiny.run, split="train", draws=4)
        written = tmp_path / "1.scores.jsonl"
        split = Corpus.open(tiny.corpus).split("train")
        found = read_orders(written, ids=split.lines, lengths=split.target.lengths, split="train")
        assert found.flat.tolist() == [index for row in first for index in row.orders[0]]
        tiny.train(tmp_path / "run", "train.max_steps=1", orders=[written])
        again = scored(tiny.run, split="train", orders=written)
        assert [row.log_probs for row in again] == [
            tuple(near(p, abs=1e-3) for p in row.log_probs or ()) for row in first
        ]

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([], "target 0 .from 0. has no orders"),
            ([{"id": 1, "orders": [[0]]}], "target 0 .from 0. has no orders"),
            ([{"id": 0, "orders": [[0, 1]]}], "target 1 .from 0. has no orders"),
            ([{"id": 0, "orders": [[0]]}], "1 steps but the target has 2"),
            ([{"id": 0, "orders": [[0, 1]]}, {"id": 0, "orders": [[1, 0]]}], "id 0 stands twice"),
            ([{"id": 0, "orders": [[0, 1]]}, {"id": 1, "orders": [[0]]}, {"id": 2, "orders": [[]]}], "no target 2"),
            ([{"id": 0, "orders": [[0, 1]]}, {"id": 1, "orders": [[0]]}, {"id": 0, "orders": [[]]}], "behind id 1"),
            ([{"id": 0, "rank": 1, "orders": [[0, 1]]}], "has a rank"),
        ],
    )
    def test_rows_and_targets_must_match(
        self, tiny: Tiny, scored: Score, tmp_path: Path, rows: list[Any], message: str
    ) -> None:
        path = tmp_path / "o.jsonl"
        header = {"format": "indigo-orders", "version": 1}
        path.write_text("".join(f"{json.dumps(row)}\n" for row in (header, *rows)), "utf-8")
        with pytest.raises(DataError, match=message) as caught:
            scored.text(tiny.run, [("bee", "bee cat"), ("cat", "cat")], orders=path)
        assert caught.value.where.startswith(str(path))

    def test_a_file_for_something_else(self, tiny: Tiny, scored: Score, tmp_path: Path) -> None:
        scored(tiny.run, split="test")
        with pytest.raises(DataError, match="orders of split 'test', not 'valid'"):
            scored(tiny.run, orders=tmp_path / "1.scores.jsonl")
