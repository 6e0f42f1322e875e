"""Training the Insertion Transformer: its trees are drawn anew, losses fall, and a stopped run goes on bit for bit."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from indigo_cli import load
from indigo_cli.core.order import stages
from indigo_cli.data.corpus import Corpus
from indigo_cli.engine.assign import DrawnTree, OrderConfig, assign, orders_for_split
from indigo_cli.engine.build import build_system
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.training_orders import orders_of_recipe, own_order
from indigo_cli.errors import RecipeError
from indigo_cli.recipe import dump_recipe, load_recipe
from tests.runs import log_of, same, state_of, training_rows, valid_rows
from tests.tiny import Tiny

INSERTION = ("model.system=insertion", "order.name=blt")


class TestRecipe:
    def test_a_recipe_without_an_order_learns_balanced_trees(self, tiny: Tiny, tmp_path: Path) -> None:
        path = tmp_path / "recipe.toml"
        path.write_text(tiny.recipe_path.read_text().replace('[order]\nname = "rnd"\n', ""))
        assert load_recipe(path).order.name == "l2r"
        recipe = load_recipe(path, ["model.system=insertion"])
        assert recipe.order.name == "blt"
        (tmp_path / "resolved.toml").write_text(dump_recipe(recipe))
        assert load_recipe(tmp_path / "resolved.toml") == recipe
        assert load_recipe(path, ["model.system=insertion", "order.name=cf"]).order.name == "cf"

    @pytest.mark.parametrize(
        ("override", "fault"),
        [
            ("model.termination=sequence", "termination"),
            ("model.slot_choice=factorised", "slot_choice"),
            ("model.positions=sinusoidal", "positions"),
            ("model.tree_temperature=-1", "tree_temperature"),
            ("order.name=sao", "does not go with"),
        ],
    )
    def test_what_does_not_go_together(self, tiny: Tiny, override: str, fault: str) -> None:
        with pytest.raises(RecipeError, match=fault):
            tiny.recipe(*INSERTION, override)

    def test_keys_of_other_systems_do_nothing(self, tiny: Tiny, capsys: pytest.CaptureFixture[str]) -> None:
        tiny.recipe(*INSERTION, "model.predict=position_first")
        assert "model.predict has no effect" in capsys.readouterr().err

    def test_keys_that_do_nothing_are_said(
        self, tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        idle = ("model.max_distance=3", "model.tree_temperature=0.5", "train.max_steps=1")
        tiny.train(tmp_path / "idle", *INSERTION, "order.name=l2r", *idle)
        said = capsys.readouterr().err
        assert 'model.max_distance has no effect with model.positions = "fractional"' in said
        assert 'model.tree_temperature has no effect with order.name = "l2r"' in said
        tiny.train(tmp_path / "used", *INSERTION, "model.positions=relative", *idle)
        assert "has no effect with" not in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("overrides", "aim"),
        [
            ((), "tree"),
            (("model.tree_temperature=0",), "first"),
            (("order.name=rnd",), "uniform"),
            (("order.name=cf",), "first"),
        ],
    )
    def test_the_order_says_what_a_slot_learns(self, tiny: Tiny, overrides: tuple[str, ...], aim: str) -> None:
        system = build_system(tiny.recipe(*INSERTION, *overrides), Corpus.open(tiny.corpus).codecs)
        assert system.aim == aim


class TestDrawnTrees:
    def test_only_this_system_draws_them(self, tiny: Tiny) -> None:
        drawn = own_order(tiny.recipe(*INSERTION, "model.tree_temperature=0.5"), "blt")
        assert drawn == DrawnTree(temperature=0.5) and drawn.rule.redrawn
        assert orders_of_recipe(tiny.recipe(*INSERTION), ["train"]) == {"train": DrawnTree()}
        for overrides in (("order.name=blt",), (*INSERTION, "model.tree_temperature=0")):
            order = own_order(tiny.recipe(*overrides), "blt")
            assert type(order) is OrderConfig and not order.rule.redrawn

    def test_they_hang_on_seed_epoch_and_line_alone(self, tiny: Tiny) -> None:
        corpus = Corpus.open(tiny.corpus)
        flat, offsets = orders_for_split(corpus, "train", DrawnTree(), seed=1, epoch=1)
        split = OrderedSplit(corpus, "train", DrawnTree(), seed=1, batch_tokens=20)
        assert split.redrawn
        epochs: list[dict[str, list[int]]] = [{}, {}]
        for micro in split.stream(epoch=0, skip=0, max_epochs=2):
            batch = micro.load()
            rows = zip(batch.ids, batch.plan.orders[:, 0].tolist(), batch.lengths.tolist(), strict=True)
            epochs[micro.epoch] |= {name: row[:length] for name, row, length in rows}
        names = [f"train:{line}" for line in corpus.split("train").lines]
        assert epochs[1] == dict(zip(names, (row.tolist() for row in np.split(flat, offsets[1:-1])), strict=True))
        assert epochs[0] != epochs[1] and epochs[0].keys() == epochs[1].keys()

    def test_words_that_are_split_anew_have_trees_of_their_own(self, tiny: Tiny) -> None:
        split = OrderedSplit(Corpus.open(tiny.corpus), "train", DrawnTree(), seed=1, batch_tokens=20)
        line, target = 3, list(range(5, 12))
        (order,) = split._rule_orders([line], [target], 0)
        (again,) = split._rule_orders([line], [target], 0)
        assert sorted(order) == list(range(7)) and list(order) == list(again)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("order.name=rnd", "model.positions=relative"),
        ("order.name=cf", "model.positions=ternary", "model.vocabulary_bias=true"),
        ("model.positions=absolute",),
    ],
    ids=["fractional", "relative", "ternary", "absolute"],
)
def test_losses_fall_and_a_stopped_run_ends_alike(tiny: Tiny, tmp_path: Path, settings: tuple[str, ...]) -> None:
    options = (*INSERTION, *settings, "train.max_steps=12")
    tiny.train(tmp_path / "whole", *options)
    rows = training_rows(tmp_path / "whole")
    assert rows[-1]["loss"] < rows[0]["loss"] - 0.2
    valid = valid_rows(tmp_path / "whole")
    assert valid[12]["loss"] < valid[3]["loss"]
    assert {"loss_word", "loss_close"} <= valid[3].keys()
    tiny.train(tmp_path / "run", *options[:-1], "train.max_steps=5")
    tiny.train(tmp_path / "run", *options, resume=True)
    assert same(state_of(tmp_path / "run"), state_of(tmp_path / "whole"))
    assert training_rows(tmp_path / "run") == rows


def test_a_loss_is_the_mean_over_all_slots(tiny: Tiny, tmp_path: Path) -> None:
    tiny.train(tmp_path / "run", *INSERTION, "train.max_steps=3", "train.label_smoothing=0", "model.dropout=0")
    lengths = np.asarray(Corpus.open(tiny.corpus).split("valid").target.lengths)
    row = valid_rows(tmp_path / "run")[3]
    words, gaps = lengths.sum(), lengths.sum() + len(lengths)
    assert row["loss"] == pytest.approx((row["loss_word"] * words + row["loss_close"] * gaps) / (words + gaps))


@pytest.mark.slow
def test_an_orders_file_is_followed(tiny: Tiny, tmp_path: Path) -> None:
    """Its words come first in their spans, whatever the recipe's order: as with the rule that wrote it."""
    for split in ("train", "valid"):
        assign(
            Corpus.open(tiny.corpus), OrderConfig(name="odd"), splits=[split], output=str(tmp_path / f"{split}.jsonl")
        )
    files = [tmp_path / f"{split}.jsonl" for split in ("train", "valid")]
    tiny.train(tmp_path / "file", *INSERTION, orders=files)
    tiny.train(tmp_path / "rule", *INSERTION, "order.name=odd")
    assert same(state_of(tmp_path / "file"), state_of(tmp_path / "rule"))


