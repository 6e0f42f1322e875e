"""Re-ranking of an n-best list by how many words each hypothesis shares with its source (`decode.rerank`).

Every word of a hypothesis that stands somewhere in the source counts, a repeated one each time, as in the authors'
program; so a longer hypothesis has more chances, which is what a headline of a given length needs. Words are those of
the run's tokenizers, put together from their pieces, in lower case; punctuation and
unknown words do not count.

Source: Takase & Okazaki 2019 (NAACL), section 4: from 20 hypotheses, with and without stems.
"""

from collections.abc import Callable, Sequence

from indigo_cli.core import bpe
from indigo_cli.core.recent import remember
from indigo_cli.core.text import Codecs, SideCodec
from indigo_cli.core.vocab import UNK
from indigo_cli.decoding.config import DecodeConfig
from indigo_cli.metrics.stems import load_stemmer

UNKNOWN = "\ufffd"
"""In place of an unknown piece of the source; no piece of a hypothesis is spelt so."""


def _same(word: str) -> str:
    return word


def make_reranker(codecs: Codecs, config: DecodeConfig) -> "Reranker | None":
    """Return what counts words for a run, None where nothing is to be re-ranked.

    Raises: UsageError where stems are asked for and NLTK is not installed.
    """
    if config.rerank == "none" or config.search == "sample":
        return None
    stem = load_stemmer("decode.rerank_stemmed") if config.rerank_stemmed else _same
    return Reranker(codecs.target if codecs.source_is_bag else codecs.source, codecs.target, stem)


class Reranker:
    """Counts the source words that hypotheses keep.

    Args:
        source, target: What the ids of a source are spelt by, and the pieces of a hypothesis.
        stem: From a word in lower case to what is compared.
    """

    def __init__(self, source: SideCodec, target: SideCodec, stem: Callable[[str], str]) -> None:
        self._source, self._target = _Words(source, stem), _Words(target, stem)

    def kept_words(self, source: Sequence[int], hypotheses: Sequence[Sequence[str]]) -> list[int]:
        """Return how many words of each hypothesis stand in the source.

        Args:
            source: Ids.
            hypotheses: Pieces in surface order.
        """
        vocabulary = self._source.codec.vocabulary
        spelt = [
            UNKNOWN if token == UNK else piece for token, piece in zip(source, vocabulary.decode(source), strict=True)
        ]
        known = set(self._source.of(spelt))
        return [sum(word in known for word in self._target.of(pieces)) for pieces in hypotheses]


class _Words:
    """Pieces of a side to the words that are compared."""

    def __init__(self, codec: SideCodec, stem: Callable[[str], str]) -> None:
        self.codec = codec
        self._stem = stem
        self._word = remember(self._compared)

    def of(self, pieces: Sequence[str]) -> list[str]:
        """Return the words, punctuation left out."""
        tokens = pieces if self.codec.bpe is None else bpe.join(pieces)
        return [word for word in map(self._word, tokens) if word]

    def _compared(self, token: str) -> str:
        """Return what is compared of a token, its escapes undone; nothing of punctuation."""
        word = self.codec.text([token]).strip().lower()
        return self._stem(word) if any(map(str.isalnum, word)) and UNKNOWN not in word else ""
