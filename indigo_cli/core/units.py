"""How long a text is in tokens, words, characters or bytes, counted token by token: one definition for all of length.

What a token adds depends on the detokenizer: `cat .` is written `cat.`, and the pieces `ca@@ t` are one word. So the
table of a vocabulary is made by asking the side's own detokenizer what it writes of each token alone and beside others:

* how much the token itself counts (code points, UTF-8 bytes, words between white space), its escapes undone;
* whether it stands without a blank behind what precedes it, or before what follows (punctuation, `@-@`, brackets);
* whether its word goes on (`@@`);
* whether it is a quote, which opens and closes by turns; and whether it starts or ends with a character of a script
  that is written without blanks between two such characters.

**The count is that of the detokenised text** (`len(text)`, `len(text.encode())`, `len(text.split())`), but for:

1. words that BPE or `vocabulary = "char"` cut inside an escape (`&apos;` as `&ap@@ os;`), whose escape counts as it is
   spelt, and split words of which the whole, not the last piece, would be joined (`&apos;@@ s` for `'s`): one blank;
2. an English apostrophe behind a word in s (`the dogs &apos; tails`), where the detokenizer takes none for a quote: it
   counts as one that opens, one blank more before it and one less behind it, and the next `'` as one that closes;
3. rules that look at more than one neighbour or at what it is: French and Italian elisions before a digit (one blank
   less than is written), Czech `-li`, `„` and `“`, Finnish case endings behind a colon: one blank each;
4. truecasing that writes one letter as two (`ß` as `Ss`): one character; and `<unk>`, which counts five.

While a word is not complete its count may be the one of another word: only complete words are exact.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

from indigo_cli.core.bpe import CONTINUES
from indigo_cli.core.text import SideCodec
from indigo_cli.core.vocab import NUM_SPECIALS, UNK

LengthUnit = Literal["token", "word", "character", "byte"]
UNITS: tuple[LengthUnit, ...] = get_args(LengthUnit)
TEXT_LENGTHS: dict[LengthUnit, Callable[[str], int]] = {
    "word": lambda text: len(text.split()),
    "character": len,
    "byte": lambda text: len(text.encode("utf-8", "surrogatepass")),
}
"""How long a plain text is; its tokens only those know who made them."""
NO_QUOTE = -1
_FIRST_SCRIPT_WITHOUT_BLANKS = "\u1100"
_LETTER, _IDEOGRAPH = "x", "\u6f22"


class Joint:
    """How a token is written beside others: bits of a number (an `IntFlag` is ten times slower)."""

    LEFT = 1  # no blank before it
    RIGHT = 2  # none behind it
    GOES_ON = 4  # its word goes on
    FIRST_DENSE = 8  # starts with a character that stands without blank behind one of its kind
    LAST_DENSE = 16  # ends with such a character
    BLANK = 32  # only white space: where words are counted, what follows is a new one


@dataclass(frozen=True)
class Written:
    """What stands already, as far as the next token can tell.

    Args:
        count: Units so far.
        attaches: The next token comes without blank.
        inside: It is in the middle of a word.
        blank: It starts a word whatever stands before it.
        dense: The last character is of a script without blanks.
        open_quotes: Kinds of quotes that the next one closes.
    """

    count: int = 0
    attaches: bool = False
    inside: bool = False
    blank: bool = False
    dense: bool = False
    open_quotes: frozenset[int] = frozenset()


@dataclass(frozen=True)
class UnitTable:
    """What each id of a vocabulary counts, see above. Made by `unit_table`.

    Args:
        unit: What is counted.
        own: (V,) of a token without blanks around it; where words are counted, one less than its words.
        joints: (V,) flags of `Joint`.
        quotes: (V,) the kind of a quote, `NO_QUOTE` of others.
    """

    unit: LengthUnit
    own: tuple[int, ...]
    joints: tuple[int, ...]
    quotes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.own)

    @property
    def num_quotes(self) -> int:
        """How many kinds of quotes there are."""
        return max(self.quotes, default=NO_QUOTE) + 1

    @property
    def start(self) -> Written:
        """Nothing stands: the first token has no blank before it, and starts a word."""
        return Written(attaches=self.unit != "word", blank=self.unit == "word")

    def add(self, written: Written, token: int) -> Written:
        """Return what stands when an id is appended."""
        joints, quote = self.joints[token], self.quotes[token]
        goes_on = bool(joints & Joint.GOES_ON)
        whole = not (written.inside or goes_on)
        toggles = whole and quote != NO_QUOTE
        closes = toggles and quote in written.open_quotes
        joined = written.attaches or written.inside or bool(joints & Joint.LEFT) or closes
        joined = joined or (written.dense and bool(joints & Joint.FIRST_DENSE))
        apart = not joints & Joint.BLANK and (written.blank or not joined)
        return Written(
            count=written.count + self.own[token] + apart,
            attaches=whole and bool(joints & Joint.RIGHT) and not closes,
            inside=goes_on,
            blank=bool(joints & Joint.BLANK),
            dense=bool(joints & Joint.LAST_DENSE),
            open_quotes=written.open_quotes ^ {quote} if toggles else written.open_quotes,
        )

    def cumulative(self, tokens: Iterable[int]) -> list[int]:
        """Return the units that stand after each id."""
        written, counts = self.start, []
        for token in tokens:
            written = self.add(written, token)
            counts.append(written.count)
        return counts

    def count(self, tokens: Sequence[int]) -> int:
        """Return the units of a text."""
        return self.cumulative(tokens)[-1] if tokens else 0

    @cached_property
    def _all_joined(self) -> bool:
        """Whether no two tokens have a blank between them unless one is a blank itself: tokenizer `char`."""
        both = Joint.LEFT | Joint.RIGHT
        return all(joints & both == both for joints in self.joints[NUM_SPECIALS:])

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """(V,) what a token adds wherever it is inserted; a text has their sum less `weight_offset`, at least 0.

        A token pays for one blank, less one for each side that is joined. The sum is the count of the text, but that
        it is one less for each place where a token that joins what follows meets one that joins what precedes (`$ .`)
        or an end of the text (`. x`, `x (`), and one more for each blank missing between two dense characters.
        """
        if self.unit == "token":
            return self.own
        return tuple(map(self._weight, range(len(self))))

    def _weight(self, token: int) -> int:
        joints = self.joints[token]
        if token < UNK:
            return 0
        if self._all_joined:
            return int(joints & Joint.BLANK > 0) if self.unit == "word" else self.own[token]
        if self.unit == "word" and joints & Joint.BLANK:
            return 0
        dense = Joint.FIRST_DENSE | Joint.LAST_DENSE
        joined = bool(joints & Joint.LEFT) + bool(joints & (Joint.RIGHT | Joint.GOES_ON))
        return self.own[token] + 1 - (joined or int(joints & dense == dense))

    @property
    def weight_offset(self) -> int:
        """How much the sum of weights is above the count: of blanks a text has one less than of words."""
        if self.unit == "token":
            return 0
        if self.unit == "word":
            return -1 if self._all_joined else 0
        return 0 if self._all_joined else 1

    def total_weight(self, tokens: Iterable[int]) -> int:
        """Return what the weights say of a text of some tokens, in any order."""
        found = [self.weights[token] for token in tokens]
        return max(sum(found) - self.weight_offset, 0) if found else 0


def unit_table(codec: SideCodec, unit: LengthUnit) -> UnitTable:
    """Make the table of a side; a second for some ten thousand tokens of Moses."""
    prober = _Prober(replace(codec, truecaser=None, bpe=None), unit)
    special = [(0, Joint.LEFT | Joint.BLANK)] * UNK
    if unit == "token":
        tokens = [(1, Joint.LEFT)] * (len(codec.vocabulary) - UNK)
        quotes: list[int] = []
    else:
        tokens = [prober.probe("<unk>", goes_on=False)]
        goes_on = set(codec.continuing)
        for i, token in enumerate(codec.vocabulary.tokens):
            continues = NUM_SPECIALS + i in goes_on
            tokens.append(prober.probe(token.removesuffix(CONTINUES) if continues else token, goes_on=continues))
        quotes = [NO_QUOTE, *prober.quotes(codec.vocabulary.tokens)]
    own, joints = zip(*special, *tokens, strict=True)
    padding = [NO_QUOTE] * (len(own) - len(quotes))
    return UnitTable(unit, own, joints, (*padding, *quotes))


class _Prober:
    """Asks the detokenizer how tokens are written.

    Args:
        codec: Its text of words, neither cut into pieces nor cased.
        unit: What is counted.
    """

    def __init__(self, codec: SideCodec, unit: LengthUnit) -> None:
        self._text: Callable[[Sequence[str]], str] = codec.text
        self._unit = unit
        self._known_quotes: list[str] = []

    def _size(self, *tokens: str) -> int:
        return len(self._text(tokens))

    def probe(self, token: str, *, goes_on: bool) -> tuple[int, int]:
        """Return what a token (without `@@`) counts, and its joints."""
        joints = Joint.GOES_ON if goes_on else 0
        if token.isalnum() and max(token) < _FIRST_SCRIPT_WITHOUT_BLANKS and self._spaced:
            return self._own(token), joints
        text = self._text([token])
        if text.isspace() and self._unit == "word":
            return 0, joints | Joint.LEFT | Joint.RIGHT | Joint.BLANK
        before, behind = self._blanks(token, _LETTER)
        if not goes_on:  # else the whole word decides, which nobody knows yet
            joints |= (Joint.LEFT if not before else 0) | (Joint.RIGHT if not behind else 0)
        before_dense, behind_dense = self._blanks(token, _IDEOGRAPH)
        joints |= Joint.FIRST_DENSE if before and not before_dense else 0
        joints |= Joint.LAST_DENSE if behind and not behind_dense else 0
        return self._own(text), joints

    @cached_property
    def _spaced(self) -> bool:
        """Whether plain words have blanks between them."""
        return self._size(_LETTER, _LETTER) == 3

    def _own(self, text: str) -> int:
        return TEXT_LENGTHS[self._unit](text) - (self._unit == "word")

    def _blanks(self, token: str, neighbour: str) -> tuple[int, int]:
        """Return the blanks between a token and what stands before it, and behind it."""
        alone = self._size(token) + self._size(neighbour)
        return self._size(neighbour, token) - alone, self._size(token, neighbour) - alone

    def quotes(self, tokens: Iterable[str]) -> Iterable[int]:
        """Yield the kind of each token; two are of a kind if one closes what the other opens."""
        for token in tokens:
            plain = token.isalnum() or token.endswith(CONTINUES) or not self._closes(token, token)
            yield NO_QUOTE if plain else self._kind(token)

    def _closes(self, first: str, second: str) -> bool:
        """Whether the second token closes a quote of the first: it would have a blank before it elsewhere."""
        joined = self._size(first, _LETTER, second) == self._size(first) + 1 + self._size(second)
        return joined and self._blanks(second, _LETTER)[0] == 1

    def _kind(self, token: str) -> int:
        for kind, known in enumerate(self._known_quotes):
            if self._closes(known, token):
                return kind
        self._known_quotes.append(token)
        return len(self._known_quotes) - 1
