"""InDIGO scores the words of a known target: what the search for its orders asks, step by step and cached.

log p(word) needs the softmax over all words, but only its normaliser and the columns of the target. A pointer logit is
(h E + W[y]) . k = h E . k + W[y] . k: the second product is one of a word and a node, whoever asks, so it is made once
when the node appears and kept in the cache beside its keys.

Shape letters: S sentences, B hypotheses a sentence, P = S * B places, T words of the target, R rows of a hypothesis
(`<s>`, `</s>`, words), N nodes of the cache, n new rows, D width.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from indigo_cli.core.vocab import BOS, EOD, EOS
from indigo_cli.data.batch import Source
from indigo_cli.models.indigo_slots import anchor_row, place_word
from indigo_cli.models.protocol import Known
from indigo_cli.models.serial import places
from indigo_cli.nn.blocks import DecoderState
from indigo_cli.nn.positions.budget import Spending
from indigo_cli.nn.positions.ternary import LEFT_END, RIGHT_END
from indigo_cli.nn.sentence_dropout import SentenceDropout

if TYPE_CHECKING:
    from indigo_cli.models.indigo import Indigo

ENCODER_SITE, DECODER_SITE = 0, 1 << 16
"""Numbers of the first places of dropout: of embeddings, then of layers."""


@dataclass
class KnownState:
    """Cached search.

    Args:
        decoder: Keys and values. Own part of a node: left key, right key (D each), then W[y] . left key and
            W[y] . right key for each word y of the target (T each).
        query_PD, word_PD: h E, scaled as the pointer wants it, and h F of the newest row.
        rank_PR, right_PR: As in `IndigoState`.
        target_ST: Ids.
        pointed_STD: W[y] of each word, scaled as the pointer wants it.
        columns_SKD: Output rows of each word and, last, of `<eod>`; K = T + 1.
        embedding_mask: (S, 1, D) factors in the place of dropout on embedded words, or None.
        spending: Of a system that counts lengths; the wish is what the target weighs.
    """

    decoder: DecoderState
    query_PD: Tensor
    word_PD: Tensor
    rank_PR: Tensor
    right_PR: Tensor
    target_ST: Tensor
    pointed_STD: Tensor
    columns_SKD: Tensor
    embedding_mask: Tensor | None
    spending: Spending | None = None


class IndigoKnown:
    """`KnownDecoder` over the layers of an InDIGO that chooses the word first.

    Its system must be in evaluation mode where something is encoded without `SentenceDropout`; nothing else asks.
    """

    def __init__(self, system: "Indigo") -> None:
        self._system = system

    def encode(self, source: Source, dropout: SentenceDropout | None) -> Tensor:
        """See `KnownDecoder`."""
        system = self._system
        if dropout is None:
            return system.encode(source)
        width = system.embeddings.model_dim
        masks = dropout.masks(ENCODER_SITE, 1 + system.encoder.num_drops, width)
        return system.encode(source, masks[0], masks[1:])

    def start_known(
        self, memory_SXD: Tensor, source_mask_SX: Tensor, target_ST: Tensor, dropout: SentenceDropout | None
    ) -> KnownState:
        """See `KnownDecoder`."""
        system, (sentences, length) = self._system, target_ST.shape
        width, masks = system.embeddings.model_dim, None
        if dropout is not None:
            masks = dropout.masks(DECODER_SITE, 1 + system.decoder.num_drops, width)
        own = 2 * width + 2 * length
        drop = None if masks is None else masks[1:]
        waits = memory_SXD.device.type == "cpu"  # nothing to wait for
        decoder = system.decoder.start(memory_SXD, source_mask_SX, own=own, drop=drop, waits=waits)
        ends = target_ST.new_tensor([BOS, EOS]).expand(sentences, 2)
        closed = torch.cat((target_ST, target_ST.new_full((sentences, 1), EOD)), dim=1)
        columns = functional.embedding(closed, system.embeddings.target.weight)
        state = KnownState(
            decoder,
            memory_SXD,
            memory_SXD,
            rank_PR=target_ST.new_tensor([0, 1]).expand(sentences, 2),
            right_PR=target_ST.new_tensor([RIGHT_END, RIGHT_END]).expand(sentences, 2),
            target_ST=target_ST,
            pointed_STD=columns[:, :length] * (system.word_scale * system.query_scale * system.pointer_scale),
            columns_SKD=columns,
            embedding_mask=None if masks is None else masks[0],
        )
        if system.budget is not None:
            state.spending = system.budget.start(system.budget.counter.bag_lengths(target_ST))
        left = memory_SXD.new_tensor([[0.0, 0.0], [1.0, 0.0]]).expand(sentences, 2, 2)
        return self._extend(state, ends, left)

    def _extend(self, state: KnownState, words_Pn: Tensor, left_PnR: Tensor) -> KnownState:
        """Append rows to every hypothesis: their keys, and what the pointer makes of them for every word."""
        system, sentences = self._system, state.decoder.sentences
        embedded = system.embeddings.target(words_Pn) * system.embeddings.scale
        if state.spending is not None:
            state.spending = state.spending.spend(words_Pn)
            embedded = embedded + state.spending.told()
        if state.embedding_mask is not None:
            embedded = (embedded.view(sentences, -1, embedded.shape[2]) * state.embedding_mask).view(embedded.shape)
        hidden = system.decoder.extend(embedded, state.decoder, left_PnR=left_PnR)
        query, word, left_keys, right_keys = system.heads(hidden).chunk(4, dim=2)
        keys = torch.stack((left_keys, right_keys), dim=2)  # (P, n, 2, D)
        crossed = torch.bmm(keys.reshape(sentences, -1, keys.shape[3]), state.pointed_STD.transpose(1, 2))
        own = torch.cat((keys.flatten(2), crossed.view(*hidden.shape[:2], -1)), dim=2)
        state.decoder.cache.write_own(own)
        state.query_PD = query[:, -1] * (system.query_scale * system.pointer_scale)
        state.word_PD = word[:, -1]
        return state

    def known(self, state: KnownState, anchor_SBT: Tensor) -> Known:
        """See `KnownDecoder`."""
        sentences = state.decoder.sentences
        log_z = self._system.embeddings.log_z(state.word_PD).unflatten(0, (sentences, -1))
        word_SBD = state.word_PD.unflatten(0, (sentences, -1))
        words = torch.bmm(word_SBD, state.columns_SKD.transpose(1, 2)).float() - log_z[..., None]
        return Known(words[..., :-1], self._slots(state, anchor_SBT), words[..., -1])

    def _slots(self, state: KnownState, anchor_SBT: Tensor) -> Tensor:
        """Return (S, B, T) log p(slot | word): both keys of a slot added (Eq. 11), the normaliser exact.

        The normaliser must not be factored into exp(h E . k) exp(W[y] . k): trained pointers spread over hundreds of
        nats (PERFORMANCE.md, trap 1).
        """
        sentences, beam, length = anchor_SBT.shape
        cache, width = state.decoder.cache, state.query_PD.shape[1]
        own = torch.arange(beam, device=anchor_SBT.device).expand(sentences, beam)
        query = state.query_PD.view(sentences, beam, 1, width)
        crossed = cache.own_rows(slice(2 * width, None)).unflatten(2, (2, length))  # (P, R, 2, T)
        row = anchor_row(anchor_SBT.flatten(0, 1))
        parts, keys = [], []
        for side, (columns, banned, neighbour) in enumerate(
            (
                (slice(0, width), LEFT_END, state.right_PR.gather(1, row)),
                (slice(width, 2 * width), RIGHT_END, row),
            )
        ):
            of_query = cache.own_products(query, own, columns).flatten(0, 2)  # (P, R)
            logits = (crossed[:, :, side] + of_query[..., None]).float()
            logits[:, banned] = -torch.inf
            parts.append(logits.logsumexp(dim=1))
            keys.append(logits.gather(1, neighbour[:, None])[:, 0])
        slots = torch.logaddexp(*keys) - torch.logaddexp(*parts)
        return slots.clamp(max=0.0).view(anchor_SBT.shape)

    def advance_known(self, state: KnownState, parent_SB: Tensor, index_SB: Tensor, anchor_SB: Tensor) -> KnownState:
        """See `KnownDecoder`."""
        place, moved = places(parent_SB, len(state.query_PD))
        state.decoder.cache.choose(parent_SB)
        rank, right = (x[place] if moved else x for x in (state.rank_PR, state.right_PR))
        state.spending = state.spending and state.spending.choose(place)
        left, state.rank_PR, state.right_PR = place_word(rank, right, anchor_SB.reshape(-1, 1))
        word = state.target_ST.gather(1, index_SB)
        return self._extend(state, word.reshape(-1, 1), left)
