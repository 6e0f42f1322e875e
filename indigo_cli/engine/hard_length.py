"""`decode --hard-length`: no output is longer than wished, counted on the text itself, and no word is cut for it."""

from collections.abc import Callable, Iterable, Iterator

import torch

from indigo_cli.core.text import SideCodec
from indigo_cli.core.trace import Hypothesis
from indigo_cli.core.units import TEXT_LENGTHS, LengthUnit, unit_table
from indigo_cli.decoding.places import GivenWords, HardLimit
from indigo_cli.engine.lines import EncodedLine
from indigo_cli.errors import DataError
from indigo_cli.nn.units import UnitCounter


def text_length(text: str, num_tokens: int, unit: LengthUnit) -> int:
    """Return how long a text is: its tokens (which only the caller can count), words, code points or UTF-8 bytes."""
    return num_tokens if unit == "token" else TEXT_LENGTHS[unit](text)


class HardLength:
    """Makes the limits of sentences.

    Args:
        codec: Of the targets.
        unit: Of the wishes.
        device: Where the search counts.
    """

    def __init__(self, codec: SideCodec, unit: LengthUnit, device: torch.device) -> None:
        self.codec, self.unit = codec, unit
        self._table = unit_table(codec, unit)
        self.counter = UnitCounter(self._table).to(device)
        self._continuing = frozenset(codec.continuing)

    def limit(self, line: EncodedLine, text_of: Callable[[Hypothesis], str]) -> HardLimit | None:
        """Return the limit of a line; None where nothing is wished of it.

        Given words are written as they were given, so what the table says too much or too little of them (unknown ones
        above all) is put right beforehand.

        Args:
            text_of: What a hypothesis of the line spells.
        """
        wish = line.wish
        if wish is None:
            return None

        def fits(hypothesis: Hypothesis) -> bool:
            tokens = hypothesis.trace.tokens()
            if tokens and tokens[-1] in self._continuing:
                return False
            return text_length(text_of(hypothesis), len(tokens), self.unit) <= wish

        units = wish
        if line.canvas is not None:
            units += self._table.count(line.canvas.words) - self.given_length(line.canvas)
        return HardLimit(units, fits)

    def given_length(self, canvas: GivenWords) -> int:
        """Return how long the text of given words is when nothing comes between them."""
        text = self.codec.text(canvas.pieces) if canvas.pieces else self.codec.text_of_ids(canvas.words)
        return text_length(text, len(canvas.words), self.unit)

    def checked(self, blocks: Iterable[list[EncodedLine]], path: str) -> Iterator[list[EncodedLine]]:
        """Yield blocks whose given words leave their wishes a chance.

        Args:
            path: Of the given words.

        Raises:
            DataError: those of a line are longer than its wish.
        """
        for block in blocks:
            for line in block:
                length = self.given_length(line.canvas) if line.canvas is not None else 0
                if line.wish is not None and length > line.wish:
                    raise DataError(
                        f"the given words have {length:,} {self.unit}s, and the output may have {line.wish:,}",
                        where=f"{path}:{line.number + 1}",
                        fix="give fewer words, wish for a longer output, or leave --hard-length out",
                    )
            yield block
