"""Scores of given targets: the model's own log-probabilities, whatever the batch, and every wrong input named."""

import json
import math
import shutil
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from indigo_cli.core.format import Format
from indigo_cli.core.vocab import FIRST_WORD
from indigo_cli.data.collate import collate
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.orders_file import OrdersRow, read_order_rows, read_orders, write_orders
from indigo_cli.data.traces_file import TraceRecord, read_traces
from indigo_cli.engine import targets as targets_module
from indigo_cli.engine.checkpoint import MODEL_FILE, open_checkpoint
from indigo_cli.engine.generate import generate
from indigo_cli.engine.loaded_run import load_run
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.score import score
from indigo_cli.engine.score_summary import ScoreSummary
from indigo_cli.errors import DataError, IndigoError, RecipeError, RunError, UsageError
from indigo_cli.recipe import load_recipe
from tests.runs import valid_rows
from tests.tiny import MAX_LENGTH, RECIPE, Tiny, write_task

CPU = torch.device("cpu")
L2R = ("order.name=l2r",)


@pytest.fixture(scope="module")
def transformer(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the baseline on the same corpus."""
    run = tmp_path_factory.mktemp("transformer") / "run"
    tiny.train(run, "model.system=transformer", "order.name=l2r", "train.max_steps=80", "train.validate_every=80")
    return run


@pytest.fixture(scope="module")
def position_first(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that chooses the slot before the word."""
    run = tmp_path_factory.mktemp("position_first") / "run"
    options = ("model.predict=position_first", "train.max_steps=120", "train.validate_every=60", "model.dropout=0")
    tiny.train(run, *options, "train.save_every=60")
    return run


@pytest.fixture(scope="module")
def scaled(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trained run with larger weights: logits as large as those of a model that is sure of itself."""
    run = Path(shutil.copytree(tiny.run, tmp_path_factory.mktemp("scaled") / "run", symlinks=True))
    path = open_checkpoint(run).folder / MODEL_FILE
    save_file({name: 2.0 * tensor for name, tensor in load_file(path).items()}, path)
    return run


class Score:
    """Scores and returns the rows read back, with summary and header kept."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.summary, self.header = ScoreSummary(), dict[str, Any]()

    def __call__(self, run: Path, *overrides: str, **options: Any) -> list[OrdersRow]:
        self.count += 1
        output = self.folder / f"{self.count}.scores.jsonl"
        self.summary = score(run, overrides=overrides, output=str(output), **options)
        self.header, rows = read_order_rows(output)
        return list(rows)

    def text(self, run: Path, pairs: Sequence[tuple[str, str]], *overrides: str, **options: Any) -> list[OrdersRow]:
        """Score pairs of raw lines."""
        sides = {}
        for name, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            path = self.folder / f"{self.count}.{name}"
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
            sides[name] = str(path)
        return self(run, *overrides, **sides, **options)


@pytest.fixture
def scored(tmp_path: Path) -> Score:
    return Score(tmp_path)


def decoded(run: Path, folder: Path, *overrides: str, **options: Any) -> tuple[str, list[TraceRecord]]:
    """Decode into a traces file and read it back."""
    path = folder / "out.traces.jsonl"
    generate(run, output=str(path), form=Format.jsonl, overrides=overrides, overwrite=True, **options)
    return str(path), list(read_traces(path)[1])


def near(value: Any, *, abs: float = 1e-4, rel: float = 0.0) -> Any:
    """`pytest.approx` that mypy compares with anything."""
    return pytest.approx(value, abs=abs, rel=rel)


def tolerance(log_prob: float) -> float:
    """CONTRACT number 2."""
    return max(1e-4, 1e-5 * abs(log_prob))


def steps_of(run: Path, record: TraceRecord, source: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return log-probabilities of each word (and `<eod>`) and slot by teacher forcing."""
    assert record.ids is not None
    found = load_run(run, device=CPU).system.log_probs(collate(["x"], [source], [record.ids], [[record.order]]))
    return found.words[0, 0].tolist(), found.slots[0, 0].tolist()


class TestTraces:
    @pytest.mark.parametrize("name", ["tiny", "transformer", "scaled", "position_first"])
    @pytest.mark.slow
    def test_a_trained_model_scores_what_it_decoded(
        self, name: str, request: pytest.FixtureRequest, scored: Score, tmp_path: Path, tiny: Tiny
    ) -> None:
        """CONTRACT number 2: the whole, its parts, and every step; a low limit leaves some unfinished."""
        run = tiny.run if name == "tiny" else request.getfixturevalue(name)
        greedy = name == "position_first"
        options = ("decode.beam_size=1",) if greedy else ("decode.beam_size=6", "decode.max_length=3")
        path, records = decoded(run, tmp_path, *options, split="test", n_best=1 if greedy else 4)
        rows = scored(run, split="test", target=path)
        assert len(rows) == len(records) >= 6
        split = Corpus.open(tiny.corpus).split("test")
        for row, record in zip(rows, records, strict=True):
            assert (row.id, row.rank, row.orders) == (record.id, record.rank, (record.order,))
            assert row.log_probs is not None and row.parts is not None and row.bound == row.log_probs[0]
            assert row.log_probs[0] == near(record.log_prob, abs=tolerance(record.log_prob))
            assert row.parts.words[0] == near(sum(record.word_log_probs), abs=2e-4)
            assert row.parts.slots[0] == near(sum(record.slot_log_probs), abs=2e-4)
            words, slots = steps_of(run, record, split.source[int(split.lines.searchsorted(record.id))].tolist())
            assert words[: len(record.ids or ())] == near(record.word_log_probs, abs=1e-4)
            assert slots == near(record.slot_log_probs, abs=1e-4)
            if record.finished:
                assert row.parts.ends[0] == near(record.end_log_prob, abs=1e-4)
                assert words[-1] == near(record.end_log_prob, abs=1e-4)
            else:
                assert row.parts.ends == (None,)
        if not greedy:
            assert {record.finished for record in records} == {True, False}
        assert scored.header["order"] == "traces" and "split" not in scored.header
        assert scored.summary.predictions == sum(len(r.order) + r.finished for r in records)

    def test_of_raw_text_the_sources_are_its_lines(self, tiny: Tiny, scored: Score, tmp_path: Path) -> None:
        """Blank lines, which the model never saw, cost nothing; unknown words and cut sources are as in decoding."""
        text = tmp_path / "in.txt"
        text.write_text("bee cat\n\n" + "dog " * 20 + "\nwhat ibis\n", "utf-8")
        path, records = decoded(tiny.run, tmp_path, source=str(text), n_best=2)
        rows = scored(tiny.run, source=str(text), target=path)
        assert [row.log_probs for row in rows] == [(near(r.log_prob, abs=1e-4),) for r in records]
        blank = next(row for row in rows if row.id == 1)
        assert (blank.orders, blank.log_probs) == (((),), (0.0,))
        assert scored.summary.cut.count == 2

    def test_given_words_cost_nothing(self, tiny: Tiny, scored: Score, tmp_path: Path) -> None:
        path, _ = decoded(tiny.run, tmp_path, split="test")
        lines = Path(path).read_text("utf-8").splitlines()
        row = json.loads(lines[1])
        assert len(row["ids"]) >= 2
        row["rounds"][0] = -1
        (tmp_path / "given.jsonl").write_text(f"{lines[0]}\n{json.dumps(row)}\n", "utf-8")
        (found,) = scored(tiny.run, split="test", target=str(tmp_path / "given.jsonl"))
        missing = row["word_log_probs"][0] + row["slot_log_probs"][0]
        assert found.log_probs == (near(row["log_prob"] - missing, abs=1e-4),)
        assert scored.summary.tokens == len(row["ids"]) - 1

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda h, r: h.update(vocabulary="0" * 64), "another vocabulary"),
            (lambda h, r: h.pop("vocabulary"), "another vocabulary"),
            (lambda h, r: h.update(version=2), "newer"),
            (lambda h, r: r.pop("ids"), "no vocabulary ids"),
            (lambda h, r: r.update(ids=[999] * len(r["ids"])), "not all words"),
            (lambda h, r: r.update(ids=[FIRST_WORD] * len(r["ids"])), "not all words"),
            (lambda h, r: r.update(id=77), "line 77 .from 0. is not a kept pair of split 'test'"),
            (lambda h, r: r.update(slots=[9] * len(r["ids"])), "same insertions"),
        ],
    )
    def test_foreign_or_damaged_ones_are_refused(
        self, tiny: Tiny, scored: Score, tmp_path: Path, change: Callable[..., Any], message: str
    ) -> None:
        path, _ = decoded(tiny.run, tmp_path, split="test")
        header, row, *_ = (json.loads(line) for line in Path(path).read_text("utf-8").splitlines())
        change(header, row)
        Path(path).write_text(f"{json.dumps(header)}\n{json.dumps(row)}\n", "utf-8")
        with pytest.raises(IndigoError, match=message) as caught:
            scored(tiny.run, split="test", target=path)
        assert caught.value.where.startswith(path) and caught.value.exit_code == 2
        assert not list(tmp_path.glob("*.scores.jsonl"))

    def test_ids_must_not_fall_where_the_sources_are_read_once(self, tiny: Tiny, scored: Score, tmp_path: Path) -> None:
        text = tiny.recipe_path.parent / "test.src"
        path, records = decoded(tiny.run, tmp_path, source=str(text))
        header, *rows = Path(path).read_text("utf-8").splitlines()
        Path(path).write_text("\n".join([header, *rows[::-1]]) + "\n", "utf-8")
        with pytest.raises(DataError, match="id 4 comes behind id 5"):
            scored(tiny.run, source=str(text), target=path)
        by_id = {row.id: row.log_probs for row in scored(tiny.run, split="test", target=path)}
        assert by_id == {record.id: (near(record.log_prob, abs=1e-4),) for record in records}
        text = tmp_path / "short.txt"
        text.write_text("bee\n", "utf-8")
        with pytest.raises(DataError, match="has no line 5"):
            scored(tiny.run, source=str(text), target=path)


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
        with pytest.raises(UsageError, match="needs a dependency parse"):
            scored(tiny.run, "order.name=syn")

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


def strip(row: OrdersRow) -> Any:
    """Return what a row says, without where it stands; log-probabilities without the noise of their batch."""
    return row.id, set(row.orders), [near(p, abs=1e-3) for p in row.log_probs or ()]


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


@pytest.mark.parametrize("options", [{}, {"draws": 7}])
def test_neither_batches_nor_blocks_change_a_row(
    tiny: Tiny, scored: Score, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    usual = scored(tiny.run, split="valid", **options)
    for budget, lines in ((1, 2000), (9, 2000), (64, 3), (100_000, 2000)):
        monkeypatch.setattr(targets_module, "BLOCK_LINES", lines)
        other = scored(tiny.run, f"train.batch_tokens={budget}", split="valid", **options)
        assert [strip(row) for row in other] == [strip(row) for row in usual]
    seen: list[tuple[int, int]] = []

    def count(ids: Any, sources: Any, targets: Any, orders: Any) -> Any:
        seen.append((len(ids) * len(orders[0]) * max(map(len, targets)), len({len(o) for o in orders})))
        return collate(ids, sources, targets, orders)

    monkeypatch.setattr("indigo_cli.engine.score.collate", count)
    scored(tiny.run, "train.batch_tokens=30", split="train", **options)
    assert max(tokens for tokens, _ in seen) <= 30 and {counts for _, counts in seen} == {1}


def test_a_transformer_scores_l2r_only(tiny: Tiny, transformer: Path, scored: Score, tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    write_orders(path, {}, [OrdersRow(0, ((0, 1),)), OrdersRow(1, ((1, 0),))])
    pairs = [("bee cat", "cat bee"), ("bee", "bee dog")]
    with pytest.raises(UsageError, match="scores l2r only, but target 1") as caught:
        scored.text(transformer, pairs, orders=path)
    assert caught.value.fix
    rows = scored.text(transformer, pairs)
    assert [row.parts.slots for row in rows if row.parts] == [(0.0,), (0.0,)]
    write_orders(path, {}, [OrdersRow(0, ((0, 1),)), OrdersRow(1, ((0, 1),))], overwrite=True)
    assert [strip(row) for row in scored.text(transformer, pairs, orders=path)] == [strip(row) for row in rows]
    traces, records = decoded(tiny.run, tmp_path, split="test")
    assert any(record.order != tuple(range(len(record.order))) for record in records)
    with pytest.raises(UsageError, match="scores l2r only"):
        scored(transformer, split="test", target=traces)
    with pytest.raises(RecipeError, match="does not go with"):
        scored(transformer, "order.name=r2l")


def test_lines_that_are_empty_long_or_unknown(tiny: Tiny, scored: Score, capsys: pytest.CaptureFixture[str]) -> None:
    long = " ".join(["bee"] * (MAX_LENGTH + 3))
    pairs = [("bee", ""), ("", "bee"), ("", ""), (long, "cat"), ("cat", long), ("hen", "hen whatever"), ("koi", "koi")]
    rows = scored.text(tiny.run, pairs, *L2R)
    assert [row.id for row in rows] == list(range(7))
    assert [len(row.orders[0]) for row in rows] == [0, 1, 0, 1, MAX_LENGTH + 3, 2, 1]
    assert all(row.parts is not None and row.parts.ends[0] is not None and row.parts.ends[0] < 0 for row in rows)
    cut = scored.text(tiny.run, [(" ".join(["bee"] * MAX_LENGTH), "cat")], *L2R)
    assert cut[0].log_probs == (near((rows[3].log_probs or (0.0,))[0], abs=1e-4),)
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert warnings == [
        "warning: 1 line was read with a source cut to preprocess.max_length, as in decoding: line 4",
        "warning: 1 line was longer than preprocess.max_length, which training never saw, and scored whole: line 5",
        "warning: 1 line was scored with <unk> for words that the vocabulary does not have: line 6",
    ]


def test_a_target_that_no_memory_can_hold(tiny: Tiny, scored: Score, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets_module, "LONGEST_TARGET", 5)
    with pytest.raises(DataError, match="the target has 6 tokens, and at most 5") as caught:
        scored.text(tiny.run, [("bee", "bee"), ("bee", "bee " * 6)])
    assert caught.value.where.endswith("target:2")


def test_weights_that_are_no_numbers(tiny: Tiny, scored: Score, tmp_path: Path) -> None:
    run = Path(shutil.copytree(tiny.run, tmp_path / "run", symlinks=True))
    path = open_checkpoint(run).folder / MODEL_FILE
    save_file({name: tensor * math.nan for name, tensor in load_file(path).items()}, path)
    with pytest.raises(RunError, match=r"target 0 \(from 0\) no finite"):
        scored(run)


def test_nothing_to_score(tiny: Tiny, scored: Score, tmp_path: Path) -> None:
    for name in ("source", "target"):
        (tmp_path / name).write_text("", "utf-8")
    assert scored(tiny.run, source=str(tmp_path / "source"), target=str(tmp_path / "target")) == []
    assert scored.summary.text() == "scored 0 targets, 0 tokens, one order each"


@pytest.mark.parametrize(("source", "target"), [(2, 3), (3, 2), (0, 1)])
def test_files_of_different_lengths(tiny: Tiny, scored: Score, tmp_path: Path, source: int, target: int) -> None:
    for name, lines in (("source", source), ("target", target)):
        (tmp_path / name).write_text("bee\n" * lines, "utf-8")
    sides = {name: str(tmp_path / name) for name in ("source", "target")}
    with pytest.raises(DataError, match=f"has {min(source, target)} lines, .* has more"):
        scored(tiny.run, **sides)
    assert not list(tmp_path.glob("*.scores.jsonl"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "valid", "source": "x"}, "both name the sources"),
        ({"source": "x"}, "needs the targets"),
        ({"source": "-", "target": "-"}, "cannot both come from standard input"),
        ({"target": "TEXT"}, "needs the sources"),
        ({"target": "TEXT", "split": "valid"}, "has targets of its own"),
        ({"target": "TRACES"}, "sources of these traces are not named"),
        ({"target": "TRACES", "split": "test", "orders": Path("x")}, "in the orders they have"),
        ({"target": "TRACES", "split": "test", "draws": 2}, "not drawn"),
        ({"split": "nope"}, "no split 'nope'"),
        ({"target": "missing", "source": "x"}, "no such file"),
    ],
)
def test_options_that_say_nothing_together(
    tiny: Tiny, scored: Score, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    (tmp_path / "TEXT").write_text('{"format": "indigo-orders"}\n', "utf-8")  # text is what is not traces
    if options.get("target") == "TRACES":
        shutil.copy(decoded(tiny.run, tmp_path, split="test")[0], tmp_path / "TRACES")
    options = {k: str(tmp_path / v) if k == "target" and v != "-" else v for k, v in options.items()}
    with pytest.raises(UsageError, match=message):
        scored(tiny.run, **options)


def test_a_bag_is_made_from_its_target(tmp_path: Path, scored: Score) -> None:
    """Word ordering: --target alone; with --input the bag comes from there, in any order."""
    write_task(tmp_path)
    recipe = tmp_path / "bags.toml"
    lines = RECIPE.replace('source = ["train.src"], ', "").replace('source = ["valid.src"], ', "")
    lines = lines.replace('source = ["test.src"], ', "").replace("[data]", '[data]\ntask = "word_ordering"')
    recipe.write_text(lines, "utf-8")
    settings = load_recipe(recipe, ["train.max_steps=3"])
    prepare(settings, tmp_path / "corpus")
    from indigo_cli.engine.fit import train

    train(settings, output=tmp_path / "run", corpus_folder=tmp_path / "corpus")
    split = scored(tmp_path / "run")
    rows = scored(tmp_path / "run", target=str(tmp_path / "valid.tgt"))
    assert [strip(row) for row in rows] == [strip(row) for row in split]
    shuffled = tmp_path / "shuffled"
    text = (tmp_path / "valid.tgt").read_text("utf-8").splitlines()
    shuffled.write_text("".join(f"{' '.join(sorted(line.split()))}\n" for line in text), "utf-8")
    rows = scored(tmp_path / "run", source=str(shuffled), target=str(tmp_path / "valid.tgt"))
    assert [strip(row) for row in rows] == [strip(row) for row in split]


@pytest.mark.slow
def test_position_first_learns_and_decodes_greedily(position_first: Path, tmp_path: Path) -> None:
    losses = [row["loss"] for row in valid_rows(position_first).values()]
    assert losses[-1] < losses[0] < 4.0
    _, records = decoded(position_first, tmp_path, "decode.beam_size=1", split="test")
    assert sum(record.finished for record in records) >= 3 and any(len(record.order) > 1 for record in records)
