"""fairseq's Insertion Transformer with its own generator; absolute positions, everything made anew in each call."""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import insertion_workload
import torch
import workload
from fairseq.data import Dictionary
from fairseq.iterative_refinement_generator import IterativeRefinementGenerator
from fairseq.models.nat.insertion_transformer import InsertionTransformerModel, insertion_base_architecture

ALWAYS_INSERT = 1e4


def tasks() -> dict[str, Callable[[], None]]:
    """Return every task."""
    words = Dictionary()
    first_word = len(words)
    for number in range(workload.VOCABULARY - first_word):
        words.add_symbol(f"w{number}")
    settings = Namespace(
        encoder_embed_dim=workload.MODEL_DIM,
        encoder_ffn_embed_dim=workload.FF_DIM,
        encoder_layers=workload.LAYERS,
        encoder_attention_heads=workload.HEADS,
        decoder_layers=workload.LAYERS,
        decoder_attention_heads=workload.HEADS,
        share_decoder_input_output_embed=True,
        dropout=workload.DROPOUT,
        encoder_layers_to_keep=None,
        decoder_layers_to_keep=None,
        max_source_positions=1024,
        max_target_positions=1024,
    )
    insertion_base_architecture(settings)
    task_of_model = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    model = InsertionTransformerModel.build_model(settings, task_of_model).eval()

    def decode(task: str) -> None:
        calls, _ = insertion_workload.of(task)
        # `max_iter` does not count the first call, so this makes calls + 1 of them.
        generator = IterativeRefinementGenerator(words, models=[model], eos_penalty=ALWAYS_INSERT, max_iter=calls)
        for rows in insertion_workload.source_batches(task):
            tokens = [[first_word + word for word in row] + [words.eos()] for row in rows]
            longest = max(map(len, tokens))
            # fairseq pads sources on the left
            padded = torch.tensor([[words.pad()] * (longest - len(row)) + row for row in tokens])
            lengths = torch.tensor([len(row) for row in tokens])
            found = generator.generate([model], {"net_input": {"src_tokens": padded, "src_lengths": lengths}})
            assert all(hypotheses[0]["steps"] == calls for hypotheses in found)

    return {task: partial(decode, task) for task in insertion_workload.TASKS}
