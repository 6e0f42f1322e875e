"""Where a run may start: other runs, other corpora, other settings in the way, weights to start from."""

import shutil
from pathlib import Path

import pytest
import torch

from indigo_cli.data.corpus import Corpus
from indigo_cli.engine.assign import OrderConfig, assign
from indigo_cli.engine.checkpoint import open_checkpoint
from indigo_cli.engine.fit import train
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.run_folder import RECIPE_FILE, RunFolder, lock_folder
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.start import differing_keys
from indigo_cli.errors import CheckpointError, UsageError
from indigo_cli.recipe import load_recipe
from tests.tiny import Tiny, write_task


class TestOtherRunsInTheWay:
    def content(self, folder: Path) -> dict[str, bytes]:
        files = (path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    def test_case_79_a_run_that_stands_is_not_touched(self, tiny: Tiny, tmp_path: Path) -> None:
        tiny.train(tmp_path / "run", "train.max_steps=1")
        before = self.content(tmp_path / "run")
        for options in ((), ("model.ff_dim=8",)):
            with pytest.raises(UsageError, match="stands here already") as caught:
                tiny.train(tmp_path / "run", *options)
            assert "--resume" in caught.value.fix
        assert before == self.content(tmp_path / "run")

    def test_case_79_resuming_with_other_settings_lists_them(self, tiny: Tiny, tmp_path: Path) -> None:
        tiny.train(tmp_path / "run", "train.max_steps=1")
        before = self.content(tmp_path / "run")
        changed = ["model.ff_dim=8", "train.learning_rate=0.5", "seed=3", "order.name=l2r", "train.batch_tokens=65"]
        with pytest.raises(UsageError) as caught:
            tiny.train(tmp_path / "run", *changed, "train.max_steps=9", resume=True)
        for line in (
            "model.ff_dim: 32 -> 8",
            "train.learning_rate: 0.01 -> 0.5",
            "seed: 1 -> 3",
            "order.name: rnd -> l2r",
            "train.batch_tokens: 64 -> 65",
        ):
            assert line in caught.value.what
        assert "max_steps" not in caught.value.what
        assert before == self.content(tmp_path / "run")

    def test_what_no_update_depends_on_may_change(self, tiny: Tiny, tmp_path: Path) -> None:
        tiny.train(tmp_path / "run", "train.max_steps=1")
        free = ["name=other", "decode.beam_size=1", "train.log_every=2", "train.save_every=7", "train.keep=1"]
        summary = tiny.train(tmp_path / "run", *free, "train.max_steps=2", resume=True)
        assert summary.step == 2
        assert load_recipe(tmp_path / "run" / "recipe.toml").decode.beam_size == 1

    def test_a_run_of_an_earlier_version_knows_fewer_keys(self, tiny: Tiny, tmp_path: Path) -> None:
        tiny.train(tmp_path / "run", "train.max_steps=1")
        path = tmp_path / "run" / RECIPE_FILE
        text = path.read_text("utf-8")
        path.write_text(text.replace('predict = "word_first"\n', ""), "utf-8")
        assert len(path.read_text("utf-8")) < len(text)
        with pytest.raises(UsageError, match=r"model\.predict: word_first -> position_first"):
            tiny.train(tmp_path / "run", "train.max_steps=2", "model.predict=position_first", resume=True)
        assert tiny.train(tmp_path / "run", "train.max_steps=2", resume=True).step == 2
        assert path.read_text("utf-8") == text.replace("max_steps = 1\n", "max_steps = 2\n")

    @pytest.mark.parametrize("resume", [False, True])
    def test_a_folder_of_something_else(self, tiny: Tiny, tmp_path: Path, resume: bool) -> None:
        (tmp_path / "thesis.txt").write_text("mine", "utf-8")
        with pytest.raises(UsageError, match="not empty"):
            tiny.train(tmp_path, resume=resume)
        assert self.content(tmp_path) == {"thesis.txt": b"mine"}

    def test_an_empty_folder_will_do(self, tiny: Tiny, tmp_path: Path) -> None:
        assert tiny.train(tmp_path, "train.max_steps=1").run == tmp_path

    def test_differing_keys(self) -> None:
        old, new = "a = 1\nb = 2\n[t.u]\nx = [1, 2]\ny = 'q'\n", "a = 1\nc = 3\n[t.u]\nx = [1, 3]\ny = 'q'\n"
        assert differing_keys(old, new) == ["b: 2 -> not set", "c: not set -> 3", "t.u.x: [1, 2] -> [1, 3]"]
        assert differing_keys(old, old) == []


class TestInit:
    TINY_RATE = "train.learning_rate=1e-30"

    def test_weights_start_from_the_best_of_another_run(self, tiny: Tiny, tmp_path: Path) -> None:
        tiny.train(tmp_path / "run", self.TINY_RATE, "train.max_steps=1", "model.dropout=0", init=tiny.run)
        start, end = open_checkpoint(tiny.run).weights(), open_checkpoint(tmp_path / "run", "last").weights()
        assert start.keys() == end.keys()
        assert all(torch.allclose(start[name], end[name], rtol=0, atol=1e-20) for name in start)

    def test_case_43_another_vocabulary(self, tiny: Tiny, tmp_path: Path) -> None:
        recipe = write_task(tmp_path, seed=5)
        prepare(load_recipe(recipe), tmp_path / "corpus")
        sizes = [len(Corpus.open(path).codecs.target.vocabulary) for path in (tiny.corpus, tmp_path / "corpus")]
        assert sizes[0] == sizes[1]  # nothing but the digests tells them apart
        with pytest.raises(CheckpointError, match="vocabulary does not belong to this checkpoint"):
            tiny.train(tmp_path / "run", init=tiny.run, corpus_folder=tmp_path / "corpus")
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize("option", ["model.model_dim=32", "model.encoder_layers=2"])
    def test_other_sizes(self, tiny: Tiny, tmp_path: Path, option: str) -> None:
        with pytest.raises(CheckpointError, match="do not fit this model"):
            tiny.train(tmp_path / "run", option, "order.name=l2r", init=tiny.run)
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        "options", [["model.system=transformer", "order.name=l2r"], ["model.system=insertion", "order.name=blt"]]
    )
    def test_another_system_takes_what_both_have(
        self, tiny: Tiny, tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        settings = (*options, self.TINY_RATE, "train.max_steps=1", "model.dropout=0")
        for name, init in (("run", tiny.run), ("plain", None)):
            tiny.train(tmp_path / name, *settings, init=init)
            said = capsys.readouterr().err
            assert ("another kind of model" in said) == (init is not None)
            assert init is None or "not used: decoder.layers.*.attention.relation_table" in said
        found, plain = (open_checkpoint(tmp_path / name, "last").weights() for name in ("run", "plain"))
        start = open_checkpoint(tiny.run).weights()
        assert found.keys() == plain.keys() != start.keys()
        for name, tensor in found.items():
            assert torch.allclose(tensor, start.get(name, plain[name]), rtol=0, atol=1e-20), name
        shared = found.keys() & start.keys()
        assert any(not torch.allclose(start[name], plain[name]) for name in shared)

    def test_other_sizes_of_another_system_are_not_said_to_be_taken(
        self, tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(CheckpointError, match="do not fit this model"):
            tiny.train(tmp_path / "run", "model.system=insertion", "order.name=blt", "model.ff_dim=16", init=tiny.run)
        assert "another kind of model" not in capsys.readouterr().err

    def test_a_resumed_run_remembers_the_other_system(self, tiny: Tiny, tmp_path: Path) -> None:
        settings = ("model.system=insertion", "order.name=blt", "train.save_every=1")
        checkpoint = open_checkpoint(tiny.run).folder
        for name, steps in (("whole", [2]), ("parts", [1, 2])):
            for i, step in enumerate(steps):
                init = None if i else checkpoint
                tiny.train(tmp_path / name, *settings, f"train.max_steps={step}", init=init, resume=i > 0)
        whole, parts = (open_checkpoint(tmp_path / name, "last").weights() for name in ("whole", "parts"))
        assert all(torch.equal(whole[name], parts[name]) for name in whole)

    def test_not_a_run(self, tiny: Tiny, tmp_path: Path) -> None:
        with pytest.raises((CheckpointError, UsageError)) as caught:
            tiny.train(tmp_path / "run", init=tmp_path / "nothing")
        assert str(tmp_path / "nothing") in caught.value.where


def test_a_missing_corpus_names_the_command_that_makes_it(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no corpus") as caught:
        train(tiny.recipe(), output=tmp_path / "run", corpus_folder=tmp_path / "nothing")
    assert "indigo preprocess" in caught.value.fix
    assert str(tmp_path / "nothing") in caught.value.where
    assert not (tmp_path / "run").exists()


def test_the_default_folder(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert train(tiny.recipe("train.max_steps=1"), corpus_folder=tiny.corpus).run == Path("runs/tiny/rnd")
    assert Path("runs/tiny/rnd/checkpoints/last").exists()


def test_orders_files_name_the_default_folder(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assign(Corpus.open(tiny.corpus), OrderConfig(name="odd"), splits=["train"], output="mine.jsonl")
    summary = train(tiny.recipe("train.max_steps=1"), corpus_folder=tiny.corpus, orders=[Path("mine.jsonl")])
    assert summary.run == Path("runs/tiny/odd")
    stored = load_recipe(summary.run / RECIPE_FILE).order
    assert (stored.name, stored.file) == ("file", str(tmp_path / "mine.jsonl"))


def test_a_corpus_of_other_settings_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lowercase: False in the corpus, True here"):
        tiny.train(tmp_path / "run", "preprocess.lowercase=true")
    assert not (tmp_path / "run").exists()


def test_two_processes_cannot_train_into_one_folder(tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(UsageError, match="another process"), lock_folder(tmp_path):
        pass
    with pytest.raises(BlockingIOError, match="another"), lock_folder(tmp_path):
        raise BlockingIOError("another fault")
    with lock_folder(tmp_path):
        pass


def test_a_run_that_was_saved_needs_its_init_no_more(tiny: Tiny, tmp_path: Path) -> None:
    shutil.copytree(tiny.run, tmp_path / "first", symlinks=True)
    tiny.train(tmp_path / "run", "train.max_steps=1", init=tmp_path / "first")
    shutil.rmtree(tmp_path / "first")
    assert tiny.train(tmp_path / "run", "train.max_steps=2", resume=True).step == 2


def test_precision_and_init_are_remembered(tiny: Tiny, tmp_path: Path) -> None:
    run = tmp_path / "run"
    tiny.train(run, "train.max_steps=1", init=tiny.run)
    with pytest.raises(UsageError, match="another precision"):
        tiny.train(run, "train.max_steps=2", resume=True, runtime=Runtime(precision="bf16"))
    shutil.rmtree(run / "checkpoints")  # killed before its first save
    summary = tiny.train(run, "train.max_steps=1", resume=True)
    facts = RunFolder.open(summary.run).facts
    assert facts["init"]["run"] == str(tiny.run)


def test_two_vocabularies_cannot_share_embeddings(tmp_path: Path) -> None:
    recipe = write_task(tmp_path)
    (tmp_path / "train.tgt").write_text((tmp_path / "train.tgt").read_text("utf-8").upper(), "utf-8")
    prepare(load_recipe(recipe, ["preprocess.joint=false"]), tmp_path / "corpus")
    tiny = Tiny(recipe, tmp_path / "corpus", tmp_path)
    with pytest.raises(UsageError, match="cannot be shared") as caught:
        tiny.train(tmp_path / "run", "preprocess.joint=false")
    assert caught.value.where == "model.share_embeddings"
    summary = tiny.train(
        tmp_path / "run", "preprocess.joint=false", "model.share_embeddings=false", "train.max_steps=1"
    )
    assert summary.step == 1
