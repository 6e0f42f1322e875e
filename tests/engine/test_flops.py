"""Operations of decoding against torch's own counter, against formulas by hand, and through `decode --count-flops`."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.core.vocab import EOD, FIRST_WORD, NUM_SPECIALS
from indigo_cli.data.collate import collate_source
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.decoding.parallel import search_rounds
from indigo_cli.decoding.places import Sentence
from indigo_cli.decoding.search import search_batch
from indigo_cli.engine.flops import ATTENTION, PARTS, PRODUCTS, DecodingCost, FlopCounter
from indigo_cli.engine.nbest import Output
from tests.conftest import Indigo
from tests.models.tiny import SIZES, SOURCES, A, B, C, D, make_batch, make_system
from tests.tiny import Tiny

SYSTEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("transformer", {}),
    "indigo": ("indigo", {}),
    "lstm": ("lstm", {"aca": False}),
    "adaptive control": ("lstm", {}),
    "position first": ("indigo", {"predict": "position_first"}),
    "fractional": ("insertion", {}),
    "relative": ("insertion", {"positions": "relative", "max_distance": 2}),
    "ternary": ("insertion", {"positions": "ternary"}),
    "absolute": ("insertion", {"positions": "absolute", "vocabulary_bias": True}),
}
systems = pytest.mark.parametrize("kind", SYSTEMS)
WIDTH, INNER, LAYERS = SIZES["model_dim"], SIZES["ff_dim"], SIZES["decoder_layers"]
OUT = NUM_SPECIALS + 5 - FIRST_WORD
"""Columns of the softmax."""


def make(kind: str) -> Any:
    system, settings = SYSTEMS[kind]
    return make_system(system, **settings)


def search(model: Any, kind: str, *, length: int, width: int = 1) -> None:
    """Decode all sources at once, to outputs of one length."""
    sentences = [Sentence(line=i, min_length=length, max_length=length) for i in range(len(SOURCES))]
    run = search_rounds if SYSTEMS[kind][0] == "insertion" else search_batch
    run(model, collate_source(SOURCES), DecodeConfig(), sentences, width=width, seed=1)


@pytest.mark.slow  # torch's counter takes seconds to load
@systems
def test_a_full_forward_counts_as_torch_counts_it(kind: str) -> None:
    """Which kernel attends does not matter to us; torch knows nothing of the one for CPUs."""
    from torch.utils.flop_counter import FlopCounterMode

    model = make(kind)
    batch = make_batch(SOURCES, [[B, A, B, C], [C], [], [D, A]], [[(2, 0, 1, 3)], [(0,)], [()], [(1, 0)]])
    fused = FlopCounter()
    with torch.no_grad(), fused:
        model(batch)
    plain, torchs = FlopCounter(), FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), torchs, plain:
        model(batch)
    assert plain.flops == fused.flops
    assert plain.total == torchs.get_total_flops()
    assert all(plain.flops[part] for part in ("encoder", "decoder"))


@pytest.mark.slow
@systems
def test_no_kind_of_product_is_forgotten_in_decoding(kind: str) -> None:
    seen: set[Any] = set()

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.add(func.overloadpacket)
            return func(*args, **(kwargs or {}))

    with Watch(), FlopCounter():  # type: ignore[no-untyped-call]
        search(make(kind), kind, length=3)
    suspects = {packet for packet in seen if any(word in str(packet) for word in ("mm", "mv", "dot", "conv", "linear"))}
    assert suspects <= {*PRODUCTS, *ATTENTION}


@pytest.mark.slow
@systems
def test_counting_changes_nothing_and_adds_up(kind: str) -> None:
    model = make(kind)
    once, both = FlopCounter(), FlopCounter()
    with once:
        search(model, kind, length=3)
    with both:
        search(model, kind, length=3)
        search(model, kind, length=3)
    assert both.flops == {part: 2 * flops for part, flops in once.flops.items()}
    assert set(once.flops) == set(PARTS)
    assert once.flops["encoder"] and once.flops["decoder"] and once.flops["words"]
    assert bool(once.flops["slots"]) == (kind != "transformer")


SOURCE = 3
"""Rows of the source [A, B]: `</s>` is one."""


def encoder_flops(length: int) -> int:
    """Of a source alone: q, k, v and output maps, attention, feed-forward."""
    a_row = 2 * WIDTH * 3 * WIDTH + 2 * WIDTH * WIDTH + 4 * WIDTH * INNER
    return SIZES["encoder_layers"] * length * (a_row + 4 * length * WIDTH)


def stack_flops(new: int, standing: int, source: int) -> int:
    """Of new rows that go through the decoder and see all that stand then."""
    own = 2 * WIDTH * 3 * WIDTH + 2 * WIDTH * WIDTH + 4 * standing * WIDTH
    cross = 2 * 2 * WIDTH * WIDTH + 4 * source * WIDTH
    return LAYERS * new * (own + cross + 4 * WIDTH * INNER)


def memory_flops(source: int) -> int:
    """Keys and values of the source."""
    return LAYERS * source * 2 * WIDTH * 2 * WIDTH


@pytest.mark.slow
def test_the_transformer_by_hand() -> None:
    model, steps = make("transformer"), 4
    with FlopCounter() as counter:
        search_batch(model, collate_source([[A, B]]), DecodeConfig(), [Sentence(0, 4, 4)], width=1, seed=1)
    rows = range(1, steps + 2)  # `<s>`, and a word a step
    assert counter.flops == {
        "encoder": encoder_flops(SOURCE),
        "decoder": memory_flops(SOURCE) + sum(stack_flops(1, row, SOURCE) for row in rows),
        "slots": 0,
        "words": steps * 2 * WIDTH * OUT,
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fractional", "absolute"])
def test_rounds_by_hand(kind: str) -> None:
    """Three words in two rounds: one in the middle, one at each of its sides; then every slot is closed."""
    model = make_system("insertion", positions=kind)
    start = torch.zeros(1, 1, dtype=torch.int64)
    with torch.inference_mode(), FlopCounter() as counter:
        state = model.start(collate_source([[A, B]]))
        for words in ([B], [A, C], [EOD] * 4):
            model.slots(state)
            state = model.insert(state, start, torch.tensor([[words]]))
    new_and_standing = [(2, 2), (1, 3), (2, 5)] if kind == "fractional" else [(2, 2), (3, 3), (5, 5)]
    rows = sum(new for new, _ in new_and_standing)
    codes = 3 * 2 * 2 * WIDTH * WIDTH if kind == "fractional" else 0
    assert counter.flops == {
        "encoder": encoder_flops(SOURCE),
        "decoder": memory_flops(SOURCE) + codes + sum(stack_flops(new, all_, SOURCE) for new, all_ in new_and_standing),
        "slots": rows * 2 * WIDTH * 2 * WIDTH,
        "words": (1 + 2 + 4) * 2 * WIDTH * OUT,
    }


def test_rounds_are_those_that_insert() -> None:
    trace = GenerationTrace(tuple(Insertion(A, 0, round_, -1.0, 0.0) for round_ in (-1, 0, 1, 1, 4)))
    cost = DecodingCost()
    cost.add(Output(Hypothesis(trace, -1.0, finished=True), ""))
    cost.add(Output(Hypothesis(GenerationTrace(()), 0.0, finished=True), ""))
    facts = cost.facts()
    assert (facts["sentences"], facts["tokens"]) == (2, 5)
    assert (facts["rounds_per_sentence"], facts["log2_rounds_per_sentence"]) == (1.5, 1.5)


class TestCommand:
    @pytest.mark.slow
    def test_figures_go_to_stdout_where_no_text_does(self, tiny: Tiny, indigo: Indigo, tmp_path: Path) -> None:
        options = ("decode", tiny.run, "--split", "test", "--beam", "2")
        (tmp_path / "in.txt").write_text("bee cat\n\ndog\n", "utf-8")
        plain = indigo(*options)
        counted = indigo(*options, "--count-flops", "-o", tmp_path / "out.txt")
        assert counted.status == 0
        assert (tmp_path / "out.txt").read_text("utf-8") == plain.out
        facts = json.loads(counted.out)
        assert facts["sentences"] == 6
        assert facts["beam_size"] == 2
        parts = facts["flops"]
        assert parts["total"] == sum(flops for part, flops in parts.items() if part != "total")
        assert "a CPU second" in counted.err
        assert "operations" not in plain.err

    @pytest.mark.slow
    def test_text_on_stdout_stays_text_and_blank_lines_cost_nothing(self, tiny: Tiny, indigo: Indigo) -> None:
        counted = indigo("decode", tiny.run, "--count-flops", stdin=b"bee cat\n\ndog\n")
        assert counted.out.count("\n") == 3
        assert "2 sentences of " in counted.err

    def test_a_sweep_is_not_counted(self, tiny: Tiny, indigo: Indigo) -> None:
        refused = indigo("decode", tiny.run, "--count-flops", "--sweep", "decode.beam_size=1,2")
        assert refused.status == 2
        assert "--count-flops" in refused.err
