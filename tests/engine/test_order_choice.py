"""Which of the orders of a target are trained on: competition with the reference, draws, averages."""

from typing import Any

import pytest
import torch
from torch import Tensor

from indigo_cli.decoding.order_search import FoundOrders
from indigo_cli.engine.order_choice import Candidates, candidates_of, chances, num_kept, plan_of
from indigo_cli.engine.search_config import SearchConfig
from tests.tensors import assert_close

NONE = float("-inf")


def config(train_on: str, **settings: Any) -> SearchConfig:
    return SearchConfig(**{"beam_size": 2, "train_on": train_on, **settings})


def found(scores: list[list[float]], alive: list[list[bool]]) -> FoundOrders:
    """Order k of a sentence is k, then the others; the reference is the last one."""
    score = torch.tensor(scores)
    count = score.shape[1]
    orders = torch.stack([torch.tensor([k, *(i for i in range(count) if i != k)]) for k in range(count)])
    zeros = torch.zeros_like(score)
    return FoundOrders(orders.expand(len(scores), -1, -1), score, zeros, zeros, torch.tensor(alive))


def first_words(orders_SKT: Tensor) -> list[list[int]]:
    return [[int(order[0]) for order in orders] for orders in orders_SKT]


SCORES = [[-1.0, -3.0, -2.0], [-2.0, -3.0, -1.0], [-1.0, -2.0, -3.0], [-1.0, -3.0, -2.0]]
ALIVE = [[True, True, True], [True, True, True], [True, True, True], [True, True, False]]


@pytest.mark.parametrize(
    ("train_on", "kept"),
    [
        ("best", [[0], [2], [0], [0]]),
        ("average", [[0, 2], [2, 0], [0, 1], [0, 1]]),
        ("sample", [[0, 1, 2]] * 4),
    ],
)
def test_the_reference_competes_with_what_was_found(train_on: str, kept: list[list[int]]) -> None:
    """It is not better, the best, the worst, and found anyway."""
    candidates = candidates_of(found(SCORES, ALIVE), config(train_on))
    assert first_words(candidates.orders) == kept
    assert num_kept(config(train_on)) == len(kept[0])
    assert (candidates.score[3] == NONE).tolist() == [k == 2 for k in kept[3]]


def test_equal_scores_leave_the_reference_out() -> None:
    tied = candidates_of(found([[-2.0, -2.0, -2.0]], [[True] * 3]), config("average"))
    assert first_words(tied.orders) == [[0, 1]]


def test_the_average_gives_orders_that_exist_equal_weights() -> None:
    plan = plan_of(
        candidates_of(found(SCORES, ALIVE), config("average", beam_size=3)), config("average"), torch.zeros(4)
    )
    assert_close(plan.weights, torch.tensor([[1 / 3, 1 / 3, 1 / 3]] * 3 + [[0.5, 0.5, 0.0]]))
    assert plan.orders.shape == (4, 3, 3)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_draws_follow_the_scores(temperature: float) -> None:
    """Against softmax(score / temperature); an order that does not exist is never drawn."""
    many = 40_000
    candidates = Candidates(
        torch.tensor([[0, 1, 2, 3], [1, 0, 2, 3], [2, 0, 1, 3], [3, 0, 1, 2]]).expand(many, -1, -1),
        torch.tensor([NONE, -1.0, -2.0, NONE]).expand(many, -1),
    )
    plan = plan_of(candidates, config("sample", temperature=temperature), chances(3, 5, range(many)))
    share = torch.bincount(plan.orders[:, 0, 0], minlength=4) / many
    wanted = torch.softmax(torch.tensor([-1.0, -2.0]) / temperature, dim=0)
    assert share[0] == share[3] == 0
    assert_close(share[1:3], wanted, atol=0.01, rtol=0.0)
    assert (plan.weights == 1).all() and plan.orders.shape == (many, 1, 4)


def test_a_draw_belongs_to_seed_visit_and_line() -> None:
    drawn = chances(3, 5, [7, 8, 9])
    assert torch.equal(chances(3, 5, [9, 7]), drawn[[2, 0]])
    for other in (chances(4, 5, [7, 8, 9]), chances(3, 6, [7, 8, 9])):
        assert not torch.isclose(other, drawn).any()


def test_candidates_of_some_sentences_are_replaced_by_fewer() -> None:
    kept = candidates_of(found(SCORES, ALIVE), config("sample"))
    one = candidates_of(found([[-5.0, -6.0, -4.0]], [[True] * 3]), config("best"))
    mixed = kept.but(torch.tensor([1]), one)
    assert first_words(mixed.orders) == [[0, 1, 2], [2, 2, 2], [0, 1, 2], [0, 1, 2]]
    assert mixed.score[1].tolist() == [-4.0, NONE, NONE]
    assert torch.equal(mixed.score[[0, 2, 3]], kept.score[[0, 2, 3]])
    assert len(mixed) == 4 and kept.score[1, 0] == -2.0, "the old ones are as they were"
