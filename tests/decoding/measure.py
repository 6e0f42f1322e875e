"""A vocabulary of four tokens with lengths, and sentences whose length has a hard limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from indigo_cli.core.bpe import BPE
from indigo_cli.core.text import SideCodec
from indigo_cli.core.units import LengthUnit, unit_table
from indigo_cli.core.vocab import Vocabulary
from indigo_cli.decoding.places import GivenWords, HardLimit, Sentence
from indigo_cli.nn.units import UnitCounter

D = 8
TOKENS = ("a@@", "bbb", "c", ".")  # ids A, B, C and D


@dataclass(frozen=True)
class Measure:
    """How long what a hypothesis spells is."""

    unit: LengthUnit = "character"
    tokens: tuple[str, ...] = TOKENS

    @property
    def codec(self) -> SideCodec:
        return _codec(self)

    def text(self, words: Sequence[int]) -> str:
        return self.codec.text_of_ids(words)

    def size(self, words: Sequence[int]) -> int:
        text = self.text(words)
        sizes = {"token": len(words), "word": len(text.split()), "character": len(text), "byte": len(text.encode())}
        return sizes[self.unit]

    def fits(self, words: Sequence[int], wish: int) -> bool:
        whole = not words or words[-1] not in self.codec.continuing
        return whole and self.size(words) <= wish

    def limit(self, wish: int) -> HardLimit:
        return HardLimit(wish, lambda hypothesis: self.fits(hypothesis.trace.tokens(), wish))

    def counter(self) -> UnitCounter:
        return _counter(self)

    def sentences(
        self,
        wishes: Sequence[int | None],
        *,
        most: int,
        lines: Sequence[int] | None,
        canvases: Sequence[GivenWords] | None,
    ) -> list[Sentence]:
        """Return one sentence a wish, with its limit; None = none."""
        return [
            Sentence(
                line=lines[i] if lines else i,
                min_length=0,
                max_length=most,
                canvas=canvases[i] if canvases else None,
                limit=None if wish is None else self.limit(wish),
            )
            for i, wish in enumerate(wishes)
        ]


@cache
def _codec(measure: Measure) -> SideCodec:
    vocabulary = Vocabulary(measure.tokens, (1,) * len(measure.tokens))
    return SideCodec("moses", "en", False, BPE("#version: 0.2\n"), vocabulary)


@cache
def _counter(measure: Measure) -> UnitCounter:
    return UnitCounter(unit_table(measure.codec, measure.unit))


CHARACTERS = Measure()
