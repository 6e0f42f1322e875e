"""The `[model]` section of the left-to-right Transformer; apart from the system, so that reading it loads no torch."""

from dataclasses import dataclass
from typing import Literal

from indigo_cli.core.settings import Count, Rate
from indigo_cli.models.widths import check_width


@dataclass(frozen=True)
class TransformerConfig:
    """The `[model]` section with `system = "transformer"`.

    Args:
        source_positions: `auto` is `sinusoidal`, or `none` where the source is a bag.
        positions: Of the target; `auto` is `sinusoidal`.
    """

    system: Literal["transformer"] = "transformer"
    model_dim: Count = 256
    ff_dim: Count = 1024
    num_heads: Count = 4
    encoder_layers: Count = 3
    decoder_layers: Count = 3
    dropout: Rate = 0.1
    share_embeddings: bool = True
    source_positions: Literal["auto", "sinusoidal", "none"] = "auto"
    positions: Literal["auto", "sinusoidal"] = "auto"

    def __post_init__(self) -> None:
        check_width(self.model_dim, self.num_heads)
