"""Batches, checkpoints, schedules and settings at their edges."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from indigo_cli.data.batch import MicroBatch
from indigo_cli.data.collate import collate_source
from indigo_cli.engine.checkpoint import newest_whole_checkpoint, open_checkpoint, save_checkpoint
from indigo_cli.engine.optim import GuardedStep, learning_rate, make_optimizer
from indigo_cli.engine.updates import LossParts, updates
from indigo_cli.errors import CheckpointError, RecipeError
from indigo_cli.models import MODELS
from indigo_cli.recipe import Recipe, load_recipe
from tests.models.tiny import A, B, C, make_batch, make_system
from tests.tensors import assert_close

SYSTEMS = sorted(MODELS)
ids = st.lists(st.integers(A, C), max_size=4)


@given(rows=st.lists(ids, min_size=1, max_size=5))
def test_case_65_no_row_of_a_mask_is_empty(rows: list[list[int]]) -> None:
    """A line without words is its end alone, so no softmax is taken over nothing."""
    source = collate_source(rows)
    assert source.mask.sum(dim=1).tolist() == [len(row) + 1 for row in rows]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("system", SYSTEMS)
def test_case_65_empty_sides_stay_finite_and_disturb_no_other(system: str, dtype: torch.dtype) -> None:
    """Beside lines of any length: loss and every gradient are finite, and the other lines score as if alone."""
    model = make_system(system)
    sources, targets = [[], [A, B, C, A], [], [B]], [[A, B], [], [], [C, A, B]]
    orders = [[list(range(len(target)))] for target in targets]
    batch = make_batch(sources, targets, orders)
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        losses = model(batch)
        found = model.log_probs(batch)
    losses.objective.backward()
    assert losses.objective.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)
    words = sum(map(len, targets))
    assert losses.weight == words + len(targets) + (words if MODELS[system].parallel else 0)
    if dtype == torch.float32:
        for row, (source, target, order) in enumerate(zip(sources, targets, orders, strict=True)):
            alone = model.log_probs(make_batch([source], [target], [order]))
            assert_close(found.words[row, :, : len(target) + 1], alone.words[0], atol=1e-5)


@pytest.mark.parametrize("system", SYSTEMS)
def test_case_67_padding_alone_is_no_target(system: str) -> None:
    """Targets without words have their end to learn; wider padding adds nothing, and no sum is divided by 0."""
    model = make_system(system)
    empty = make_batch([[A], [B, C]], [[], []], [[[]], [[]]])
    padded = dataclasses.replace(
        empty,
        target=torch.zeros(2, 3, dtype=torch.int64),
        plan=dataclasses.replace(empty.plan, orders=torch.arange(3).expand(2, 1, 3).contiguous()),
    )
    losses = [model(batch) for batch in (empty, padded)]
    assert_close(losses[0].objective, losses[1].objective)
    assert [entry.weight for entry in losses] == [2, 2]
    assert LossParts().means() == {"loss": 0.0}
    reports = updates(
        model.train(),
        [MicroBatch(0, 0, partial(lambda batch: batch, padded))],
        GuardedStep(make_optimizer(model), clip_norm=1.0),
        accumulate=1,
        peak_rate=1e-3,
        warmup_steps=1,
        smoothing=0.1,
        seed=1,
        autocast=torch.autocast("cpu", enabled=False),
    )
    (report,) = reports
    assert report.num_tokens == 0 and report.grad_norm.isfinite()
    assert all(torch.tensor(value).isfinite() for value in report.parts.means().values())
    assert all(parameter.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors", "checkpoint.json"])
def test_case_69_a_checkpoint_cut_anywhere_is_named(tmp_path: Path, name: str) -> None:
    """Anywhere: never read as a smaller one, and the one before is found."""
    for step in (3, 6):
        tensors = {"a": torch.full((5,), float(step))}
        save_checkpoint(
            tmp_path / "checkpoints", weights=tensors, training=tensors, facts={"step": step, "vocabularies": []}
        )
    path = tmp_path / "checkpoints" / "step-00000006" / name
    content = path.read_bytes()
    longest = len(content) - 1 - (content[-1:] == b"\n")  # without its last line end a JSON text is whole
    for size in range(longest, -1, -5):
        path.write_bytes(content[:size])
        with pytest.raises(CheckpointError, match="incomplete or damaged") as caught:
            found = open_checkpoint(tmp_path)
            found.weights(), found.training()
        assert Path(caught.value.where).resolve() == path and caught.value.exit_code == 2
    best, complaints = newest_whole_checkpoint(tmp_path)
    assert best is not None and best.facts["step"] == 3 and "step-00000006" in complaints[0]


@given(dim=st.integers(1, 4096), warmup=st.integers(1, 20_000), step=st.integers(1, 10**6))
@example(512, 4000, 1)
@example(512, 4000, 1001)
def test_case_81_the_rate_is_a_function_of_the_update_alone(dim: int, warmup: int, step: int) -> None:
    """So a resumed run has the rate of its number; the shape is that of Vaswani et al., whatever width and warm-up."""
    printed = dim**-0.5 * min(step**-0.5, step * warmup**-1.5)
    assert learning_rate(step, peak=(dim * warmup) ** -0.5, warmup_steps=warmup) == pytest.approx(printed, rel=1e-9)


SMALLEST = """
name = "tiny"
[data]
source_lang = "en"
target_lang = "en"
[data.splits]
train = { source = ["a"], target = ["b"] }
valid = { source = ["a"], target = ["b"] }
"""


def keys_of(system: str, folder: Path) -> list[str]:
    """Every key of a recipe that holds a value, as `--set` takes it."""
    (folder / "r.toml").write_text(SMALLEST, "utf-8")
    recipe = load_recipe(folder / "r.toml", [f"model.system={system}"])

    def walk(value: Any, path: tuple[str, ...]) -> list[str]:
        if path and not dataclasses.is_dataclass(value):
            return [".".join(path)]
        return [
            key
            for field in dataclasses.fields(value)
            if (*path, field.name) != ("data", "splits")
            for key in walk(getattr(value, field.name), (*path, field.name))
        ]

    assert isinstance(recipe, Recipe)
    return walk(recipe, ())


@pytest.mark.parametrize("system", SYSTEMS)
def test_case_77_a_slip_in_any_key_is_refused_and_mended(tmp_path: Path, system: str) -> None:
    """At every level, in the file and on the command line; the key that was meant is in the hint."""
    keys = keys_of(system, tmp_path)
    assert len(keys) > 40 and "train.learning_rate" in keys and "seed" in keys
    slips: dict[str, str] = {}
    for key in keys:
        *sections, name = key.split(".")
        slips |= {".".join([*sections, slip]): name for slip in (f"{name[:-1]}x{name[-1]}", f"{name}s")}
    slips = {slip: name for slip, name in slips.items() if slip not in keys}
    with pytest.raises(RecipeError) as caught:
        load_recipe(tmp_path / "r.toml", [f"model.system={system}", *(f"{slip}=1" for slip in slips)])
    assert caught.value.exit_code == 2
    faults = {fault.what.split(",")[0].removeprefix("unknown key "): fault for fault in caught.value.faults}
    assert set(slips) <= set(faults)
    for slip, name in slips.items():
        assert f"`{name}`" in faults[slip].fix and faults[slip].where == f"--set {slip}=1"


@pytest.mark.parametrize("lines", ["learning_rte = 0.001", "[train]\nlearning_rte = 0.001", "[trian]\nx = 1"])
def test_case_77_a_slip_in_the_file_names_its_line(tmp_path: Path, lines: str) -> None:
    """A key without a section is known by its line, too."""
    text = lines + SMALLEST if not lines.startswith("[") else SMALLEST + lines + "\n"
    (tmp_path / "r.toml").write_text(text, "utf-8")
    with pytest.raises(RecipeError) as caught:
        load_recipe(tmp_path / "r.toml")
    line = next(i for i, row in enumerate(text.split("\n"), start=1) if "learning_rte" in row or "trian" in row)
    said = caught.value.render()
    assert f"at: {tmp_path / 'r.toml'}:{line}" in said and "hint: " in said
