"""Where the words of targets begin: what keeps the pieces of a word together in a search for orders.

Shape letters: S sentences, T pieces.
"""

import torch
from torch import Tensor

from indigo_cli.core import console
from indigo_cli.core.text import SideCodec


class WholeWords:
    """Tells the first pieces of words from others.

    Args:
        codec: Of the targets.
        device: Where they are.
    """

    def __init__(self, codec: SideCodec, device: torch.device) -> None:
        self._goes_on = torch.zeros(len(codec.vocabulary), dtype=torch.bool)
        self._goes_on[codec.continuing] = True
        self._goes_on = self._goes_on.to(device)

    def first_pieces(self, target_ST: Tensor) -> Tensor:
        """Return (S, T) bool: True where a word begins; each place of the padding counts as one."""
        goes_on = self._goes_on[target_ST]
        return torch.cat((torch.ones_like(goes_on[:, :1]), ~goes_on[:, :-1]), dim=1)


def whole_words(codec: SideCodec, device: torch.device) -> WholeWords | None:
    """Return what `search.whole_words` asks for; None, and a note, where the targets have no pieces of words."""
    if codec.bpe is None:
        console.note("search.whole_words has no effect: the targets have no pieces of words")
        return None
    return WholeWords(codec, device)
