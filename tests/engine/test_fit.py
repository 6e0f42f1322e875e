"""Training runs: what they write, where they end, and that resumed ones are the same bit for bit."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from indigo_cli.data.batch import Batch
from indigo_cli.data.collate import collate
from indigo_cli.data.corpus import Corpus
from indigo_cli.engine import order_source
from indigo_cli.engine.assign import OrderConfig
from indigo_cli.engine.checkpoint import open_checkpoint
from indigo_cli.engine.loaded_run import load_run
from indigo_cli.engine.optim import learning_rate
from indigo_cli.engine.order_source import OrderedSplit
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.train_config import TrainConfig
from indigo_cli.errors import CheckpointError, RunError, UsageError
from indigo_cli.recipe import load_recipe
from tests.runs import log_of, names_in, same, state_of, training_rows, valid_rows
from tests.tiny import Tiny, write_task

pytestmark = pytest.mark.slow

INDIGO = ("train.accumulate=2", "model.dropout=0.3")
TRANSFORMER = ("model.system=transformer", "order.name=l2r", "model.dropout=0.3")


class TestWhatIsWritten:
    def test_rows_of_the_log(self, tiny: Tiny, tmp_path: Path) -> None:
        summary = tiny.train(tmp_path / "run", "train.max_steps=5", "train.accumulate=2")
        assert summary.step == 5
        rows = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text("utf-8").splitlines()]
        training = [row for row in rows if "split" not in row]
        assert [row["step"] for row in training] == [1, 2, 3, 4, 5]
        for row in training:
            assert row.keys() == {
                "step", "epoch", "loss", "loss_word", "loss_position", "lr", "tokens_per_second", "grad_norm",
            }  # fmt: skip
            assert all(math.isfinite(value) for value in row.values())
            assert row["tokens_per_second"] > 0 and row["grad_norm"] > 0
            assert row["lr"] == learning_rate(row["step"], peak=1e-2, warmup_steps=3)
        validation = [row for row in rows if row.get("split") == "valid"]
        assert [row["step"] for row in validation] == [3, 5]  # the last step always
        assert summary.best_loss == min(row["loss"] for row in validation)
        assert f"{summary.best_loss:.4f}" in summary.text()

    def test_log_every_averages_over_the_steps_between(self, tiny: Tiny, tmp_path: Path) -> None:
        """One dropout-free run logged at each step and at every third: terms are weighted, not steps."""
        for every in (1, 3):
            tiny.train(tmp_path / str(every), "model.dropout=0", f"train.log_every={every}")
        each, third = training_rows(tmp_path / "1"), training_rows(tmp_path / "3")
        assert [row["step"] for row in third] == [3, 6]
        assert third[1]["lr"] == each[5]["lr"] and third[1]["grad_norm"] == each[5]["grad_norm"]
        split = OrderedSplit(Corpus.open(tiny.corpus), "train", OrderConfig(name="rnd"), seed=1, batch_tokens=64)
        batches = [micro.load() for micro in split.stream(epoch=0, skip=0, max_epochs=3)][:6]
        for rows, row, group in ((each[:3], third[0], batches[:3]), (each[3:], third[1], batches[3:])):
            weights = [batch.num_predictions for batch in group]
            expected = sum(w * r["loss"] for w, r in zip(weights, rows, strict=True)) / sum(weights)
            assert row["loss"] == pytest.approx(expected, rel=1e-5)

    def test_validation_is_by_parts_without_smoothing_or_dropout(self, tiny: Tiny, tmp_path: Path) -> None:
        tiny.train(tmp_path / "run", "train.label_smoothing=0.3", "model.dropout=0.5", "train.max_steps=3")
        system = load_run(tmp_path / "run", checkpoint="last", device=torch.device("cpu")).system
        split = OrderedSplit(Corpus.open(tiny.corpus), "valid", OrderConfig(name="rnd"), seed=1, batch_tokens=999)
        with torch.no_grad():
            parts = [system(micro_batch.load()).parts for micro_batch in split.once()]
        word, position = (sum(float(p[name][0]) for p in parts) for name in ("word", "position"))
        predictions, words = (sum(p[name][1] for p in parts) for name in ("word", "position"))
        row = valid_rows(tmp_path / "run")[3]
        assert row["loss_word"] == pytest.approx(word / predictions, rel=1e-4)
        assert row["loss_position"] == pytest.approx(position / words, rel=1e-4)
        assert row["loss"] == pytest.approx((word + position) / predictions, rel=1e-4)

    def test_names_and_pruning(self, tiny: Tiny, tmp_path: Path) -> None:
        options = ["train.save_every=1", "train.keep=2", "train.validate_every=2", "train.max_steps=9"]
        tiny.train(tmp_path / "run", *options, "train.keep_cpu_minutes=[1e-9, 9e9]", "train.learning_rate=1e-1")
        names = names_in(tmp_path / "run")
        losses = {step: row["loss"] for step, row in valid_rows(tmp_path / "run").items()}
        assert losses.keys() == {2, 4, 6, 8, 9}
        best = f"step-{min(losses, key=losses.__getitem__):08d}"
        assert names.pop("last") == "step-00000009"
        assert names.pop("best") == best
        assert names.pop("cpu-1e-09m") == "step-00000001"
        assert names.keys() == {"step-00000001", "step-00000008", "step-00000009", best}
        assert not any(names.values())

    def test_the_run_folder_is_enough_for_itself(self, tiny: Tiny, tmp_path: Path) -> None:
        tiny.train(tmp_path / "run", "train.max_steps=1", "seed=4")
        assert load_recipe(tmp_path / "run" / "recipe.toml") == tiny.recipe("train.max_steps=1", "seed=4")
        facts = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
        assert facts["corpus"] == str(tiny.corpus)
        assert facts["corpus_digest"] == Corpus.open(tiny.corpus).digest
        assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
            ".lock",
            "assets",
            "checkpoints",
            "log.jsonl",
            "recipe.toml",
            "run.json",
        ]

    def test_the_same_seed_gives_the_same_bytes(self, tiny: Tiny, tmp_path: Path) -> None:
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            tiny.train(tmp_path / name, *INDIGO, f"seed={seed}", "train.max_steps=2")
        content = [(tmp_path / name / "checkpoints/last/model.safetensors").read_bytes() for name in "abc"]
        assert content[0] == content[1] != content[2]
        assert log_of(tmp_path / "a") == log_of(tmp_path / "b") != log_of(tmp_path / "c")

    def test_an_empty_valid_split(self, tmp_path: Path) -> None:
        recipe = write_task(tmp_path, sizes={"train": 20, "valid": 0, "test": 2})
        prepare(load_recipe(recipe), tmp_path / "corpus")
        summary = Tiny(recipe, tmp_path / "corpus", tmp_path).train(tmp_path / "run", "train.max_steps=2")
        assert valid_rows(tmp_path / "run") == {}
        assert "best" not in names_in(tmp_path / "run")
        assert "validation" not in summary.text()


class TestLimits:
    def test_epochs(self, tiny: Tiny, tmp_path: Path) -> None:
        """Two epochs are every micro-batch twice, in updates of 3, the last one short."""
        split = OrderedSplit(Corpus.open(tiny.corpus), "train", OrderConfig(), seed=1, batch_tokens=64)
        micro_batches = len(list(split.stream(epoch=0, skip=0, max_epochs=2)))
        summary = tiny.train(
            tmp_path / "run", "train.max_steps=0", "train.max_epochs=2", "train.accumulate=3", "train.log_every=1"
        )
        assert summary.step == math.ceil(micro_batches / 3)
        assert training_rows(tmp_path / "run")[-1]["epoch"] == 1
        again = tiny.train(
            tmp_path / "run", "train.max_steps=0", "train.max_epochs=2", "train.accumulate=3", resume=True
        )
        assert again.step == summary.step

    @pytest.mark.parametrize("limit", ["max_minutes", "max_cpu_minutes"])
    def test_minutes(self, tiny: Tiny, tmp_path: Path, limit: str) -> None:
        summary = tiny.train(tmp_path / "run", "train.max_steps=0", f"train.{limit}=1e-7")
        assert summary.step <= 1
        assert tiny.train(tmp_path / "two", "train.max_steps=2", f"train.{limit}=1000").step == 2

    def test_cpu_minutes_add_up_over_resumed_parts(self, tiny: Tiny, tmp_path: Path) -> None:
        first = tiny.train(tmp_path / "run", "train.max_steps=2")
        second = tiny.train(tmp_path / "run", "train.max_steps=3", resume=True)
        assert second.cpu_minutes > first.cpu_minutes > 0

    def test_some_limit_is_needed(self) -> None:
        with pytest.raises(ValueError, match="some limit is needed"):
            TrainConfig(max_steps=0)


class TestResume:
    @pytest.mark.parametrize("options", [INDIGO, TRANSFORMER])
    @pytest.mark.parametrize("stop", [1, 3, 4])
    def test_case_73_six_updates_are_some_and_the_rest(
        self, tiny: Tiny, undisturbed: Callable[..., Path], tmp_path: Path, options: tuple[str, ...], stop: int
    ) -> None:
        """Weights, moments and log, bit for bit, with dropout; some stops are in mid-epoch, one may end an epoch."""
        whole = undisturbed(*options)
        tiny.train(tmp_path / "parts", *options, f"train.max_steps={stop}", "train.validate_every=7")
        tiny.train(tmp_path / "parts", *options, resume=True)
        assert same(state_of(whole), state_of(tmp_path / "parts"))
        assert training_rows(whole) == training_rows(tmp_path / "parts")
        later = {step: row for step, row in valid_rows(tmp_path / "parts").items() if step > stop}
        assert later == {step: row for step, row in valid_rows(whole).items() if step > stop}

    def test_stops_lie_within_and_between_epochs(self, tiny: Tiny, tmp_path: Path) -> None:
        """What the test above needs to mean something."""
        tiny.train(tmp_path / "run", *INDIGO, "train.save_every=1", "train.keep=9")
        split = OrderedSplit(Corpus.open(tiny.corpus), "train", OrderConfig(), seed=1, batch_tokens=64)
        epoch_length = len(list(split.stream(epoch=0, skip=0, max_epochs=1)))
        places = [open_checkpoint(tmp_path / "run", f"step-0000000{step}").facts for step in range(1, 7)]
        assert any(0 < place["skip"] < epoch_length for place in places)
        assert places[-1]["epoch"] >= 1

    def test_case_81_the_schedule_goes_on(self, tiny: Tiny, tmp_path: Path) -> None:
        tiny.train(tmp_path / "run", "train.max_steps=4")
        tiny.train(tmp_path / "run", "train.max_steps=5", resume=True)
        assert training_rows(tmp_path / "run")[4]["lr"] == learning_rate(5, peak=1e-2, warmup_steps=3) < 1e-2

    def test_a_line_that_ends_with_the_run_keeps_its_end(self, tiny: Tiny, tmp_path: Path) -> None:
        line = "train.schedule=linear"
        tiny.train(tmp_path / "run", line, "train.max_steps=4")
        rates = [row["lr"] for row in training_rows(tmp_path / "run")]
        assert rates == [learning_rate(s, peak=1e-2, warmup_steps=3, decay_steps=4) for s in (1, 2, 3, 4)]
        with pytest.raises(UsageError, match=r"train\.max_steps: 4 -> 5"):
            tiny.train(tmp_path / "run", line, "train.max_steps=5", resume=True)

    def test_a_line_goes_on_where_a_run_was_stopped(self, tiny: Tiny, tmp_path: Path) -> None:
        """Stopped by another limit than `max_steps`, which must stay."""
        line = ("train.schedule=linear", "train.max_steps=12", "model.dropout=0.3")
        tiny.train(tmp_path / "whole", *line)
        assert 3 < tiny.train(tmp_path / "parts", *line, "train.max_epochs=1", "train.validate_every=99").step < 12
        tiny.train(tmp_path / "parts", *line, resume=True)
        assert same(state_of(tmp_path / "whole"), state_of(tmp_path / "parts"))
        assert training_rows(tmp_path / "whole") == training_rows(tmp_path / "parts")

    def test_the_log_is_cut_back_to_the_checkpoint(
        self, tiny: Tiny, undisturbed: Callable[..., Path], tmp_path: Path
    ) -> None:
        """Rows that a killed run wrote after its last checkpoint, the last one half."""
        whole = undisturbed(*INDIGO)
        tiny.train(tmp_path / "run", *INDIGO, "train.max_steps=3")
        with open(tmp_path / "run" / "log.jsonl", "ab") as log:
            log.write(b'{"step": 4, "loss": 9.0}\n{"step": 5, "loss": 9.0}\n{"step": 6, "lo')
        tiny.train(tmp_path / "run", *INDIGO, resume=True)
        assert log_of(tmp_path / "run") == log_of(whole)

    def test_a_finished_run_stays_as_it_is(self, tiny: Tiny, tmp_path: Path) -> None:
        tiny.train(tmp_path / "run")
        before = state_of(tmp_path / "run"), log_of(tmp_path / "run"), names_in(tmp_path / "run")
        assert tiny.train(tmp_path / "run", resume=True).step == 6
        assert same(before[0], state_of(tmp_path / "run"))
        assert before[1:] == (log_of(tmp_path / "run"), names_in(tmp_path / "run"))

    @pytest.mark.parametrize("saved", [False, True])
    def test_where_nothing_was_saved_it_starts_at_the_beginning(
        self,
        tiny: Tiny,
        undisturbed: Callable[..., Path],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        saved: bool,
    ) -> None:
        whole = undisturbed(*INDIGO)
        if saved:
            tiny.train(tmp_path / "run", *INDIGO, "train.max_steps=2")
            shutil.rmtree(tmp_path / "run" / "checkpoints")
        capsys.readouterr()
        tiny.train(tmp_path / "run", *INDIGO, resume=True)
        assert "nothing was saved yet" in capsys.readouterr().err
        assert same(state_of(whole), state_of(tmp_path / "run"))
        assert log_of(whole) == log_of(tmp_path / "run")

    @pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
    def test_case_69_a_damaged_checkpoint_is_said_and_the_one_before_taken(
        self,
        tiny: Tiny,
        undisturbed: Callable[..., Path],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        share: float,
    ) -> None:
        whole = undisturbed(*INDIGO)
        tiny.train(tmp_path / "run", *INDIGO, "train.max_steps=4", "train.save_every=2")
        path = tmp_path / "run" / "checkpoints" / "step-00000004" / "training.safetensors"
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])
        tiny.train(tmp_path / "run", *INDIGO, resume=True)
        err = capsys.readouterr().err
        assert "warning: step-00000004 cannot be used" in err and "resumed at step 3" in err
        assert same(state_of(whole), state_of(tmp_path / "run"))
        assert training_rows(whole) == training_rows(tmp_path / "run")

    def test_another_corpus_is_refused(self, tiny: Tiny, tmp_path: Path) -> None:
        """Made again from other text: same recipe, even the same size of vocabulary."""
        tiny.train(tmp_path / "run", "train.max_steps=1")
        prepare(load_recipe(write_task(tmp_path, seed=9)), tmp_path / "corpus")
        before = names_in(tmp_path / "run"), (tmp_path / "run" / "run.json").read_bytes()
        with pytest.raises(UsageError, match="another corpus_digest"):
            tiny.train(tmp_path / "run", "train.max_steps=2", resume=True, corpus_folder=tmp_path / "corpus")
        assert before == (names_in(tmp_path / "run"), (tmp_path / "run" / "run.json").read_bytes())

    def test_a_vocabulary_that_is_not_that_of_the_checkpoint(self, tiny: Tiny, tmp_path: Path) -> None:
        """The checkpoint was put there from another run."""
        other = Tiny(write_task(tmp_path, seed=9), tmp_path / "corpus", tmp_path)
        prepare(other.recipe(), other.corpus)
        other.train(tmp_path / "other", "train.max_steps=1")
        tiny.train(tmp_path / "run", "train.max_steps=1")
        shutil.rmtree(tmp_path / "run" / "checkpoints")
        shutil.copytree(tmp_path / "other" / "checkpoints", tmp_path / "run" / "checkpoints", symlinks=True)
        with pytest.raises(CheckpointError, match="vocabulary does not belong to this checkpoint"):
            tiny.train(tmp_path / "run", "train.max_steps=2", resume=True)


class TestNonFinite:
    def poison(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        """Make the loss of one example, and so the gradient of its update, NaN."""

        def poisoned(ids: list[str], *rest: Any, **options: Any) -> Batch:
            batch = collate(ids, *rest, **options)
            if name in ids:
                batch.plan.weights[ids.index(name)] = math.nan
            return batch

        monkeypatch.setattr(order_source, "collate", poisoned)

    def test_it_never_reaches_the_weights(self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        options = (*INDIGO, "train.save_every=1", "train.keep=99", "train.max_steps=12")
        tiny.train(tmp_path / "whole", *options)
        split = OrderedSplit(Corpus.open(tiny.corpus), "train", OrderConfig(name="rnd"), seed=1, batch_tokens=64)
        batches = [micro.load() for micro in split.stream(epoch=0, skip=0, max_epochs=1)]
        late = len(batches) - 1
        victim, step = batches[late].ids[-1], late // 2 + 1

        with monkeypatch.context() as patch:
            self.poison(patch, victim)
            with pytest.raises(RunError) as caught:
                tiny.train(tmp_path / "run", *options)
        error = caught.value
        assert error.exit_code == 1
        assert f"update {step} " in error.what and victim in error.what
        assert f"step-{step - 1:08d}" in error.fix
        assert [row["step"] for row in training_rows(tmp_path / "run")] == list(range(1, step))
        assert names_in(tmp_path / "run")["last"] == f"step-{step - 1:08d}"
        assert same(state_of(tmp_path / "run"), state_of(tmp_path / "whole", f"step-{step - 1:08d}"))
        tiny.train(tmp_path / "run", *options, resume=True)  # the data were mended
        assert same(state_of(tmp_path / "run"), state_of(tmp_path / "whole"))

    def test_in_the_first_update(self, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        split = OrderedSplit(Corpus.open(tiny.corpus), "train", OrderConfig(name="rnd"), seed=1, batch_tokens=64)
        batch = next(split.stream(epoch=0, skip=0)).load()
        self.poison(monkeypatch, batch.ids[0])
        with pytest.raises(RunError, match="update 1 is not finite") as caught:
            tiny.train(tmp_path / "run")
        assert "no checkpoint was saved yet" in caught.value.fix
        assert not (tmp_path / "run" / "checkpoints").exists()


def test_bf16_trains_with_finite_losses_near_those_of_fp32(tiny: Tiny, tmp_path: Path) -> None:

    for precision in ("fp32", "bf16"):
        tiny.train(tmp_path / precision, "model.dropout=0", runtime=Runtime("cpu", precision))
    for fp32, bf16 in zip(log_of(tmp_path / "fp32"), log_of(tmp_path / "bf16"), strict=True):
        assert bf16["loss"] == pytest.approx(fp32["loss"], rel=0.05)
