"""The files that recipes/smoke names, written where a test wants them."""

import random
import shutil
from pathlib import Path

RECIPES = Path(__file__).resolve().parent.parent / "recipes" / "smoke"
WORDS = "ant bee cat dog eel fox gnu hen ibis jay koi lark mole newt owl pig rat sow toad yak".split()
SIZES = {"train": 300, "valid": 20, "test": 20}


def write_smoke(folder: Path, *, seed: int = 1) -> Path:
    """Copy the recipes and write their data below `folder`, laid out as in the checkout.

    Returns: the folder of the recipes.
    """
    recipes = folder / "recipes" / "smoke"
    shutil.copytree(RECIPES, recipes)
    data = folder / "data" / "smoke"
    data.mkdir(parents=True)
    generator = random.Random(seed)
    for split, size in SIZES.items():
        sources = [generator.choices(WORDS, k=generator.randint(1, 6)) for _ in range(size)]
        (data / f"{split}.src").write_text("".join(f"{' '.join(words)}\n" for words in sources), encoding="utf-8")
        (data / f"{split}.tgt").write_text("".join(f"{' '.join(words[::-1])}\n" for words in sources), encoding="utf-8")
    return recipes
