"""Sources as decoding keeps them: those that are left are as if they had been alone."""

import torch

from indigo_cli.nn.attention import CrossAttention
from indigo_cli.nn.source_memory import SourceMemory
from tests.tensors import assert_close


def test_sentences_that_are_kept_are_those_alone() -> None:
    """Attention through what is kept, in any order, is plain attention to each source."""
    torch.manual_seed(0)
    layers = [CrossAttention(8, 2) for _ in range(2)]
    source, mask = torch.randn(3, 4, 8), torch.arange(4) < torch.tensor([[2], [4], [1]])
    query, index = torch.randn(2, 5, 8), torch.tensor([2, 0])
    memory = SourceMemory.of(layers, source, mask)
    assert (memory.sentences, memory.num_heads) == (3, 2)
    kept = memory.keep(index)
    assert (kept.sentences, kept.num_heads) == (2, 2)
    for layer, key_value in zip(layers, kept.layers, strict=True):
        wanted = layer(query, layer.memory(source[index]), mask[index][:, None, None])
        assert_close(layer.step(query, key_value, kept.mask), wanted)
