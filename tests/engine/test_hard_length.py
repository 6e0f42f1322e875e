"""`decode --hard-length` on runs: what is written is counted anew, and scored anew."""

import random
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.core.bpe import CONTINUES
from indigo_cli.core.format import Format
from indigo_cli.data.traces_file import TraceRecord, read_traces
from indigo_cli.engine import generate as generate_module
from indigo_cli.engine.generate import generate
from indigo_cli.engine.hard_length import text_length
from indigo_cli.engine.length_wish import length_option
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.runtime import Runtime
from indigo_cli.errors import DataError, UsageError
from tests.engine.test_generate import piped
from tests.ranks import on_ranks
from tests.scoring import Score, near, tolerance
from tests.tiny import Tiny, write_task

SYSTEMS: dict[str, Sequence[str]] = {
    "transformer": ("model.system=transformer", "order.name=l2r"),
    "ldpe": ("model.system=transformer", "order.name=l2r", "model.positions=ldpe"),
    "indigo": ("order.name=rnd",),
    "insertion": ("model.system=insertion", "order.name=blt"),
    "budget": ("model.system=insertion", "order.name=blt", "model.length_control=ldpe"),
    "lstm": ("model.system=lstm", "order.name=l2r"),
    "position_first": ("order.name=rnd", "model.predict=position_first"),
    "absolute": ("model.system=insertion", "order.name=blt", "model.positions=absolute"),
}
TASKS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "vi": (
        "Chính phủ Việt Nam nói: “Chúng tôi sẽ làm!” Ông ấy (58 tuổi) đến từ Đà Nẵng, hôm 3/2 .".split(),
        ("preprocess.tokenizer=moses", "preprocess.vocabulary=bpe", "preprocess.merges=30"),
    ),
    "ja": (list("これはペンです。東京の天気、雨"), ("preprocess.tokenizer=char", "preprocess.vocabulary=char")),
}


