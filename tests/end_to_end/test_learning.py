"""Models learn: reversing a sequence of symbols, on fresh random data, judged on sequences they never saw."""

import random
from pathlib import Path

import pytest

from indigo_cli.engine.fit import train
from indigo_cli.engine.generate import generate
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.runtime import Runtime
from indigo_cli.recipe import load_recipe

RECIPE = """
[data.splits]
train = { source = ["train.src"], target = ["train.tgt"] }
valid = { source = ["test.src"], target = ["test.tgt"] }
[preprocess]
tokenizer = "none"
vocabulary = "word"
[model]
model_dim = 64
ff_dim = 256
num_heads = 4
encoder_layers = 2
decoder_layers = 2
dropout = 0.0
[train]
batch_tokens = 512
learning_rate = 3e-3
warmup_steps = 60
label_smoothing = 0.0
validate_every = 1000000
save_every = 1000000
[decode]
beam_size = 1
"""


SMALL = ("model.model_dim=32", "model.ff_dim=64", "model.encoder_layers=1", "model.decoder_layers=1")
RUNTIME = Runtime("cpu", threads=1)


def write_task(folder: Path, *, symbols: int, lengths: tuple[int, int], pairs: int) -> Path:
    """Write random sequences and their reversals, and return the recipe; 200 of them are for testing."""
    generator = random.Random(11)
    words = [chr(ord("a") + i) for i in range(symbols)]
    for split, size in (("train", pairs), ("test", 200)):
        texts = [generator.choices(words, k=generator.randint(*lengths)) for _ in range(size)]
        for side, step in (("src", 1), ("tgt", -1)):
            lines = [" ".join(text[::step]) for text in texts]
            (folder / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    (folder / "reverse.toml").write_text(RECIPE, "utf-8")
    prepare(load_recipe(folder / "reverse.toml"), folder / "corpus")
    return folder / "reverse.toml"


def learn(recipe: Path, run: str, *overrides: str) -> Path:
    """Train a run beside the recipe."""
    folder = recipe.parent
    settings = load_recipe(recipe, overrides)
    train(settings, output=folder / run, corpus_folder=folder / "corpus", runtime=RUNTIME)
    return folder / run


def exact_match(run: Path) -> float:
    """Return the share of the test sequences that a run reverses without a fault."""
    folder = run.parent
    output = run / "out.txt"
    generate(run, source=str(folder / "test.src"), output=str(output), checkpoint="last", runtime=RUNTIME)
    found = output.read_text("utf-8").splitlines()
    wanted = (folder / "test.tgt").read_text("utf-8").splitlines()
    return sum(a == b for a, b in zip(found, wanted, strict=True)) / len(wanted)


@pytest.mark.parametrize(
    ("system", "order", "setting"),
    [
        ("indigo", "r2l", "model.predict=word_first"),
        ("indigo", "r2l", "model.predict=position_first"),
        ("transformer", "l2r", "model.dropout=0.0"),
    ],
)
@pytest.mark.slow
def test_short_sequences_in_seconds(tmp_path: Path, system: str, order: str, setting: str) -> None:
    recipe = write_task(tmp_path, symbols=8, lengths=(2, 4), pairs=3000)
    options = (*SMALL, f"model.system={system}", f"order.name={order}", setting, "train.batch_tokens=256")
    run = learn(recipe, "run", *options, "train.max_steps=250")
    assert exact_match(run) >= 0.85


@pytest.mark.slow
def test_indigo_learns_to_reverse(tmp_path: Path) -> None:
    """99 % within about 10 CPU seconds: a rate that falls to nothing lets it settle."""
    recipe = write_task(tmp_path, symbols=10, lengths=(3, 6), pairs=6000)
    smaller = ("model.encoder_layers=1", "model.decoder_layers=1", "model.ff_dim=128", "train.batch_tokens=384")
    schedule = ("train.max_steps=350", "train.warmup_steps=40", "train.schedule=linear")
    assert exact_match(learn(recipe, "run", *smaller, *schedule)) >= 0.99
