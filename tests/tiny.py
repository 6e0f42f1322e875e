"""A toy task and models that train in a fraction of a second, for tests of training and decoding."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indigo_cli.engine.fit import TrainSummary
    from indigo_cli.recipe import Recipe

WORDS = "ant bee cat dog eel fox gnu hen ibis jay koi lærk".split()
SIZES = {"train": 60, "valid": 8, "test": 6}
MAX_LENGTH = 9
RECIPE = f"""
name = "tiny"
[data]
source_lang = "en"
target_lang = "en"
[data.splits]
train = {{ source = ["train.src"], target = ["train.tgt"] }}
valid = {{ source = ["valid.src"], target = ["valid.tgt"] }}
test = {{ source = ["test.src"], target = ["test.tgt"] }}
[preprocess]
tokenizer = "none"
vocabulary = "word"
max_length = {MAX_LENGTH}
[order]
name = "rnd"
[model]
system = "indigo"
model_dim = 16
ff_dim = 32
num_heads = 2
encoder_layers = 1
decoder_layers = 1
dropout = 0.1
[train]
batch_tokens = 64
max_steps = 6
learning_rate = 1e-2
warmup_steps = 3
log_every = 1
validate_every = 3
save_every = 3
tensorboard = "off"
[decode]
beam_size = 4
max_length = 12
[evaluate]
metrics = ["bleu", "exact"]
tokenize = "none"
"""


@dataclass(frozen=True)
class Tiny:
    """The toy task on disk.

    Args:
        recipe_path: Its recipe: reverse a sentence, in random orders.
        corpus: Its corpus folder.
        run: A trained run of it.
    """

    recipe_path: Path
    corpus: Path
    run: Path

    def recipe(self, *overrides: str) -> "Recipe":
        """Load the recipe with some settings replaced."""
        from indigo_cli.recipe import load_recipe

        return load_recipe(self.recipe_path, overrides)

    def train(self, output: Path, *overrides: str, **options: Any) -> "TrainSummary":
        """Train on the corpus into a run folder."""
        from indigo_cli.engine.fit import train

        return train(self.recipe(*overrides), output=output, **{"corpus_folder": self.corpus, **options})


def write_task(folder: Path, *, sizes: dict[str, int] = SIZES, seed: int = 1) -> Path:
    """Write recipe and raw text into a folder and return the recipe's path."""
    generator = random.Random(seed)
    for split, size in sizes.items():
        lines = [generator.choices(WORDS, k=generator.randint(2, 6)) for _ in range(size)]
        (folder / f"{split}.src").write_text("".join(f"{' '.join(words)}\n" for words in lines), encoding="utf-8")
        (folder / f"{split}.tgt").write_text("".join(f"{' '.join(words[::-1])}\n" for words in lines), encoding="utf-8")
    (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    return folder / "recipe.toml"


def make_tiny(folder: Path) -> Tiny:
    """Write the task, preprocess it and train on it long enough that decoding says something."""
    from indigo_cli.engine.prepare import prepare

    tiny = Tiny(write_task(folder), folder / "corpus", folder / "run")
    prepare(tiny.recipe(), tiny.corpus)
    tiny.train(tiny.run, "train.max_steps=120", "train.validate_every=60", "train.save_every=60", "model.dropout=0")
    return tiny
