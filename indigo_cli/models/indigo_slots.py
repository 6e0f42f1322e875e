"""Slots of InDIGO: the gold ones of teacher forcing, the open ones of decoding.

Shape letters: S sentences, N sequences, T words, R = T + 2 rows in generation order (`<s>`, `</s>`, words), Q
predictions of a sequence, P places (hypotheses) in decoding, C candidates, A slots, D width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from indigo_cli.models.serial import with_eod
from indigo_cli.nn.blocks import DecoderState
from indigo_cli.nn.positions.budget import Spending
from indigo_cli.nn.positions.ternary import FIRST_ROW, LEFT_END, RIGHT_END, neighbours, standing


@dataclass(frozen=True)
class GoldSlots:
    """Where teacher forcing inserts, a row a sequence, a column a step.

    Args:
        words_NQ: The word of each step.
        real_NQ: False on padding.
        left_NQ, right_NQ: Rows of its neighbours among those that stand: the slot is the gap between them.
    """

    words_NQ: Tensor
    real_NQ: Tensor
    left_NQ: Tensor
    right_NQ: Tensor


def gold_slots(words_NT: Tensor, z_NR: Tensor, lengths_N: Tensor, *, with_end: bool) -> GoldSlots:
    """Find the slot of every word, and with `with_end` (Q = T + 1) that of `<eod>`: the last one, left of `</s>`."""
    new = z_NR[:, FIRST_ROW:]
    words, real = with_eod(words_NT, lengths_N)
    if not with_end:
        return GoldSlots(words_NT, real[:, 1:], *neighbours(z_NR, new))
    is_eod = torch.arange(words.shape[1], device=z_NR.device) == lengths_N[:, None]
    doubled = torch.cat((2 * new, 2 * new.new_zeros(len(new), 1)), dim=1)  # half a position behind the last word
    new = torch.where(is_eod, 2 * lengths_N[:, None] - 1, doubled)
    return GoldSlots(words, real, *neighbours(2 * z_NR, new))


def slot_nll(
    query_NQD: Tensor,
    left_keys_NRD: Tensor,
    right_keys_NRD: Tensor,
    gold: GoldSlots,
    *,
    stands: Tensor | None = None,
) -> Tensor:
    """Return (N, Q) negative log p(slot), 0 on padding: both keys of a slot added (Eq. 11), scaled queries given.

    Args:
        stands: Bool, broadcastable to (N, Q, R): rows that stand at each prediction; None = the first `FIRST_ROW + q`.
    """
    predictions, rows = query_NQD.shape[1], left_keys_NRD.shape[1]
    if stands is None:
        stands = standing(predictions, rows, query_NQD.device)
    banned = torch.full(stands.shape, -torch.inf, device=query_NQD.device).masked_fill_(stands, 0.0)
    left_banned, right_banned = banned, banned.clone()
    left_banned[..., LEFT_END] = -torch.inf
    right_banned[..., RIGHT_END] = -torch.inf
    to_left = (query_NQD @ left_keys_NRD.transpose(1, 2)).float()
    to_right = (query_NQD @ right_keys_NRD.transpose(1, 2)).float()
    everything = torch.cat((to_right + right_banned, to_left + left_banned), dim=2).logsumexp(dim=2)
    slot = torch.logaddexp(to_right.gather(2, gold.left_NQ[..., None]), to_left.gather(2, gold.right_NQ[..., None]))
    return torch.where(gold.real_NQ, everything - slot[..., 0], 0.0)


@dataclass
class IndigoState:
    """Cached decoding.

    Args:
        decoder: Keys and values, and h of each row, from which pointer keys are made.
        query_PD: h E of the newest row.
        word_PD: h F of the newest row.
        rank_PR: Present absolute position of each row, 0 = `<s>`.
        right_PR: Row of the right neighbour of each row (of `</s>`: itself).
        open_PA: log p(slot) where it does not depend on the word (position first), else None.
        spending: Of a system that counts lengths.
    """

    decoder: DecoderState
    query_PD: Tensor
    word_PD: Tensor
    rank_PR: Tensor
    right_PR: Tensor
    open_PA: Tensor | None = None
    spending: Spending | None = None


def place_word(rank_PR: Tensor, right_PR: Tensor, anchor_P1: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Insert a word right of its anchor: Eqs. 5 and 6 without a matrix, since only the new row of R is ever needed.

    Returns: (P, 1, R + 1) bool, which rows stand left of the new one; `rank_PR` and `right_PR` with it.
    """
    neighbour = anchor_row(anchor_P1)
    at = rank_PR.gather(1, neighbour)
    left = rank_PR <= at
    rank = torch.cat((rank_PR + ~left, at + 1), dim=1)
    new_row = torch.full_like(at, right_PR.shape[1])
    right = torch.cat((right_PR.scatter(1, neighbour, new_row), right_PR.gather(1, neighbour)), dim=1)
    return torch.cat((left, torch.zeros_like(at, dtype=torch.bool)), dim=1)[:, None], rank, right


def open_slots(
    state: IndigoState, parent_SC: Tensor, place_C: Tensor, query_SCD: Tensor, pointers_2DD: Tensor
) -> Tensor:
    """Return (S, C, A) log p(slot); the two keys of a slot are added before anything ranks them (Eqs. 9 and 11).

    Args:
        parent_SC: Whose slots each candidate asks for, within its sentence.
        place_C: The same as places, (S * C,).
        query_SCD: Scaled pointer query of each candidate.
        pointers_2DD: C and D of Eq. 9. They turn the queries, since q . (h C) = (q C^T) . h: one vector a row is kept
            instead of two keys, which is half of what must be read at every step.
    """
    queries = torch.matmul(query_SCD.flatten(0, 1), pointers_2DD).unflatten(1, parent_SC.shape)
    products = state.decoder.cache.own_products(queries.permute(1, 2, 0, 3), parent_SC).float().flatten(0, 1)
    to_left, to_right = products[:, 0], products[:, 1]
    slots = torch.logaddexp(to_right, to_left.gather(1, state.right_PR[place_C]))
    slots = without_right_end(slots)  # there is none right of `</s>`
    log_probs: Tensor = slots.log_softmax(dim=1).unflatten(0, parent_SC.shape)
    return log_probs


def without_right_end(of_rows: Tensor) -> Tensor:
    """Turn what each row has on its right, (..., R), into what each anchor has, (..., A): all rows but `</s>`."""
    return torch.cat((of_rows[..., :RIGHT_END], of_rows[..., FIRST_ROW:]), dim=-1)


def anchor_row(anchor: Tensor) -> Tensor:
    """Return the rows of anchors: row 1 is `</s>`, which nothing is inserted right of."""
    return anchor + (anchor > LEFT_END)
