"""Training on orders files and on rules: the same order gives the same run, and files must belong to the corpus."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from indigo_cli.data.corpus import Corpus
from indigo_cli.engine.assign import OrderConfig, assign
from indigo_cli.engine.fit import train
from indigo_cli.engine.loaded_run import load_run
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.errors import UsageError
from tests.fake_spacy import install_fake_spacy
from tests.runs import log_of, same, state_of, training_rows, valid_rows
from tests.tiny import Tiny


class TestOrders:
    def orders(self, tiny: Tiny, tmp_path: Path, name: str, split: str) -> Path:
        path = tmp_path / f"{split}.{name}.orders.jsonl"
        assign(Corpus.open(tiny.corpus), OrderConfig(name=name), splits=[split], output=str(path))
        return path

    def test_an_orders_file_is_the_rule_that_wrote_it(
        self, tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Same weights as with `order.name`; `valid` has no file: it is validated in l2r and the log says so."""
        tiny.train(tmp_path / "rule", "order.name=r2l")
        tiny.train(tmp_path / "file", orders=[self.orders(tiny, tmp_path, "r2l", "train")])
        assert "split valid has no orders file: it is validated in l2r" in capsys.readouterr().err
        assert same(state_of(tmp_path / "rule"), state_of(tmp_path / "file"))
        assert training_rows(tmp_path / "rule") == training_rows(tmp_path / "file")

        system = load_run(tmp_path / "file", checkpoint="last", device=torch.device("cpu")).system
        split = OrderedSplit(Corpus.open(tiny.corpus), "valid", OrderConfig(name="l2r"), seed=1, batch_tokens=64)
        with torch.no_grad():
            parts = [system(micro_batch.load()).parts["position"] for micro_batch in split.once()]
        expected = sum(float(nats) for nats, _ in parts) / sum(count for _, count in parts)
        assert valid_rows(tmp_path / "file")[6]["loss_position"] == pytest.approx(expected, rel=1e-4)
        assert valid_rows(tmp_path / "rule")[6]["loss_position"] != pytest.approx(expected, rel=1e-2)

    def test_one_file_a_split(self, tiny: Tiny, tmp_path: Path) -> None:
        files = [self.orders(tiny, tmp_path, "r2l", split) for split in ("valid", "train")]
        tiny.train(tmp_path / "rule", "order.name=r2l")
        tiny.train(tmp_path / "files", orders=files)
        assert log_of(tmp_path / "rule") == log_of(tmp_path / "files")

    def test_resuming_with_other_orders_is_refused(self, tiny: Tiny, tmp_path: Path) -> None:
        odd, blt = (self.orders(tiny, tmp_path, name, "train") for name in ("odd", "blt"))
        tiny.train(tmp_path / "run", "train.max_steps=1", orders=[odd])
        for orders in ([], [blt]):
            with pytest.raises(UsageError, match=r"another orders|order\.name"):
                tiny.train(tmp_path / "run", "train.max_steps=2", resume=True, orders=orders)
        moved = shutil.move(odd, tmp_path / "moved.jsonl")
        assert tiny.train(tmp_path / "run", "train.max_steps=2", resume=True, orders=[Path(moved)]).step == 2

    def test_syn_without_files_is_what_reorder_writes(
        self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        install_fake_spacy(tmp_path, monkeypatch, [("fake_model", "1.0"), ("en_core_web_sm", "3.8.0")])
        syn = ("order.name=syn", "order.parser=fake_model")
        tiny.train(tmp_path / "parsed", "train.max_steps=3", *syn)
        said = capsys.readouterr().err
        assert "fake_model parses split train" in said and "indigo reorder" in said and "--orders" in said
        files = []
        for split in ("train", "valid"):
            files.append(tmp_path / f"{split}.jsonl")
            config = OrderConfig(name="syn", parser="fake_model")
            assign(Corpus.open(tiny.corpus), config, splits=[split], output=str(files[-1]))
        tiny.train(tmp_path / "files", "train.max_steps=3", orders=files)
        assert same(state_of(tmp_path / "parsed"), state_of(tmp_path / "files"))
        for info in (tmp_path / "packages").glob("fake_model*/METADATA"):
            info.write_text(info.read_text().replace("1.0", "2.0"))
        with pytest.raises(UsageError, match="another orders"):
            tiny.train(tmp_path / "parsed", "train.max_steps=6", *syn, resume=True)

    def test_syn_without_a_parser_ends_before_it_begins(
        self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "spacy", None)
        with pytest.raises(UsageError, match="spaCy, which would make it, is not installed"):
            tiny.train(tmp_path / "run", "order.name=syn")
        assert not (tmp_path / "run").exists()

    def test_files_that_do_not_go_together(self, tiny: Tiny, tmp_path: Path) -> None:
        train_file, valid_file = (self.orders(tiny, tmp_path, "odd", split) for split in ("train", "valid"))
        for orders, message in (
            ([train_file, train_file], "two orders files for split 'train'"),
            ([valid_file], "no orders file is for split `train`"),
        ):
            with pytest.raises(UsageError, match=message):
                tiny.train(tmp_path / "run", orders=orders)
        assert not (tmp_path / "run").exists()

    def test_the_transformer_goes_left_to_right_only(self, tiny: Tiny, tmp_path: Path) -> None:
        recipe = tiny.recipe("model.system=transformer", "order.name=l2r")
        with pytest.raises(UsageError, match="l2r only, not rnd") as caught:  # a recipe would not have got so far
            train(replace(recipe, order=OrderConfig(name="rnd")), output=tmp_path / "run", corpus_folder=tiny.corpus)
        assert caught.value.where == "order.name"
        with pytest.raises(UsageError, match="cannot follow an orders file"):
            tiny.train(
                tmp_path / "run",
                "model.system=transformer",
                "order.name=l2r",
                orders=[self.orders(tiny, tmp_path, "l2r", "train")],
            )
        assert not (tmp_path / "run").exists()
