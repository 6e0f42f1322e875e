"""Teacher forcing of several orders of a target at once, as one prefix tree (`data/order_tree.py`).

Shape letters: S sentences, K orders, T words, N rows of a tree, M predictions, D width.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from indigo_cli.core.vocab import FIRST_WORD
from indigo_cli.data.batch import Batch
from indigo_cli.data.order_tree import FIRST, OrderTree, grow_tree
from indigo_cli.models.indigo_slots import GoldSlots, slot_nll
from indigo_cli.models.protocol import Losses, StepLogProbs
from indigo_cli.nn.losses import word_loss

if TYPE_CHECKING:
    from indigo_cli.models.indigo import Indigo


@dataclass(frozen=True)
class TreeTerms:
    """What a tree costs, prediction by prediction, nats.

    Args:
        objective: Smoothed and weighted sum over words, to backpropagate.
        word_SM: Plain negative log p of each word, without gradient; 0 on padding.
        slot_SQ: Negative log p of each slot; of `<eod>` too where that is trained (Q = M, else N - 2).
    """

    objective: Tensor
    word_SM: Tensor
    slot_SQ: Tensor


def tree_losses(system: "Indigo", batch: Batch, memory_SXD: Tensor, smoothing: float) -> Losses:
    """Return Eq. 10 averaged over the orders of the plan (Eq. 12 where their weights are equal).

    It is what the orders cost one by one, but that dropout is shared where nodes are.
    """
    tree = grow_tree(batch)
    terms = _terms(system, batch, tree, memory_SXD, smoothing)
    position = (terms.slot_SQ * tree.weight_SM[:, : terms.slot_SQ.shape[1]]).sum()
    num_positions = batch.num_predictions if system.end_has_slot else batch.num_tokens
    parts = {
        "word": ((terms.word_SM * tree.weight_SM).sum(), float(batch.num_predictions)),
        "position": (position.detach(), float(num_positions)),
    }
    return Losses(
        terms.objective + position,
        parts,
        float(batch.num_predictions),
        num_nodes=tree.num_nodes,
        num_steps=tree.path_SKT.shape[1] * batch.num_tokens,
    )


def tree_log_probs(system: "Indigo", batch: Batch, memory_SXD: Tensor) -> StepLogProbs:
    """Return what each step of each order costs. What is trained for the slot of `<eod>` is no part of it."""
    tree = grow_tree(batch)
    terms = _terms(system, batch, tree, memory_SXD, 0.0)
    nodes, path = tree.words_SN.shape[1] - FIRST, tree.path_SKT
    step = (path - FIRST).clamp(min=0).flatten(1)
    real = path >= FIRST

    def along(of_nodes: Tensor) -> Tensor:
        if not nodes:
            return of_nodes.new_zeros(path.shape)
        return torch.where(real, (0.0 - of_nodes.gather(1, step).view(path.shape)).clamp(max=0.0), 0.0)

    end = (0.0 - terms.word_SM[:, nodes:]).clamp(max=0.0)[..., None]
    words = torch.cat((along(terms.word_SM), torch.zeros_like(end)), dim=2)
    at_end = batch.lengths[:, None, None].expand(-1, path.shape[1], 1)
    return StepLogProbs(words.scatter(2, at_end, end), along(terms.slot_SQ))


def _terms(system: "Indigo", batch: Batch, tree: OrderTree, memory_SXD: Tensor, smoothing: float) -> TreeTerms:
    mask = torch.zeros_like(tree.seen_SNN, dtype=memory_SXD.dtype).masked_fill_(~tree.seen_SNN, -torch.inf)
    code_SND = None
    if system.budget is not None:
        wish_S = system.budget.wish(batch.source, batch.target)
        code_SND = system.budget.seen(tree.words_SN, tree.seen_SNN, wish_S)
    hidden = system.decoder(
        system.embeddings.embed_target(tree.words_SN, code_SND),
        memory_SXD,
        batch.source.mask,
        left=tree.left_SNN.to(memory_SXD.dtype)[:, None],
        mask=mask[:, None],
    )
    query, word, left_keys, right_keys = system.heads(hidden).chunk(4, dim=2)
    num_slots = tree.to_SM.shape[1] if system.end_has_slot else tree.words_SN.shape[1] - FIRST

    def at(rows: Tensor, states: Tensor) -> Tensor:
        return states.gather(1, rows[..., None].expand(-1, -1, states.shape[2]))

    real = tree.to_SM >= FIRST_WORD  # the others are padding
    index = torch.nonzero_static(real.flatten(), size=tree.num_predictions)[:, 0]
    objective, nll = word_loss(
        at(tree.from_SM, word).flatten(0, 1)[index],
        system.embeddings.words,
        tree.to_SM.flatten()[index] - FIRST_WORD,
        tree.weight_SM.flatten()[index],
        smoothing=smoothing,
    )
    words = torch.zeros_like(tree.weight_SM).flatten().index_copy_(0, index, nll).view(real.shape)
    gold = GoldSlots(*(x[:, :num_slots] for x in (tree.to_SM, real, tree.left_SM, tree.right_SM)))
    pointed = system.pointer_query(at(tree.from_SM[:, :num_slots], query), gold.words_NQ)
    slots = slot_nll(pointed, left_keys, right_keys, gold, stands=tree.stands_SMN[:, :num_slots])
    return TreeTerms(objective, words, slots)
