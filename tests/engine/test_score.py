"""Scores of given targets: the model's own log-probabilities, whatever the batch, and every wrong input named."""

import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.data.collate import collate
from indigo_cli.data.orders_file import OrdersRow, write_orders
from indigo_cli.engine import targets as targets_module
from indigo_cli.engine.prepare import prepare
from indigo_cli.errors import DataError, RecipeError, RunError, UsageError
from indigo_cli.recipe import load_recipe
from tests.marks import quick
from tests.runs import multiply_weights, valid_rows
from tests.scoring import Score, decoded, near, strip
from tests.tiny import MAX_LENGTH, RECIPE, Tiny, write_task

L2R = ("order.name=l2r",)


@pytest.mark.parametrize("options", quick([{}, {"draws": 7}]))
def test_neither_batches_nor_blocks_change_a_row(
    tiny: Tiny, scored: Score, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    usual = scored(tiny.run, split="valid", **options)
    for budget, lines in ((1, 2000), (9, 2000), (64, 3), (100_000, 2000)):
        monkeypatch.setattr("indigo_cli.engine.score.BLOCK_LINES", lines)
        other = scored(tiny.run, f"train.batch_tokens={budget}", split="valid", **options)
        assert [strip(row) for row in other] == [strip(row) for row in usual]
    seen: list[tuple[int, int]] = []

    def count(ids: Any, sources: Any, targets: Any, orders: Any, **wishes: Any) -> Any:
        seen.append((len(ids) * len(orders[0]) * max(map(len, targets)), len({len(o) for o in orders})))
        return collate(ids, sources, targets, orders, **wishes)

    monkeypatch.setattr("indigo_cli.engine.score.collate", count)
    scored(tiny.run, "train.batch_tokens=30", split="train", **options)
    assert max(tokens for tokens, _ in seen) <= 30 and {counts for _, counts in seen} == {1}


@pytest.mark.slow
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
    multiply_weights(run, math.nan)
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
