"""Lengths of targets in the recipe's unit on the device, all places at once or one token after another.

`core/units.py` says what is counted; both ways here give its numbers.

Shape letters: S sentences, T words, P places of hypotheses, Q kinds of quotes.
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from indigo_cli.core.units import Joint, UnitTable
from indigo_cli.core.vocab import PAD
from indigo_cli.data.batch import NO_WISH


@dataclass(frozen=True)
class Progress:
    """What stands in every place, as far as the next token can tell: see `core.units.Written`.

    Args:
        count: (P,) int64 units so far.
        attaches, inside, blank, dense: (P,) bool.
        open_quotes: (P, Q) bool.
    """

    count: Tensor
    attaches: Tensor
    inside: Tensor
    blank: Tensor
    dense: Tensor
    open_quotes: Tensor

    def choose(self, place: Tensor) -> "Progress":
        """Return the progress of other places: of parents, or of those that go on."""
        return Progress(*(getattr(self, field.name)[place] for field in fields(self)))


class UnitCounter(nn.Module):
    """Counts tokens by a table; it has no weights, and none of it is saved with a model.

    Args:
        table: Of the target's vocabulary.
    """

    def __init__(self, table: UnitTable) -> None:
        super().__init__()
        self.unit = table.unit
        self.num_quotes = table.num_quotes
        self.weight_offset = table.weight_offset
        self._start = table.start
        columns = {"own": table.own, "joints": table.joints, "quotes": table.quotes}
        for name, column in {**columns, "weights": table.weights}.items():
            self.register_buffer(name, torch.tensor(column, dtype=torch.int64), persistent=False)
        self.own: Tensor
        self.joints: Tensor
        self.quotes: Tensor
        self.weights: Tensor

    def forward(self, words_ST: Tensor) -> Tensor:
        """Return (S, T) int64: the units that stand after each word.

        Args:
            words_ST: Ids in surface order; padding on the right adds nothing.
        """
        joints_ST = self.joints[words_ST]
        goes_on = (joints_ST & Joint.GOES_ON) > 0
        inside = _shift(goes_on, first=False)
        whole = ~(inside | goes_on)
        closes = self._closes(words_ST, whole)
        attaches = whole & ((joints_ST & Joint.RIGHT) > 0) & ~closes
        blank = (joints_ST & Joint.BLANK) > 0
        dense = _shift((joints_ST & Joint.LAST_DENSE) > 0, first=False) & ((joints_ST & Joint.FIRST_DENSE) > 0)
        joined = _shift(attaches, first=self._start.attaches) | inside | closes | dense
        joined = joined | ((joints_ST & Joint.LEFT) > 0)
        apart = ~blank & (_shift(blank, first=self._start.blank) | ~joined)
        return (self.own[words_ST] + apart).cumsum(dim=1)

    def _closes(self, words_ST: Tensor, whole_ST: Tensor) -> Tensor:
        """Return (S, T) bool: quotes of which an odd number of their kind stands before."""
        closes = torch.zeros_like(whole_ST)
        quotes_ST = self.quotes[words_ST]
        for kind in range(self.num_quotes):
            toggles = whole_ST & (quotes_ST == kind)
            closes = closes | (toggles & (toggles.cumsum(dim=1) % 2 == 0))
        return closes

    def lengths(self, words_ST: Tensor) -> Tensor:
        """Return (S,) int64: the units of whole targets, padded on the right."""
        return self(words_ST)[:, -1] if words_ST.shape[1] else words_ST.new_zeros(len(words_ST))

    def bag_lengths(self, words_ST: Tensor) -> Tensor:
        """Return (S,) int64: the units of texts of these words in any order, see `UnitTable.weights`."""
        return (self.weights[words_ST].sum(dim=1) - self.weight_offset * (words_ST > PAD).any(dim=1)).clamp(min=0)

    def start(self, places: int) -> Progress:
        """Return the progress of places where nothing stands."""
        no = torch.zeros(places, dtype=torch.bool, device=self.own.device)
        start = self._start
        attaches, blank = torch.full_like(no, start.attaches), torch.full_like(no, start.blank)
        quotes = no[:, None].expand(-1, self.num_quotes)
        return Progress(no.long(), attaches, no, blank, no, quotes)

    def extend(self, progress: Progress, word_P: Tensor) -> Progress:
        """Return the progress when a word is appended in every place; PAD, `</s>` and `<eod>` add nothing."""
        joints = self.joints[word_P]
        goes_on = (joints & Joint.GOES_ON) > 0
        whole = ~(progress.inside | goes_on)
        kinds = torch.arange(self.num_quotes, device=word_P.device)
        toggles_PQ = whole[:, None] & (self.quotes[word_P][:, None] == kinds)
        closes = (toggles_PQ & progress.open_quotes).any(dim=1)
        dense = progress.dense & ((joints & Joint.FIRST_DENSE) > 0)
        joined = progress.attaches | progress.inside | closes | dense | ((joints & Joint.LEFT) > 0)
        blank = (joints & Joint.BLANK) > 0
        apart = ~blank & (progress.blank | ~joined)
        return Progress(
            count=progress.count + self.own[word_P] + apart,
            attaches=whole & ((joints & Joint.RIGHT) > 0) & ~closes,
            inside=goes_on,
            blank=blank,
            dense=(joints & Joint.LAST_DENSE) > 0,
            open_quotes=progress.open_quotes ^ toggles_PQ,
        )


def wished(wish_S: Tensor | None, own_S: Tensor) -> Tensor:
    """Return (S,) int64: the wishes of a source (see `Source`), the targets' own lengths where there is none."""
    return own_S if wish_S is None else torch.where(wish_S == NO_WISH, own_S, wish_S)


def _shift(values_ST: Tensor, *, first: bool) -> Tensor:
    """Return what the token before each one has."""
    column = torch.full_like(values_ST[:, :1], first)
    return torch.cat((column, values_ST[:, :-1]), dim=1)