class Runs(dict[tuple[str, str], Path]):
    """Trains a system on a task when it is asked for first, just so long that it says something."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.tasks = folder, dict[str, Tiny]()

    def task(self, name: str) -> Tiny:
        if name not in self.tasks:
            folder = self.folder / name
            folder.mkdir()
            words, settings = TASKS[name]
            path = write_task(folder)
            generator = random.Random(2)
            for split in ("train", "valid", "test"):
                lines = [
                    generator.choices(words, k=generator.randint(2, 8)) for _ in range(40 if split == "train" else 6)
                ]
                text = "".join(f"{('' if name == 'ja' else ' ').join(line)}\n" for line in lines)
                for side in ("src", "tgt"):
                    (folder / f"{split}.{side}").write_text(text, encoding="utf-8")
            recipe = (
                path.read_text(encoding="utf-8")
                .replace('"en"', f'"{name}"')
                .replace("max_length = 9", "max_length = 99")
            )
            for key, value in (setting.removeprefix("preprocess.").split("=") for setting in settings):
                if key == "merges":
                    recipe = recipe.replace("[order]", f"merges = {value}\n[order]")
                else:
                    recipe = recipe.replace(
                        {"tokenizer": 'tokenizer = "none"\nv', "vocabulary": 'vocabulary = "word"'}[key],
                        {"tokenizer": f'tokenizer = "{value}"\nv', "vocabulary": f'vocabulary = "{value}"'}[key],
                    )
            path.write_text(recipe.replace("max_length = 12", "max_length = 30"), encoding="utf-8")
            self.tasks[name] = Tiny(path, folder / "corpus", folder / "none")
            prepare(self.tasks[name].recipe(), self.tasks[name].corpus)
        return self.tasks[name]

    def __missing__(self, key: tuple[str, str]) -> Path:
        task, system = key
        self[key] = self.folder / f"{task}.{system}"
        self.task(task).train(self[key], *SYSTEMS[system], "model.dropout=0")
        return self[key]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("hard"))


def traces(run: Path, folder: Path, wish: Any, *overrides: str, **options: Any) -> list[TraceRecord]:
    """Decode with a hard limit (or as many as lines), and read back."""
    out = folder / "out.traces.jsonl"
    if isinstance(wish, list):
        (folder / "wishes").write_text("".join(f"{one}\n" for one in wish))
        length = length_option("", str(folder / "wishes"))
    else:
        length = length_option(str(wish))
    generate(
        run,
        split="test",
        output=str(out),
        form=Format.jsonl,
        overwrite=True,
        overrides=["decode.hard_length=true", *overrides],
        length=length,
        **options,
    )
    return list(read_traces(out)[1])


@pytest.mark.parametrize("how", ["decode.beam_size=1", "decode.beam_size=3", "decode.search=sample"])
@pytest.mark.parametrize(
    ("system", "task", "unit"),
    [
        *product(["transformer", "indigo", "insertion"], ["vi"], ["byte", "word"]),
        # The last two are told lengths in this unit.
        *product(["transformer", "indigo", "insertion", "ldpe", "budget"], ["ja"], ["character"]),
    ],
)
def test_no_text_is_too_long_and_no_word_is_cut(
    runs: Runs, scored: Score, tmp_path: Path, task: str, unit: str, system: str, how: str
) -> None:
    run = runs[task, system]
    settings = [f"model.length_unit={unit}"] if unit != "character" else []
    wishes = [1, 2, 5, 9, 17, 60]
    records = traces(run, tmp_path, wishes, how, *settings, n_best=2)
    assert {record.id for record in records} == set(range(6))
    for record in records:
        assert text_length(record.text, len(record.tokens), unit) <= wishes[record.id]  # type: ignore[arg-type]
        assert not (record.tokens and record.tokens[-1].endswith(CONTINUES))
    rows = scored(run, *settings, split="test", target=str(tmp_path / "out.traces.jsonl"))
    for record, row in zip(records, rows, strict=True):
        assert row.log_probs is not None
        assert row.log_probs[0] == near(record.log_prob, abs=tolerance(record.log_prob))


@pytest.mark.parametrize(
    ("system", "how"),
    [
        ("lstm", "decode.beam_size=3"),
        ("position_first", "decode.beam_size=1"),
        ("absolute", "decode.beam_size=2"),
        ("absolute", "decode.serial=true"),
        ("indigo", "decode.search=joint"),
        ("indigo", "decode.min_length=5"),
        ("indigo", "decode.merge_strings=false"),
    ],
)
def test_so_it_is_for_every_system_and_search(runs: Runs, scored: Score, tmp_path: Path, system: str, how: str) -> None:
    run, wishes = runs["vi", system], [1, 2, 5, 9, 17, 60]
    records = traces(run, tmp_path, wishes, how)
    for record in records:
        assert len(record.text) <= wishes[record.id]
        assert not (record.tokens and record.tokens[-1].endswith(CONTINUES))
    if how == "decode.serial=true":
        return  # `score` refuses slots that waited
    rows = scored(run, split="test", target=str(tmp_path / "out.traces.jsonl"))
    for record, row in zip(records, rows, strict=True):
        assert row.log_probs is not None
        assert row.log_probs[0] == near(record.log_prob, abs=tolerance(record.log_prob)) or not record.finished


@pytest.mark.parametrize("system", ["indigo", "insertion"])
def test_neither_batch_nor_pipe_nor_resuming_nor_an_ensemble_of_one_changes_a_byte(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    run, source = runs["vi", system], runs.task("vi").recipe_path.parent / "train.src"
    outputs = set()
    kinds: dict[str, dict[str, Any]] = {
        "file": {"source": str(source)},
        "small": {"source": str(source), "overrides": ["decode.batch_tokens=1"]},
        "pipe": {"source": "-"},
        "resumed": {"source": str(source), "resume": True},
        "ensemble": {"source": str(source), "ensemble": [run]},
    }
    for name, options in kinds.items():
        out = tmp_path / name
        overrides = ["decode.hard_length=true", "decode.beam_size=2", *options.pop("overrides", [])]
        with piped(monkeypatch, source.read_bytes()):
            generate(run, output=str(out), length=length_option("13"), overrides=overrides, **options)
        outputs.add(out.read_text(encoding="utf-8"))
    assert len(outputs) == 1 and max(map(len, outputs.pop().splitlines())) <= 13


@pytest.mark.slow
def test_several_processes_write_the_bytes_of_one(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate_module, "block_size", lambda n_best: 7)
    source = str(runs.task("vi").recipe_path.parent / "train.src")
    decode = partial(
        generate,
        runs["vi", "indigo"],
        source=source,
        form=Format.jsonl,
        length=length_option("13"),
        overrides=["decode.hard_length=true"],
        runtime=Runtime(threads=1),
    )
    decode(output=str(tmp_path / "one.jsonl"))
    on_ranks(2, partial(decode, output=str(tmp_path / "two.jsonl")))
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


@pytest.mark.parametrize("system", ["transformer", "indigo", "insertion"])
def test_a_long_wish_changes_no_byte(runs: Runs, tmp_path: Path, system: str) -> None:
    run = runs["ja", system]
    for how in ("decode.beam_size=1", "decode.beam_size=3", "decode.search=sample"):
        generate(run, split="test", output=str(tmp_path / "free"), overrides=[how], overwrite=True)
        options: dict[str, Any] = {"split": "test", "output": str(tmp_path / "limited"), "overwrite": True}
        generate(run, **options, overrides=[how, "decode.hard_length=true"], length=length_option("5000"))
        assert (tmp_path / "free").read_bytes() == (tmp_path / "limited").read_bytes()


@pytest.mark.parametrize("system", ["indigo", "insertion"])
def test_a_canvas_counts_and_one_that_is_too_long_is_refused(runs: Runs, tmp_path: Path, system: str) -> None:
    """Also with a word that the model does not know."""
    run, canvas = runs["vi", system], tmp_path / "canvas"
    canvas.write_text("Chính phủ\n[gap] xyzzy € [gap]\n\n[gap] 3/2 .\nĐà [gap]\nnói:\n", encoding="utf-8")
    wishes = [12, 14, 7, 9, 20, 4]
    for record in traces(run, tmp_path, wishes, canvas=str(canvas)):
        assert len(record.text) <= wishes[record.id]
        assert ("xyzzy €" in record.text) == (record.id == 1)
    with pytest.raises(DataError) as caught:
        traces(run, tmp_path, [12, 5, 7, 9, 20, 4], canvas=str(canvas))
    assert caught.value.where == f"{canvas}:2" and "7 characters" in str(caught.value)


def test_without_a_length_there_is_no_limit(runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="how long outputs may be"):
        generate(runs["ja", "indigo"], split="test", overrides=["decode.hard_length=true"])
