"""Hugging Face's Marian, from scratch: training by a plain loop, greedy search and beam search by `generate`."""

from collections.abc import Callable

import torch
import workload
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

EOS, FIRST_WORD, PAD = 0, 2, workload.VOCABULARY - 1
"""`<pad>` comes last, where the converter to CTranslate2 looks for it."""
IGNORED = -100


def build() -> MarianMTModel:
    """Build the model of the fixed configuration."""
    size = workload.VOCABULARY
    config = MarianConfig(
        vocab_size=size,
        decoder_vocab_size=size,
        d_model=workload.MODEL_DIM,
        encoder_layers=workload.LAYERS,
        decoder_layers=workload.LAYERS,
        encoder_ffn_dim=workload.FF_DIM,
        decoder_ffn_dim=workload.FF_DIM,
        encoder_attention_heads=workload.HEADS,
        decoder_attention_heads=workload.HEADS,
        dropout=workload.DROPOUT,
        activation_function="relu",
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=True,
        scale_embedding=True,
        max_position_embeddings=128,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=None,
        forced_eos_token_id=None,
        decoder_start_token_id=PAD,
    )
    return MarianMTModel(config)


def padded(rows: list[list[int]], value: int) -> Tensor:
    """Turn words into ids, closed and padded on the right."""
    longest = 1 + max(map(len, rows))
    return torch.tensor(
        [[*(FIRST_WORD + word for word in row), EOS] + [value] * (longest - 1 - len(row)) for row in rows]
    )


def tasks() -> dict[str, Callable[[], None]]:
    """Return training and both searches; each has a model of its own."""
    trained, decoded = build().train(), build().eval()
    # Fused as in its own trainer, and faster than what a plain loop would take.
    optimizer = torch.optim.AdamW(trained.parameters(), lr=workload.LEARNING_RATE, betas=(0.9, 0.98), fused=True)
    batches = workload.training_batches()
    sources = {name: workload.source_batches(name) for name in ("greedy", "beam")}

    def train() -> None:
        for batch in batches:
            source = padded([source for source, _ in batch], PAD)
            target = padded([target for _, target in batch], IGNORED)
            loss = trained(input_ids=source, attention_mask=(source != PAD).long(), labels=target).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained.parameters(), workload.CLIP_NORM)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    @torch.inference_mode()
    def decode(name: str) -> None:
        for rows in sources[name]:
            source = padded(rows, PAD)
            decoded.generate(
                input_ids=source,
                attention_mask=(source != PAD).long(),
                num_beams=workload.BEAM_SIZE if name == "beam" else 1,
                min_new_tokens=workload.LENGTH,
                max_new_tokens=workload.LENGTH,
                do_sample=False,
            )

    return {"train": train, "greedy": lambda: decode("greedy"), "beam": lambda: decode("beam")}
