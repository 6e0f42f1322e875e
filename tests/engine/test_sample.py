"""Validation by decoding: the figure is that of `decode` and `evaluate`, and the training does not notice."""

import os
import shutil
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from indigo_cli.data.corpus import Corpus
from indigo_cli.engine import signals as signal_module
from indigo_cli.engine.assess import assess
from indigo_cli.engine.build import build_system
from indigo_cli.engine.generate import generate
from indigo_cli.engine.generator import Generator
from indigo_cli.engine.lines import EncodedLine
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.sample import Sample
from indigo_cli.errors import UsageError
from indigo_cli.recipe import load_recipe
from tests.runs import log_of, names_in, same, state_of, training_rows, valid_rows
from tests.tiny import Tiny, write_task

pytestmark = pytest.mark.slow

DECODE = ("train.validate_decode=99", 'evaluate.metrics=["bleu"]', "train.accumulate=2", "model.dropout=0.3")
INDIGO, TRANSFORMER = ("model.system=indigo",), ("model.system=transformer", "order.name=l2r")
POSITION_FIRST = ("model.predict=position_first",)


@pytest.mark.parametrize("system", [INDIGO, TRANSFORMER, POSITION_FIRST])
def test_the_training_is_the_same_with_and_without(tiny: Tiny, tmp_path: Path, system: tuple[str, ...]) -> None:
    tiny.train(tmp_path / "with", *DECODE, *system)
    tiny.train(tmp_path / "without", *DECODE, *system, "train.validate_decode=0")
    assert same(state_of(tmp_path / "with"), state_of(tmp_path / "without"))
    assert training_rows(tmp_path / "with") == training_rows(tmp_path / "without")
    rows, plain = valid_rows(tmp_path / "with"), valid_rows(tmp_path / "without")
    assert {step: {k: v for k, v in row.items() if k != "bleu"} for step, row in rows.items()} == plain
    assert all("bleu" in row for row in rows.values())


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 3])
def test_the_figure_is_that_of_decode_and_evaluate(tiny: Tiny, tmp_path: Path, beam: int) -> None:
    """On all of `valid`, whose lines all stand; a model that has learnt something."""
    options = ["train.max_steps=80", "train.validate_every=80", "model.dropout=0", 'evaluate.metrics=["ter"]']
    options += ["train.validate_decode=99", f"train.validate_beam={beam}", "train.best_by=chrf"]
    summary = tiny.train(tmp_path / "run", *options)
    row = valid_rows(tmp_path / "run")[80]
    output = tmp_path / "valid.txt"
    generate(tmp_path / "run", split="valid", output=str(output), overrides=[f"decode.beam_size={beam}"])
    references = [(tiny.recipe_path.parent / "valid.tgt").read_text("utf-8").splitlines()]
    config = replace(tiny.recipe().evaluate, metrics=["ter", "chrf"])
    report = assess({"it": output.read_text("utf-8").splitlines()}, references, config=config, resamples=1)
    scores = {name: figure.score for name, figure in report.systems[0].scores.items()}
    assert {name: row[name] for name in scores} == scores
    assert 5 < scores["chrf"] < 100 and summary.best_figure == scores["chrf"]
    assert f"best chrf {scores['chrf']:.2f}" in summary.text()


@pytest.mark.slow
def test_a_metric_chooses_the_best_in_its_own_direction(tiny: Tiny, tmp_path: Path) -> None:
    options = ["train.max_steps=16", "train.validate_every=2", "train.learning_rate=1e-1", "train.validate_decode=8"]
    tiny.train(tmp_path / "run", *options, "train.best_by=ter", "train.keep=9", "train.save_every=1")
    ter = {step: row["ter"] for step, row in valid_rows(tmp_path / "run").items()}
    assert len(set(ter.values())) > 2, "or the test says nothing"
    best = max(step for step in ter if ter[step] == min(ter.values()))
    assert names_in(tmp_path / "run")["best"] == f"step-{best:08d}"


def sample_of(tiny: Tiny, *overrides: str) -> Sample:
    recipe, corpus = tiny.recipe(*overrides), Corpus.open(tiny.corpus)
    system = build_system(recipe, corpus.codecs).eval()
    return Sample(recipe, corpus, system, device=torch.device("cpu"), runtime=Runtime())


def test_the_sample_is_fixed_and_spread(tiny: Tiny) -> None:
    numbers = sorted(line.number for line in sample_of(tiny, "train.validate_decode=4")._lines)
    assert numbers == [0, 2, 4, 6]
    assert len(sample_of(tiny, "train.validate_decode=99")._lines) == 8


def test_references_stay_with_their_lines(tiny: Tiny) -> None:
    sample = sample_of(tiny, "train.validate_decode=5")
    targets = (tiny.recipe_path.parent / "valid.tgt").read_text("utf-8").splitlines()
    assert sample._references == [[targets[line.number] for line in sample._lines]]


def test_without_the_raw_references_the_targets_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = write_task(tmp_path)
    prepare(load_recipe(recipe), tmp_path / "corpus")
    tiny = Tiny(recipe, tmp_path / "corpus", tmp_path)
    before = sample_of(tiny, "train.validate_decode=8")._references
    (tmp_path / "valid.tgt").unlink()
    capsys.readouterr()
    assert sample_of(tiny, "train.validate_decode=8")._references == before
    assert "note: the raw reference of the corpus is not there any more" in capsys.readouterr().err


def test_a_beam_that_the_system_cannot_have(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="decoded greedily") as caught:
        tiny.train(tmp_path / "run", *DECODE, *POSITION_FIRST, "train.validate_beam=2")
    assert caught.value.where == "train.validate_beam"
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("step", [3, 6])
@pytest.mark.parametrize("signals", [1, 2])
def test_a_signal_while_it_decodes(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, signals: int
) -> None:
    """One saves, two end it at once; either way the resumed run ends as one that was never stopped."""
    monkeypatch.setattr(signal_module, "AGAIN_SECONDS", 0.0)
    tiny.train(tmp_path / "whole", *DECODE)
    decode, seen = Generator.decode, 0

    def interrupted(generator: Generator, block: Sequence[EncodedLine]) -> Any:
        nonlocal seen
        seen += 1
        for _ in range(signals if seen == step // 3 else 0):
            os.kill(os.getpid(), signal.SIGTERM)
        return decode(generator, block)

    with monkeypatch.context() as patch:
        patch.setattr(Generator, "decode", interrupted)
        with pytest.raises(SystemExit) as caught:
            tiny.train(tmp_path / "run", *DECODE)
    assert caught.value.code == 143
    assert step not in valid_rows(tmp_path / "run")
    saved = (tmp_path / "run" / "checkpoints" / f"step-{step:08d}").exists()
    assert saved == (signals == 1)
    tiny.train(tmp_path / "run", *DECODE, resume=True)
    assert same(state_of(tmp_path / "whole"), state_of(tmp_path / "run"))
    assert log_of(tmp_path / "whole") == log_of(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
