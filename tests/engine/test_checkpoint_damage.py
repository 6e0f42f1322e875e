"""Checkpoints that were changed, forged, or are something else: refused in words, and nothing in them ever runs."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from indigo_cli.engine.checkpoint import (
    FACTS_FILE,
    MODEL_FILE,
    TRAINING_FILE,
    Checkpoint,
    newest_whole_checkpoint,
    read_checkpoint,
    save_checkpoint,
)
from indigo_cli.errors import CheckpointError
from tests.fuzz.mutate import Trap, foreign_files

FACTS = {"step": 3, "epoch": 1, "skip": 2, "cpu_seconds": 0.5, "vocabularies": ["0" * 64] * 2}


def save(run: Path, step: int = 3) -> Path:
    tensors = {"w": torch.arange(6.0).view(2, 3)}
    return save_checkpoint(run / "checkpoints", weights=tensors, training=tensors, facts={**FACTS, "step": step})


def read_whole(folder: Path) -> Checkpoint:
    found = read_checkpoint(folder)
    found.weights()
    found.training()
    return found


@pytest.mark.parametrize("name", [MODEL_FILE, TRAINING_FILE, FACTS_FILE])
def test_every_flipped_bit_is_noticed(tmp_path: Path, name: str) -> None:
    """Or changes nothing: white space in the facts."""
    folder = save(tmp_path)
    before = read_whole(folder)
    content = bytearray((folder / name).read_bytes())
    for place in range(len(content)):
        bit = 1 << place % 8
        content[place] ^= bit
        (folder / name).write_bytes(content)
        try:
            assert read_whole(folder).facts == before.facts and name == FACTS_FILE
        except CheckpointError as error:
            assert error.where == str(folder / name) and error.fix
        content[place] ^= bit
    (folder / name).write_bytes(content)
    read_whole(folder)


@pytest.mark.parametrize("name", [MODEL_FILE, TRAINING_FILE])
def test_foreign_files_are_refused_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Also in a checkpoint of 0.1, which does not know the sha256 of its files; some claim terabytes."""
    monkeypatch.chdir(tmp_path)
    folder = save(tmp_path)
    facts = {"format": "indigo-checkpoint", "version": 1, **FACTS}
    (folder / FACTS_FILE).write_text(json.dumps(facts), "utf-8")
    read_whole(folder)
    torch.save({"w": Trap()}, tmp_path / "torch")
    for content in (*foreign_files(), (tmp_path / "torch").read_bytes()):
        (folder / name).write_bytes(content)
        with pytest.raises(CheckpointError, match="not a plain checkpoint") as caught:
            read_whole(folder)
        assert caught.value.where == str(folder / name)
    assert not (tmp_path / "trapped").exists()


def test_other_weights_in_the_place_of_these_are_noticed(tmp_path: Path) -> None:
    folder = save(tmp_path)
    save_file({"w": torch.zeros(2, 3)}, folder / MODEL_FILE)
    with pytest.raises(CheckpointError, match="another sha256"):
        read_checkpoint(folder).weights()


def test_a_run_goes_on_from_the_newest_whole_one(tmp_path: Path) -> None:
    save(tmp_path, 3)
    newer = save(tmp_path, 4)
    content = bytearray((newer / TRAINING_FILE).read_bytes())
    content[-1] ^= 1
    (newer / TRAINING_FILE).write_bytes(content)
    found, complaints = newest_whole_checkpoint(tmp_path)
    assert found is not None and found.count("step") == 3
    assert len(complaints) == 1 and newer.name in complaints[0] and "sha256" in complaints[0]


@pytest.mark.parametrize("value", [None, True, -1, 0.5, "3", 2**63, [3]])
def test_facts_that_do_not_count_are_refused(tmp_path: Path, value: object) -> None:
    found = Checkpoint(tmp_path, {"step": value, "seconds": "0.5"})
    for read in (lambda: found.count("step"), lambda: found.count("epoch"), lambda: found.seconds("seconds")):
        with pytest.raises(CheckpointError, match="does not say its"):
            read()
    assert Checkpoint(tmp_path, {"seconds": 2}).seconds("seconds") == 2.0
