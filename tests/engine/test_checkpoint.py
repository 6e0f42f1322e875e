"""Checkpoints: whole or not there, whatever happens in between; damaged and foreign files are told, never run."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from indigo_cli.engine import checkpoint as checkpoints
from indigo_cli.engine.checkpoint import (
    FACTS_FILE,
    MODEL_FILE,
    TRAINING_FILE,
    link,
    newest_whole_checkpoint,
    open_checkpoint,
    prune,
    read_checkpoint,
    restore_training_state,
    save_checkpoint,
    step_folders,
    step_name,
    training_state,
)
from indigo_cli.errors import CheckpointError, RunError
from tests.kill import killed_at

FILES = [MODEL_FILE, TRAINING_FILE, FACTS_FILE]


def weights(step: int) -> dict[str, Tensor]:
    return {"a": torch.full((40, 3), float(step)), "b.c": torch.arange(7) + step}


def save(run: Path, step: int, *, keep: int = 0) -> Path:
    """Save what `step` stands for, as a run does."""
    folder = run / "checkpoints"
    facts = {"step": step, "vocabularies": ["0" * 64] * 2}
    saved = save_checkpoint(folder, weights=weights(step), training=weights(step + 100), facts=facts)
    if keep:
        prune(folder, keep=keep)
    return saved


def is_step(found: checkpoints.Checkpoint, step: int) -> bool:
    """Tell whether a checkpoint is the whole one of a step."""
    same = [found.facts["step"] == step]
    for loaded, expected in ((found.weights(), weights(step)), (found.training(), weights(step + 100))):
        same += [loaded.keys() == expected.keys(), *(torch.equal(loaded[name], expected[name]) for name in expected)]
    return all(same)


def test_what_is_saved_is_opened(tmp_path: Path) -> None:
    assert save(tmp_path, 3).name == "step-00000003"
    save(tmp_path, 12)
    found = open_checkpoint(tmp_path)
    assert is_step(found, 12)
    assert (found.facts["format"], found.facts["version"]) == ("indigo-checkpoint", 1)
    assert is_step(open_checkpoint(tmp_path, "step-00000003"), 3)
    assert sorted(entry.name for entry in (tmp_path / "checkpoints").iterdir()) == [
        "last",
        "step-00000003",
        "step-00000012",
    ]


def test_best_comes_before_last_and_any_name_can_be_asked_for(tmp_path: Path) -> None:
    save(tmp_path, 1)
    link(tmp_path / "checkpoints", "best", step_name(1))
    link(tmp_path / "checkpoints", "cpu-30m", step_name(1))
    save(tmp_path, 2)
    assert is_step(open_checkpoint(tmp_path), 1)
    assert is_step(open_checkpoint(tmp_path, "last"), 2)
    assert is_step(open_checkpoint(tmp_path, "cpu-30m"), 1)
    link(tmp_path / "checkpoints", "best", step_name(2))
    assert is_step(open_checkpoint(tmp_path), 2)


def test_a_moved_run_folder_still_opens(tmp_path: Path) -> None:
    """Links are relative."""
    save(tmp_path / "run", 4)
    shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    assert is_step(open_checkpoint(tmp_path / "elsewhere"), 4)


def test_an_unknown_name_lists_what_there_is(tmp_path: Path) -> None:
    save(tmp_path, 3)
    with pytest.raises(CheckpointError, match="'bset'") as caught:
        open_checkpoint(tmp_path, "bset")
    assert "last" in caught.value.fix and "step-00000003" in caught.value.fix
    with pytest.raises(CheckpointError, match="no checkpoint 'last'"):
        open_checkpoint(tmp_path / "nothing")


def test_prune_keeps_the_newest_and_the_named_ones(tmp_path: Path) -> None:
    for step in range(1, 7):
        save(tmp_path, step)
    folder = tmp_path / "checkpoints"
    link(folder, "best", step_name(2))
    prune(folder, keep=2)
    assert [path.name for path in step_folders(folder)] == [step_name(2), step_name(5), step_name(6)]
    link(folder, "best", step_name(6))
    prune(folder, keep=2)
    assert [path.name for path in step_folders(folder)] == [step_name(5), step_name(6)]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_case_69_a_cut_file_is_named_and_resuming_takes_the_one_before(tmp_path: Path, name: str, share: float) -> None:
    save(tmp_path, 3)
    path = save(tmp_path, 6) / name
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(CheckpointError, match="incomplete or damaged") as caught:
        is_step(open_checkpoint(tmp_path), 6)
    assert caught.value.exit_code == 2
    assert caught.value.where.endswith(name)
    found, complaints = newest_whole_checkpoint(tmp_path)
    assert found is not None and is_step(found, 3)
    assert len(complaints) == 1 and "step-00000006" in complaints[0]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    (save(tmp_path, 6) / name).unlink()
    with pytest.raises(CheckpointError) as caught:
        is_step(open_checkpoint(tmp_path), 6)
    assert caught.value.where.endswith(name)
    found, complaints = newest_whole_checkpoint(tmp_path)
    assert found is None and len(complaints) == 1


class _Creates:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return Path.touch, (self.path,)  # type: ignore[return-value]


@pytest.mark.parametrize("name", [MODEL_FILE, TRAINING_FILE])
def test_case_71_a_foreign_pickle_is_refused_and_never_run(tmp_path: Path, name: str) -> None:
    marker = tmp_path / "PWNED"
    torch.save({"a": _Creates(marker)}, tmp_path / "foreign.pt")
    torch.load(tmp_path / "foreign.pt", weights_only=False)
    assert marker.exists()  # it does work on whoever unpickles it
    marker.unlink()
    os.replace(tmp_path / "foreign.pt", save(tmp_path, 1) / name)
    with pytest.raises(CheckpointError, match="not a plain checkpoint") as caught:
        is_step(open_checkpoint(tmp_path), 1)
    assert caught.value.exit_code == 2
    found, _ = newest_whole_checkpoint(tmp_path)
    assert found is None
    assert not marker.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "newer"),
        ({"format": "indigo-run"}, "not an indigo-checkpoint"),
        ({"version": "1"}, "no valid version"),
    ],
)
def test_other_formats_and_newer_versions_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = save(tmp_path, 1) / FACTS_FILE
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **change}), "utf-8")
    with pytest.raises(CheckpointError, match=message) as caught:
        open_checkpoint(tmp_path)
    assert caught.value.where.endswith(FACTS_FILE)


@pytest.mark.parametrize("content", ["[]", "null", "7", '"x"', "\udcff"])
def test_facts_that_are_not_an_object_are_damage(tmp_path: Path, content: str) -> None:
    (save(tmp_path, 1) / FACTS_FILE).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(CheckpointError, match="damaged"):
        open_checkpoint(tmp_path)


def test_the_same_step_is_replaced(tmp_path: Path) -> None:
    save(tmp_path, 3)
    folder = save(tmp_path, 6)
    (folder / MODEL_FILE).write_bytes(b"damaged")
    save(tmp_path, 6)
    found, complaints = newest_whole_checkpoint(tmp_path)
    assert found is not None and is_step(found, 6) and not complaints


def test_a_full_disk_leaves_the_last_checkpoint_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 3)

    def fail(tensors: dict[str, Tensor], path: Path) -> None:
        path.write_bytes(b"half")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "save_file", fail)
        with pytest.raises(RunError, match="No space"):
            save(tmp_path, 6)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["last", "step-00000003"]
    assert is_step(open_checkpoint(tmp_path), 3)


INSTANTS = [(os, "mkdir"), (os, "replace"), (os, "symlink"), (os, "unlink"), (os, "rmdir"), (checkpoints, "save_file")]
"""Whatever readers can see of a save; a kill comes before the n-th of them."""


@pytest.mark.slow
def test_a_kill_at_any_instant_leaves_the_old_checkpoint_or_the_new_one(tmp_path: Path) -> None:
    """Saving, linking and pruning: every name leads to a whole checkpoint, and the next save clears up."""
    seen = set()
    for instant in range(1, 200):
        run = tmp_path / str(instant)
        save(run, 3)
        save(run, 4)
        link(run / "checkpoints", "best", step_name(4))

        def action(run: Path = run) -> None:
            save(run, 6)
            link(run / "checkpoints", "best", step_name(6))
            prune(run / "checkpoints", keep=1)

        if not killed_at(instant, action, INSTANTS):
            break
        found, _ = newest_whole_checkpoint(run)
        assert found is not None
        step = found.facts["step"]
        seen.add(step)
        assert step in (4, 6) and is_step(found, step)
        for folder in step_folders(run / "checkpoints"):
            assert is_step(read_checkpoint(folder), int(folder.name.removeprefix("step-"))), (
                "deleted whole or not at all"
            )
        for name in ("last", "best"):
            named = open_checkpoint(run, name)
            assert is_step(named, named.facts["step"]) and named.facts["step"] in (4, 6)
        save(run, 7, keep=1)
        assert not list((run / "checkpoints").glob(".*"))
        shutil.rmtree(run)
    else:
        pytest.fail("it never came to an end")
    assert seen == {4, 6} and instant > 10


def trained(seed: int, updates: int) -> tuple[nn.Module, torch.optim.Adam]:
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2, bias=False))
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2, fused=True)
    for _ in range(updates):
        module(torch.randn(5, 4)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return module, optimizer


def test_training_state_brings_back_moments(tmp_path: Path) -> None:
    module, optimizer = trained(1, updates=3)
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    save_checkpoint(
        tmp_path / "checkpoints",
        weights=module.state_dict(),
        training=training_state(optimizer, names),
        facts={"step": 3},
    )

    found = open_checkpoint(tmp_path)
    other, other_optimizer = trained(2, updates=0)
    other.load_state_dict(found.weights())
    restore_training_state(found.training(), other_optimizer, dict(other.named_parameters()))
    for network, adam in ((module, optimizer), (other, other_optimizer)):
        network(torch.ones(1, 4)).sum().backward()
        adam.step()
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), other.parameters(), strict=True))
