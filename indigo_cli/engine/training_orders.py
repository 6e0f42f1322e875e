"""In which orders a training run generates: the recipe's for every split, or those of files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from indigo_cli.core import console
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import sha256_file
from indigo_cli.data.orders_file import read_order_rows
from indigo_cli.engine.assign import DrawnTree, OrderConfig
from indigo_cli.engine.parser_model import find_model
from indigo_cli.errors import DataError, UsageError
from indigo_cli.models import MODELS

if TYPE_CHECKING:
    from indigo_cli.recipe import Recipe


def training_splits(corpus: Corpus) -> list[str]:
    """Return the names of the splits that training reads."""
    if "train" not in corpus.splits or not len(corpus.split("train")):
        raise UsageError("the corpus has no training pairs", where=str(corpus.folder), fix="add data.splits.train")
    return [name for name in ("train", "valid") if name in corpus.splits]


def orders_of_recipe(recipe: "Recipe", splits: Sequence[str]) -> dict[str, OrderConfig]:
    """Return the recipe's order for every split.

    Raises:
        UsageError: the system cannot learn it, or nothing parses the splits for `syn`.
    """
    allowed = MODELS[recipe.system].orders
    if allowed is not None and recipe.order.name not in allowed:
        raise UsageError(
            f"system {recipe.system!r} knows the order {' '.join(sorted(allowed))} only, not {recipe.order.name}",
            where="order.name",
            fix='model.system = "indigo" and "insertion" learn any order',
        )
    return dict.fromkeys(splits, rule_of_recipe(recipe, recipe.order.name, splits))


def rule_of_recipe(recipe: "Recipe", name: str, splits: Sequence[str]) -> OrderConfig:
    """Return a predefined order with the recipe's settings.

    Raises:
        UsageError: nothing parses the splits for `syn`.
    """
    order = own_order(recipe, name)
    if name == "syn" and any(split not in order.parse for split in splits):
        order = replace(order, parser=find_model(order.parser, recipe.data.target_lang).name)
    return order


def own_order(recipe: "Recipe", name: str) -> OrderConfig:
    """Return an order as the recipe's system knows it: one that draws its trees does so anew for each epoch."""
    if name == "blt" and MODELS[recipe.system].parallel and recipe.model.tree_temperature:
        return DrawnTree(temperature=recipe.model.tree_temperature)
    return replace(recipe.order, name=name)


def orders_of_files(system: str, files: Sequence[Path], splits: Sequence[str]) -> tuple[dict[str, OrderConfig], str]:
    """Return the order of each split, `l2r` for one without a file, and how the training file calls its order.

    Raises:
        UsageError: the system follows no files, two files for one split, none for training.
        DataError: a file that does not say its split.
    """
    if MODELS[system].orders is not None:
        raise UsageError(f"system {system!r} cannot follow an orders file", where="--orders")
    found: dict[str, OrderConfig] = {}
    name_of: dict[str, str] = {}
    for path in files:
        header = read_order_rows(path)[0]
        split = header.get("split")
        if not isinstance(split, str) or not split:
            raise DataError("the header does not say the split", where=f"{path}:1", fix='add "split": "train"')
        if split in found:
            raise UsageError(f"two orders files for split {split!r}", where=str(path), fix="give one a split")
        if split not in splits:
            console.note(f"{path} is for split {split}, which training does not read")
        found[split] = OrderConfig(name="file", file=str(path.resolve()))
        name_of[split] = str(header.get("order") or "file")
    if "train" not in found:
        raise UsageError("no orders file is for split `train`", where="--orders", fix="add one")
    for split in splits:
        if split not in found:
            console.note(f"split {split} has no orders file: it is validated in l2r")
    return {split: found.get(split, OrderConfig()) for split in splits}, name_of["train"]


def order_digest(split: str, order: OrderConfig) -> str:
    """Return what tells whether a resumed run follows the same orders: the name, and what it comes from.

    That is the sha256 of a file, or the name and version of a parser.
    """
    path = order.file if order.name == "file" else order.parse.get(split, "") if order.name == "syn" else ""
    if order.name == "syn" and not path:
        model = find_model(order.parser, "")
        return f"syn {model.name} {model.version}"
    return f"{order.name} {sha256_file(path)}" if path and Path(path).is_file() else order.name
