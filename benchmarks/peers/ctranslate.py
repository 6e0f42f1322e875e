"""CTranslate2 in float32, on the weights that `marian` has: decoding only, the ceiling to look up to."""

import tempfile
from collections.abc import Callable
from types import SimpleNamespace

import ctranslate2
import marian
import workload
from ctranslate2.converters.transformers import MarianMTLoader

TOKENS = ["</s>", "<unk>", *(f"w{number}" for number in range(workload.VOCABULARY - marian.FIRST_WORD - 1)), "<pad>"]


def tasks() -> dict[str, Callable[[], None]]:
    """Return both searches."""
    # Its converter reads folders with a tokenizer, of which it needs these three things.
    tokenizer = SimpleNamespace(
        eos_token="</s>", unk_token="<unk>", get_vocab=lambda: {token: i for i, token in enumerate(TOKENS)}
    )
    spec = MarianMTLoader()(marian.build().eval(), tokenizer)
    spec.validate()
    spec.optimize(quantization=None)
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = ctranslate2.Translator(
            folder, device="cpu", inter_threads=1, intra_threads=1, compute_type="float32"
        )
    sources = {
        name: [[f"w{word}" for word in row] + ["</s>"] for rows in workload.source_batches(name) for row in rows]
        for name in ("greedy", "beam")
    }

    def decode(name: str) -> None:
        found = translator.translate_batch(
            sources[name],
            beam_size=workload.BEAM_SIZE if name == "beam" else 1,
            max_batch_size=workload.BATCH_SENTENCES,
            min_decoding_length=workload.LENGTH,
            max_decoding_length=workload.LENGTH,
        )
        assert all(len(result.hypotheses[0]) == workload.LENGTH for result in found)

    return {"greedy": lambda: decode("greedy"), "beam": lambda: decode("beam")}
