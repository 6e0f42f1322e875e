"""A decoder stack in rounds: every hypothesis gets some new rows at once, which see each other and all that stands.

Shape letters: S sentences, X source length, B hypotheses a sentence, P = S * B places, n new rows (the most of any), R
rows, H heads, D model width, d = D / H.
"""

from dataclasses import dataclass, replace

from torch import Tensor
from torch.nn import functional

from indigo_cli.nn.blocks import Decoder
from indigo_cli.nn.row_cache import RowCache
from indigo_cli.nn.source_memory import SourceMemory


@dataclass
class RoundState:
    """What decoding in rounds keeps: the source of each sentence once, the rows of each hypothesis.

    Args:
        memory: The sources.
        projections: Joint self-attention projection of each layer, folded once.
        cache: Keys and values of the rows, and what the system itself keeps of them.
    """

    memory: SourceMemory
    projections: list[tuple[Tensor, Tensor | None]]
    cache: RowCache

    @property
    def sentences(self) -> int:
        """S."""
        return self.memory.sentences

    def keep(self, sentence_index: Tensor, place_index: Tensor) -> "RoundState":
        """Drop the other sentences and places."""
        self.cache.choose(place_index)
        return replace(self, memory=self.memory.keep(sentence_index))


def start_rounds(decoder: Decoder, memory_SXD: Tensor, memory_mask_SX: Tensor, *, own: int) -> RoundState:
    """Prepare with one hypothesis a sentence and no rows; the system keeps `own` floats of each row."""
    layers = list(decoder.typed_layers())
    heads, head_dim = layers[0].attention.num_heads, layers[0].attention.head_dim
    return RoundState(
        memory=SourceMemory.of((layer.cross for layer in layers), memory_SXD, memory_mask_SX),
        projections=[layer.attention.step_projection() for layer in layers],
        cache=RowCache(len(layers), heads, head_dim, own=own, places=len(memory_SXD), like=memory_SXD),
    )


def append_rows(
    decoder: Decoder, x_PnD: Tensor, state: RoundState, row_Pn: Tensor, *, left_PnR: Tensor | None = None
) -> Tensor:
    """Run new rows through the stack.

    Args:
        x_PnD: Embedded new rows of each place; hypotheses of a sentence side by side.
        state: Its cache has just grown, by `row_Pn`, and is written.
        row_Pn: Which rows they are.
        left_PnR: With relations, what `left` of the attention says of the new rows and all.
    Returns: (P, n, D) features; those of padding mean nothing.
    """
    cache, model_dim = state.cache, x_PnD.shape[2]
    mask, own = cache.mask(), row_Pn.clamp(max=cache.num_rows - 1)
    for index, layer in enumerate(decoder.typed_layers()):
        attention = layer.attention
        joint = functional.linear(layer.attention_norm(x_PnD), *state.projections[index])
        new = joint[:, :, : 3 * model_dim].unflatten(2, (3, attention.num_heads, -1)).permute(2, 0, 3, 1, 4)
        keys, values = cache.write(index, new[1:])
        mixed = attention.attend_rows(
            new[0], joint[:, :, 3 * model_dim :], keys, values, mask_N1R=mask, left_NQR=left_PnR, own_NQ=own
        )
        x_PnD = x_PnD + attention.out(mixed)
        x_SQD = x_PnD.reshape(state.sentences, -1, model_dim)  # hypotheses of a sentence are queries of one source
        x_SQD = x_SQD + layer.cross.step(layer.cross_norm(x_SQD), state.memory.layers[index], state.memory.mask)
        x_SQD = x_SQD + layer.ff(layer.ff_norm(x_SQD))
        x_PnD = x_SQD.view(x_PnD.shape)
    features: Tensor = decoder.norm(x_PnD)
    return features
