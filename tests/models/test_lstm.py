"""The LSTM, with and without adaptive control, against Eqs. 1-22 of Lin et al. once more in NumPy."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from indigo_cli.core.vocab import BOS, EOD, EOS, FIRST_WORD
from indigo_cli.models import MODELS
from indigo_cli.models.lstm_config import LstmConfig
from tests.models.tiny import A, B, C, D, E, make_batch, make_system, play, word_log_probs
from tests.tensors import assert_close

Array = NDArray[np.float64]
SENTENCES = [([A, B, C], [A, B, C]), ([D], []), ([], [E]), ([C, C, D, E, A], [B, A, B, D])]
SETTINGS: list[dict[str, Any]] = [
    {"aca": False},
    {"aca": True},
    {"aca": True, "share_embeddings": False},
    {"aca": True, "encoder_layers": 3, "decoder_layers": 1},
]


def sigmoid(x: Array) -> Array:
    found: Array = 1 / (1 + np.exp(-x))
    return found


def selu(x: Array) -> Array:
    """Klambauer et al. 2017, Eq. 2."""
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    found: Array = scale * np.where(x > 0, x, alpha * (np.exp(x) - 1))
    return found


def softmax(x: Array) -> Array:
    weights = np.exp(x - x.max())
    found: Array = weights / weights.sum()
    return found


class Slow:
    """One sentence, one step, one gate at a time, from the parameters alone."""

    def __init__(self, parameters: Mapping[str, torch.Tensor], *, encoder_layers: int, decoder_layers: int) -> None:
        self.p = {name: value.detach().double().numpy() for name, value in parameters.items()}
        self.encoder_layers, self.decoder_layers = encoder_layers, decoder_layers
        self.width = self.p["embeddings.target.weight"].shape[1]

    def cell(self, name: str, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        """Eqs. 1-6; torch keeps the rows of i, f, candidate and o below one another."""
        rows = self.p[name.replace("*", "weight_ih")] @ x + self.p[name.replace("*", "bias_ih")]
        rows = rows + self.p[name.replace("*", "weight_hh")] @ h + self.p[name.replace("*", "bias_hh")]
        i, f, candidate, o = np.split(rows, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(candidate)
        return sigmoid(o) * np.tanh(c), c

    def encode(self, source: Sequence[int]) -> tuple[Array, list[tuple[Array, Array]]]:
        """Eqs. 7-9: [forward; backward] of each token, and the last states of each layer."""
        table = self.p.get("embeddings.source.weight", self.p["embeddings.target.weight"])
        rows: list[Array] = [table[token] * np.sqrt(self.width) for token in [*source, EOS]]
        last = []
        for layer in range(self.encoder_layers):
            ways, ends = [], []
            for suffix, inputs in (("", rows), ("_reverse", rows[::-1])):
                h, c = np.zeros(self.width // 2), np.zeros(self.width // 2)
                states = []
                for x in inputs:
                    h, c = self.cell(f"encoder.lstm.*_l{layer}{suffix}", x, h, c)
                    states.append(h)
                ways.append(states if suffix == "" else states[::-1])
                ends.append((h, c))
            rows = [np.concatenate(pair) for pair in zip(*ways, strict=True)]
            last.append(tuple(np.concatenate(both) for both in zip(*ends, strict=True)))
        return np.stack(rows), last[-self.decoder_layers :]  # type: ignore[return-value]

    def mlp(self, name: str, x: Array) -> Array:
        inner = selu(self.p[f"{name}.inner.weight"] @ x + self.p[f"{name}.inner.bias"])
        found: Array = self.p[f"{name}.outer.weight"] @ inner + self.p[f"{name}.outer.bias"]
        return found

    def gate(self, which: int, x: Array) -> Array:
        """One of the maps that share an input: 0 remove, 1 feed, 2 what is fed."""
        rows = slice(which * self.width, (which + 1) * self.width)
        inner = selu(self.p["control.feeds.inner.weight"][rows] @ x + self.p["control.feeds.inner.bias"][rows])
        found: Array = inner @ self.p["control.feeds.outer"][which] + self.p["control.feeds.bias"][which, 0]
        return found

    def log_probs(
        self, source: Sequence[int], target: Sequence[int], wish: int = 0, written: Sequence[int] = ()
    ) -> list[Array]:
        """Return log p of all words of the softmax at each of the T + 1 steps.

        Args:
            wish, written: Where lengths are controlled: what is wanted, and what stands before each step.
        """
        encoded, states = self.encode(source)
        memory = states[-1][0]
        if "first_cell.vectors" in self.p:
            states = [(h, wish * self.p["first_cell.vectors"][layer, 0]) for layer, (h, _) in enumerate(states)]
        found = []
        for step, token in enumerate([BOS, *target]):
            x = self.p["embeddings.target.weight"][token] * np.sqrt(self.width)
            if "remaining.table.weight" in self.p:
                row = self.p["remaining.table.weight"][min(max(wish - written[step], 0), 255)]
                x = np.concatenate((x, row * np.sqrt(len(row))))
            for layer, (h, c) in enumerate(states):
                states[layer] = self.cell(f"decoder.lstm.*_l{layer}", x, h, c)  # Eq. 12
                x = states[layer][0]
            weights = softmax(np.array([x @ self.p["attention.key.weight"] @ h for h in encoded]))  # Eqs. 14, 15
            context = weights @ encoded  # Eq. 13
            if "control.feeds.outer" in self.p:
                both = np.concatenate((x, context))
                remove, feed = sigmoid(self.gate(0, both)), sigmoid(self.gate(1, both))  # Eqs. 17, 18
                memory = remove * memory + feed * np.tanh(self.gate(2, both))  # Eq. 19
                update = sigmoid(self.mlp("control.update", np.concatenate((memory, x))))  # Eq. 20
                context = update * context  # Eq. 21
            features = np.tanh(self.mlp("output", np.concatenate((x, context))))  # Eqs. 11, 22
            logits = self.p["embeddings.target.weight"][FIRST_WORD:] @ features
            found.append(logits - np.log(np.exp(logits).sum()))  # Eq. 10
        return found


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_losses_and_gradients_are_those_of_the_equations(settings: dict[str, Any]) -> None:
    """Gradients by central differences along random directions."""
    model = make_system("lstm", **settings).double()
    layers = {name: settings.get(name, 2) for name in ("encoder_layers", "decoder_layers")}
    orders = [[range(len(target))] for _, target in SENTENCES]
    batch = make_batch([source for source, _ in SENTENCES], [target for _, target in SENTENCES], orders)
    parameters = dict(model.named_parameters())

    def slow(shifts: Mapping[str, torch.Tensor], size: float) -> float:
        moved = {name: value + size * shifts[name] if shifts else value for name, value in parameters.items()}
        total = 0.0
        for source, target in SENTENCES:
            steps = Slow(moved, **layers).log_probs(source, target)
            total -= sum(step[word - FIRST_WORD] for step, word in zip(steps, [*target, EOD], strict=True))
        return total

    losses = model(batch)
    assert losses.objective.item() == pytest.approx(slow({}, 0.0), rel=1e-6)
    assert losses.weight == losses.parts["word"][1] == 8 + 4
    gradients = dict(zip(parameters, torch.autograd.grad(losses.objective, list(parameters.values())), strict=True))
    generator = torch.Generator().manual_seed(4)
    for name, gradient in gradients.items():
        shifts = {other: torch.zeros_like(value) for other, value in parameters.items()}
        shifts[name] = torch.randn(gradient.shape, generator=generator, dtype=torch.float64)
        wanted = (slow(shifts, 1e-4) - slow(shifts, -1e-4)) / 2e-4
        assert (gradient * shifts[name]).sum().item() == pytest.approx(wanted, rel=1e-4, abs=1e-5), name


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_step_of_decoding_is_that_of_the_equations(settings: dict[str, Any]) -> None:
    model = make_system("lstm", **settings)
    layers = {name: settings.get(name, 2) for name in ("encoder_layers", "decoder_layers")}
    slow = Slow(dict(model.named_parameters()), **layers)
    for source, target in SENTENCES:
        for step, wanted in enumerate(slow.log_probs(source, target)):
            with torch.inference_mode():
                got = word_log_probs(model, play(model, source, target[:step], range(step)))[0, 0]
            assert_close(got, torch.from_numpy(wanted), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_an_update_gate_that_is_open_gives_the_baseline() -> None:
    """u = 1, whatever r and f are; the other parameters are the baseline's, name by name."""
    controlled, plain = make_system("lstm", aca=True), make_system("lstm", aca=False, seed=1)
    shared = {name: value for name, value in controlled.state_dict().items() if not name.startswith("control.")}
    plain.load_state_dict(shared)
    batch = make_batch([s for s, _ in SENTENCES], [t for _, t in SENTENCES], [[range(len(t))] for _, t in SENTENCES])
    assert abs(controlled(batch).objective.item() - plain(batch).objective.item()) > 1e-2
    controlled.control.update.outer.weight.zero_()
    controlled.control.update.outer.bias.fill_(100.0)
    assert_close(controlled.log_probs(batch).words, plain.log_probs(batch).words, rtol=1e-6)
    states = [play(model, [A, B, C], [D, E, A], range(3)) for model in (controlled, plain)]
    assert_close(states[0].features, states[1].features, rtol=1e-6)


