"""A recipe and the vocabularies of some codecs -> a system with fresh weights."""

from typing import TYPE_CHECKING

from torch import nn

from indigo_cli.core.text import Codecs
from indigo_cli.core.units import unit_table
from indigo_cli.errors import UsageError
from indigo_cli.models import MODELS
from indigo_cli.models.length_config import length_unit

if TYPE_CHECKING:
    from indigo_cli.recipe import Recipe


def build_system(recipe: "Recipe", codecs: Codecs) -> nn.Module:
    """Build the recipe's model.

    Raises:
        UsageError: embeddings are to be shared by two vocabularies.
    """
    if recipe.model.share_embeddings and not codecs.joint:
        raise UsageError(
            "the two sides have their own vocabularies, so embeddings cannot be shared",
            where="model.share_embeddings",
            fix="set model.share_embeddings = false, or preprocess with joint = true",
        )
    entry = MODELS[recipe.system]
    unit = length_unit(recipe.model)
    system: nn.Module = entry.build(
        recipe.model,
        source_size=len(codecs.source.vocabulary),
        target_size=len(codecs.target.vocabulary),
        ordered_source=not codecs.source_is_bag,
        **({"order": recipe.order.name} if entry.parallel else {}),
        **({"units": unit_table(codecs.target, unit)} if unit else {}),
    )
    return system
