"""What cached decoding keeps of its sources: keys and values of attention to them, once a sentence.

Shape letters: S sentences, X source length, H heads, D model width, d = D / H.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from indigo_cli.nn.attention import CrossAttention


@dataclass(frozen=True)
class SourceMemory:
    """Sources as the layers of a decoder see them.

    Args:
        layers: Scaled keys and values for each layer, (S * H, X, d).
        mask: (S * H, 1, X), 0 or -inf.
        sentences: S.
    """

    layers: list[tuple[Tensor, Tensor]]
    mask: Tensor
    sentences: int

    @classmethod
    def of(cls, layers: Iterable[CrossAttention], memory_SXD: Tensor, mask_SX: Tensor) -> "SourceMemory":
        """Prepare the attention of each layer for the encoder's output; the mask is True for real source tokens."""
        crosses = list(layers)
        mask = torch.zeros_like(mask_SX, dtype=memory_SXD.dtype).masked_fill_(~mask_SX, -torch.inf)
        return cls(
            [cross.step_memory(memory_SXD) for cross in crosses],
            mask.repeat_interleave(crosses[0].num_heads, dim=0)[:, None],
            len(memory_SXD),
        )

    @property
    def num_heads(self) -> int:
        """H."""
        return len(self.mask) // self.sentences

    def keep(self, sentence_index: Tensor) -> "SourceMemory":
        """Drop the other sentences."""
        heads = torch.arange(self.num_heads, device=sentence_index.device)
        index = (sentence_index[:, None] * len(heads) + heads).flatten()
        return SourceMemory(
            [(key.index_select(0, index), value.index_select(0, index)) for key, value in self.layers],
            self.mask.index_select(0, index),
            len(sentence_index),
        )
