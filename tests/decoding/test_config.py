"""Limits and scores, by hand."""

from dataclasses import replace

import pytest
import torch

from indigo_cli.decoding.config import DecodeConfig, length_divisor, length_limits, ranking_score

CONFIG = DecodeConfig()


@pytest.mark.parametrize(
    ("settings", "source", "limits"),
    [
        ({}, 4, (0, 12)),
        ({}, 0, (0, 0)),
        ({}, 100, (0, 250)),
        ({"max_length_ratio": 1.1, "max_length": 50}, 7, (0, 8)),
        ({"min_length": 3}, 4, (3, 12)),
        ({"min_length": 3, "min_length_ratio": 0.9}, 4, (4, 12)),
        ({"min_length": 7, "min_length_ratio": 0.5}, 4, (7, 12)),
        ({"min_length": 30}, 4, (12, 12)),
        ({"min_length_ratio": 2.0, "max_length": 5}, 4, (5, 5)),
        ({"min_length_ratio": 1e308, "max_length_ratio": 1e308}, 100, (250, 250)),
    ],
)
def test_limits(settings: dict[str, float], source: int, limits: tuple[int, int]) -> None:
    assert length_limits(source, replace(CONFIG, **settings)) == limits  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("formula", "alpha", "insertions", "divisor"),
    [
        ("power", 1.0, 2, 3.0),
        ("power", 0.5, 3, 2.0),
        ("power", 0.0, 9, 1.0),
        ("power", 1.0, 0, 1.0),
        ("gnmt", 1.0, 0, 1.0),
        ("gnmt", 1.0, 6, 2.0),
        ("gnmt", 2.0, 12, 9.0),
        ("gnmt", 0.0, 12, 1.0),
    ],
)
def test_divisor(formula: str, alpha: float, insertions: int, divisor: float) -> None:
    config = replace(CONFIG, length_formula=formula, length_penalty=alpha)  # type: ignore[arg-type]
    assert length_divisor(insertions, config) == pytest.approx(divisor)
    assert ranking_score(-6.0, insertions, True, config) == pytest.approx(-6.0 / divisor)


def test_score_with_a_penalty() -> None:
    config = replace(CONFIG, eod_penalty=1.5)
    assert ranking_score(-6.0, 2, True, config) == pytest.approx(-2.5)
    assert ranking_score(-6.0, 2, False, config) == pytest.approx(-2.0)
    assert ranking_score(torch.tensor([-6.0, -torch.inf]), 2, True, config).tolist() == [-2.5, -torch.inf]
