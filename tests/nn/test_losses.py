"""Word loss against torch's cross entropy over the allowed words."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from indigo_cli.nn import losses
from indigo_cli.nn.losses import log_normalisers, word_loss
from tests.tensors import assert_close


def inputs(
    *, predictions: int = 11, dim: int = 6, words: int = 9, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(predictions, dim, generator=generator, requires_grad=True)
    table = torch.randn(words, dim, generator=generator, requires_grad=True)
    gold = torch.randint(words, (predictions,), generator=generator)
    weight = torch.rand(predictions, generator=generator)
    return hidden, table, gold, weight


def slow(hidden: Tensor, table: Tensor, gold: Tensor, weight: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    logits = hidden @ table.T
    each = functional.cross_entropy(logits, gold, reduction="none", label_smoothing=smoothing)
    return each @ weight, functional.cross_entropy(logits, gold, reduction="none")


@given(
    seed=st.integers(0, 2**32),
    predictions=st.integers(1, 12),
    words=st.integers(1, 9),
    smoothing=st.sampled_from([0.0, 0.1, 0.9]),
    elements=st.sampled_from([1, 20, 10**6]),
)
def test_value_and_gradients_in_one_or_many_chunks(
    seed: int, predictions: int, words: int, smoothing: float, elements: int
) -> None:
    hidden, table, gold, weight = inputs(predictions=predictions, words=words, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(losses.CHUNK_ELEMENTS, "cpu", elements)
        objective, nll = word_loss(hidden, table, gold, weight, smoothing=smoothing)
        with torch.no_grad():
            objective_without, nll_without = word_loss(hidden, table, gold, weight, smoothing=smoothing)
    wanted_objective, wanted_nll = slow(hidden, table, gold, weight, smoothing)
    for got in (objective, objective_without):
        assert_close(got, wanted_objective, atol=1e-5)
    for got in (nll, nll_without):
        assert_close(got, wanted_nll, atol=1e-5)
        assert not got.requires_grad
    wanted = torch.autograd.grad(wanted_objective, (hidden, table))
    for one, other in zip(torch.autograd.grad(objective, (hidden, table)), wanted, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_what_comes_after_is_passed_on() -> None:
    hidden, table, gold, weight = inputs()
    once = torch.autograd.grad(word_loss(hidden, table, gold, weight, smoothing=0.1)[0], (hidden, table))
    scaled = torch.autograd.grad(-2.5 * word_loss(hidden, table, gold, weight, smoothing=0.1)[0], (hidden, table))
    for one, two in zip(once, scaled, strict=True):
        assert_close(two, -2.5 * one)


def test_a_prediction_without_weight_counts_for_nothing() -> None:
    hidden, table, gold, weight = inputs()
    weight[4] = 0.0
    objective, _ = word_loss(hidden, table, gold, weight, smoothing=0.1)
    grad_hidden, _ = torch.autograd.grad(objective, (hidden, table))
    assert not grad_hidden[4].any() and grad_hidden[3].any()
    rest = [i for i in range(len(gold)) if i != 4]
    assert_close(objective, word_loss(hidden[rest], table, gold[rest], weight[rest], smoothing=0.1)[0])


@pytest.mark.parametrize("frozen", [0, 1])
def test_one_of_both_may_be_frozen(frozen: int) -> None:
    hidden, table, gold, weight = inputs()
    free = (table, hidden)[frozen]
    (hidden, table)[frozen].requires_grad_(False)
    (got,) = torch.autograd.grad(word_loss(hidden, table, gold, weight, smoothing=0.1)[0], (free,))
    (wanted,) = torch.autograd.grad(slow(hidden, table, gold, weight, 0.1)[0], (free,))
    assert_close(got, wanted, rtol=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_bf16_is_near_fp32_and_its_gradient_fits_the_parameters(smoothing: float) -> None:
    hidden, table, gold, weight = inputs(predictions=64, dim=32, words=50)
    wanted_objective, wanted_nll = slow(hidden, table, gold, weight, smoothing)
    wanted = torch.autograd.grad(wanted_objective, (hidden, table))
    with torch.autocast("cpu", torch.bfloat16):
        features = hidden @ torch.eye(32)  # bf16, as a layer leaves them
        assert features.dtype == torch.bfloat16
        objective, nll = word_loss(features, table, gold, weight, smoothing=smoothing)
        with torch.no_grad():
            objective_without, nll_without = word_loss(features, table, gold, weight, smoothing=smoothing)
    assert objective.dtype == nll.dtype == torch.float32
    for got in (objective, objective_without):
        assert_close(got, wanted_objective, rtol=0.02)
    for got in (nll, nll_without):
        assert_close(got, wanted_nll, rtol=0.02, atol=0.3)
    for one, other in zip(torch.autograd.grad(objective, (hidden, table)), wanted, strict=True):
        assert one.dtype == torch.float32 and one.isfinite().all()
        assert torch.cosine_similarity(one.flatten(), other.flatten(), dim=0) > 0.999


def test_large_logits_stay_finite() -> None:
    hidden, table, gold, weight = inputs()
    objective, nll = word_loss(hidden * 1e4, table, gold, weight, smoothing=0.1)
    assert nll.isfinite().all() and (nll >= 0).all()
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(objective, (hidden, table)))


def test_no_predictions() -> None:
    hidden, table, gold, weight = inputs(predictions=0)
    objective, nll = word_loss(hidden, table, gold, weight, smoothing=0.1)
    assert objective.item() == 0.0 and nll.shape == (0,)
    assert not torch.autograd.grad(objective, table)[0].any()
    with torch.no_grad():
        assert word_loss(hidden, table, gold, weight, smoothing=0.1)[0].item() == 0.0


class TestSeveralGoldWords:
    """The cross entropy with a distribution over words, against torch's with the distribution written out."""

    @staticmethod
    def golds(seed: int, *, predictions: int, words: int, most: int = 4) -> tuple[Tensor, Tensor]:
        """Return golds and shares; words stand twice in a row, and padding has no share."""
        generator = torch.Generator().manual_seed(seed)
        gold = torch.randint(words, (predictions, most), generator=generator)
        share = torch.rand(predictions, most, generator=generator)
        share[torch.rand(predictions, most, generator=generator) < 0.3] = 0.0
        share[:, 0] += 0.1
        return gold, share / share.sum(dim=1, keepdim=True)

    @given(
        seed=st.integers(0, 2**32),
        predictions=st.integers(1, 9),
        words=st.integers(1, 9),
        smoothing=st.sampled_from([0.0, 0.1]),
        elements=st.sampled_from([1, 20, 10**6]),
    )
    def test_value_and_gradients(
        self, seed: int, predictions: int, words: int, smoothing: float, elements: int
    ) -> None:
        hidden, table, _, weight = inputs(predictions=predictions, words=words, seed=seed)
        gold, share = self.golds(seed, predictions=predictions, words=words)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(losses.CHUNK_ELEMENTS, "cpu", elements)
            objective, cross = word_loss(hidden, table, gold, weight, share_NJ=share, smoothing=smoothing)
            with torch.no_grad():
                other = word_loss(hidden, table, gold, weight, share_NJ=share, smoothing=smoothing)
        target = torch.zeros(predictions, words).scatter_add(1, gold, share)
        wanted_cross = functional.cross_entropy(hidden @ table.T, target, reduction="none")
        smooth = functional.cross_entropy(hidden @ table.T, target, reduction="none", label_smoothing=smoothing)
        for got in (objective, other[0]):
            assert_close(got, smooth @ weight, atol=1e-5)
        for got in (cross, other[1]):
            assert_close(got, wanted_cross, atol=1e-5)
            assert not got.requires_grad
        wanted = torch.autograd.grad(smooth @ weight, (hidden, table))
        for one, two in zip(torch.autograd.grad(objective, (hidden, table)), wanted, strict=True):
            assert_close(one, two, rtol=1e-4, atol=1e-5)

    def test_one_word_with_the_whole_share_is_the_usual_loss(self) -> None:
        hidden, table, gold, weight = inputs()
        several = torch.stack((torch.zeros_like(gold), gold), dim=1)
        share = torch.tensor([[0.0, 1.0]]).expand(len(gold), 2)
        got = word_loss(hidden, table, several, weight, share_NJ=share, smoothing=0.1)
        for one, two in zip(got, word_loss(hidden, table, gold, weight, smoothing=0.1), strict=True):
            assert_close(one, two)


@pytest.mark.parametrize("elements", [1, 20, 10**6])
@pytest.mark.parametrize("predictions", [0, 7])
def test_log_normalisers(elements: int, predictions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(losses.CHUNK_ELEMENTS, "cpu", elements)
    hidden, table, _, weight = inputs(predictions=predictions)
    got, wanted = log_normalisers(hidden, table), (hidden @ table.T).logsumexp(dim=1)
    assert_close(got, wanted)
    ways = [torch.autograd.grad(log_z.square() @ weight, (hidden, table)) for log_z in (got, wanted)]
    for one, other in zip(*ways, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-5)
