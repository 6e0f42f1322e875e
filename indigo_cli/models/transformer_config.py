"""The `[model]` section of the left-to-right Transformer; apart from the system, so that reading it loads no torch."""

from dataclasses import dataclass
from typing import Literal

from indigo_cli.core.settings import Count, Rate
from indigo_cli.core.units import LengthUnit
from indigo_cli.models.widths import check_width
from indigo_cli.nn.positions.appended import APPENDED


@dataclass(frozen=True)
class TransformerConfig:
    """The `[model]` section with `system = "transformer"`.

    Args:
        source_positions: `auto` is `sinusoidal`, or `none` where the source is a bag.
        positions: Of the target; `auto` is `sinusoidal`. `ldpe` and `lrpe` encode how much of a wished length is left,
            or written, and `+pe` adds the place to that; see `nn/positions/length.py`.
        position_layout: Of all codes of the target, see `sinusoid`.
        length_unit: In which lengths are counted and wished, see `core/units.py`.
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
    positions: Literal["auto", "sinusoidal", "ldpe", "lrpe", "ldpe+pe", "lrpe+pe"] = "auto"
    position_layout: Literal["interleaved", "halves"] = "interleaved"
    length_unit: LengthUnit = "character"

    def __post_init__(self) -> None:
        check_width(self.model_dim, self.num_heads)

    @property
    def scheme(self) -> str:
        """Name of the positions in `APPENDED`."""
        return "sinusoidal" if self.positions == "auto" else self.positions

    @property
    def counts_length(self) -> bool:
        """Whether the system is told a wished length, see `models/length_config.py`."""
        return bool(APPENDED[self.scheme].length)
