"""Ternary relative positions of InDIGO, for a whole teacher-forced sequence at once.

Rows are tokens in generation order: row 0 `<s>`, row 1 `</s>`, row 2 + t the word generated at step t. Everything
follows from z, the absolute positions in the finished sentence: relations among tokens that stand never change.

Shape letters: N sequences, T words, R = T + 2 rows.
"""

import torch
from torch import Tensor

LEFT_END = 0
RIGHT_END = 1
FIRST_ROW = 2
"""The row of the first word."""


def row_positions(orders_NT: Tensor) -> Tensor:
    """Return (N, R) absolute positions z of every row: -1 for `<s>`, T for `</s>`, the surface index of a word.

    Padding words are numbered behind the real ones (see `Plan`), which is right of everything real: with causal
    masking they are seen by padding alone.
    """
    num, length = orders_NT.shape
    ends = orders_NT.new_tensor([-1, length]).expand(num, 2)
    return torch.cat((ends, orders_NT), dim=1)


def left_matrix(z_NR: Tensor) -> Tensor:
    """Return (N, 1, R, R) float: 1 where the key (column) stands left of the query (row), Eq. 3's r = +1."""
    return (z_NR[:, None, :] < z_NR[:, :, None]).float()[:, None]


def neighbours(z_NR: Tensor, new_NP: Tensor) -> tuple[Tensor, Tensor]:
    """Find between which rows each new token goes.

    Args:
        z_NR: Absolute positions of the rows.
        new_NP: Position of the token that is inserted when `FIRST_ROW + p` rows stand; between two of z, or one of the
            rows that do not stand yet.
    Returns: Rows of the left and of the right neighbour, two (N, P) int64, among the rows that stand.
    Source: PAPERS.md A1, "Neighbours in training".
    """
    rows = z_NR.shape[1]
    new, old = new_NP[:, :, None], z_NR[:, None, :]
    stands = standing(new_NP.shape[1], rows, z_NR.device)
    left = torch.where((old < new) & stands, old, -4 * rows).argmax(dim=2)
    right = torch.where((old > new) & stands, old, 4 * rows).argmin(dim=2)
    return left, right


def standing(predictions: int, rows: int, device: torch.device) -> Tensor:
    """Return (P, R) bool: row r stands when prediction p is made, that is r < FIRST_ROW + p."""
    return torch.arange(rows, device=device)[None] < torch.arange(predictions, device=device)[:, None] + FIRST_ROW
