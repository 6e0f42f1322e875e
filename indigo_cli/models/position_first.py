"""InDIGO the other way round: where first, then what, p(slot | H) p(word | slot, H).

The paper calls it possible and slightly worse (PAPERS.md A1), the authors' code has it as a mode; neither says how the
word is told its slot, so that part is ours. It is for training and greedy decoding: a beam would have to rank the words
of several slots, which the protocol (words before slots) cannot show.

Shape letters as in `indigo_slots`; V words of the softmax.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from indigo_cli.core.vocab import EOD, FIRST_WORD
from indigo_cli.models.indigo_slots import GoldSlots, IndigoState, anchor_row, without_right_end
from indigo_cli.models.protocol import WordScores
from indigo_cli.models.serial import places
from indigo_cli.nn.embedding import Embeddings
from indigo_cli.nn.losses import word_loss
from indigo_cli.nn.positions.ternary import RIGHT_END

AFTER_EOD = EOD + 1 - FIRST_WORD
"""Columns of the softmax from here on are words that any slot may take; `<eod>` stands in the column before."""


class PositionFirst(nn.Module):
    """What word goes into a slot that is chosen already. Eq. 8's query h F becomes (h F + G mean) sqrt(1/2).

    The mean is that of the slot's two pointer keys, G is D x D. `<eod>` is a word of the last slot only: elsewhere it
    is masked in training and in decoding, so all (word, slot) and `<eod>` add up to 1.

    Args:
        model_dim: D.
        mix: Factor of the sum.
    """

    def __init__(self, model_dim: int, *, mix: float) -> None:
        super().__init__()
        self.slot = nn.Linear(model_dim, model_dim, bias=False)
        self.mix = mix

    def feature(self, word: Tensor, left_key: Tensor, right_key: Tensor) -> Tensor:
        """Mix h F with the left key of the right neighbour and the right key of the left one; all (..., D)."""
        mixed: Tensor = (word + self.slot((left_key + right_key) * 0.5)) * self.mix
        return mixed

    def gold_features(self, word_NQD: Tensor, left_NRD: Tensor, right_NRD: Tensor, gold: GoldSlots) -> Tensor:
        """Return (N, Q, D): the features of every step of teacher forcing."""

        def of(keys: Tensor, rows: Tensor) -> Tensor:
            return keys.gather(1, rows[..., None].expand(-1, -1, keys.shape[2]))

        return self.feature(word_NQD, of(left_NRD, gold.right_NQ), of(right_NRD, gold.left_NQ))

    def word_loss(
        self, hidden_ND: Tensor, words_VD: Tensor, gold_N: Tensor, weight_N: Tensor, last_N: Tensor, *, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """Do what `nn.losses.word_loss` does, with `<eod>` among the words where `last_N` only."""
        nll = torch.empty(len(gold_N), device=gold_N.device)
        objectives = []
        for rows, first in ((last_N.nonzero()[:, 0], 0), ((~last_N).nonzero()[:, 0], AFTER_EOD)):
            objective, nll[rows] = word_loss(
                hidden_ND[rows], words_VD[first:], gold_N[rows] - first, weight_N[rows], smoothing=smoothing
            )
            objectives.append(objective)
        return objectives[0] + objectives[1], nll

    def words(self, state: IndigoState, embeddings: Embeddings, pointers_2DD: Tensor) -> WordScores:
        """Score the words of each hypothesis' best slot; for `pointers_2DD` see `open_slots`."""
        assert state.open_PA is not None
        left = anchor_row(state.open_PA.argmax(dim=1))
        place = torch.arange(len(left), device=left.device)
        right = state.right_PR[place, left]
        cache = state.decoder.cache
        left_keys = functional.linear(cache.own_of(right), pointers_2DD[0])
        right_keys = functional.linear(cache.own_of(left), pointers_2DD[1])
        logits, _ = embeddings.scores(self.feature(state.word_PD, left_keys, right_keys))
        logits[:, :AFTER_EOD].masked_fill_((right != RIGHT_END)[:, None], -torch.inf)
        shape = (state.decoder.sentences, -1)
        return WordScores(logits.unflatten(0, shape), logits.logsumexp(dim=1).unflatten(0, shape))

    def slots(self, state: IndigoState, parent_SC: Tensor, word_SC: Tensor) -> Tensor:
        """Return (S, C, A): log p(slot) of the one slot whose words were shown; for `<eod>` see `SerialDecoder`."""
        assert state.open_PA is not None
        place, _ = places(parent_SC, len(state.open_PA))
        log_probs = state.open_PA[place]
        best, best_anchor = log_probs.max(dim=1, keepdim=True)
        shown = torch.full_like(log_probs, -torch.inf).scatter_(1, best_anchor, best)
        last = (without_right_end(state.right_PR[place]) == RIGHT_END).int().argmax(dim=1, keepdim=True)
        end = torch.full_like(log_probs, -torch.inf)
        end[:, :1] = log_probs.gather(1, last)
        chosen: Tensor = torch.where((word_SC == EOD).reshape(-1, 1), end, shown).unflatten(0, parent_SC.shape)
        return chosen
