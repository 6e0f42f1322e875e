"""The `[model]` section of the LSTM; apart from the system, so that reading it loads no torch."""

from dataclasses import dataclass
from typing import Literal

from indigo_cli.core.settings import Count, Rate
from indigo_cli.core.units import LengthUnit


@dataclass(frozen=True)
class LstmConfig:
    """The `[model]` section with `system = "lstm"`: encoder, decoder and attention of Lin et al. 2018 (PAPERS.md C).

    Args:
        model_dim: Of embeddings and states; each direction of the encoder is half as wide.
        aca: Adaptive control of attention: gates and a memory decide how much context each step uses.
        length_control: How the decoder is told a wished length, after Kikuchi et al. 2016: `lenemb` = with each input
            word, how much is left of it; `leninit` = its first cell; see `nn/length_inputs.py`. `none` = it is not.
        length_unit: In which lengths are counted and wished, see `core/units.py`.
    """

    system: Literal["lstm"] = "lstm"
    model_dim: Count = 256
    encoder_layers: Count = 3
    decoder_layers: Count = 2
    dropout: Rate = 0.2
    share_embeddings: bool = True
    aca: bool = False
    length_control: Literal["none", "lenemb", "leninit"] = "none"
    length_unit: LengthUnit = "character"

    def __post_init__(self) -> None:
        if self.model_dim % 2:
            what = f"model_dim ({self.model_dim}) must be even: each direction of the encoder takes half of it"
            raise ValueError(what, f"e.g. model_dim = {self.model_dim + 1}")
        if self.decoder_layers > self.encoder_layers:
            raise ValueError(
                f"decoder_layers ({self.decoder_layers}) is above encoder_layers ({self.encoder_layers}): each layer "
                "of the decoder starts from the last states of a layer of the encoder",
                f"set decoder_layers = {self.encoder_layers}, or more encoder_layers",
            )

    @property
    def counts_length(self) -> bool:
        """Whether the system is told a wished length, see `models/length_config.py`."""
        return self.length_control != "none"
