"""The orders of a target as one prefix tree: what they begin with in common is computed once.

A node is a word at an anchor behind a history of such: equal words at different places of the target share a node where
the canvas cannot tell them apart. A node knows its ancestors, so one sequence of all nodes with a mask takes the place
of K sequences; loss and gradient are the weighted sum over the orders, exactly (PERFORMANCE.md, section 3).

Shape letters: S sentences, K orders, T words, N rows (`<s>`, `</s>`, nodes), M = N - 2 + K predictions: every node, by
its parent; and `<eod>`, by the last node of every order.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from indigo_cli.core.vocab import BOS, EOD, EOS, PAD
from indigo_cli.data.batch import Batch

FIRST = 2
"""Row of the first node."""


@dataclass(frozen=True)
class OrderTree:
    """The trees of a batch.

    Args:
        words_SN: Ids of the rows, PAD beyond the last node.
        seen_SNN: Bool: row i sees row j, which is itself, an ancestor or a boundary; `<s>` does not see `</s>`.
        left_SNN: Bool: row j, which row i sees, stands left of it.
        from_SM: Row whose state makes each prediction.
        to_SM: Id of the word that is right.
        weight_SM: Weights of the orders that make it, added up; 0 on padding.
        left_SM, right_SM: Rows of the neighbours between which the word goes, `<eod>` at the right end.
        stands_SMN: Bool: rows that stand when the prediction is made.
        path_SKT: Row of each step of each order.
        num_nodes: Of the whole batch, padding not counted.
        num_predictions: Of the whole batch: nodes, and ends of different orders.
    """

    words_SN: Tensor
    seen_SNN: Tensor
    left_SNN: Tensor
    from_SM: Tensor
    to_SM: Tensor
    weight_SM: Tensor
    left_SM: Tensor
    right_SM: Tensor
    stands_SMN: Tensor
    path_SKT: Tensor
    num_nodes: int
    num_predictions: int


def grow_tree(batch: Batch) -> OrderTree:
    """Build the trees of a batch's plan; the host waits for the number of nodes, once.

    Orders of weight 0 are in the tree, too: they can be scored.
    """
    orders, lengths = batch.plan.orders, batch.lengths
    num_orders, length = orders.shape[1:]
    words = batch.target[:, None].expand(orders.shape).gather(2, orders)
    rows = _path_positions(orders)
    left_row, right_row = _neighbours(rows)
    first, created = _firsts(words, left_row, lengths)
    counts = created.flatten(1).sum(dim=1)
    num_nodes, most = torch.stack((counts.sum(), counts.max())).tolist()
    total = FIRST + most

    # Parents get smaller numbers than their children: by step, then by order.
    by_step = created.transpose(1, 2).flatten(1)
    number = (by_step.cumsum(dim=1) + FIRST - 1).unflatten(1, (length, num_orders)).transpose(1, 2)
    path = torch.where(_real(lengths, length)[:, None], number.gather(1, first), 0)
    ends = orders.new_tensor([0, 1]).expand(*orders.shape[:2], FIRST)
    path_rows = torch.cat((ends, path), dim=2)  # (S, K, T + 2)
    own = torch.where(created, path, total)  # what others created goes into row `total`, which is cut off

    def of_nodes(values: Tensor, fill: int) -> Tensor:
        """Sort what orders know of their steps by node: (S, N)."""
        out = values.new_full((len(values), total + 1), fill)
        return out.scatter_(1, own.flatten(1), values.flatten(1))[:, :total]

    parent = torch.cat((path_rows.new_ones(*orders.shape[:2], 1), path[..., :-1]), dim=2)
    node_words = of_nodes(words, PAD)
    node_words[:, 0], node_words[:, 1] = BOS, EOS
    weights = batch.plan.weights
    node_weights = weights.new_zeros(len(orders), total)
    node_weights.scatter_add_(1, path.flatten(1), weights[..., None].expand(orders.shape).flatten(1))

    seen, left = _relations(rows, path_rows, own, total)
    last = _last_rows(path_rows, lengths)
    end_left = _last_in_sentence(path_rows, rows, lengths)
    node_from = of_nodes(parent, 1)[:, FIRST:]
    from_rows = torch.cat((node_from, last), dim=1)
    ending = torch.ones_like(last)
    stands = seen.gather(1, from_rows[..., None].expand(-1, -1, total))
    return OrderTree(
        words_SN=node_words,
        seen_SNN=seen,
        left_SNN=left,
        from_SM=from_rows,
        to_SM=torch.cat((node_words[:, FIRST:], EOD * ending), dim=1),
        weight_SM=torch.cat((node_weights[:, FIRST:], weights), dim=1),
        left_SM=torch.cat((of_nodes(path_rows.gather(2, left_row), 0)[:, FIRST:], end_left), dim=1),
        right_SM=torch.cat((of_nodes(path_rows.gather(2, right_row), 1)[:, FIRST:], ending), dim=1),
        stands_SMN=stands,
        path_SKT=path,
        num_nodes=num_nodes,
        num_predictions=num_nodes + num_orders * len(orders),
    )


def count_nodes(target_ST: Tensor, orders_SKT: Tensor, lengths_S: Tensor) -> Tensor:
    """Return (S,) how many nodes the tree of each sentence has; nobody waits for the device."""
    words = target_ST[:, None].expand(orders_SKT.shape).gather(2, orders_SKT)
    left_row, _ = _neighbours(_path_positions(orders_SKT))
    _, created = _firsts(words, left_row, lengths_S)
    return created.flatten(1).sum(dim=1)


def _real(lengths_S: Tensor, length: int) -> Tensor:
    return torch.arange(length, device=lengths_S.device) < lengths_S[:, None]


def _path_positions(orders_SKT: Tensor) -> Tensor:
    """Return (S, K, T + 2) places in the finished sentence of `<s>`, `</s>` and the words in order of generation."""
    ends = orders_SKT.new_tensor([-1, orders_SKT.shape[2]]).expand(*orders_SKT.shape[:2], FIRST)
    return torch.cat((ends, orders_SKT), dim=2)


def _neighbours(z_SKR: Tensor) -> tuple[Tensor, Tensor]:
    """Return (S, K, T) the rows, along each order, between which each word goes."""
    rows = z_SKR.shape[2]
    new, old = z_SKR[..., FIRST:, None], z_SKR[..., None, :]
    row = torch.arange(rows, device=z_SKR.device)
    stands = row < row[FIRST:, None]
    left = torch.where((old < new) & stands, old, -4 * rows).argmax(dim=3)
    right = torch.where((old > new) & stands, old, 4 * rows).argmin(dim=3)
    return left, right


def _firsts(words_SKT: Tensor, anchor_SKT: Tensor, lengths_S: Tensor) -> tuple[Tensor, Tensor]:
    """Return (S, K, T) the first order with the same history up to each step, and whether it is the order itself."""
    num_orders, length = words_SKT.shape[1:]
    same = (words_SKT[:, :, None] == words_SKT[:, None]) & (anchor_SKT[:, :, None] == anchor_SKT[:, None])
    first = same.to(torch.uint8).cumprod(dim=3).argmax(dim=2)
    own = torch.arange(num_orders, device=words_SKT.device)[:, None]
    return first, (first == own) & _real(lengths_S, length)[:, None]


def _relations(z_SKR: Tensor, path_SKR: Tensor, own_SKT: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """Return (S, N, N) what each row sees, and what of it stands left of it.

    Relations are those along the order that created a node: places in the finished sentence cannot be compared across
    orders, since equal words of different places may share a node.
    """
    sentences, _, rows = z_SKR.shape
    row = torch.arange(rows, device=z_SKR.device)
    before = row[None] <= row[FIRST:, None]  # (T, R)
    cell = own_SKT[..., None] * (total + 1) + torch.where(before, path_SKR[:, :, None], total)
    cells = cell.new_zeros(sentences, (total + 1) * (total + 1), dtype=torch.int8)
    is_left = z_SKR[..., FIRST:, None] > z_SKR[:, :, None]
    cells.scatter_(1, cell.flatten(1), (1 + is_left.to(torch.int8)).flatten(1))
    cells = cells.unflatten(1, (total + 1, total + 1))[:, :total, :total]
    seen, left = cells > 0, cells > 1
    seen.diagonal(dim1=1, dim2=2).fill_(True)
    seen[:, 1, 0] = left[:, 1, 0] = True
    return seen, left


def _last_rows(path_SKR: Tensor, lengths_S: Tensor) -> Tensor:
    """Return (S, K) the row of the last step of each order; `</s>` of an empty target."""
    index = (lengths_S + FIRST - 1)[:, None, None].expand(-1, path_SKR.shape[1], 1)
    return path_SKR.gather(2, index)[..., 0]


def _last_in_sentence(path_SKR: Tensor, z_SKR: Tensor, lengths_S: Tensor) -> Tensor:
    """Return (S, K) the row of the last word of the sentence in each order; `<s>` of an empty target."""
    is_last = z_SKR == (lengths_S - 1)[:, None, None]
    return path_SKR.gather(2, is_last.to(torch.uint8).argmax(dim=2, keepdim=True))[..., 0]
