"""The `[model]` section of the Insertion Transformer; apart from the system, so that reading it loads no torch."""

from dataclasses import dataclass
from typing import Literal

from indigo_cli.core.settings import Count, NonNegativeFloat, Rate
from indigo_cli.core.units import LengthUnit
from indigo_cli.models.widths import check_width
from indigo_cli.nn.positions import POSITIONS


@dataclass(frozen=True)
class InsertionConfig:
    """The `[model]` section with `system = "insertion"`: every slot takes a word, or none, at once (PAPERS.md B1, B2).

    `[order] name` says how canvases grow in training and what a slot is to learn: `blt` (the default) a balanced tree,
    drawn anew each epoch; `rnd` every word of the span alike; any other order, or a file, the word that comes first.

    Args:
        source_positions: `auto` is `sinusoidal`, or `none` where the source is a bag.
        positions: Of the target. `fractional` (`auto`): a word's is a learned map of its neighbours' as it is inserted;
            `relative`: clipped distances on the canvas of a word's own round; `ternary`: left, self or right, as in
            InDIGO. With these three the states of standing words are kept, and one pass trains a whole history.
            `absolute`: sinusoids of the present canvas, all states made anew in every round, and one random canvas a
            sentence in training, as the original.
        max_distance: Of `relative`: greater distances look alike.
        tree_temperature: tau of `blt`, in words: a word's weight in its span falls by e for each tau from the middle,
            in the loss and in drawn trees; 0 = the balanced tree itself, without draws.
        termination: `slot` = no insertion closes a slot; `sequence` = it ends the sentence and is learnt from whole
            canvases only, with `absolute` positions (kept states would be scored stale) and serial decoding.
        slot_choice: Which slot serial decoding fills, with `absolute` positions: `joint` = one softmax over words and
            slots; `factorised` = p(word | slot) p(slot), p(slot) from a vector of its own; `none` = it is not learnt,
            which parallel decoding does not need. `auto` is `joint` with `absolute` positions, else `none`.
        vocabulary_bias: Add to the logits of each slot what the open slots (`absolute`: all) have most of: the maximum
            of their features, through a map of its own.
        length_control: Tell each word how much of a wished length is left (`ldpe`) or written (`lrpe`) when its round
            is over, with `absolute` positions all words in every round, see `nn/positions/budget.py`. Neither paper
            has it.
        length_unit: In which lengths are counted and wished, see `core/units.py`.
    """

    system: Literal["insertion"] = "insertion"
    model_dim: Count = 256
    ff_dim: Count = 1024
    num_heads: Count = 4
    encoder_layers: Count = 3
    decoder_layers: Count = 3
    dropout: Rate = 0.1
    share_embeddings: bool = True
    source_positions: Literal["auto", "sinusoidal", "none"] = "auto"
    positions: Literal["auto", "fractional", "relative", "ternary", "absolute"] = "auto"
    max_distance: Count = 16
    tree_temperature: NonNegativeFloat = 1.0
    termination: Literal["slot", "sequence"] = "slot"
    slot_choice: Literal["auto", "none", "joint", "factorised"] = "auto"
    vocabulary_bias: bool = False
    length_control: Literal["none", "ldpe", "lrpe"] = "none"
    length_unit: LengthUnit = "character"

    def __post_init__(self) -> None:
        check_width(self.model_dim, self.num_heads)
        if self.reusable and self.termination == "sequence":
            raise ValueError(
                'termination = "sequence" goes with positions = "absolute" only: words that are kept would be asked in '
                "later rounds what they were trained to say in their own",
                'set termination = "slot", or positions = "absolute"',
            )
        if self.reusable and self.slot_choice in ("joint", "factorised"):
            raise ValueError(
                f'slot_choice = "{self.slot_choice}" goes with positions = "absolute" only: filling one slot at a time '
                "asks the others in later rounds",
                'set slot_choice = "auto", or positions = "absolute"',
            )
        if self.termination == "sequence" and self.slot_choice == "none":
            raise ValueError(
                'termination = "sequence" is decoded serially', 'set slot_choice = "joint" or "factorised"'
            )

    @property
    def counts_length(self) -> bool:
        """Whether the system is told a wished length, see `models/length_config.py`."""
        return self.length_control != "none"

    @property
    def position_scheme(self) -> str:
        """Name of the target's positions in POSITIONS."""
        return "fractional" if self.positions == "auto" else self.positions

    @property
    def reusable(self) -> bool:
        """Tell whether states of standing words are kept."""
        return POSITIONS[self.position_scheme].reusable

    @property
    def chosen_slots(self) -> Literal["none", "joint", "factorised"]:
        """How a slot is chosen where one is filled at a time."""
        if self.slot_choice == "auto":
            return "none" if self.reusable else "joint"
        return self.slot_choice

    def unused(self, order: str) -> dict[str, str]:
        """Return keys that are set, but do nothing with the other settings and the order, and because of what."""
        found = {}
        if self.tree_temperature != InsertionConfig.tree_temperature and order != "blt":
            found["tree_temperature"] = f'order.name = "{order}"'
        if self.max_distance != InsertionConfig.max_distance and self.position_scheme != "relative":
            found["max_distance"] = f'model.positions = "{self.position_scheme}"'
        return found