@pytest.mark.parametrize("aca", [False, True])
@torch.no_grad()
def test_padding_of_the_source_has_no_influence(aca: bool) -> None:
    """Not even if the embedding of PAD is huge."""
    model = make_system("lstm", aca=aca)
    alone = [model.log_probs(make_batch([s], [t], [[range(len(t))]])).words[0, 0] for s, t in SENTENCES]
    model.embeddings.target.weight[0] = 1e4
    batch = make_batch([s for s, _ in SENTENCES], [t for _, t in SENTENCES], [[range(len(t))] for _, t in SENTENCES])
    together = model.log_probs(batch).words[:, 0]
    for row, wanted in zip(together, alone, strict=True):
        assert_close(row[: len(wanted)], wanted)


@torch.inference_mode()
def test_the_memory_follows_its_hypothesis() -> None:
    """Two hypotheses change places and one of them multiplies; each goes on as if it were alone."""
    model = make_system("lstm", aca=True, scale=2.0)
    state = play(model, [A, B, C], [D], [0])
    state = model.advance(state, torch.tensor([[0, 0]]), torch.tensor([[A, E]]), torch.tensor([[1, 1]]))
    state = model.advance(state, torch.tensor([[1, 0, 1]]), torch.tensor([[B, B, C]]), torch.tensor([[2, 2, 2]]))
    for place, words in enumerate(([D, E, B], [D, A, B], [D, E, C])):
        alone = play(model, [A, B, C], words, range(3))
        assert_close(state.memory[place], alone.memory[0])
        assert_close(state.features[place], alone.features[0])
    assert (state.memory[0] - state.memory[1]).abs().max() > 1e-2, "or the memory would say nothing"


