"""Floating point operations of decoding, counted as they are done: `decode --count-flops`.

What counts are products of matrices, a multiplication with its addition as two operations, those of attention among
them. Everything else (norms, softmax, activations, embeddings, caches, the search) does not. Padding counts, since it
is computed: figures are those of a batch, and fewer in batches of one.

An operation belongs to the innermost function of `PARTS` on the call stack, so models know nothing of this, and it
costs nothing where it is off.
"""

import inspect
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from indigo_cli.engine.generator import Generator
from indigo_cli.engine.lines import EncodedLine
from indigo_cli.engine.nbest import Output
from indigo_cli.nn.adaptive_control import AdaptiveControl
from indigo_cli.nn.blocks import Decoder, Encoder
from indigo_cli.nn.embedding import Embeddings
from indigo_cli.nn.positions.fractional import Fractional
from indigo_cli.nn.recurrent import GlobalAttention, LstmDecoder, LstmEncoder
from indigo_cli.nn.rounds import append_rows, start_rounds

PARTS: Mapping[str, tuple[Callable[..., Any], ...]] = {
    "encoder": (Encoder.forward, LstmEncoder.forward),
    "decoder": (
        Decoder.forward,
        Decoder.start,
        Decoder.extend,
        start_rounds,
        append_rows,
        Fractional.codes,
        Fractional.code_between,
        LstmDecoder.forward,
        LstmDecoder.step,
        GlobalAttention.read,
        GlobalAttention.forward,
        AdaptiveControl.forward,
        AdaptiveControl.step,
    ),
    "slots": (),
    "words": (Embeddings.scores, Embeddings.log_z),
}
"""Which functions do the work of a part: `decoder` is the stack with keys and values of the source and codes of
positions; `words` the word softmax; `slots` all else that heads do: features of slots and words, the pointer."""
REST = "slots"

aten = torch.ops.aten
PRODUCTS = {aten.mm: 0, aten.addmm: 1, aten.bmm: 0, aten.baddbmm: 1}
"""Products of (a batch of) two matrices, and which argument is the left one."""
ATTENTION = {
    aten._scaled_dot_product_flash_attention_for_cpu,
    aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_efficient_attention,
    aten._scaled_dot_product_cudnn_attention,
}
"""Fused attention: query (N, H, Q, d), key (N, H, R, d), value (N, H, R, e)."""