def test_a_bound_counts_each_history_once(tiny: Tiny, tmp_path: Path) -> None:
    """Orders that make the same rounds are one way to make the target; all ways together are at most certain."""
    tiny.train(tmp_path / "run", *INSERTION, "train.max_steps=1")
    run = load(tmp_path / "run", device="cpu")
    orders = list(permutations(range(3)))
    (row,) = run.score(["ant bee cat"], ["cat bee ant"], orders=[orders])
    assert row.log_probs is not None and row.bound is not None and len(row.log_probs) == 6
    by_history = {stages(order): log_prob for order, log_prob in zip(row.orders, row.log_probs, strict=True)}
    assert len(by_history) == 5
    assert row.bound == pytest.approx(np.logaddexp.reduce(list(by_history.values())))


@pytest.mark.slow
def test_bf16_is_near_fp32(tiny: Tiny, tmp_path: Path) -> None:
    for precision in ("fp32", "bf16"):
        tiny.train(tmp_path / precision, *INSERTION, "model.dropout=0", runtime=Runtime("cpu", precision))
    for fp32, bf16 in zip(log_of(tmp_path / "fp32"), log_of(tmp_path / "bf16"), strict=True):
        assert bf16["loss"] == pytest.approx(fp32["loss"], rel=0.05)
