"""Insertion Transformer (Stern, Chan, Kiros & Uszkoreit, ICML 2019): every open slot takes a word, or none, at once.

Where positions are fractional (Zhang, Zhang & Dolan, EACL 2023), ternary or clipped distances, words keep their states,
and one pass over a target trains its whole history. `<eod>` is "no insertion".

Shape letters: S sentences, K orders of a target, N = S * K sequences, T words, R rows of a canvas (`<s>`, words,
`</s>`), M slots, D width.
"""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from indigo_cli.core.units import UnitTable
from indigo_cli.data.batch import Batch, Source
from indigo_cli.models import insertion_canvas, insertion_pass
from indigo_cli.models.insertion_anew import AnewRounds
from indigo_cli.models.insertion_config import InsertionConfig
from indigo_cli.models.insertion_history import Aim, aim_of
from indigo_cli.models.insertion_kept import KeptRounds
from indigo_cli.models.protocol import Canvas, Losses, Planner, SlotScores, StepLogProbs
from indigo_cli.nn.blocks import Decoder, Encoder, initialise
from indigo_cli.nn.embedding import Embeddings
from indigo_cli.nn.positions import POSITIONS, Scheme
from indigo_cli.nn.positions.budget import Budget, with_told
from indigo_cli.nn.positions.canvas import GrownCanvas


def build(
    config: InsertionConfig,
    *,
    source_size: int,
    target_size: int,
    ordered_source: bool,
    order: str = "blt",
    units: UnitTable | None = None,
) -> "Insertion":
    """Build the system for two vocabulary sizes.

    Args:
        config: The `[model]` section.
        source_size, target_size: Of the vocabularies.
        ordered_source: False where the source is a bag.
        order: Name of the order that it learns: it says what a slot learns.
        units: Of the target, where lengths are controlled.
    """
    if config.counts_length and units is None:
        raise ValueError("a system that is told lengths needs a table of units")
    return Insertion(
        source_size=source_size,
        target_size=target_size,
        model_dim=config.model_dim,
        ff_dim=config.ff_dim,
        num_heads=config.num_heads,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        dropout=config.dropout,
        share_embeddings=config.share_embeddings,
        sinusoidal_source=ordered_source
        if config.source_positions == "auto"
        else config.source_positions == "sinusoidal",
        positions=POSITIONS[config.position_scheme],
        max_distance=config.max_distance,
        aim=aim_of(order, config.tree_temperature),
        temperature=config.tree_temperature,
        ends_at_once=config.termination == "sequence",
        slot_choice=config.chosen_slots,
        vocabulary_bias=config.vocabulary_bias,
        budget=Budget(units, config.length_control, config.model_dim) if units is not None else None,
    )


