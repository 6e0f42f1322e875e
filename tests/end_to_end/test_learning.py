"""Models learn: reversing a sequence of symbols, on fresh random data, judged on sequences they never saw."""

import random
import time
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


def exact_match(folder: Path, *overrides: str, symbols: int, lengths: tuple[int, int], pairs: int) -> float:
    """Train on random pairs and return the share of 200 new sequences that are reversed without a fault."""
    generator = random.Random(11)
    words = [chr(ord("a") + i) for i in range(symbols)]
    texts: dict[str, list[list[str]]] = {}
    for split, size in (("train", pairs), ("test", 200)):
        texts[split] = [generator.choices(words, k=generator.randint(*lengths)) for _ in range(size)]
        for side, step in (("src", 1), ("tgt", -1)):
            lines = [" ".join(text[::step]) for text in texts[split]]
            (folder / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    (folder / "reverse.toml").write_text(RECIPE, "utf-8")
    recipe = load_recipe(folder / "reverse.toml", overrides)
    prepare(recipe, folder / "corpus")
    runtime = Runtime("cpu", threads=1)
    train(recipe, output=folder / "run", corpus_folder=folder / "corpus", runtime=runtime)
    output = folder / "out.txt"
    generate(folder / "run", source=str(folder / "test.src"), output=str(output), checkpoint="last", runtime=runtime)
    found = output.read_text("utf-8").splitlines()
    wanted = (folder / "test.tgt").read_text("utf-8").splitlines()
    assert len(found) == len(wanted)
    return sum(a == b for a, b in zip(found, wanted, strict=True)) / len(wanted)
