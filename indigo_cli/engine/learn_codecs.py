"""From counted words to codecs: truecasing, BPE and vocabulary, learnt from the training split alone."""

from collections import Counter
from collections.abc import Mapping, Sequence

from indigo_cli.core import bpe as bpe_module
from indigo_cli.core.bpe import BPE
from indigo_cli.core.line_tokenizer import LineSettings
from indigo_cli.core.text import Codecs, SideCodec
from indigo_cli.core.truecase import Truecaser
from indigo_cli.core.vocab import Vocabulary
from indigo_cli.data.corpus import SIDES
from indigo_cli.engine.pieces import Pieces
from indigo_cli.engine.prepare_settings import PreprocessConfig
from indigo_cli.engine.token_blocks import STARTS_SENTENCE, Counts
from indigo_cli.engine.word_types import WordTypes


def learn_codecs(
    types: WordTypes,
    settings: PreprocessConfig,
    *,
    lines: Mapping[str, LineSettings],
    source_is_bag: bool,
    warnings: list[str],
) -> tuple[Codecs, dict[str, Pieces]]:
    """Return the codecs, and by side the ids of every word type; `warnings` gets what fell short.

    Args:
        lines: How the lines of each side are read.
    """
    learner = _Learner(types, settings, warnings)
    learnt_from = dict.fromkeys(SIDES, "target") if source_is_bag else {side: side for side in SIDES}
    if source_is_bag:
        learner.learn(("target",), "")
    elif settings.joint:
        learner.learn(SIDES, "")
    else:
        for side in SIDES:
            learner.learn((side,), f" of the {side} side")
    source, target = (
        SideCodec(
            tokenizer_name=lines[side].tokenizer,
            lang=lines[side].lang,
            lowercase=lines[side].lowercase,
            bpe=learner.bpe[learnt_from[side]],
            vocabulary=learner.vocabularies[learnt_from[side]],
            spelling=lines[side].spelling,
            protected=lines[side].protected,
            truecaser=learner.truecasers[learnt_from[side]],
        )
        for side in SIDES
    )
    return Codecs(source, target, source_is_bag=source_is_bag), {
        side: learner.pieces[learnt_from[side]] for side in SIDES
    }


class _Learner:
    """Learns for one side after the other, or for both at once; sides that agree share what was worked out."""

    def __init__(self, types: WordTypes, settings: PreprocessConfig, warnings: list[str]) -> None:
        self._settings = settings
        self._warnings = warnings
        self._counts: dict[str, Counts] = {side: types.counts(side) for side in SIDES}
        self._words: dict[str, list[str]] = {}
        self.truecasers: dict[str, Truecaser | None] = {}
        words = types.words
        for side in SIDES:
            self.truecasers[side] = _learn_case(words, self._counts[side]) if settings.truecase else None
            self._words[side] = settle_case(words, self.truecasers[side])
        self.bpe: dict[str, BPE | None] = dict.fromkeys(SIDES)
        self.vocabularies: dict[str, Vocabulary] = {}
        self.pieces: dict[str, Pieces] = {}

    def learn(self, sides: Sequence[str], of_side: str) -> None:
        """Learn one BPE and one vocabulary for these sides."""
        if self._settings.vocabulary != "word" and self._settings.tokenizer != "char":
            self._learn_bpe(sides, of_side)
        totals: Counter[str] = Counter()
        pieces: dict[str, Pieces] = {}
        for side in sides:
            first = next((other for other in pieces if self._agree(side, other)), None)
            pieces[side] = pieces[first] if first else Pieces.of_words(self._words[side], self.bpe[side])
            totals.update(pieces[side].count(self._counts[side]))
        vocabulary = Vocabulary.from_counts(
            totals.items(), max_size=self._settings.vocabulary_size, min_count=self._settings.min_count
        )
        for side in sides:
            self.vocabularies[side] = vocabulary
            self.pieces[side] = pieces[side].ids(vocabulary)

    def _agree(self, side: str, other: str) -> bool:
        return self._words[side] is self._words[other] and self.bpe[side] is self.bpe[other]

    def _learn_bpe(self, sides: Sequence[str], of_side: str) -> None:
        """Learn the merges that these sides share, and which pieces each of them shows often enough."""
        merges = self._settings.merges if self._settings.vocabulary == "bpe" else 0
        codes = bpe_module.learn(self._totals(sides), merges)
        learnt = bpe_module.num_merges(codes)
        if learnt < merges:
            what = f"asked for {merges} merges, learnt {learnt}: no further pair occurs twice"
            self._warnings.append(f"BPE{of_side}: {what}")
        elif self._settings.vocabulary == "bpe" and merges == 0:
            self._warnings.append(f"BPE{of_side}: without merges every word is split into its characters")
        whole = BPE(codes)
        threshold = self._settings.vocabulary_threshold
        for side in sides:
            self.bpe[side] = whole
            if threshold:
                counts = Pieces.of_words(self._words[side], whole).count(self._counts[side])
                self.bpe[side] = BPE(codes, pieces=[piece for piece, count in counts.items() if count >= threshold])

    def _totals(self, sides: Sequence[str]) -> dict[str, int]:
        """Return how often each word occurs on these sides together."""
        totals: dict[str, int] = {}
        for side in sides:
            for word, count in zip(self._words[side], self._counts[side].tolist(), strict=True):
                if count:
                    totals[word] = totals.get(word, 0) + count
        return totals


def _learn_case(words: Sequence[str], counts: Counts) -> Truecaser:
    """Learn the usual case of words from where they start no sentence."""
    inside = ((word, count) for word, count in zip(words, counts.tolist(), strict=True))
    return Truecaser.from_counts(item for item in inside if not item[0].startswith(STARTS_SENTENCE))


def settle_case(words: list[str], truecaser: Truecaser | None) -> list[str]:
    """Return the words with those that start sentences in their usual case."""
    if truecaser is None:
        return words
    return [truecaser.word(word[1:]) if word.startswith(STARTS_SENTENCE) else word for word in words]