class Insertion(nn.Module):
    """Encoder-decoder whose slots are read off the two words around them: a `ParallelDecoder`."""

    def __init__(
        self,
        *,
        source_size: int,
        target_size: int,
        model_dim: int,
        ff_dim: int,
        num_heads: int,
        encoder_layers: int,
        decoder_layers: int,
        dropout: float,
        share_embeddings: bool,
        sinusoidal_source: bool,
        positions: Scheme,
        max_distance: int,
        aim: Aim,
        temperature: float,
        ends_at_once: bool,
        slot_choice: Literal["none", "joint", "factorised"],
        vocabulary_bias: bool,
        budget: Budget | None = None,
    ) -> None:
        super().__init__()
        self.embeddings = Embeddings(source_size, target_size, model_dim, shared=share_embeddings, dropout=dropout)
        self.encoder = Encoder(encoder_layers, model_dim, ff_dim, num_heads, dropout)
        self.positions: Any = positions.build(model_dim, max_distance=max_distance)
        self.decoder = Decoder(
            decoder_layers,
            model_dim,
            ff_dim,
            num_heads,
            dropout,
            attention=lambda: self.positions.attention(num_heads),
        )
        self.slot = nn.Linear(2 * model_dim, model_dim)
        self.bias_map = nn.Linear(model_dim, model_dim, bias=False) if vocabulary_bias else None
        self.slot_query = nn.Linear(model_dim, 1, bias=False) if slot_choice == "factorised" else None
        self._chooses_slots = slot_choice != "none"
        self.sinusoidal_source = sinusoidal_source
        self.reusable = positions.reusable
        self.aim, self.temperature = aim, temperature
        self._ends_at_once = ends_at_once
        self.budget = budget
        initialise(self)

    def forward(self, batch: Batch, smoothing: float = 0.0, planner: Planner | None = None) -> Losses:
        """Return the losses of every slot of the histories of the plan's orders; with absolute positions, of a canvas.

        Parts: `word` of slots that take a word, `close` of those that are closed, and `position` where slots are
        chosen one at a time; smoothing touches the first two.
        """
        assert planner is None, "no orders are searched for systems that insert many words at once"
        memory = self.encode(batch.source)
        if self.reusable:
            return insertion_pass.losses(self, batch, memory, smoothing)
        return insertion_canvas.losses(self, batch, memory, smoothing)

    @torch.no_grad()
    def log_probs(self, batch: Batch) -> StepLogProbs:
        """See `System`: of all words and closings of the history of each order, in rounds as decoding makes them.

        A system that ends at once fills one slot at a time: see `serial_log_probs`.
        """
        if self.ends_at_once:
            return self.serial_log_probs(batch)
        memory = self.encode(batch.source)
        if self.reusable:
            return insertion_pass.log_probs(self, batch, memory)
        return insertion_canvas.log_probs(self, batch, memory)

    @torch.no_grad()
    def serial_log_probs(self, batch: Batch) -> StepLogProbs:
        """Return what `log_probs` does where one slot is filled at a time; for systems that choose slots.

        Ending is `<eod>` in any slot.
        """
        if not self.chooses_slots:
            raise ValueError("this system does not choose a slot: it fills all of them at once")
        return insertion_canvas.serial_log_probs(self, batch, self.encode(batch.source))

    def encode(self, source: Source) -> Tensor:
        """Return the encoder's output (S, X, D)."""
        embedded = self.embeddings.embed_source(source, sinusoidal=self.sinusoidal_source)
        memory: Tensor = self.encoder(embedded, source.mask)
        return memory

    def sides(self, words_NR: Tensor, canvas: GrownCanvas, memory: Tensor, batch: Batch) -> Tensor:
        """Run the decoder once over all rows of a canvas of each order of a batch; see `sides_of`."""
        codes = self.positions.codes(canvas)
        if self.budget is not None:
            wish_S = self.budget.wish(batch.source, batch.target)
            wish_N = wish_S.repeat_interleave(batch.plan.orders.shape[1])
            codes = with_told(codes, self.budget.seen(words_NR, canvas.visible_NRR, wish_N))
        embedded = self.embeddings.embed_target(words_NR, codes)
        mask, left = canvas.mask(embedded.dtype), self.positions.left(canvas)
        return self.sides_of(self.decoder(embedded, memory, batch.source.mask, left=left, mask=mask))

    def sides_of(self, hidden: Tensor) -> Tensor:
        """Turn (..., D) states into (..., 2 D): what a row adds to the slot on its right, and to the one on its left.

        Both add up to Linear([h_left; h_right]) of a slot, which is computed once a row instead of once a slot.
        """
        model_dim = self.embeddings.model_dim
        weight = torch.cat(self.slot.weight.split(model_dim, dim=1))
        return functional.linear(hidden, weight, functional.pad(self.slot.bias, (0, model_dim)))

    def biased_by_pool(self, features_MD: Tensor, pool_M: Tensor, pools: int) -> Tensor:
        """Add the contextual vocabulary bias to features of slots, where the system has one (PAPERS.md B1).

        g = maximum over the slots of a pool; its b = g V has V = U W here, W being the tied output layer.
        """
        if self.bias_map is None:
            return features_MD
        most = features_MD.new_zeros(pools, features_MD.shape[1])
        index = pool_M[:, None].expand_as(features_MD)
        return features_MD + self._bias(most.scatter_reduce(0, index, features_MD, "amax", include_self=False))[pool_M]

    def biased(self, features_NGD: Tensor, pooled_NG: Tensor) -> Tensor:
        """Do the same where each row of features is a pool, of those that are marked."""
        if self.bias_map is None:
            return features_NGD
        banned = features_NGD.masked_fill(~pooled_NG[..., None], -torch.inf)
        most = functional.pad(banned, (0, 0, 0, 1), value=-torch.inf).amax(dim=1, keepdim=True)
        return features_NGD + self._bias(most.masked_fill(most.isinf(), 0.0))

    def _bias(self, most: Tensor) -> Tensor:
        assert self.bias_map is not None
        bias: Tensor = self.bias_map(most)
        return bias.to(most.dtype)

    @property
    def rounds(self) -> KeptRounds | AnewRounds:
        """How it decodes: states of words are kept, or made anew."""
        return KeptRounds(self) if self.reusable else AnewRounds(self)

    @property
    def can_wait(self) -> bool:
        """See `ParallelDecoder`."""
        return not self.reusable

    @property
    def ends_at_once(self) -> bool:
        """See `ParallelDecoder`."""
        return self._ends_at_once

    @property
    def chooses_slots(self) -> bool:
        """See `ParallelDecoder`."""
        return self._chooses_slots

    def start(self, source: Source, canvas: Canvas | None = None) -> Any:
        """See `ParallelDecoder`."""
        return self.rounds.start(source, canvas)

    def slots(self, state: Any) -> SlotScores:
        """See `ParallelDecoder`."""
        return self.rounds.slots(state)

    def insert(self, state: Any, parent_SB: Tensor, word_SBG: Tensor) -> Any:
        """See `ParallelDecoder`."""
        return self.rounds.insert(state, parent_SB, word_SBG)

    def keep(self, state: Any, sentence_index: Tensor) -> Any:
        """See `ParallelDecoder`."""
        return self.rounds.keep(state, sentence_index)