def test_every_gate_starts_as_wide_as_any_other_linear_map() -> None:
    """Xavier of each map alone: numbers up to sqrt(6 / (in + out)), also where several maps share a product."""
    width = 64
    torch.manual_seed(0)
    model = MODELS["lstm"].build(
        LstmConfig(model_dim=width, aca=True), source_size=9, target_size=9, ordered_source=True
    )
    feeds = model.control.feeds
    for part in (*feeds.inner.weight.chunk(3), model.control.update.inner.weight, model.output.inner.weight):
        assert part.abs().max().item() == pytest.approx((6 / (3 * width)) ** 0.5, rel=0.01)
    for part in (*feeds.outer, model.control.update.outer.weight, model.output.outer.weight):
        assert part.abs().max().item() == pytest.approx((6 / (2 * width)) ** 0.5, rel=0.01)
    assert not feeds.inner.bias.any() and not feeds.bias.any()


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match=r"model_dim \(9\) must be even"):
        LstmConfig(model_dim=9)
    with pytest.raises(ValueError, match=r"decoder_layers \(3\) is above encoder_layers \(2\)"):
        LstmConfig(encoder_layers=2, decoder_layers=3)


def test_it_learns_to_reverse() -> None:
    """Sequences that were never seen come out backwards, each word with a probability above one half."""
    torch.manual_seed(0)
    model = make_system("lstm", tokens=5, model_dim=32, encoder_layers=1, decoder_layers=1, dropout=0.0).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    draw = np.random.default_rng(0)
    every = [[int(word) for word in draw.integers(A, E + 1, size=draw.integers(2, 5))] for _ in range(1500)]
    held_out = [[A, B, C, D], [E, A, D], [B, C]]
    sources = [row for row in every if row not in held_out]
    for _ in range(100):
        rows = [sources[i] for i in draw.integers(len(sources), size=32)]
        loss = model(make_batch(rows, [row[::-1] for row in rows], [[range(len(row))] for row in rows]))
        optimizer.zero_grad()
        (loss.objective / loss.weight).backward()
        optimizer.step()
    model.eval()
    for source in held_out:
        steps = model.log_probs(make_batch([source], [source[::-1]], [[range(len(source))]]))
        assert steps.words.exp().min() > 0.5
