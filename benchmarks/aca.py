"""What adaptive control of attention costs beside the plain LSTM (issue 7, bar 4).

python benchmarks/aca.py [training] [decoding] [--model-dim D] [--vocabulary V] [--rounds N]

Random weights, 3 + 2 layers. `training`: one update (forward, backward, clipping, Adam) on about 2,000 target tokens of
10 to 30 words. `decoding`: 32 sentences of that length, made to write 25 words, bookkeeping and traces timed, too, for
beams of 1, 5 and 10. Shown is LSTM+ACA / LSTM in target tokens a CPU second: both do the same tokens, take turns in one
process on one thread, and the ratio is taken round by round. Below it stands what the products of matrices alone would
leave (multiplications of the forward pass, counted), so what is missing to it are the gates' elementwise operations.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import untrained
from measure import ROUNDS, interleaved, ratio

from indigo_cli.core.vocab import NUM_SPECIALS
from indigo_cli.data.batch import Batch
from indigo_cli.data.collate import collate, collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.search import Sentence, search_batch
from indigo_cli.engine.flops import FlopCounter
from indigo_cli.models import MODELS

PLAIN, ACA = "LSTM", "LSTM+ACA"
BAR_TRAINING, BAR_DECODING = 0.7, 0.65
BEAMS = (1, 5, 10)
WRITTEN = 25


def build(*, model_dim: int, vocabulary: int, aca: bool) -> Any:
    """Build a system of the paper's depth."""
    torch.manual_seed(0)
    config = MODELS["lstm"].config(model_dim=model_dim, encoder_layers=3, decoder_layers=2, dropout=0.2, aca=aca)
    return MODELS["lstm"].build(config, source_size=vocabulary, target_size=vocabulary, ordered_source=True)


def sentences(draw: np.random.Generator, count: int, vocabulary: int) -> list[list[int]]:
    """Draw sentences of 10 to 30 words."""
    return [
        [int(word) for word in draw.integers(NUM_SPECIALS, vocabulary, size=draw.integers(10, 31))]
        for _ in range(count)
    ]


def make_batch(vocabulary: int) -> Batch:
    """Return about 2,000 target tokens, sorted by length as training does."""
    draw = np.random.default_rng(0)
    sources = sorted(sentences(draw, 100, vocabulary), key=len)
    targets = sorted(sentences(draw, 100, vocabulary), key=len)
    return collate([""] * len(targets), sources, targets, [[range(len(target))] for target in targets])


def counted(run: Callable[[], object]) -> int:
    """Return the operations of products; the fused kernel for LSTMs would hide its own."""
    with torch.backends.mkldnn.flags(enabled=False), FlopCounter() as counter:
        run()
    total: int = counter.total
    return total


def report(title: str, runs: dict[str, Callable[[], object]], flops: dict[str, int], bar: float, rounds: int) -> None:
    """Time both and print a row: the speed of ACA as a share of the plain one."""
    median, low, high = ratio(interleaved(runs, rounds=rounds), PLAIN, ACA)
    verdict = "ok" if median >= bar else "MISSED"
    print(f"{title:40} {median:6.3f} ({low:.3f}-{high:.3f})  bar {bar:.2f}  {verdict}", flush=True)
    print(f"{'  by products alone':40} {flops[PLAIN] / flops[ACA]:6.3f}", flush=True)


def training(options: argparse.Namespace) -> None:
    """Compare updates."""
    batch = make_batch(options.vocabulary)
    systems = {
        name: build(model_dim=options.model_dim, vocabulary=options.vocabulary, aca=name == ACA)
        for name in (PLAIN, ACA)
    }
    with torch.no_grad():
        flops = {name: counted(partial(system, batch)) for name, system in systems.items()}
    runs = {name: untrained.update(system, batch) for name, system in systems.items()}
    report(f"training, {batch.num_tokens} tokens", runs, flops, BAR_TRAINING, options.rounds)


def decoding(options: argparse.Namespace) -> None:
    """Compare searches that write the same number of words."""
    sources = sentences(np.random.default_rng(1), 32, options.vocabulary)
    lines = [Sentence(i, WRITTEN, WRITTEN) for i in range(len(sources))]
    systems = {
        name: build(model_dim=options.model_dim, vocabulary=options.vocabulary, aca=name == ACA).eval()
        for name in (PLAIN, ACA)
    }

    def run(system: Any, beam: int) -> Callable[[], object]:
        return lambda: search_batch(system, collate_source(sources), DecodeConfig(), lines, width=beam, seed=1)

    for beam in BEAMS:
        flops = {name: counted(run(system, beam)) for name, system in systems.items()}
        runs = {name: run(system, beam) for name, system in systems.items()}
        report(f"decoding, beam {beam}", runs, flops, BAR_DECODING, options.rounds)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="training, decoding; both if none is named")
    parser.add_argument("--model-dim", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    parts = {"training": training, "decoding": decoding}
    for part in options.parts or parts:
        parts[part](options)


if __name__ == "__main__":
    main()
