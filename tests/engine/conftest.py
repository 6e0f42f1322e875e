"""What several tests of the engine share: raw files, runs to score, what reads the scores back."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from indigo_cli.engine import offline_search
from tests.runs import multiply_weights
from tests.scoring import Score
from tests.searching import Search
from tests.tiny import Tiny
from tests.workshop import Workshop


@pytest.fixture(scope="session")
def transformer(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the baseline on the same corpus."""
    run = tmp_path_factory.mktemp("transformer") / "run"
    tiny.train(run, "model.system=transformer", "order.name=l2r", "train.max_steps=80", "train.validate_every=80")
    return run


@pytest.fixture(scope="session")
def lstm(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the LSTM with adaptive control."""
    run = tmp_path_factory.mktemp("lstm") / "run"
    options = ("model.system=lstm", "model.aca=true", "order.name=l2r", "train.learning_rate=1e-2")
    tiny.train(run, *options, "train.max_steps=80", "train.validate_every=80")
    return run


@pytest.fixture(scope="session")
def position_first(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that chooses the slot before the word."""
    run = tmp_path_factory.mktemp("position_first") / "run"
    options = ("model.predict=position_first", "train.max_steps=120", "train.validate_every=60", "model.dropout=0")
    tiny.train(run, *options, "train.save_every=60")
    return run


@pytest.fixture(scope="session")
def undisturbed(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A way to get a run of some settings that was never stopped: trained once for all tests, which must not change it.

    A test asks for it before it patches anything.
    """
    folder = tmp_path_factory.mktemp("undisturbed")

    @cache
    def train(*settings: str) -> Path:
        run = folder / str(len(list(folder.iterdir())))
        tiny.train(run, *settings)
        return run

    return train


@pytest.fixture(scope="session")
def scaled(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trained run with larger weights: logits as large as those of a model that is sure of itself."""
    run = Path(shutil.copytree(tiny.run, tmp_path_factory.mktemp("scaled") / "run", symlinks=True))
    multiply_weights(run, 2.0)
    return run


@pytest.fixture
def scored(tmp_path: Path) -> Score:
    return Score(tmp_path)


@pytest.fixture
def search(scaled: Path, tmp_path: Path) -> Search:
    """Of a model that is as sure of itself as a trained one."""
    return Search(scaled, tmp_path)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight blocks of the training targets, the last one smaller."""
    monkeypatch.setattr(offline_search, "BLOCK_TARGETS", 8)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)