class FlopCounter(TorchDispatchMode):
    """Counts what is computed while it is entered.

    Args of the class:
        flops: Operations of each part.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = dict.fromkeys(PARTS, 0)
        self._parts = {code_of(function): part for part, functions in PARTS.items() for function in functions}
        self._whole: set[Any] = set()  # operations that are not made of others

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Tell torch not to load its compiler, which takes seconds, only to keep it away from here."""
        return False

    @property
    def total(self) -> int:
        """Of all parts."""
        return sum(self.flops.values())

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Do an operation and count it; one that is made of others (`linear`, without gradients) is taken apart."""
        kwargs = kwargs or {}
        packet = func.overloadpacket
        if packet not in PRODUCTS and packet not in ATTENTION:
            if func not in self._whole:
                with self:
                    result = func.decompose(*args, **kwargs)
                if result is not NotImplemented:
                    return result
                self._whole.add(func)
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        if packet in ATTENTION:
            query, key, value = args[:3]
            flops = attention_flops(query, key, value)
        else:
            flops = 2 * result.numel() * args[PRODUCTS[packet]].shape[-1]
        self.flops[self._part(sys._getframe(1))] += flops
        return result

    def _part(self, frame: FrameType | None) -> str:
        while frame is not None:
            part = self._parts.get(frame.f_code)
            if part is not None:
                return part
            frame = frame.f_back
        return REST


def attention_flops(query: Tensor, key: Tensor, value: Tensor) -> int:
    """Return the operations of both products of attention; those that a mask throws away count."""
    return 2 * query.shape[:-1].numel() * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def code_of(function: Callable[..., Any]) -> CodeType:
    """Return the code of a function, whatever decorates it."""
    code: CodeType = inspect.unwrap(function).__code__
    return code


@dataclass
class DecodingCost:
    """What decoding has cost so far.

    Args:
        settings: What it was done with.
        flops: Operations of each part.
        sentences: That were searched: lines without tokens are not.
        tokens: Of their best hypotheses.
        rounds: Calls that inserted something into these, added up; of a serial system one a token.
        ideal_rounds: log2 T + 1 of those with T > 0 tokens, added up.
        batches: Searches that the sentences were shared out to.
        wall_seconds, cpu_seconds: Of decoding without counting; CPU time is that of all threads.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    flops: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
    sentences: int = 0
    tokens: int = 0
    rounds: int = 0
    ideal_rounds: float = 0.0
    batches: int = 0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0

    def add(self, outputs: Output) -> None:
        """Count a sentence by its best hypothesis."""
        trace = outputs.hypothesis.trace
        own = len(trace) - trace.given
        self.sentences += 1
        self.tokens += len(trace)
        self.rounds += len({number for number in trace.rounds() if number >= 0})
        self.ideal_rounds += math.log2(own) + 1 if own else 0.0

    def facts(self) -> dict[str, Any]:
        """Return everything as one JSON object; seconds and operations are those of all sentences."""
        each = max(self.sentences, 1)
        return {
            **self.settings,
            "sentences": self.sentences,
            "tokens": self.tokens,
            "sentences_per_batch": self.sentences / max(self.batches, 1),
            "rounds_per_sentence": self.rounds / each,
            "log2_rounds_per_sentence": self.ideal_rounds / each,
            "flops": {**self.flops, "total": sum(self.flops.values())},
            "wall_seconds": self.wall_seconds,
            "cpu_seconds": self.cpu_seconds,
            "sentences_per_cpu_second": self.sentences / max(self.cpu_seconds, 1e-9),
        }

    def json(self) -> str:
        """Return `facts` as a line of JSON, rounded to 6 significant digits."""
        return json.dumps(rounded(self.facts()))

    def text(self) -> str:
        """Return the table for people."""
        facts = self.facts()
        rows = [f"{'operations, millions':22}{'a sentence':>14}{'a token':>12}{'share':>8}"]
        total = max(facts["flops"]["total"], 1)
        for part, flops in facts["flops"].items():
            a_sentence, a_token = (flops / 1e6 / max(count, 1) for count in (self.sentences, self.tokens))
            rows.append(f"{part:22}{a_sentence:14,.2f}{a_token:12,.3f}{flops / total:8.1%}")
        rows.append(
            f"{self.sentences:,} sentences of {self.tokens / max(self.sentences, 1):.1f} tokens, "
            f"{facts['sentences_per_batch']:.1f} a batch; inserting rounds: {facts['rounds_per_sentence']:.2f}, "
            f"log2 T + 1 = {facts['log2_rounds_per_sentence']:.2f}"
        )
        rows.append(
            f"{self.wall_seconds:.2f} s wall, {self.cpu_seconds:.2f} s CPU: "
            f"{facts['sentences_per_cpu_second']:,.2f} sentences a CPU second"
        )
        return "\n".join(rows)


def rounded(value: Any) -> Any:
    """Round every float inside to 6 significant digits."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


class Meter:
    """Decodes blocks as a generator does, and measures it: each is decoded once to count, and once to take the time.

    Args:
        generator: What decodes.
    """

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        run, config = generator.run, generator.config
        self.cost = DecodingCost(
            {
                "run": run.folder.path.name,
                "checkpoint": run.checkpoint_name,
                "system": run.recipe.system,
                "search": config.search,
                "beam_size": generator.width,
                "batch_tokens": config.batch_tokens,
                "device": str(generator.device),
                "precision": generator.runtime.precision,
                "threads": torch.get_num_threads(),
            }
        )

    def decode(self, block: Sequence[EncodedLine]) -> list[list[Output]]:
        """See `Generator.decode`."""
        cost, counter = self.cost, FlopCounter()
        with counter:
            self.generator.decode(block)
        for part, flops in counter.flops.items():
            cost.flops[part] += flops
        wall, cpu = time.perf_counter(), time.process_time()
        lists = self.generator.decode(block)
        cost.wall_seconds += time.perf_counter() - wall
        cost.cpu_seconds += time.process_time() - cpu
        cost.batches += self.generator.num_batches(block)
        for line, outputs in zip(block, lists, strict=True):
            if len(line.ids):
                cost.add(outputs[0])
        return lists
