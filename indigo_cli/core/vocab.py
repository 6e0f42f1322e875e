"""Vocabulary: ids of special symbols and of ordinary tokens. Text can never spell a special symbol."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from indigo_cli.core.format import check_header, read_object
from indigo_cli.errors import DataError

PAD, BOS, EOS, EOD, UNK = range(5)
NUM_SPECIALS = 5
FIRST_WORD = EOD
"""Ids from here on are words of the softmax: `<eod>`, `<unk>` and the ordinary tokens."""
SPECIAL_NAMES = ("<pad>", "<s>", "</s>", "<eod>", "<unk>")
"""For display only: a token of the text that looks like one of these has an ordinary id."""
FORMAT = "indigo-vocabulary"
VERSION = 1


@dataclass(frozen=True)
class Vocabulary:
    """Ordinary tokens, most frequent first; ties by code points, so that ids never depend on hashing or workers.

    Args:
        tokens: Token i has id `NUM_SPECIALS + i`.
        counts: How often each occurred in the training text.
    """

    tokens: tuple[str, ...]
    counts: tuple[int, ...]

    @classmethod
    def from_counts(cls, counts: Iterable[tuple[str, int]], *, max_size: int = 0, min_count: int = 1) -> "Vocabulary":
        """Sort by falling count, then by code points; 0 as `max_size` keeps every token."""
        kept = sorted(((t, c) for t, c in counts if c >= min_count), key=lambda item: (-item[1], item[0]))
        if max_size:
            kept = kept[:max_size]
        return cls(tuple(t for t, _ in kept), tuple(c for _, c in kept))

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: NUM_SPECIALS + i for i, token in enumerate(self.tokens)}

    @cached_property
    def digest(self) -> str:
        """Sha256 over the tokens in order: two vocabularies with one digest give the same ids."""
        return hashlib.sha256(json.dumps(self.tokens).encode()).hexdigest()

    def __len__(self) -> int:
        return NUM_SPECIALS + len(self.tokens)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Return the id of each token, `UNK` for those not in the vocabulary."""
        ids = self._ids
        return [ids.get(token, UNK) for token in tokens]

    def token(self, token_id: int) -> str:
        """Return the token of an id, or the display name of a special symbol."""
        return SPECIAL_NAMES[token_id] if token_id < NUM_SPECIALS else self.tokens[token_id - NUM_SPECIALS]

    def decode(self, ids: Sequence[int]) -> list[str]:
        """Return the token of each id."""
        return [self.token(i) for i in ids]

    def to_json(self) -> str:
        """Return the content of a vocabulary file (JSON, so that any token survives)."""
        head = json.dumps({"format": FORMAT, "version": VERSION, "digest": self.digest})
        rows = ",\n".join(json.dumps(item) for item in zip(self.tokens, self.counts, strict=True))
        return f'{{"header": {head},\n"tokens": [\n{rows}\n]}}\n'

    @classmethod
    def from_json(cls, text: str, *, where: str) -> "Vocabulary":
        """Read a vocabulary file and check its digest.

        Raises:
            DataError: not a vocabulary, of a newer version, or changed since it was written.
        """
        fix = "restore the file that `indigo preprocess` wrote, or run preprocess again"
        try:
            content = read_object(text)
            header, rows = content["header"], content["tokens"]
            check_header(header, where=where, format=FORMAT, version=VERSION, fix=fix)
            vocabulary = cls(tuple(token for token, _ in rows), tuple(count for _, count in rows))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError("this is not an indigo vocabulary file", where=where, fix=fix) from error
        kinds = {*map(type, vocabulary.tokens)} <= {str}, {*map(type, vocabulary.counts)} <= {int}
        if not all(kinds) or len(set(vocabulary.tokens)) != len(rows):
            raise DataError("a vocabulary has different texts, each with a count", where=where, fix=fix)
        if vocabulary.digest != header.get("digest"):
            what = "the vocabulary was changed after it was written (its digest differs)"
            raise DataError(what, where=where, fix=fix)
        return vocabulary
