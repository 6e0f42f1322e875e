"""The `[model]` section of Transformer-InDIGO; apart from the system, so that reading it loads no torch."""

from dataclasses import dataclass
from typing import Literal

from indigo_cli.core.settings import Count, Rate
from indigo_cli.core.units import LengthUnit
from indigo_cli.models.widths import check_width


@dataclass(frozen=True)
class IndigoConfig:
    """The `[model]` section with `system = "indigo"`. Where paper and code differ, PAPERS.md section F has the reasons.

    Args:
        source_positions: `auto` is `ternary` (the same three relations as the decoder), or `none` for a bag.
        positions: Of the target; `auto` is `ternary`.
        attention_scale: Divisor of attention logits: `model` = sqrt(model_dim), Eq. 7 and the authors' code; `head` =
            sqrt of a head's width, as in other Transformers.
        relation_table: A of Eq. 7: `slices` = R^(3 x model_dim), each head its own slice, no bias, as printed;
            `shared` = one R^(3 x head_dim) with bias for all heads of a layer, as in the authors' code.
        pointer_query: `scaled` = (h E + sqrt(model_dim) W[y]) sqrt(1/2), the authors' code; `plain` = Eq. 9.
        pointer_scale: `model` = pointer logits divided by sqrt(model_dim), the authors' code; `none` = Eq. 9.
        eod_position: Train a position for `<eod>` too (the slot left of `</s>`), as the authors' code; the paper: no.
        predict: `word_first`, the paper's choice; `position_first` (see `PositionFirst`) is for training and greedy
            decoding, and always has a position for `<eod>`.
        length_control: Tell each word how much of a wished length is left (`ldpe`) or written (`lrpe`) when it stands,
            see `nn/positions/budget.py`. Neither paper has it.
        length_unit: In which lengths are counted and wished, see `core/units.py`.
    """

    system: Literal["indigo"] = "indigo"
    model_dim: Count = 256
    ff_dim: Count = 1024
    num_heads: Count = 4
    encoder_layers: Count = 3
    decoder_layers: Count = 3
    dropout: Rate = 0.1
    share_embeddings: bool = True
    source_positions: Literal["auto", "ternary", "sinusoidal", "none"] = "auto"
    positions: Literal["auto", "ternary"] = "auto"
    attention_scale: Literal["model", "head"] = "model"
    relation_table: Literal["slices", "shared"] = "slices"
    pointer_query: Literal["scaled", "plain"] = "scaled"
    pointer_scale: Literal["model", "none"] = "model"
    eod_position: bool = False
    predict: Literal["word_first", "position_first"] = "word_first"
    length_control: Literal["none", "ldpe", "lrpe"] = "none"
    length_unit: LengthUnit = "character"

    def __post_init__(self) -> None:
        check_width(self.model_dim, self.num_heads)
        if self.eod_position and self.predict == "position_first":
            raise ValueError(
                'eod_position is for predict = "word_first": position_first always trains it', "leave eod_position out"
            )

    @property
    def counts_length(self) -> bool:
        """Whether the system is told a wished length, see `models/length_config.py`."""
        return self.length_control != "none"
