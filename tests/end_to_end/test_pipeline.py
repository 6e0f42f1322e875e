"""The chain on the smoke recipes: raw text, corpus, orders, run, text and traces, scores, a picture."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.data.orders_file import read_order_rows
from indigo_cli.data.traces_file import read_traces
from indigo_cli.recipe import load_recipe
from tests.smoke import RECIPES, SIZES

Run = Callable[..., Any]
NAMES = sorted(path.name for path in RECIPES.glob("*.toml"))


@pytest.fixture
def must(indigo: Run) -> Run:
    """Runs a command line that has to work."""

    def call(*args: str | Path, **options: Any) -> Any:
        done = indigo(*args, **options)
        assert done.status == 0, f"{args}\n{done.err}"
        assert "Traceback" not in done.err
        return done

    return call


@pytest.mark.parametrize("name", [NAMES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:])])
def test_six_commands(must: Run, smoke: Path, name: str) -> None:
    path = smoke / name
    recipe = load_recipe(path)
    corpus, run = Path("runs") / recipe.name / "corpus", Path("runs") / recipe.name / recipe.order.name
    references = recipe.data.splits["test"].target[0]
    sources = recipe.data.splits["test"].source or [references]

    must("preprocess", path)
    must("reorder", corpus, "odd")
    for split, size in SIZES.items():
        header, rows = read_order_rows(corpus / f"{split}.odd.orders.jsonl")
        assert (header["order"], header["split"]) == ("odd", split)
        assert [row.id for row in rows] == list(range(size))
    must("train", path, "--set", "train.max_steps=4", "--set", "train.validate_every=2")
    text = must("decode", run, "--input", sources[0], "-o", "test.txt")
    assert text.out == ""
    must("decode", run, "--split", "test", "--format", "jsonl", "-o", "test.traces.jsonl")
    lines = Path("test.txt").read_text("utf-8").splitlines()
    assert len(lines) == SIZES["test"]
    header, records = read_traces("test.traces.jsonl")
    assert header["system"] == recipe.system
    assert [record.text for record in records if record.rank == 1] == lines

    scores = [
        json.loads(must("evaluate", hypotheses, "--reference", references, "--format", "json", *tokenize).out)
        for hypotheses in ("test.txt", "test.traces.jsonl")
        for tokenize in (["--set", "evaluate.tokenize=none"],)
    ]
    assert scores[0] == scores[1]
    assert scores[0]["n"] == SIZES["test"]
    assert {"bleu", "chrf"} <= scores[0]["metrics"].keys()
    shown = must("show", "test.traces.jsonl", "--id", "0").out
    assert all(word in shown for word in lines[0].split())


@pytest.mark.slow
def test_a_model_follows_an_orders_file(must: Run, smoke: Path) -> None:
    """`reorder` writes what `train` would compute itself: the same run comes of it."""
    path = smoke / "reverse_indigo_l2r.toml"
    corpus = Path("runs/smoke-reverse-indigo/corpus")
    short = ["--set", "train.max_steps=3"]
    must("preprocess", path)
    must("reorder", corpus, "blt")
    files = [corpus / f"{split}.blt.orders.jsonl" for split in ("train", "valid")]
    must("train", path, "-o", "file", "--orders", files[0], "--orders", files[1], *short)
    must("train", path, "-o", "rule", "--order", "blt", *short)
    weights = [(Path(run) / "checkpoints/last/model.safetensors").read_bytes() for run in ("file", "rule")]
    assert weights[0] == weights[1]
    must("train", path, "-o", "more", "--order", "blt", "--init", "rule", *short)


def test_text_through_pipes(must: Run, smoke: Path) -> None:
    """The whole of word ordering without a file between: the bag's order tells nothing."""
    must("preprocess", smoke / "word_ordering_indigo_odd.toml")
    must("train", smoke / "word_ordering_indigo_odd.toml", "--set", "train.max_steps=3")
    run = Path("runs/smoke-word-ordering/odd")
    first = must("decode", run, stdin=b"ant bee cat dog\neel fox\n").out
    assert first == must("decode", run, stdin=b"dog cat bee ant\nfox eel\n").out
    traces = must("decode", run, "--format", "jsonl", stdin=b"ant bee\n").out
    assert "sequences" in must("show", "-", stdin=traces.encode("utf-8")).out
